"""Progress of a fabric that comes up in another process, read from its run directory.

Interfaces and switches come first and take about a third of the time; then the agents of the hosts are started one
after the other, each with a socket of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric

_PERIOD_S: Final = 0.2
_BEFORE_AGENTS: Final = 0.35  # of the time


def share_up(fabric: Fabric, run: RunDirectory) -> float:
    """The share of the work that is done, from 0 to 1; 0 until the first agent is up."""
    up = sum(run.host_socket(nic.name).exists() for nic in fabric.nics)
    return _BEFORE_AGENTS + (1 - _BEFORE_AGENTS) * up / len(fabric.nics) if up else 0.0


@contextlib.contextmanager
def reported(fabric: Fabric, progress: Callable[[float], None]) -> Iterator[None]:
    """Report to `progress`, from a thread, as long as the fabric is brought up in here."""
    over = threading.Event()
    run = RunDirectory(fabric.name)

    def watch() -> None:
        while not over.wait(_PERIOD_S):
            progress(share_up(fabric, run))

    thread = threading.Thread(target=watch, name="bring-up progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
