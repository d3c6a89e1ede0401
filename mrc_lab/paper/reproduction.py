"""Reproduce published figures: run experiment files with one seed or several, as many at once as jobs; write a page.

    <results>/paper/<time>/index.html, listing.md, summary.json, <experiment>/<time>/...
    <results>/paper/latest -> the newest

Each file is an experiment of its own, on the backend that it names unless one is given for all; one that cannot be run
is a line of the page, not the end of the rest. What a backend has no room for on this machine is left out, with the
reason, and has no part in the verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mrc_common.written_files import write_text
from mrc_host.errors import MrcError
from mrc_lab.backends import DEFAULT
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import Experiment, load_file
from mrc_lab.experiments.running.kept_memory import kept_memory
from mrc_lab.experiments.running.process_pool import each
from mrc_lab.experiments.running.run_experiment import check
from mrc_lab.paper.listing import listing
from mrc_lab.paper.page import index, summarize
from mrc_lab.reports import result_folder as folders
from mrc_lab.reports.run_and_report import run_and_report
from topologies.errors import FabricError

Job = tuple[Path, int]  # a file and a seed
_NONE: Mapping[Path, Experiment] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one file with one seed. `summary` is that of its result; None: it could not run, for `problem`."""

    file: str
    seed: int
    wall_seconds: float
    summary: Mapping[str, Any] | None
    report: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FigureOutcome:
    """What came of one file with all seeds. `problem`: why it was not tried, since this machine has no room for it.

    `backend` is where it ran.
    """

    file: str
    runs: tuple[Run, ...] = ()
    problem: str = ""
    backend: str = DEFAULT

    @property
    def name(self) -> str:
        """The file's name without folder and suffix."""
        return Path(self.file).stem

    @property
    def left_out(self) -> bool:
        """Whether it was not tried."""
        return not self.runs

    @property
    def failed(self) -> str:
        """Why a run of it could not be done, of the first for which that is so; empty if all were."""
        return next((run.problem for run in self.runs if run.summary is None), "")

    @property
    def summaries(self) -> list[Mapping[str, Any]]:
        """Those of the runs that were done."""
        return [run.summary for run in self.runs if run.summary is not None]

    @property
    def verdict(self) -> str:
        """The worst of its runs: ``pass``, ``untrusted`` or ``fail``; or ``left out``."""
        if self.left_out:
            return "left out"
        found = {"fail" if run.summary is None else str(run.summary["verdict"]) for run in self.runs}
        return "pass" if found == {"pass"} else "untrusted" if "fail" not in found else "fail"

    @property
    def wall_seconds(self) -> float:
        """Of all its runs together."""
        return sum(run.wall_seconds for run in self.runs)


def reproduce(
    files: Sequence[Path],
    results: Path,
    *,
    backend: str | None = None,
    seeds: Sequence[int] = (1,),
    jobs: int = 1,
    whole: bool = False,
    notify: Callable[[str], None] = lambda text: None,
) -> tuple[Path, dict[str, Any]]:
    """Run all files with all seeds and write the page; returns the folder and the summary.

    `backend`: of all files, instead of what they say. `whole`: count every number of the frozen list, also those of
    other files. Every file is read before anything starts: FileError when one is wrong, ExperimentError when this
    machine has room for none of them.
    """
    experiments = {file: load_file(file) for file in files}
    backends = {file: experiment.backend_for(backend) for file, experiment in experiments.items()}
    left_out = {str(file): problem for file in files if (problem := _no_room(experiments[file], backends[file]))}
    wanted = [file for file in files if str(file) not in left_out]
    if left_out and not wanted:
        file, problem = next(iter(left_out.items()))
        raise ExperimentError(f"{Path(file).stem}: {problem}", "Leave --backend out.")
    folder = folders.make_folder(results, "paper")
    began = time.monotonic()
    for file, problem in left_out.items():
        notify(f"left out: {Path(file).stem}: {problem}")
    jobs_to_do = [(file, seed) for file in wanted for seed in seeds]
    done: dict[tuple[str, int], Run] = {}
    for number, run in enumerate(_run_all(jobs_to_do, folder, backend, jobs, experiments), 1):
        done[run.file, run.seed] = run
        verdict = run.summary["verdict"] if run.summary else f"could not run: {run.problem}"
        seed = f" seed {run.seed}" if len(seeds) > 1 else ""
        notify(f"{number} of {len(jobs_to_do)}: {Path(run.file).stem}{seed}: {verdict} ({run.wall_seconds:.1f} s)")
    outcomes = [
        FigureOutcome(str(file), problem=left_out[str(file)])
        if str(file) in left_out
        else FigureOutcome(str(file), tuple(done[str(file), seed] for seed in seeds), backend=backends[file])
        for file in files
    ]
    summary = summarize(outcomes, backend or DEFAULT, seeds, whole=whole)
    folders.write_json(folder / "summary.json", summary)
    write_text(folder / "listing.md", listing(summary))
    write_text(folder / "index.html", index(outcomes, summary, time.monotonic() - began))
    folders.point_latest(folder)
    return folder, summary


def _no_room(experiment: Experiment, backend: str) -> str:
    """Why this machine has no room for an experiment; empty if it has."""
    try:
        check(experiment, backend)
    except ExperimentError as error:
        return str(error)
    return ""


def _run_all(
    jobs_to_do: Sequence[Job], folder: Path, backend: str | None, jobs: int, read: Mapping[Path, Experiment] = _NONE
) -> Iterable[Run]:
    """`read`: what is in files that were read already."""
    if jobs <= 1 or len(jobs_to_do) == 1 or backend == "emulation":
        with kept_memory():  # from one file to the next
            for job in jobs_to_do:
                yield _run_one(job, folder, backend, read.get(job[0]))
        return
    for done in each(jobs_to_do, jobs, partial(_run_one, folder=folder, backend=backend)):
        file, seed = done.item
        yield Run(str(file), seed, 0.0, None, "", done.lost) if done.lost else done.result


def _run_one(job: Job, folder: Path, backend: str | None, experiment: Experiment | None = None) -> Run:
    """`experiment` is what is in the file, if it was read already."""
    file, seed = job
    began = time.monotonic()
    try:
        experiment = experiment or load_file(file)
        result = run_and_report(experiment, experiment.backend_for(backend), seed, folder)
    except (ExperimentError, MrcError, FabricError, OSError) as error:
        return Run(str(file), seed, time.monotonic() - began, None, "", str(error))
    report = (result.folder / "report.html").relative_to(folder)
    return Run(str(file), seed, time.monotonic() - began, dict(result.summary), str(report))
