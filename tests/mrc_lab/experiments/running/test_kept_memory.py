"""Memory that is freed stays with the process while experiments run, and only then."""

from __future__ import annotations

import mmap
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mrc_lab.experiments.running import kept_memory

MIB = 1 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def faults_of_an_array() -> int:
    """Page faults while an array of 64 MiB is made, filled and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(64 * MIB, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def main() -> None:
    """In a process of its own, since what others have freed matters."""
    at_first, usual = resident(), faults_of_an_array()
    with kept_memory.kept_memory():
        with kept_memory.kept_memory():
            faults_of_an_array()
            assert resident() - at_first > 60 * MIB
        assert faults_of_an_array() < usual / 10
        assert resident() - at_first > 60 * MIB, "an experiment that ends takes nothing from another"
    assert resident() - at_first < 16 * MIB
    assert faults_of_an_array() > usual / 2
    assert resident() - at_first < 16 * MIB


def test_freed_memory_stays_while_an_experiment_runs() -> None:
    subprocess.run([sys.executable, "-m", __name__], check=True)


def test_nothing_changes_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_memory.ctypes, "CDLL", lambda name: object())
    with kept_memory.kept_memory():
        pass


if __name__ == "__main__":
    main()
