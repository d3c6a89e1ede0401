"""Faults of a case come when all ranks have completed their step, later ones when the first rank notices."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from mrc_lab.torch_jobs.train_faults.cases import load
from mrc_lab.torch_jobs.train_faults.events import What
from mrc_lab.torch_jobs.train_faults.run_case import CaseRun, LabSettings
from tests.mrc_lab.torch_jobs.train_faults import runs
from topologies.faults import Fault
from topologies.faults.record import FaultRecord


class World:
    """A fabric that is not up, whose controller only notes faults."""

    def __init__(self) -> None:
        self.fabric = load().fabric(load().stacks[0], 4, "world")
        self.injected: list[str] = []

    @contextlib.contextmanager
    def controller(self) -> Iterator[World]:
        yield self

    def inject(self, fault: Fault) -> FaultRecord:
        self.injected.append(fault.in_words())
        return FaultRecord("f1", fault, began_at_ns=77)


class Process:
    def __init__(self) -> None:
        self.signals: list[int] = []

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


def run_of(case: str, stack: str) -> tuple[CaseRun, World, list[Process]]:
    matrix, world = load().only([case, stack]), World()
    run = CaseRun(cast("Any", world), matrix.cases[0], matrix.stacks[0], LabSettings(), Path("/nowhere"))
    processes = [Process() for _ in runs.ALL]
    run._processes = cast("Any", processes)
    return run, world, processes


def complete(run: CaseRun, step: int, *ranks: int) -> None:
    for rank in ranks:
        run.take(runs.event(What.STEP, rank, 100 * step, step))


def test_the_fault_waits_for_the_slowest_rank_and_comes_once() -> None:
    run, world, _ = run_of("two-faults", "mrc")
    complete(run, 8, 0, 1, 3)
    assert world.injected == []
    complete(run, 8, 2)
    complete(run, 9, *runs.ALL)
    assert world.injected == ["link down h3@p0", "link down t0-0:t1-0@p1"]
    assert run.faults == [(77, words) for words in world.injected]


def test_the_later_fault_comes_with_the_first_failure_after_the_first_fault() -> None:
    run, world, processes = run_of("while-recovering", "gloo")
    complete(run, 8, *runs.ALL)
    assert [process.signals for process in processes] == [[], [], [], [signal.SIGKILL]]
    assert world.injected == []
    for rank in (0, 1):
        run.take(runs.event(What.FAILED, rank, 900, 8))
    assert world.injected == ["link down h3@p0"]
    assert [words for _, words in run.faults] == ["rank of h4 killed", "link down h3@p0"]


def test_a_stopped_rank_is_not_waited_for_and_the_others_are() -> None:
    run, _, processes = run_of("rank-stopped", "mrc")
    complete(run, 8, *runs.ALL)
    assert processes[3].signals == [signal.SIGSTOP]
    for rank, what in enumerate((What.DONE, What.OUT, What.GAVE_UP)):
        assert not run.over()
        run.take(runs.event(what, rank, 5000, 24))
    assert run.over()


@pytest.mark.parametrize("stack", ["gloo", "mrc"])
def test_nothing_comes_where_nothing_fails(stack: str) -> None:
    run, world, processes = run_of("healthy", stack)
    complete(run, 24, *runs.ALL)
    assert (run.faults, world.injected, [process.signals for process in processes]) == ([], [], [[], [], [], []])
