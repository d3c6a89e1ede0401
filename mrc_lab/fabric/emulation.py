"""An emulated fabric with its controller, as experiments use it.

:func:`running` brings up everything through ``topologies.emulation`` with the controller as a companion process, and
yields an :class:`EmulatedWorld`: the fabric's handle plus what experiments do to it. Faults go through the controller's
gRPC service. Its client is opened for one command at a time, so that no gRPC channel is open when processes are forked.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from controller.command_line import companion
from controller.path_map.client import PathMapClient
from mrc_common import children
from topologies.emulation import link_counters, switch_kind, wire_kind
from topologies.emulation.bring_up import Emulation, emulated
from topologies.emulation.process_watch import Crash
from topologies.emulation.processes import Child
from topologies.fabric import Fabric
from topologies.p4_program import P4Program

_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of all threads, in the lowest three bits of a clock's number
_PRIORITY = -10  # nice value of switches and agents


class EmulatedWorld:
    """A fabric that is up."""

    def __init__(self, emulation: Emulation) -> None:
        self.emulation = emulation

    @property
    def fabric(self) -> Fabric:
        """What is up."""
        return self.emulation.fabric

    @property
    def scratch(self) -> Path:
        """A folder with a short path that is removed with the fabric."""
        return self.emulation.run.path

    @property
    def bring_up(self) -> dict[str, float]:
        """Seconds that the bring-up took, whole (``total_s``) and by phase."""
        phases = {f"{name}_s": round(value, 4) for name, value in self.emulation.phases.items()}
        return {"total_s": round(self.emulation.bring_up_s, 4), **phases}

    def launch_worker(self, host: str, rank: int, job: Path, rendezvous: Path, log: Path) -> WorkerChild:
        """Start a training worker on `host`; to be called from the thread that brought the fabric up."""
        argv = children.python(
            "mrc_lab.workloads.training.worker", "--job", str(job), "--rank", str(rank),
            "--agent", self.emulation.socket(host), "--rendezvous", str(rendezvous), "--log", str(log),
        )  # fmt: skip
        return WorkerChild(self.emulation.spawn_in(host, f"worker-{host}", argv))

    def link_bytes(self) -> dict[str, int]:
        """Bytes over each link so far, both directions, by the counters of its interfaces."""
        carried = link_counters.read(self.fabric)
        return {name: link.upward.bytes + link.downward.bytes for name, link in carried.items()}

    def cpu_seconds(self) -> float:
        """Processor time used so far by this process, by the fabric's processes, and by those that have ended."""
        own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        # Not poll(): it collects an exited process before the fabric's watch has seen how it exited.
        others = (c.process.pid for c in self.emulation.children.values() if c.process.returncode is None)
        return sum(usage.ru_utime + usage.ru_stime for usage in own) + sum(map(process_seconds, others))

    def link_down(self, link: str) -> int:
        """Take a link down; returns when (ns) its first end was."""
        with self.controller() as client:
            return client.link_down(link).began_at_ns

    def link_up(self, link: str) -> int:
        """Bring a link up; returns when (ns) its first end was."""
        with self.controller() as client:
            return client.link_up(link).began_at_ns

    def restart(self, name: str, *, wait: bool = True) -> None:
        """Restart a process of the fabric (``Emulation.restart``) and wait until it is ready."""
        child = self.emulation.restart(name, wait=wait)
        if name != "controller":
            prefer(child.process.pid)

    def crashes(self) -> tuple[Crash, ...]:
        """Crashed processes of the fabric."""
        return () if self.emulation.watch is None else self.emulation.watch.look()

    def controller(self) -> PathMapClient:
        """A client of the controller and its path map, to be closed (a context manager)."""
        return PathMapClient(self.emulation.controller_socket)


class WorkerChild:
    """A worker process on a host."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def poll(self) -> int | None:
        """Exit status, None while it runs."""
        return self._child.process.poll()

    def terminate(self) -> None:
        """Ask it to end."""
        self._child.process.terminate()

    def kill(self) -> None:
        """Make it end."""
        self._child.process.kill()
        self._child.process.wait()


@contextlib.contextmanager
def running(
    fabric: Fabric,
    *,
    switch: str = switch_kind.DEFAULT,
    wire: str = wire_kind.DEFAULT,
    controller: Sequence[str] = (),
    management_network: bool = True,
    program: P4Program | None = None,
) -> Iterator[EmulatedWorld]:
    """Bring `fabric` up with controller and agents; on leaving, take everything down.

    `controller` are further words of the controller's command line. Without `management_network` the hosts reach each
    other through the fabric alone. With `program` the switches run that instead of the fabric's own.

    Raises `topologies.emulation.errors.EmulationError`. From the main thread only: the processes
    live no longer than the thread that starts them.
    """
    companions = (partial(companion, more=controller),)
    with emulated(
        fabric,
        switch=switch,
        wire=wire,
        companions=companions,
        management_network=management_network,
        program=program,
    ) as emulation:
        for child in emulation.children.values():
            if child.name != "controller":
                prefer(child.process.pid)
        yield EmulatedWorld(emulation)


def process_seconds(pid: int) -> float:
    """Processor time that a process has used in all its threads, to the ns; 0 if it is gone.

    By its CPU clock, whose number follows from `pid` (clock_getcpuclockid(3)): ticks of /proc/pid/stat are too coarse
    for a short run.
    """
    try:
        return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        return 0.0


def prefer(pid: int) -> None:
    """Let all threads of a process go before others: what moves packets must keep time whatever else runs here.

    Where the kernel groups processes by session (sched(7), autogroup) it is the group's nice value that counts.
    """
    with contextlib.suppress(OSError):  # it has ended, or this user may not raise priorities
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), _PRIORITY)
        Path(f"/proc/{pid}/autogroup").write_text(str(_PRIORITY))
