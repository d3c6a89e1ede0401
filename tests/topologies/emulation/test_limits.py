"""Limits in a folder that stands for /proc/sys, and for real where a network namespace hides some of them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from topologies.emulation import limits

NETWORK = """
import mininet.log
mininet.log.setLogLevel("info")
from topologies.emulation import limits
from topologies.emulation.nodes import FabricNet
FabricNet(interface_group=1)
print(limits._read(limits.SYSCTL / "kernel/pty/max") >= (20_000,))
"""


class System:
    """Limits of a system and of a process, and what was set of the latter."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.process = (1 << 20, 1 << 20)
        self.most: int | None = None  # what the hard limit can be raised to
        monkeypatch.setattr(limits, "SYSCTL", folder)
        monkeypatch.setattr(resource, "getrlimit", lambda number: self.process)
        monkeypatch.setattr(resource, "setrlimit", self._set)

    def has(self, name: str, text: str) -> None:
        path = self.folder.joinpath(*name.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def value(self, name: str) -> str:
        return self.folder.joinpath(*name.split(".")).read_text()

    def _set(self, number: int, value: tuple[int, int]) -> None:
        if self.most is not None and value[1] > self.most:
            raise ValueError("not allowed to raise maximum limit")
        self.process = value


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    return System(tmp_path, monkeypatch)


def test_limits_are_raised_but_never_lowered(system: System) -> None:
    system.has("net.core.rmem_max", "212992\n")
    system.has("net.core.wmem_max", "999999999\n")
    system.has("net.ipv4.tcp_rmem", "4096\t131072\t6291456\n")
    limits.raise_all()
    assert system.value("net.core.rmem_max") == "16777216"
    assert system.value("net.core.wmem_max") == "999999999\n"
    assert system.value("net.ipv4.tcp_rmem") == "10240 131072 16777216"
    assert not (system.folder / "kernel").exists()


def test_one_failing_limit_does_not_block_the_others(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    system.has("net.core.wmem_max", "212992")
    system.has("net.core.rmem_max", "212992")
    system.has("net.core.netdev_max_backlog", "not a number")
    write = Path.write_text

    def refusing(path: Path, text: str) -> int:
        if path.name == "wmem_max":
            raise PermissionError(13, "Permission denied")
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refusing)
    limits.raise_all()
    assert system.value("net.core.wmem_max") == "212992"
    assert system.value("net.core.rmem_max") == "16777216"


@pytest.mark.parametrize(
    ("before", "most", "after"),
    [
        ((1024, 1 << 20), None, (16384, 1 << 20)),
        ((1024, 4096), None, (16384, 16384)),
        ((1024, 4096), 4096, (4096, 4096)),
        ((1024, -1), None, (16384, -1)),
        ((-1, -1), None, (-1, -1)),
    ],
)
def test_process_limits_are_raised(
    system: System, before: tuple[int, int], most: int | None, after: tuple[int, int]
) -> None:
    system.process, system.most = before, most
    limits.raise_all()
    assert system.process == after


def test_limits_that_cannot_be_raised_are_reported(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "wmem_max")
    system.process = (1024, 10_000)
    system.has("net.core.wmem_max", "212992\n")
    system.has("net.core.rmem_max", "212992\n")
    assert list(limits.out_of_reach()) == ["open files 10000", "net.core.wmem_max 212992"]


def test_raising_all_limits_reports_nothing(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    system.process = (1024, 1024)
    system.has("net.core.rmem_max", "212992\n")
    system.has("net.core.wmem_max", "16777216\n")
    assert list(limits.out_of_reach()) == []
    assert system.process == (1024, 1024)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_limits_hidden_in_a_network_namespace_are_ignored() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", NETWORK], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
