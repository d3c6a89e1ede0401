"""One run: a fabric for one stack, a rank in each of its hosts, and the faults of one case when their step has come.

The main thread reads what ranks print and injects faults. The run ends when all ranks of the last group are done, or
when none is left that could be; then all are killed and the fabric is taken down, also after an interrupt.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mrc_common import children, strict_json, written_files
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.torch_jobs.demo import largest_difference
from mrc_lab.torch_jobs.launch import MASTER_PORT, Rank, variables
from mrc_lab.torch_jobs.train_faults.cases import FaultCase, FaultMatrix, LabStack
from mrc_lab.torch_jobs.train_faults.events import RankEvent, What, parse
from mrc_lab.torch_jobs.train_faults.measures import final_members, schedule
from topologies import addressing
from topologies.emulation import host_environment, namespaces
from topologies.emulation.processes import pdeathsig
from topologies.fabric import LinkEnd
from topologies.faults import Fault

_LONGEST_READ = 1 << 16
_END = frozenset((What.DONE, What.OUT, What.GAVE_UP))


@dataclass(frozen=True, slots=True)
class LabSettings:
    """Of all runs of a table: hosts, steps in all and before the fault, and seconds.

    `operation_s` is torch's timeout, and the last call of an agreement. `recovery_s` is how long ranks try to recover,
    and `run_s` how long all else of a run may take.
    """

    hosts: int = 4
    steps: int = 24
    fault_step: int = 8
    operation_s: float = 10.0
    recovery_s: float = 60.0
    run_s: float = 180.0


class CaseRun:
    """A run of `case` over `stack` on `world`, which has its fabric; `scratch` is a folder that it may use."""

    def __init__(
        self, world: EmulatedWorld, case: FaultCase, stack: LabStack, settings: LabSettings, scratch: Path
    ) -> None:
        self._world, self._case, self._stack, self._settings = world, case, stack, settings
        self._scratch = scratch
        self._hosts = list(world.fabric.nic_names)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.events: list[RankEvent] = []
        self.faults: list[tuple[int, str]] = []  # when (ns) and what
        self._then_due = bool(case.then)

    def run(self, log: Path) -> None:
        """To its end; what ranks print besides events is in `log`.

        ExperimentError if a rank ends that nobody has killed, or if the step of the fault never comes.
        """
        with open(written_files.create(log), "wb") as output, selectors.DefaultSelector() as selector:
            try:
                self._start(output.fileno())
                for number, process in enumerate(self._processes):
                    assert process.stdout is not None
                    os.set_blocking(process.stdout.fileno(), False)
                    selector.register(process.stdout, selectors.EVENT_READ, (number, bytearray()))
                self._follow(selector, log)
            finally:
                self._kill()

    def _start(self, output: int) -> None:
        run, settings = self._world.emulation.run, self._settings
        shells = run.shells()
        ranks = [Rank(host, shells[host].pid) for host in self._hosts]
        command = children.python(
            "mrc_lab.torch_jobs.train_faults.worker", "--backend", self._stack.backend, "--steps", str(settings.steps),
            "--operation", str(settings.operation_s), "--recovery", str(settings.recovery_s),
            "--weights", str(self._scratch),
        )  # fmt: skip
        for number, rank in enumerate(ranks):
            own = {
                **os.environ,
                **host_environment.variables(run, rank.host),
                **variables(ranks, number, MASTER_PORT),
                "GLOO_SOCKET_IFNAME": addressing.interface_name(self._world.fabric, LinkEnd(rank.host, 0)),
            }
            if self._stack.transport:
                own["MRC_QP_TYPE"] = self._stack.transport
            self._processes.append(
                children.popen(
                    pdeathsig([*namespaces.enter_host(rank.shell), *command]),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    start_new_session=True,
                    env=own,
                )
            )

    def _follow(self, selector: selectors.BaseSelector, log: Path) -> None:
        settings = self._settings
        until = time.monotonic() + settings.run_s + settings.operation_s + settings.recovery_s
        while not self.over() and time.monotonic() < until:
            for key, _ in selector.select(1.0):
                number, rest = key.data
                data = os.read(key.fd, _LONGEST_READ)
                if not data:
                    selector.unregister(key.fileobj)
                    self._check_killed(number, log)
                    continue
                *lines, left = (bytes(rest) + data).split(b"\n")
                rest[:] = left
                for line in lines:
                    event = parse(line.decode(errors="replace"))
                    if event is not None:
                        self.take(event)
        if not self._reached():
            raise ExperimentError(
                f"the ranks did not complete step {settings.fault_step} within {settings.run_s:g} s",
                f"Their output is in {log}.",
            )

    def take(self, event: RankEvent) -> None:
        """A rank has reported an event: faults may be due."""
        self.events.append(event)
        if not self.faults and not self._case.harmless:
            if self._reached():
                self._make(self._case.faults_of(self._stack.network))
        elif self._then_due and event.what is What.FAILED:
            self._then_due = False
            self._inject(self._case.later_of(self._stack.network))

    def _reached(self) -> bool:
        """Whether all ranks have completed the step of the fault."""
        step = self._settings.fault_step
        return len({event.rank for event in self.events if event.step >= step}) == len(self._hosts)

    def _make(self, faults: Sequence[Fault]) -> None:
        for host, number, word in (
            (self._case.kill, signal.SIGKILL, "killed"), (self._case.stop, signal.SIGSTOP, "stopped")
        ):  # fmt: skip
            if host:
                self.faults.append((time.monotonic_ns(), f"rank of {host} {word}"))
                self._processes[self._hosts.index(host)].send_signal(number)
        self._inject(faults)

    def _inject(self, faults: Sequence[Fault]) -> None:
        if not faults:
            return
        with self._world.controller() as controller:
            for fault in faults:
                self.faults.append((controller.inject(fault).began_at_ns, fault.in_words()))

    def over(self) -> bool:
        """Whether no rank is left that trains."""
        ended = {event.rank for event in self.events if event.what in _END}
        gone = {self._hosts.index(host) for host in self._case.victims} if self.faults else set()
        return set(range(len(self._hosts))) <= ended | gone

    def _check_killed(self, number: int, log: Path) -> None:
        host, status = self._hosts[number], self._processes[number].wait()
        if not (self.faults and host in self._case.victims):
            raise ExperimentError(
                f"the rank of {host} ended by itself, with status {status}", f"Its output is in {log}."
            )

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()  # stopped ones, too
        for process in self._processes:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def run_case(matrix: FaultMatrix, case: FaultCase, stack: LabStack, settings: LabSettings, log: Path) -> dict[str, Any]:
    """Bring the fabric up, run the case, and return its record for :mod:`results`, which is plain JSON."""
    fabric = matrix.fabric(stack, settings.hosts, f"train-faults-{os.getpid()}")
    with running(fabric) as world:
        scratch = world.scratch / "weights"
        scratch.mkdir()
        run = CaseRun(world, case, stack, settings, scratch)
        run.run(log)
        crashes = world.crashes()
        if crashes:
            raise ExperimentError(f"a process of the fabric crashed: {crashes[0]}")
        weights = _compare(run.events, scratch)
    return {
        "case": case.name,
        "stack": stack.name,
        "settings": asdict(settings),
        "faults": [{"at": at, "words": words} for at, words in run.faults],
        "events": [event.plain() for event in run.events],
        **weights,
    }


def _compare(events: Sequence[RankEvent], scratch: Path) -> Mapping[str, Any]:
    """The largest difference between weights of ranks of the last group, and to the job that nothing interrupts."""
    found = [np.load(scratch / f"{rank}.npy") for rank in final_members(events)]
    if not found:
        return {"between_ranks": None, "to_reference": None}
    place = scratch / "reference.npy"
    done = children.run(
        children.python("mrc_lab.torch_jobs.train_faults.reference", str(place), strict_json.dumps(schedule(events)))
    )
    if done.returncode:
        raise ExperimentError(f"the uninterrupted job failed with status {done.returncode}", "Its output is above.")
    return {
        "between_ranks": largest_difference(found[1:], found) or 0.0,
        "to_reference": largest_difference(found, [np.load(place)]),
    }
