"""One experiment with several seeds: a result folder for each, and the metrics over all of them.

    <results>/<experiment>/<time>/seed-<n>/   the result of each seed, as of a run with that seed alone
    .../summary.json, report.html             every metric with its mean, 95 % interval, minimum and maximum
    .../metrics.csv                           every value: a row for each seed and metric

In simulation as many seeds run at once as there are jobs, each in a process of its own; in emulation one after the
other. A seed that cannot be run does not end the others. Interrupted, a run keeps the folders of the seeds that are
done, in one whose name ends in ``.unfinished``.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mrc_common.units import counted
from mrc_common.written_files import write_text
from mrc_host.errors import MrcError
from mrc_lab.backends import BACKENDS
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import Experiment, load_text
from mrc_lab.experiments.files.model import case_label, case_prefix, joined
from mrc_lab.experiments.running.kept_memory import kept_memory
from mrc_lab.experiments.running.process_pool import each
from mrc_lab.experiments.running.run_experiment import check, extents_of, warnings_of
from mrc_lab.reports import over_seeds
from mrc_lab.reports import result_folder as folders
from mrc_lab.reports.pages import render
from mrc_lab.reports.run_and_report import run_and_report
from topologies.errors import FabricError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class SeedRun:
    """What came of one seed: its summary, or None and why it could not be run."""

    seed: int
    summary: Mapping[str, Any] | None
    problem: str = ""

    @property
    def verdict(self) -> str:
        """``pass``, ``fail``, ``untrusted``, or ``error`` where it could not be run."""
        return "error" if self.summary is None else str(self.summary["verdict"])


@dataclass(frozen=True)
class FinishedSeeds:
    """A finished run of several seeds."""

    experiment: Experiment
    backend: str
    folder: Path
    runs: tuple[SeedRun, ...]

    @cached_property
    def metrics(self) -> list[over_seeds.MetricOverSeeds]:
        """Every metric over the seeds that could be run."""
        return over_seeds.over_seeds({run.seed: run.summary for run in self.runs if run.summary is not None})

    @property
    def verdict(self) -> str:
        """The worst of the seeds: ``pass`` if all passed."""
        found = {run.verdict for run in self.runs}
        return next((verdict for verdict in ("error", "fail", "untrusted") if verdict in found), "pass")

    @property
    def seeds(self) -> list[int]:
        """All seeds, in the order given."""
        return [run.seed for run in self.runs]

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Titles of columns, and a row for each metric of each case."""
        head, rows = over_seeds.in_words(self.metrics, cases=any(one.case for one in self.metrics))
        return ("metric", *head), [(one.title, *row) for one, row in zip(self.metrics, rows, strict=True)]

    def summary(self) -> dict[str, Any]:
        """Everything of `summary.json`."""
        return {
            "format": FORMAT,
            "name": self.experiment.name,
            "title": self.experiment.title,
            "backend": self.backend,
            "seeds": self.seeds,
            "verdict": self.verdict,
            "verdicts": {str(run.seed): run.verdict for run in self.runs},
            "drawn": {str(run.seed): drawn for run in self.runs if (drawn := drawn_faults(run.summary))},
            "problems": {str(run.seed): run.problem for run in self.runs if run.problem},
            "metrics": [
                {
                    **dict(zip(over_seeds.TABLE_HEAD, over_seeds.labels(one), strict=True)),
                    **dict(zip(over_seeds.STATISTICS_HEAD, one.statistics, strict=True)),
                    "outcome": one.outcome,
                    "values": {str(seed): value for seed, value in one.values.items()},
                }
                for one in self.metrics
            ],
        }


@dataclass(frozen=True, slots=True)
class _Job:
    """An experiment as text, for a worker; `options` are further ones of run_and_report."""

    text: str
    source: str
    name: str
    backend: str
    folder: Path
    options: Mapping[str, Any]


def run_seeds(
    experiment: Experiment,
    backend: str,
    seeds: Sequence[int],
    results: Path,
    *,
    jobs: int = 1,
    notify: Callable[[str], None] = lambda text: None,
    progress: Callable[[float], None] = lambda share: None,
    **options: Any,
) -> FinishedSeeds:
    """Run an experiment with every seed, `jobs` at once in simulation, and write everything.

    `options` are further ones of :func:`run_and_report`. Raises ExperimentError when no seed could be run.
    """
    check(experiment, backend, options.get("captures", ()))
    for line in _header(experiment, backend, seeds):
        notify(line)
    with folders.unfinished_folder(results, experiment.name) as folder:
        job = _Job(experiment.text, experiment.source, experiment.name, backend, folder, options)
        done: dict[int, SeedRun] = {}
        with _begun_removed(folder), contextlib.closing(_run_all(job, seeds, jobs)) as running:
            for number, run in enumerate(running, 1):
                done[run.seed] = run
                notify(f"seed {run.seed} ({number} of {len(seeds)}): {run.problem or run.verdict}")
                progress(number / len(seeds))
        runs = tuple(done[seed] for seed in seeds)
        if all(run.summary is None for run in runs):
            raise ExperimentError(runs[0].problem)
        found = FinishedSeeds(experiment, backend, folder, runs)
        folders.write_json(folder / "summary.json", found.summary())
        rows = (row for one in found.metrics for row in over_seeds.tidy_rows(one))
        over_seeds.write_csv(folder / "metrics.csv", over_seeds.TIDY_HEAD, rows)
        write_text(folder / "report.html", _page(found))
    return FinishedSeeds(experiment, backend, folders.finish(folder), runs)


@contextlib.contextmanager
def _begun_removed(folder: Path) -> Iterator[None]:
    """Of seeds that were only begun, as when the run is interrupted or a worker killed, nothing stays in the end."""
    try:
        yield
    finally:
        for place in folder.glob(f"seed-*{folders.UNFINISHED}"):
            shutil.rmtree(place, ignore_errors=True)


def _header(experiment: Experiment, backend: str, seeds: Sequence[int]) -> Iterator[str]:
    """What names and patterns mean, with the first seed, and warnings: once, since seeds do not change them."""
    yield f"{experiment.name}: {counted(len(seeds), 'seed')}, {counted(len(experiment.cases), 'case')} each"
    if any(fault.by_chance for case in experiment.cases for fault in case.faults):
        yield f"faults by chance as drawn with seed {seeds[0]}; the report names those of each seed"
    for case, lines in extents_of(experiment, seeds[0]).items():
        yield from (f"{case_prefix(case)}{line}" for line in lines)
    yield from (f"Warning: {warning}." for warning in dict.fromkeys(warnings_of(experiment, backend)))


def _run_all(job: _Job, seeds: Sequence[int], jobs: int) -> Generator[SeedRun, None, None]:
    if jobs <= 1 or len(seeds) == 1 or job.backend == "emulation":
        with kept_memory():
            for seed in seeds:
                yield _run_one(seed, job)
        return
    with contextlib.closing(each(seeds, min(jobs, len(seeds)), partial(_run_one, job=job))) as outcomes:
        for done in outcomes:
            yield SeedRun(done.item, None, done.lost) if done.lost else done.result


def _run_one(seed: int, job: _Job) -> SeedRun:
    try:
        experiment = load_text(job.text, source=job.source, name=job.name)
        place = job.folder / f"seed-{seed}"
        result = run_and_report(experiment, job.backend, seed, job.folder, place=place, **job.options)
    except (ExperimentError, MrcError, FabricError, OSError) as error:
        return SeedRun(seed, None, str(error))
    return SeedRun(seed, dict(result.summary))


def drawn_faults(summary: Mapping[str, Any] | None) -> list[str]:
    """What a run drew for its faults by chance: a text for each fault, of all cases."""
    cases = summary["cases"] if summary else {}
    texts = [
        joined(case_label(case), f"{fault.get('name') or fault['kind']}: {', '.join(fault['drawn'])}")
        for case, numbers in cases.items()
        for fault in numbers["extent"]["faults"]
        if "drawn" in fault
    ]
    return list(dict.fromkeys(texts))


def _page(found: FinishedSeeds) -> str:
    head, rows = found.table()
    numbers = tuple(place for place, title in enumerate(head) if title in over_seeds.COLUMNS)
    return render(
        "seeds",
        title=found.experiment.title,
        experiment=found.experiment,
        backend=BACKENDS.get(found.backend, found.backend),
        found=found,
        method=over_seeds.METHOD,
        head=head,
        rows=rows,
        numbers=numbers,
        drawn={run.seed: drawn_faults(run.summary) for run in found.runs},
    )
