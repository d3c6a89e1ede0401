"""The interface of a demo run to its fabric; the emulation has it, and tests bring a small one of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from topologies.emulation.process_watch import Crash
from topologies.fabric import Fabric


class WorkerProcess(Protocol):
    """A worker that was started."""

    def poll(self) -> int | None:
        """Exit status, None while it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """Make it end."""
        ...


class World(Protocol):
    """A fabric that is up, with a NIC agent on each host."""

    @property
    def fabric(self) -> Fabric:
        """What is up."""
        ...

    @property
    def scratch(self) -> Path:
        """A folder for what is not kept; its path is short enough for UNIX sockets."""
        ...

    def launch_worker(self, host: str, rank: int, job: Path, rendezvous: Path, log: Path) -> WorkerProcess:
        """Start rank `rank` of the job on `host`, its output going to `log`."""
        ...

    def link_bytes(self) -> Mapping[str, int]:
        """Bytes that went over each link so far, both directions together."""
        ...

    def cpu_seconds(self) -> float:
        """Processor time used so far by all that belongs to the fabric and its jobs."""
        ...

    def crashes(self) -> Sequence[Crash]:
        """Crashed processes of the fabric, oldest first; any of them ends the run."""
        ...

    def link_down(self, link: str) -> int:
        """Take a link down. Blocks until done; returns the monotonic time (ns) when it was begun."""
        ...

    def link_up(self, link: str) -> int:
        """Bring a link up again. Blocks until done; returns the monotonic time (ns) when it was begun."""
        ...
