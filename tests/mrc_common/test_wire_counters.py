"""Counters in a file: one writes, anybody reads, and a writer that is started again goes on."""

import ctypes
from pathlib import Path

import pytest

from mrc_common.wire_counters import WireCount, WireCounters, read


def write(counters: WireCounters, interface: str, *numbers: int) -> None:
    (ctypes.c_uint64 * 5).from_address(counters.address(interface))[:] = numbers


def test_what_is_written_is_read(tmp_path: Path) -> None:
    counters = WireCounters(tmp_path / "wires", ["a", "b"])
    assert read(tmp_path / "wires")["b"] == WireCount("b", 0, 0, 0, 0, False)
    write(counters, "b", 1, 200, 3, 400, 1)
    assert read(tmp_path / "wires") == {
        "a": WireCount("a", 0, 0, 0, 0, False),
        "b": WireCount("b", 1, 200, 3, 400, True),
    }


def test_a_writer_goes_on_where_it_was(tmp_path: Path) -> None:
    write(WireCounters(tmp_path / "wires", ["a", "b"]), "a", 9, 9, 9, 9, 0)
    WireCounters(tmp_path / "wires", ["a", "b"])
    assert read(tmp_path / "wires")["a"].rx_packets == 9


@pytest.mark.parametrize("before", [b"", b"rubbish", bytes(1000)])
def test_a_file_with_something_else_is_written_again(tmp_path: Path, before: bytes) -> None:
    (tmp_path / "wires").write_bytes(before)
    WireCounters(tmp_path / "wires", ["c"])
    assert list(read(tmp_path / "wires")) == ["c"]


def test_no_file_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path / "wires") == {}
