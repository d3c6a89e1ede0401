"""Ours beside what was published: every number of a file's ``published`` part, and the series under its curves.

A value is *within* 10 % or *differs*; a bound is *met* or *missed*. What the run did not have (a size that is not
among the variants, another number of flows) is *not measured*, and what came of a run whose timing cannot be trusted
is *untrusted*. Rates and times are scaled as the run was.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from mrc_lab.experiments.files.model import Experiment, PublishedCurve, PublishedNumber, Selection
from mrc_lab.experiments.files.published import cases_by_size
from mrc_lab.published import Number
from mrc_lab.reports.metric_table import MetricTable, middles, scale
from mrc_lab.reports.metrics import View
from mrc_lab.reports.statistics import rounded

NEAR = 0.10  # a value counts as the published one when it is no further away than this share of it


class Standing(enum.Enum):
    """How a number of ours stands beside the published one."""

    WITHIN = "within 10 %"
    DIFFERS = "differs"
    MET = "met"
    MISSED = "not met"
    UNMEASURED = "not measured"
    UNTRUSTED = "untrusted"

    @property
    def good(self) -> bool:
        """Whether it counts as reproduced."""
        return self in (Standing.WITHIN, Standing.MET)


@dataclass(frozen=True, slots=True)
class Compared:
    """A published number and ours, in `unit`; `ours` is None where it was not measured."""

    id: str
    what: str
    unit: str
    published: float
    certainty: str
    bound: str
    ours: float | None
    standing: Standing
    cause: str
    fitted: bool = False
    entry: str = ""
    size: int | None = None
    place: int | None = None


def stand(ours: float | None, published: float, bound: str) -> Standing:
    """Where `ours` stands beside a published value, or bound where `bound` is ``at_least`` or ``at_most``."""
    if ours is None:
        return Standing.UNMEASURED
    if bound:
        met = ours >= published if bound == "at_least" else ours <= published
        return Standing.MET if met else Standing.MISSED
    return Standing.WITHIN if abs(ours - published) <= NEAR * abs(published) else Standing.DIFFERS


def summarize_published(experiment: Experiment, metrics: MetricTable) -> dict[str, Any]:
    """The block ``published`` of a summary: ``numbers`` and ``curves``, as JSON."""
    numbers = [one for part in experiment.published.numbers for one in compare_numbers(experiment, part, metrics)]
    return {
        "numbers": [{**asdict(one), "standing": one.standing.value, "ours": rounded(one.ours)} for one in numbers],
        "curves": [_curve(experiment, curve, metrics) for curve in experiment.published.curves],
    }


def compare_numbers(experiment: Experiment, part: PublishedNumber, metrics: MetricTable) -> Iterator[Compared]:
    """Every number of an entry with ours."""
    by_size = _by_size(experiment, part) if part.numbers[0].size is not None else {}
    flows = _each_flow(part, metrics) if part.numbers[0].place is not None else []
    for number in part.numbers:
        if number.size is not None and number.size not in by_size and part.id:
            continue  # of the package's list, which several files may share
        if number.size is not None:
            of, against = by_size.get(number.size, (None, None))
        else:
            of, against = part.of, part.against
        compared = [metrics.row(part.metric, one).recording for one in (of, against) if one is not None]
        if number.place is not None:
            ours = flows[number.place - 1] if len(flows) == len(part.numbers) else None
        else:
            ours = None if of is None else metrics.over(part.metric, of, against)
        ours = None if ours is None else ours * part.factor
        published = number.value * (scale(compared[0], number.unit) if compared else 1.0)
        trusted = all(recording.fidelity.trusted for recording in compared)
        yield _compared(number, part, ours, published, trusted=trusted)


def _compared(
    number: Number, part: PublishedNumber, ours: float | None, published: float, *, trusted: bool
) -> Compared:
    standing = stand(ours, published, number.bound) if trusted else Standing.UNTRUSTED
    return Compared(
        id=number.id,
        what=number.what,
        unit=number.unit,
        published=published,
        certainty=number.certainty,
        bound=number.bound,
        ours=ours,
        standing=standing,
        cause=part.cause,
        fitted=part.fitted or number.size in part.fitted_sizes,
        entry=part.id or part.title,
        size=number.size,
        place=number.place,
    )


def _by_size(experiment: Experiment, part: PublishedNumber) -> dict[int, tuple[Selection, Selection | None]]:
    """What to compute for each size that there is a case of."""
    found: dict[int, tuple[Selection, Selection | None]] = {}
    for size, case in cases_by_size(experiment.cases, part.of, part.ranks).items():
        of = replace(part.of, variant=case.name)
        if part.against is None:
            found[size] = of, None
            continue
        below = cases_by_size(experiment.cases, part.against, part.ranks).get(size)
        if below is not None:
            found[size] = of, replace(part.against, variant=below.name)
    return found


def _each_flow(part: PublishedNumber, metrics: MetricTable) -> list[float]:
    """Ours of every flow, the slowest first."""
    recording = metrics.row(part.metric, part.of).recording
    names = [recording.flows[number].name for number in View.flows_of(recording, part.of)]
    found = [metrics.over(part.metric, replace(part.of, flows=name), part.against) for name in names]
    return sorted(value for value in found if value is not None)


def _curve(experiment: Experiment, curve: PublishedCurve, metrics: MetricTable) -> dict[str, Any]:
    """A published curve and ours, each a list of points; x in ns of the run, or in bytes."""
    assert curve.curve is not None
    theirs = list(curve.curve.points)
    if curve.curve.over == "size":
        sizes = cases_by_size(experiment.cases, curve.of, curve.ranks)
        values = [
            (size, metrics.value(curve.metric, replace(curve.of, variant=case.name)))
            for size, case in sorted(sizes.items())
        ]
        ours = [(float(size), value) for size, value in values if value is not None]
    else:
        row = metrics.row(curve.metric, curve.of)
        recording = row.recording
        theirs = [(place(x, curve.moments) * recording.time_scale, y) for x, y in theirs]
        theirs = [(x, y * scale(recording, curve.curve.unit)) for x, y in theirs if 0 <= x <= recording.end]
        ours = [(float(x), float(y)) for x, y in zip(middles(recording), row.series, strict=True)]
    if curve.relative:
        theirs, ours = _relative(theirs, curve.relative), _relative(ours, curve.relative)
    return {
        "id": curve.id,
        "title": curve.title or curve.curve.what,
        "plot": curve.plot or curve.title or curve.curve.what,
        "over": curve.curve.over,
        "unit": "share" if curve.relative else curve.curve.unit,
        "metric": curve.metric,
        "relative": curve.relative,
        "certainty": curve.curve.certainty,
        "published": [[rounded(x), rounded(y)] for x, y in theirs],
        "ours": [[rounded(x), rounded(y)] for x, y in ours],
    }


def place(published: float, moments: Sequence[tuple[int, int]]) -> float:
    """The time in the run of a published time: linear between `moments`, and beyond them at the nearest two's rate."""
    if len(moments) < 2:
        return published + (moments[0][1] - moments[0][0] if moments else 0)
    later = next((n for n, (theirs, _) in enumerate(moments) if n and theirs >= published), len(moments) - 1)
    (theirs_a, ours_a), (theirs_b, ours_b) = moments[later - 1], moments[later]
    return ours_a + (published - theirs_a) * (ours_b - ours_a) / (theirs_b - theirs_a)


def _relative(points: Sequence[tuple[float, float]], to: str) -> list[tuple[float, float]]:
    values = [y for _, y in points]
    whole = float(getattr(np, to)(values)) if values else 0.0
    return [(x, y / whole if whole else 0.0) for x, y in points]
