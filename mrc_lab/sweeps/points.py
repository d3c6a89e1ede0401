"""Points of a sweep: the metrics of each combination of settings over its seeds, as tables.

    metrics.csv     every value: a row for each point, seed and metric
    intervals.csv   a row for each point and metric: mean, 95 % interval of the mean (Student's t), min, max, number

Metrics are those of `reports.over_seeds`: what the file reports, expects and compares. Keys stand as they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc_common import units
from mrc_lab.reports import over_seeds
from mrc_lab.reports.over_seeds import MetricOverSeeds

Record = Mapping[str, Any]
Head = tuple[str, ...]
Rows = Iterable[tuple[object, ...]]
_PARSERS = (units.parse_number, units.parse_time, units.parse_size, units.parse_rate, units.parse_share)


@dataclass(frozen=True, slots=True)
class Point:
    """A combination of settings of one experiment, with its metrics over the seeds that are done."""

    experiment: str
    settings: Mapping[str, str]
    metrics: tuple[MetricOverSeeds, ...]


@dataclass(frozen=True, slots=True)
class MetricOverPoints:
    """One metric of one experiment: a row for each point and case that has it."""

    experiment: str
    title: str
    unit: str
    rows: tuple[tuple[Point, MetricOverSeeds], ...]

    @property
    def varying(self) -> tuple[str, ...]:
        """Keys that have more than one value among the points."""
        keys = dict.fromkeys(key for point, _ in self.rows for key in point.settings)
        return tuple(key for key in keys if len({point.settings[key] for point, _ in self.rows}) > 1)

    @property
    def several_cases(self) -> bool:
        """Whether there are rows of more than one case."""
        return len({one.case for _, one in self.rows}) > 1


def points_of(records: Iterable[Record]) -> list[Point]:
    """The points of all runs that are done, in the order of experiments and values."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], dict[int, Any]] = {}
    for record in records:
        if record.get("summary"):
            key = record["experiment"], tuple(record["settings"].items())
            found.setdefault(key, {})[record["seed"]] = record["summary"]
    points = []
    for key in sorted(found, key=_order):
        metrics = over_seeds.over_seeds(dict(sorted(found[key].items())))
        points.append(Point(key[0], dict(key[1]), tuple(metrics)))
    return points


def by_metric(points: Sequence[Point]) -> list[MetricOverPoints]:
    """The points metric by metric, without those that only say that nothing failed."""
    found: dict[tuple[str, str, str], list[tuple[Point, MetricOverSeeds]]] = {}
    for point in points:
        for one in point.metrics:
            found.setdefault((point.experiment, one.kind.value, one.title), []).append((point, one))
    return [
        MetricOverPoints(experiment, title, rows[0][1].unit, tuple(rows))
        for (experiment, _, title), rows in found.items()
        if not all(one.unremarkable for _, one in rows)
    ]


def table(metric: MetricOverPoints) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """For people: titles of columns, and a row for each point and case."""
    keys = metric.varying
    head, rows = over_seeds.in_words([one for _, one in metric.rows], cases=metric.several_cases)
    points = [tuple(point.settings[key] for key in keys) for point, _ in metric.rows]
    return (*keys, *head), [(*values, *row) for values, row in zip(points, rows, strict=True)]


def write_points(folder: Path, points: Sequence[Point]) -> None:
    """Write ``metrics.csv`` and ``intervals.csv``; an OSError names the file."""
    over_seeds.write_csv(folder / "metrics.csv", *tidy_table(points))
    over_seeds.write_csv(folder / "intervals.csv", *interval_table(points))


def tidy_table(points: Sequence[Point]) -> tuple[Head, Rows]:
    """Columns, and a row for each point, seed and metric."""
    return _each_metric(points, over_seeds.TIDY_HEAD, over_seeds.tidy_rows)


def interval_table(points: Sequence[Point]) -> tuple[Head, Rows]:
    """Columns, and a row for each point and metric."""
    return _each_metric(points, over_seeds.INTERVAL_HEAD, over_seeds.interval_rows)


def _each_metric(points: Sequence[Point], head: Head, of: Callable[[MetricOverSeeds], Rows]) -> tuple[Head, Rows]:
    """What `of` makes of each metric, behind its experiment and its settings."""
    keys = list(dict.fromkeys(key for point in points for key in point.settings))
    rows = (
        (point.experiment, *(point.settings.get(key, "") for key in keys), *row)
        for point in points
        for one in point.metrics
        for row in of(one)
    )
    return ("experiment", *(f"set.{key}" for key in keys), *head), rows


def _order(key: tuple[str, tuple[tuple[str, str], ...]]) -> tuple[Any, ...]:
    """By experiment, then by values: numbers by size, others after them in the order of the alphabet."""
    experiment, settings = key
    return experiment, [_sortable(text) for _, text in settings]


def _sortable(text: str) -> tuple[int, float, str]:
    found = magnitude(text)
    return (1, 0.0, text) if found is None else (0, found, text)


def magnitude(text: str) -> float | None:
    """How large a value is, by its unit if it has one; None for words. Only to be compared with its like."""
    parsed = (_parsed(parse, text) for parse in _PARSERS)
    return next((value for value in parsed if value is not None), None)


def _parsed(parse: Callable[[str], float], text: str) -> float | None:
    try:
        return float(parse(text))
    except (ValueError, ArithmeticError):
        return None
