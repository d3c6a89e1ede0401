"""The summary of all published figures and its page: the score, what is outside 10 % and why, then every figure.

Three kinds of statement are kept apart. *Published numbers* that can come out otherwise are the score. *Expectations*
are what a file claims of its run; they decide the exit status. That nothing failed and no byte was wrong is a *check*,
as is whatever was published and cannot come out otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mrc_lab.paper
from mrc_lab import published
from mrc_lab.backends import BACKENDS
from mrc_lab.paper import score
from mrc_lab.reports.pages import render
from mrc_lab.reports.seeds import merged
from mrc_lab.reports.verdicts import ALWAYS, differs

if TYPE_CHECKING:
    from mrc_lab.paper.reproduction import FigureOutcome

FORMAT = 2


def summarize(
    outcomes: Iterable[FigureOutcome], backend: str, seeds: Sequence[int], *, whole: bool = False
) -> dict[str, Any]:
    """The score, a row for each published number, and one for each expectation of each run.

    `whole`: numbers of the frozen list count whether their figure is among the outcomes or not, and those that files
    have beside it are counted apart.
    """
    outcomes = list(outcomes)
    left_out = {outcome.name: outcome.problem for outcome in outcomes if outcome.left_out}
    tried = [outcome for outcome in outcomes if not outcome.left_out]
    rows = _numbers(tried, None if whole else {outcome.name for outcome in tried})
    counting = [row for row in rows if row["listed"] or not whole]
    expectations = [row for outcome in tried for row in _expectations(outcome)]
    counted = [row for row in expectations if row.get("metric") not in ALWAYS]
    checks = [row for row in expectations if row.get("metric") in ALWAYS]
    verdicts = [outcome.verdict for outcome in tried]
    return {
        "format": FORMAT,
        "backend": backend,
        "seeds": list(seeds),
        "verdict": "pass" if all(verdict == "pass" for verdict in verdicts) else "fail",
        "score": score.score(counting),
        "beside": score.score(row for row in rows if whole and not row["listed"]),
        "score_by_figure": score.by_figure(rows),
        "experiments": len(tried),
        "passed": verdicts.count("pass"),
        "expectations": len(counted),
        "expectations_passed": sum(row["verdict"] == "pass" for row in counted),
        "checks": len(checks),
        "checks_passed": sum(row["verdict"] == "pass" for row in checks),
        "left_out": left_out,
        "wall_seconds": {outcome.name: round(outcome.wall_seconds, 1) for outcome in tried},
        "numbers": rows,
        "figures": expectations,
    }


def _numbers(outcomes: Sequence[FigureOutcome], files: set[str] | None) -> list[dict[str, Any]]:
    """The rows of the score; `files`: only those numbers of the list that these measure."""
    listed = published.load()
    if files is not None:
        entries = {
            name: numbers for name, numbers in listed.entries.items() if any(one.file in files for one in numbers)
        }
        listed = published.PublishedList(entries, listed.checks, listed.left)
    measured = {
        outcome.name: (_figure(outcome), together(outcome)["numbers"]) for outcome in outcomes if outcome.summaries
    }
    known = {path.stem for path in Path(mrc_lab.paper.__path__[0]).glob("*.yaml")} | set(measured)
    return score.rows_of(listed, measured, known)


def together(outcome: FigureOutcome) -> dict[str, Any]:
    """The published numbers and curves of a figure over its seeds; nothing where a run could not be done."""
    if outcome.failed or outcome.left_out:
        return {"numbers": [], "curves": []}
    return merged([summary["published"] for summary in outcome.summaries])


def _figure(outcome: FigureOutcome) -> str:
    first = outcome.summaries[0]
    return str(first["figure"] or first["name"])


def _expectations(outcome: FigureOutcome) -> Iterable[dict[str, Any]]:
    for run in outcome.runs:
        if run.summary is None:
            yield {"figure": outcome.name, "seed": run.seed, "title": run.problem, "verdict": "fail"}
            continue
        figure = _figure(outcome)
        for one in run.summary["expectations"]:
            yield {"figure": figure, "seed": run.seed, **one, "differs": differs(one)}


def index(outcomes: Sequence[FigureOutcome], summary: Mapping[str, Any], wall_seconds: float) -> str:
    """The page: the score, what is outside, then each experiment; what was published comes before ablations."""
    from mrc_lab.reports.plots import embedded
    from mrc_lab.reports.published_plots import drawings  # matplotlib takes a second to load

    sections = []
    for outcome in sorted(outcomes, key=lambda outcome: outcome.name.startswith("ablation")):
        block = together(outcome)
        sections.append(
            {
                "outcome": outcome,
                "first": outcome.summaries[0] if outcome.summaries and not outcome.failed else None,
                "numbers": block["numbers"],
                "plots": [
                    (title, embedded(svg, f"{outcome.name}-published-{number}-"))
                    for number, (title, svg) in enumerate(drawings(block), 1)
                ],
                "failing": _failing(outcome),
            }
        )
    return render(
        "paper",
        title="Published results of MRC, and ours",
        source=published.SOURCE,
        backends=BACKENDS,
        summary=summary,
        sections=sections,
        outside=score.outside(summary["numbers"]),
        checks=published.load().checks,
        left=published.load().left,
        wall_seconds=wall_seconds,
    )


def _failing(outcome: FigureOutcome) -> list[tuple[int, list[Mapping[str, Any]]]]:
    """Seeds after the first in which an expectation did not hold, with those expectations."""
    found = []
    for run in outcome.runs[1:]:
        bad = [one for one in (run.summary or {"expectations": ()})["expectations"] if one["verdict"] != "pass"]
        if bad:
            found.append((run.seed, bad))
    return found
