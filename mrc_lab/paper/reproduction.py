"""Reproduce published figures: run experiment files one by one or in parallel, and write one page and one JSON.

    <results>/paper/<time>/index.html, summary.json, <experiment>/<time>/...
    <results>/paper/latest -> the newest

Each file is an experiment of its own; one that cannot be run is a line of the page, not the end of the rest. What
emulation has no room for on this machine is left out, with the reason, and has no part in the verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_file
from mrc_lab.experiments.running.run_experiment import check
from mrc_lab.reports import result_folder as folders
from mrc_lab.reports.pages import BACKENDS, render
from mrc_lab.reports.run_and_report import run_and_report
from mrc_lab.reports.verdicts import FAR, differs
from mrc_lab.reports.write_file import write_text
from mrc_lab.sweeps.process_pool import each
from topologies.errors import FabricError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class FigureOutcome:
    """What came of one file. `summary` is that of its result, None when it could not be run, for `problem`.

    `left_out`: it was not tried, since this machine has no room for it.
    """

    file: str
    wall_seconds: float
    summary: Mapping[str, Any] | None
    report: str
    problem: str = ""
    left_out: bool = False

    @property
    def name(self) -> str:
        """The file's name without folder and suffix."""
        return Path(self.file).stem

    @property
    def verdict(self) -> str:
        """``pass``, ``fail``, ``untrusted``, or ``left out``."""
        if self.summary is not None:
            return str(self.summary["verdict"])
        return "left out" if self.left_out else "fail"


def reproduce(
    files: Sequence[Path],
    results: Path,
    *,
    backend: str = "sim",
    seed: int = 1,
    jobs: int = 1,
    notify: Callable[[str], None] = lambda text: None,
) -> tuple[Path, dict[str, Any]]:
    """Run all files and write the page; returns the folder and the summary.

    Every file is read before anything starts: FileError when one is wrong, ExperimentError when this machine has room
    for none of them.
    """
    found = {str(file): outcome for file in files if (outcome := _left_out(file, backend)) is not None}
    wanted = [file for file in files if str(file) not in found]
    if found and not wanted:
        raise ExperimentError(_reason(next(iter(found.values()))), "Use --backend sim.")
    folder = folders.make_folder(results, "paper")
    began = time.monotonic()
    for outcome in found.values():
        notify(f"left out: {_reason(outcome)}")
    for number, outcome in enumerate(_run_all(wanted, folder, backend, seed, jobs), 1):
        found[outcome.file] = outcome
        verdict = outcome.verdict if outcome.summary else f"could not run: {outcome.problem}"
        notify(f"{number} of {len(wanted)}: {outcome.name}: {verdict} ({outcome.wall_seconds:.1f} s)")
    ordered = [found[str(file)] for file in files]
    summary = summarize(ordered, backend, seed)
    folders.write_json(folder / "summary.json", summary)
    write_text(folder / "index.html", index(ordered, summary, time.monotonic() - began))
    folders.point_latest(folder)
    return folder, summary


def summarize(outcomes: Iterable[FigureOutcome], backend: str, seed: int) -> dict[str, Any]:
    """One row for each expectation of each figure: figure, published, ours, ratio, verdict."""
    outcomes = list(outcomes)
    left_out = {outcome.name: outcome.problem for outcome in outcomes if outcome.left_out}
    outcomes = [outcome for outcome in outcomes if not outcome.left_out]
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        if outcome.summary is None:
            rows.append({"figure": outcome.name, "title": outcome.problem, "verdict": "fail"})
            continue
        figure = outcome.summary["figure"] or outcome.summary["name"]
        rows += [{"figure": figure, **one, "differs": differs(one)} for one in outcome.summary["expectations"]]
    ratios = [
        one["ratio"]
        for outcome in outcomes
        for one in (outcome.summary or {}).get("expectations", ())
        if one["ratio"] is not None
    ]
    verdicts = [outcome.verdict for outcome in outcomes]
    return {
        "format": FORMAT,
        "backend": backend,
        "seed": seed,
        "verdict": "pass" if all(verdict == "pass" for verdict in verdicts) else "fail",
        "experiments": len(outcomes),
        "passed": verdicts.count("pass"),
        "expectations": len(rows),
        "expectations_passed": sum(row["verdict"] == "pass" for row in rows),
        "published": len(ratios),
        "within_10_percent": sum(abs(ratio - 1) <= 0.1 for ratio in ratios),
        "differ": sum(abs(ratio - 1) > FAR for ratio in ratios),
        "left_out": left_out,
        "wall_seconds": {outcome.name: round(outcome.wall_seconds, 1) for outcome in outcomes},
        "figures": rows,
    }


def index(outcomes: Sequence[FigureOutcome], summary: Mapping[str, Any], wall_seconds: float) -> str:
    """The page: all published figures in one table, then each experiment; what was published comes first."""
    return render(
        "paper",
        title="Published results of MRC, and ours",
        backend=BACKENDS.get(summary["backend"], summary["backend"]),
        summary=summary,
        outcomes=sorted(outcomes, key=lambda outcome: outcome.name.startswith("ablation")),
        far_percent=round(100 * FAR),
        wall_seconds=wall_seconds,
    )


def _left_out(file: Path, backend: str) -> FigureOutcome | None:
    experiment = load_file(file)
    try:
        check(experiment, backend)
    except ExperimentError as error:
        return FigureOutcome(str(file), 0.0, None, "", str(error), left_out=True)
    return None


def _reason(outcome: FigureOutcome) -> str:
    return f"{outcome.name}: {outcome.problem}"


def _run_all(files: Sequence[Path], folder: Path, backend: str, seed: int, jobs: int) -> Iterable[FigureOutcome]:
    if jobs <= 1 or len(files) == 1 or backend != "sim":
        for file in files:
            yield _run_one(file, folder, backend, seed)
        return
    for done in each(files, jobs, partial(_run_one, folder=folder, backend=backend, seed=seed)):
        yield FigureOutcome(str(done.item), 0.0, None, "", done.lost) if done.lost else done.result


def _run_one(file: Path, folder: Path, backend: str, seed: int) -> FigureOutcome:
    began = time.monotonic()
    try:
        result = run_and_report(load_file(file), backend, seed, folder)
    except (ExperimentError, MrcError, FabricError, OSError) as error:
        return FigureOutcome(str(file), time.monotonic() - began, None, "", str(error))
    report = (result.folder / "report.html").relative_to(folder)
    return FigureOutcome(str(file), time.monotonic() - began, dict(result.summary), str(report))
