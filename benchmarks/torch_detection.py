"""Detection of lost ranks by the PyTorch backend: milliseconds from the fault to the error, on every surviving rank.

Four hosts, two planes. A rank is killed, or all links of its host's NIC are cut, while the others wait for it in a
collective (`waiting`) or all exchange sums without a pause (`busy`). The time of the error is that at which the waiting
thread of a rank has it. Both clocks are the machine's monotonic one. A killed process closes its socket to the agent
only after it has given back its memory; how long it took to end is measured beside (`exit`).
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator

from benchmarks.report import Measurement
from mrc_common import children
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.torch_jobs.launch import Rank, variables
from topologies.clos import multi_plane_clos
from topologies.emulation import host_environment, namespaces

RANKS, VICTIM, FIRST_PORT = 4, 2, 29600
KILLS, CUTS = 10, 5  # rounds, each of which gives three times
PROGRAM = f"""
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("mrc")
group, value = dist.distributed_c10d._get_default_group(), torch.zeros(256)
dist.all_reduce(value)
print("joined", flush=True)
try:
    while sys.argv[1] == "busy" or dist.get_rank() != {VICTIM}:
        dist.all_reduce(value)
    time.sleep(100)
except dist.DistBackendError as error:
    print("failed", time.monotonic_ns(), group.lost[0].rank if group.lost else "-", error, flush=True)
"""


def measure() -> Iterator[Measurement]:
    """One fabric for all rounds; every rank of every round must name the one that was lost."""
    fabric = multi_plane_clos(f"bench-detect-{os.getpid()}", planes=2, t0=2, t1=2, hosts=RANKS, rate_bps=100_000_000)
    with running(fabric) as world:
        rounds = Rounds(world)
        for what in ("waiting", "busy"):
            name = f"killed_rank_{what}"
            yield from _summary(name, [t for _ in range(KILLS) for t in rounds.kill(what)])
            yield Measurement(f"torch_detection_{name}_exit_median", statistics.median(rounds.exits_ms), "ms")
        yield from _summary("dead_host", [t for _ in range(CUTS) for t in rounds.cut()])


def _summary(name: str, times_ms: list[float]) -> Iterator[Measurement]:
    yield Measurement(f"torch_detection_{name}_median", statistics.median(times_ms), "ms")
    yield Measurement(f"torch_detection_{name}_max", max(times_ms), "ms")
    yield Measurement(f"torch_detection_{name}_errors", len(times_ms), "errors")


class Rounds:
    """Starts the ranks anew in each round; milliseconds of the survivors."""

    def __init__(self, world: EmulatedWorld) -> None:
        self._world, self._port = world, FIRST_PORT
        self.exits_ms: list[float] = []  # how long killed processes took to end, in rounds of the last kind
        self._what = ""
        shells = world.emulation.run.shells()
        self._ranks = [Rank(name, shells[name].pid) for name in world.fabric.nic_names]

    def kill(self, what: str) -> list[float]:
        """A rank is killed."""
        if what != self._what:
            self._what, self.exits_ms = what, []
        processes = self._start(what)
        began = time.monotonic_ns()
        processes[VICTIM].send_signal(signal.SIGKILL)
        processes[VICTIM].wait()
        self.exits_ms.append((time.monotonic_ns() - began) / 1e6)
        return self._times(processes, began)

    def cut(self) -> list[float]:
        """All links of a host are cut, one after the other; the time begins when the last is."""
        processes = self._start("waiting")
        links = [f"{self._ranks[VICTIM].host}@p{plane}" for plane in range(2)]
        for link in links:
            self._world.link_down(link)
        began = time.monotonic_ns()
        try:
            return self._times(processes, began)
        finally:
            for link in links:
                self._world.link_up(link)

    def _start(self, what: str) -> list[subprocess.Popen[str]]:
        self._port += 1  # the port of a round before may still be in use
        processes = [
            children.popen(
                [*namespaces.enter_host(rank.shell), *children.python_code(PROGRAM, what)],
                env={
                    **os.environ,
                    **host_environment.variables(self._world.emulation.run, rank.host),
                    **variables(self._ranks, number, self._port),
                },
                stdout=subprocess.PIPE,
                text=True,
            )
            for number, rank in enumerate(self._ranks)
        ]
        for process in processes:
            _expect(process, "joined")
        time.sleep(0.5)  # all are in the collective
        return processes

    def _times(self, processes: list[subprocess.Popen[str]], began: int) -> list[float]:
        times = []
        for number, process in enumerate(processes):
            if number != VICTIM:
                when, lost = _expect(process, "failed").split()[1:3]
                if lost != str(VICTIM):
                    raise RuntimeError(f"rank {number} named rank {lost} instead of {VICTIM}")
                times.append((int(when) - began) / 1e6)
        for process in processes:
            process.kill()
            process.wait()
        return times


def _expect(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith(word):
        raise RuntimeError(f"a rank printed {line!r} instead of {word!r}")
    return line
