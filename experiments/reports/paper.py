"""Reproduce published figures: run experiment files one by one or in parallel, and write one page and one JSON.

    <results>/paper/<time>/index.html, summary.json, <experiment>/<time>/...
    <results>/paper/latest -> the newest

Each file is an experiment of its own; one that cannot be run is a line of the page, not the end of the rest.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError
from experiments.files import load_file
from experiments.reports import folder as folders
from experiments.reports.html import HEAD, RELATIONS, page, table
from experiments.reports.produce import produce
from experiments.reports.shown import block
from experiments.reports.verdicts import show
from mrc_host.errors import MrcError
from topologies.errors import FabricError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one file. `summary` is that of its result, None when it could not be run, for `problem`."""

    file: str
    wall_seconds: float
    summary: Mapping[str, Any] | None
    report: str
    problem: str = ""


def reproduce(
    files: Sequence[Path],
    results: Path,
    *,
    world: str = "sim",
    seed: int = 1,
    jobs: int = 1,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[Path, dict[str, Any]]:
    """Run all files and write the page; returns the folder and the summary.

    Every file is read before anything starts: FileError when one is wrong.
    """
    for file in files:
        load_file(file)
    folder = folders.make_folder(results, "paper")
    began = time.monotonic()
    outcomes = dict.fromkeys(map(str, files))
    found: dict[str, Outcome] = {}
    for outcome in _run_all(files, folder, world, seed, jobs):
        found[outcome.file] = outcome
        verdict = outcome.summary["verdict"] if outcome.summary else f"could not run: {outcome.problem}"
        tell(f"{len(found)} of {len(files)}: {Path(outcome.file).stem}: {verdict} ({outcome.wall_seconds:.1f} s)")
    ordered = [found[name] for name in outcomes]
    summary = summarize(ordered, world, seed)
    folders.write_json(folder / "summary.json", summary)
    (folder / "index.html").write_text(index(ordered, summary, time.monotonic() - began), "utf-8")
    folders.point_latest(folder)
    return folder, summary


def summarize(outcomes: Iterable[Outcome], world: str, seed: int) -> dict[str, Any]:
    """One row for each expectation of each figure: figure, published, ours, ratio, verdict."""
    outcomes = list(outcomes)
    rows = []
    for outcome in outcomes:
        if outcome.summary is None:
            rows.append({"figure": Path(outcome.file).stem, "title": outcome.problem, "verdict": "fail"})
            continue
        figure = outcome.summary["figure"] or outcome.summary["name"]
        rows += [{"figure": figure, **one} for one in outcome.summary["expectations"]]
    verdicts = [outcome.summary["verdict"] if outcome.summary else "fail" for outcome in outcomes]
    return {
        "format": FORMAT,
        "world": world,
        "seed": seed,
        "verdict": "pass" if all(verdict == "pass" for verdict in verdicts) else "fail",
        "experiments": len(outcomes),
        "passed": verdicts.count("pass"),
        "expectations": len(rows),
        "expectations_passed": sum(row["verdict"] == "pass" for row in rows),
        "wall_seconds": {Path(outcome.file).stem: round(outcome.wall_seconds, 1) for outcome in outcomes},
        "figures": rows,
    }


def index(outcomes: Sequence[Outcome], summary: Mapping[str, Any], wall_seconds: float) -> str:
    """The page."""
    world = "the simulated world" if summary["world"] == "sim" else "emulation"
    parts = [
        "<h1>Published results of MRC, and ours</h1>",
        f'<p class="sub">{world}, seed {summary["seed"]}: {summary["passed"]} of {summary["experiments"]} experiments'
        f" and {summary['expectations_passed']} of {summary['expectations']} figures as expected;"
        f" {wall_seconds:.0f} s</p>",
        "<p>Verdicts are computed from the recorded series. Published figures carry their certainty: C stated by the"
        " authors, D read off a published curve; see docs/protocol.md section 0.</p>",
    ]
    parts += map(_section, outcomes)
    return page("Published results of MRC, and ours", "".join(parts))


def _section(outcome: Outcome) -> str:
    found = outcome.summary
    if found is None:
        name = escape(Path(outcome.file).stem)
        return f"<h2>{name}</h2><p class='warn'>could not be run: {escape(outcome.problem)}</p>"
    head = f"<h2>{escape(found['figure'])}: {escape(found['title'])}</h2>"
    line = f'<span class="{found["verdict"]}">{found["verdict"]}</span> · <a href="{escape(outcome.report)}">report</a>'
    scaled = f"<p class='sub'>{escape(found['scaled'])}</p>" if found["scaled"] else ""
    rows = [_row(one) for one in found["expectations"]]
    side_by_side = block(found["shown"], found["name"])
    return head + f"<p>{line} · {outcome.wall_seconds:.0f} s</p>{scaled}{side_by_side}" + table(HEAD, rows, (3, 4))


def _row(one: Mapping[str, Any]) -> list[str]:
    unit = one["unit"]
    words = [show(one["published"], unit)] if one["published"] is not None else []
    words += [escape(one["published_text"])] if one["published_text"] else []
    words += [f"[{one['certainty']}]"] if one["certainty"] else []
    within = f" ± {100 * one['tolerance']:.3g} %" if one["tolerance"] else ""
    return [
        f'<span class="{one["verdict"]}">{one["verdict"]}</span>',
        escape(one["title"]) + (f'<br><span class="sub">{escape(one["note"])}</span>' if one["note"] else ""),
        " ".join(words),
        show(one["ours"], unit),
        "" if one["ratio"] is None else f"{one['ratio']:.3f}",
        f"{RELATIONS[one['relation']]} {show(one['expected'], unit)}{within}",
    ]


def _run_all(files: Sequence[Path], folder: Path, world: str, seed: int, jobs: int) -> Iterable[Outcome]:
    if jobs <= 1 or len(files) == 1 or world != "sim":
        for file in files:
            yield _run_one(file, folder, world, seed)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(files)), mp_context=context) as pool:
        for future in as_completed([pool.submit(_run_one, file, folder, world, seed) for file in files]):
            yield future.result()


def _run_one(file: Path, folder: Path, world: str, seed: int) -> Outcome:
    began = time.monotonic()
    try:
        result = produce(load_file(file), world, seed, folder)
    except (ExperimentError, MrcError, FabricError, OSError) as error:
        return Outcome(str(file), time.monotonic() - began, None, "", str(error))
    report = (result.folder / "report.html").relative_to(folder)
    return Outcome(str(file), time.monotonic() - began, dict(result.summary), str(report))
