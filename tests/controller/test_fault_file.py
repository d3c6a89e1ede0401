"""Faults that a controller leaves to the next one, in a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from controller import fault_file
from topologies.faults import FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate
from topologies.faults.record import FaultRecord

RECORDS = [
    FaultRecord("f1", LinkDown("h1@p0"), ("h1@p0",), owner="me", starts_at_ns=5, began_at_ns=6, applied_at_ns=7),
    FaultRecord("f2", LinkDown("h1@p0", "h1"), ("h1@p0",), ("t0-0@p0",)),
    FaultRecord("f3", PortDown("h1", 1), ("h1@p1",)),
    FaultRecord("f4", PowerOff("t1-*"), ("x",)),
    FaultRecord("f5", Blackhole("t1-*"), (), ("t1-0@p0", "t1-1@p0")),
    FaultRecord("f6", Loss("h1@p0", 1e-9, "h1")),
    FaultRecord("f7", Corruption("h1@p0", 0.1), problem="A sentence."),
    FaultRecord("f8", PathLoss(0xFFFFFFFF, 0.5, "h1", "h[23]")),
    FaultRecord("f9", Rate("h1@p0", 10**12, "h1"), ends_at_ns=1 << 62),
    FaultRecord("f10", Delay("h1@p0", 5)),
    FaultRecord("f11", Flap("h*", 10**7, 10**9, True, (1 << 64) - 1), state=FaultState.PENDING, starts_at_ns=1),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "faults.json"


def test_every_fault_kind_survives_saving_and_loading(path: Path) -> None:
    fault_file.save(path, RECORDS)
    assert fault_file.load(path) == RECORDS


def test_saving_no_faults_removes_the_file(path: Path) -> None:
    fault_file.save(path, [])
    assert fault_file.load(path) == []
    fault_file.save(path, RECORDS)
    fault_file.save(path, [])
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"faults": 7}', b'{"other": 1}', b'{"faults": [{"id": "f1"}]}', b"[" * 100_000],
)
def test_malformed_files_load_as_no_faults(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert fault_file.load(path) == []


def test_an_unreadable_fault_does_not_hide_the_others(path: Path) -> None:
    fault_file.save(path, RECORDS[:2])
    path.write_text(path.read_text().replace('"state": "ACTIVE"', '"state": 77', 1))
    assert fault_file.load(path) == RECORDS[1:2]


def test_a_failed_save_raises_oserror_and_keeps_the_old_file(path: Path) -> None:
    fault_file.save(path, RECORDS)
    with pytest.raises(FileNotFoundError):
        fault_file.save(path.parent / "gone" / "faults.json", RECORDS)
    long = [dataclasses.replace(RECORDS[0], id=f"f{number}") for number in range(500)]
    fault_file.save(path, long)
    assert fault_file.load(path) == long
