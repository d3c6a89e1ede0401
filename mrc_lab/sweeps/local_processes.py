"""Runs of a sweep over processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mrc_lab.experiments.running.process_pool import each
from mrc_lab.sweeps.grid import SweepRun
from mrc_lab.sweeps.run_one import SweepOutcome, execute

Execute = Callable[[SweepRun], SweepOutcome]


def over_processes(runs: Sequence[SweepRun], jobs: int, execute: Execute = execute) -> Iterator[SweepOutcome]:
    """The outcome of every run as it comes, from `jobs` workers. `execute` must be a module's function."""
    for done in each(runs, jobs, execute):
        yield SweepOutcome(done.item, None, done.lost) if done.lost else done.result
