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
from html import escape
from pathlib import Path
from typing import Any

from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_file
from mrc_lab.experiments.running.conduct import check
from mrc_lab.reports import folder as folders
from mrc_lab.reports.html import HEAD, RELATIONS, page, published_words, table, titled
from mrc_lab.reports.markup import Html, html, span, verdict
from mrc_lab.reports.produce import produce
from mrc_lab.reports.shown import block
from mrc_lab.reports.verdicts import show
from mrc_lab.reports.writing import write_text
from mrc_lab.sweeps.processes import each
from topologies.errors import FabricError

FORMAT = 1
FAR = 0.25  # a figure that is further than this share from the published one differs, whatever was expected of it


@dataclass(frozen=True, slots=True)
class Outcome:
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
    def verdict(self) -> str:
        """``pass``, ``fail``, ``untrusted``, or ``left out``."""
        if self.summary is not None:
            return str(self.summary["verdict"])
        return "left out" if self.left_out else "fail"


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

    Every file is read before anything starts: FileError when one is wrong, ExperimentError when this machine has room
    for none of them.
    """
    found = {str(file): outcome for file in files if (outcome := _left_out(file, world)) is not None}
    wanted = [file for file in files if str(file) not in found]
    if found and not wanted:
        raise ExperimentError(_reason(next(iter(found.values()))), "Use --world sim.")
    folder = folders.make_folder(results, "paper")
    began = time.monotonic()
    for outcome in found.values():
        tell(f"left out: {_reason(outcome)}")
    for number, outcome in enumerate(_run_all(wanted, folder, world, seed, jobs), 1):
        found[outcome.file] = outcome
        verdict = outcome.verdict if outcome.summary else f"could not run: {outcome.problem}"
        tell(f"{number} of {len(wanted)}: {Path(outcome.file).stem}: {verdict} ({outcome.wall_seconds:.1f} s)")
    ordered = [found[str(file)] for file in files]
    summary = summarize(ordered, world, seed)
    folders.write_json(folder / "summary.json", summary)
    write_text(folder / "index.html", index(ordered, summary, time.monotonic() - began))
    folders.point_latest(folder)
    return folder, summary


def summarize(outcomes: Iterable[Outcome], world: str, seed: int) -> dict[str, Any]:
    """One row for each expectation of each figure: figure, published, ours, ratio, verdict."""
    outcomes = list(outcomes)
    left_out = {Path(outcome.file).stem: outcome.problem for outcome in outcomes if outcome.left_out}
    outcomes = [outcome for outcome in outcomes if not outcome.left_out]
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        if outcome.summary is None:
            rows.append({"figure": Path(outcome.file).stem, "title": outcome.problem, "verdict": "fail"})
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
        "world": world,
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
        "wall_seconds": {Path(outcome.file).stem: round(outcome.wall_seconds, 1) for outcome in outcomes},
        "figures": rows,
    }


def differs(one: Mapping[str, Any]) -> bool:
    """Whether our figure is far from the published one."""
    return one["ratio"] is not None and abs(one["ratio"] - 1) > FAR


def index(outcomes: Sequence[Outcome], summary: Mapping[str, Any], wall_seconds: float) -> str:
    """The page: all published figures in one table, then each experiment; what was published comes first."""
    world = "the simulated world" if summary["world"] == "sim" else "emulation"
    ordered = sorted(outcomes, key=lambda outcome: Path(outcome.file).stem.startswith("ablation"))
    parts = [
        "<h1>Published results of MRC, and ours</h1>",
        f'<p class="sub">{world}, seed {summary["seed"]}: {summary["passed"]} of {summary["experiments"]} experiments'
        f" and {summary['expectations_passed']} of {summary['expectations']} figures as expected;"
        f" {wall_seconds:.0f} s</p>",
        "<p>Verdicts are computed from the recorded series. Published figures carry their certainty: C stated by the"
        " authors, D read off a published curve; see docs/protocol.md section 0.</p>",
        f"<p>Of {summary['published']} published numbers {summary['within_10_percent']} are met within 10 %;"
        f" {summary['differ']} differ by more than {100 * FAR:.0f} % and are marked <span class='untrusted'>so</span>,"
        " with the reason below: there only the shape (which is more, or at least how much) is expected.</p>",
        _overview(ordered),
    ]
    parts += map(_section, ordered)
    return page("Published results of MRC, and ours", "".join(parts))


def _overview(outcomes: Iterable[Outcome]) -> str:
    """A row for each figure that has a published number, and for each experiment that was not run."""
    rows = []
    for outcome in outcomes:
        anchor = Path(outcome.file).stem
        if outcome.summary is None:
            rows.append((_link(anchor, anchor), outcome.problem, "", "", "", verdict(outcome.verdict)))
            continue
        link = _link(anchor, outcome.summary["figure"])
        rows += [
            (
                link,
                one["title"],
                *_numbers(one),
                Html(verdict(one["verdict"]) + (", differs" if differs(one) else "")),
            )
            for one in outcome.summary["expectations"]
            if one["published"] is not None or one["verdict"] != "pass"
        ]
    return table(("figure", "", "published", "ours", "ratio", ""), rows, (2, 3, 4))


def _link(anchor: str, text: str) -> Html:
    return Html(f'<a href="#{html(anchor)}">{html(text)}</a>')


def _numbers(one: Mapping[str, Any]) -> tuple[str, str, str]:
    """Published, ours, ratio."""
    unit = one["unit"]
    ratio = "" if one["ratio"] is None else f"{one['ratio']:.3f}"
    if differs(one):
        ratio = span(ratio, "untrusted")
    return show(one["published"], unit) if one["published"] is not None else "", show(one["ours"], unit), ratio


def _section(outcome: Outcome) -> str:
    found = outcome.summary
    if found is None:
        name = escape(Path(outcome.file).stem)
        what = "left out" if outcome.left_out else "could not be run"
        return f"<h2 id='{name}'>{name}</h2><p class='warn'>{what}: {escape(outcome.problem)}</p>"
    anchor = escape(Path(outcome.file).stem)
    head = f"<h2 id='{anchor}'>{escape(found['figure'])}: {escape(found['title'])}</h2>"
    line = f'{verdict(found["verdict"])} · <a href="{escape(outcome.report)}">report</a>'
    scaled = f"<p class='sub'>{escape(found['scaled'])}</p>" if found["scaled"] else ""
    rows = [_row(one) for one in found["expectations"]]
    side_by_side = block(found["shown"], found["name"])
    return head + f"<p>{line} · {outcome.wall_seconds:.0f} s</p>{scaled}{side_by_side}" + table(HEAD, rows, (3, 4))


def _row(one: Mapping[str, Any]) -> list[str]:
    unit = one["unit"]
    published, ours, ratio = _numbers(one)
    within = f" ± {100 * one['tolerance']:.3g} %" if one["tolerance"] else ""
    note = one["note"] or ("Why ours differs is not known." if differs(one) else "")
    return [
        verdict(one["verdict"]),
        titled(one["title"], note),
        published_words(published, one["published_text"], one["certainty"]),
        ours,
        ratio,
        f"{RELATIONS[one['relation']]} {show(one['expected'], unit)}{within}",
    ]


def _left_out(file: Path, world: str) -> Outcome | None:
    experiment = load_file(file)
    try:
        check(experiment, world)
    except ExperimentError as error:
        return Outcome(str(file), 0.0, None, "", str(error), left_out=True)
    return None


def _reason(outcome: Outcome) -> str:
    return f"{Path(outcome.file).stem}: {outcome.problem}"


def _run_all(files: Sequence[Path], folder: Path, world: str, seed: int, jobs: int) -> Iterable[Outcome]:
    if jobs <= 1 or len(files) == 1 or world != "sim":
        for file in files:
            yield _run_one(file, folder, world, seed)
        return
    for done in each(files, jobs, partial(_run_one, folder=folder, world=world, seed=seed)):
        yield Outcome(str(done.item), 0.0, None, "", done.lost) if done.lost else done.result


def _run_one(file: Path, folder: Path, world: str, seed: int) -> Outcome:
    began = time.monotonic()
    try:
        result = produce(load_file(file), world, seed, folder)
    except (ExperimentError, MrcError, FabricError, OSError) as error:
        return Outcome(str(file), time.monotonic() - began, None, "", str(error))
    report = (result.folder / "report.html").relative_to(folder)
    return Outcome(str(file), time.monotonic() - began, dict(result.summary), str(report))
