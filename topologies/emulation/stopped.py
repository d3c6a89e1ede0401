"""Processes of a fabric that are stopped (SIGSTOP, Ctrl-Z, a debugger): alive, so no watch reports them, but silent.

A request to one times out without a reason. The kernel knows the reason: state T or t in ``/proc/PID/stat``
(proc(5)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from topologies.emulation.run_directory import RunDirectory

OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Stopped:
    """A process of a fabric that is stopped; `traced` by a debugger, which alone can let it go on."""

    name: str
    pid: int
    traced: bool = False

    def __str__(self) -> str:
        """Which it is, and what to do."""
        if self.traced:
            return f"process {self.name} is held by a debugger: let it go on there (its id is {self.pid})"
        return f"process {self.name} is stopped: let it go on with 'sudo kill -CONT {self.pid}'"


def stopped(run: RunDirectory) -> Iterator[Stopped]:
    """Those that are stopped now, the fabric's owner first; none where the run directory is closed to us."""
    owner = run.owner()
    processes = [(OWNER, owner)] if owner else []
    processes += [(record.name, record.pid) for record in run.records() if record.alive()]
    for name, pid in processes:
        state = _state(pid)
        if state in ("T", "t"):
            yield Stopped(name, pid, traced=state == "t")


def _state(pid: int) -> str:
    """As of proc(5); empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
