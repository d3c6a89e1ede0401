"""Run an experiment or a sweep and return what came of it; see `mrc_lab.api`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrc_common.nested_loops import outer_loop_suspended
from mrc_lab.api.inputs import Given, as_experiment, as_seeds, as_settings
from mrc_lab.api.results import Results, SweepResults
from mrc_lab.backends import BACKENDS
from mrc_lab.errors import ExperimentError
from mrc_lab.reports.run_and_report import run_and_report
from mrc_lab.reports.run_seeds import run_seeds
from mrc_lab.sweeps.grid import SweepFile, make_grid
from mrc_lab.sweeps.local_processes import over_processes
from mrc_lab.sweeps.run_sweep import sweep as run_sweep

RESULTS = Path("results")


def run(
    experiment: Given,
    *,
    seed: int = 1,
    seeds: int | Iterable[int] | None = None,
    backend: str | None = None,
    results: str | Path = RESULTS,
    jobs: int | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Results:
    """Run an experiment as ``mrc run`` does, and return what came of it; the call blocks until all is done.

    `experiment` is the path of a file, the text of one, a mapping with its keys, or an `Experiment`. With `seeds`, a
    number or a list, it is run with several, `jobs` at once (all processors, unless given). `backend` is the file's,
    unless given, or else simulation. `notify` is called with the
    lines that ``mrc run`` prints meanwhile. ExperimentError for anything wrong with what was given; an expectation that
    is not met is no error, but in the result.
    """
    if backend is not None and backend not in BACKENDS:
        raise ExperimentError(f"backend is {backend!r}, but must be {' or '.join(BACKENDS)}")
    chosen = as_seeds([seed] if seeds is None else seeds)
    given = as_experiment(experiment)
    backend = given.backend_for(backend)
    with outer_loop_suspended():
        if len(chosen) == 1:
            one = run_and_report(given, backend, chosen[0], Path(results), notify=notify)
            return Results(given.name, backend, str(one.summary["verdict"]), one.folder, {chosen[0]: one.summary}, {})
        several = run_seeds(given, backend, chosen, Path(results), jobs=jobs or _processors(), notify=notify)
    summaries = {run.seed: run.summary for run in several.runs if run.summary is not None}
    problems = {run.seed: run.problem for run in several.runs if run.problem}
    return Results(given.name, backend, several.verdict, several.folder, summaries, problems)


def sweep(
    experiment: Given | Sequence[str | Path],
    settings: Mapping[str, Any],
    *,
    seeds: int | Iterable[int] = 1,
    output: str | Path | None = None,
    jobs: int | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> SweepResults:
    """Run an experiment, or several files, with every combination of settings and every seed, in simulation.

    `settings` has the values of each key, which is written with dots, as for ``mrc sweep --set``. Repeating the call
    runs only what is missing in the folder `output` (by default results/sweep/NAME). ExperimentError for anything
    wrong with what was given.
    """
    chosen = as_seeds(seeds)
    assignments = as_settings(settings)
    files = _files(experiment)
    first = files[0].path if isinstance(files[0], SweepFile) else files[0]
    folder = RESULTS / "sweep" / first.stem if output is None else Path(output)
    grid = make_grid(files, assignments, chosen)
    for line in (*grid.notes, *grid.warnings):
        notify(line)
    at_once = jobs or _processors()
    tally = run_sweep(grid, folder, lambda runs: over_processes(runs, at_once), lambda tally, outcome: None)
    lost = [f"{outcome.run}: {outcome.lost}" for outcome in tally.lost]
    return SweepResults(folder, tuple(tally.points), dict(tally.verdicts), tuple(lost))


def _files(experiment: Given | Sequence[str | Path]) -> list[Path | SweepFile]:
    """The files of a sweep; an experiment that has none is as if it were in the current folder."""
    if isinstance(experiment, list | tuple):
        if not experiment:
            raise ExperimentError("a sweep needs at least one experiment file")
        return [Path(one) for one in experiment]
    if isinstance(experiment, Path) or (isinstance(experiment, str) and "\n" not in experiment):
        return [Path(experiment)]
    given = as_experiment(experiment)  # type: ignore[arg-type] # sequences are above
    return [SweepFile(Path(given.source).with_name(f"{given.name}.yaml"), given.text)]


def _processors() -> int:
    return len(os.sched_getaffinity(0))
