"""Results as values: metrics by name, tables that pandas takes, and tables that notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mrc_common.declared.field_types import suggest
from mrc_common.units import counted
from mrc_lab.errors import ExperimentError
from mrc_lab.reports import over_seeds
from mrc_lab.reports.over_seeds import MetricOverSeeds
from mrc_lab.reports.pages import render
from mrc_lab.sweeps.points import MetricOverPoints, Point, by_metric, interval_table, table, tidy_table
from mrc_lab.sweeps.table import parameter

Row = dict[str, Any]
_MOST_ROWS = 200  # of a table in a notebook


class Picture(str):
    """A picture as SVG, which notebooks show."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<Picture of {len(self)} bytes of SVG>"


@dataclass(frozen=True, repr=False)
class Results:
    """What came of an experiment with one seed or several.

    `verdict` is that of the worst seed: ``pass``, ``untrusted``, ``fail``, or ``error`` if one could not be run, for
    the reason in `problems`. `folder` has the report, `summaries` are those of the runs (``summary.json``) by seed.
    """

    name: str
    backend: str
    verdict: str
    folder: Path
    summaries: Mapping[int, Mapping[str, Any]]
    problems: Mapping[int, str]

    @property
    def passed(self) -> bool:
        """Whether every expectation was met with every seed."""
        return self.verdict == "pass"

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that were run."""
        return tuple(self.summaries)

    @property
    def cases(self) -> tuple[str, ...]:
        """Names of the cases; ``only`` where the file has one case without a name."""
        return tuple(next(iter(self.summaries.values()))["cases"])

    @property
    def report(self) -> Path:
        """The report, an HTML page."""
        return self.folder / "report.html"

    @cached_property
    def _metrics(self) -> list[MetricOverSeeds]:
        return over_seeds.over_seeds(self.summaries)

    @cached_property
    def metrics(self) -> Mapping[str, Mapping[str, MetricOverSeeds]]:
        """Metrics by title and case: what the file reports, expects, or compares with published numbers.

        The case is empty for what belongs to none by name. Of a file that reports nothing there are the throughput and
        the median completion time.
        """
        found: dict[str, dict[str, MetricOverSeeds]] = {}
        for one in self._metrics:
            found.setdefault(one.title, {}).setdefault(one.case, one)
        return found

    def value(self, title: str, case: str | None = None) -> float | None:
        """The mean of a metric over the seeds, in b/s, ns or bytes; None if no seed has it.

        The `case` may be left out where there is only one. ExperimentError for names that do not exist.
        """
        if title not in self.metrics:
            raise ExperimentError(f"there is no metric {title!r}; {suggest(title, self.metrics)}")
        by_case = self.metrics[title]
        if case is None and len(by_case) > 1:
            raise ExperimentError(f"{title!r} has several cases: give one of {', '.join(by_case)}")
        chosen = next(iter(by_case)) if case is None else case
        if chosen not in by_case:
            raise ExperimentError(f"{title!r} has no case {chosen!r}; {suggest(chosen, by_case)}")
        interval = by_case[chosen].interval
        return None if interval is None else interval.mean

    @property
    def table(self) -> list[Row]:
        """A row for each seed and metric, which ``pandas.DataFrame`` takes."""
        return _rows(over_seeds.TIDY_HEAD, (row for one in self._metrics for row in over_seeds.tidy_rows(one)))

    @property
    def intervals(self) -> list[Row]:
        """A row for each metric: its mean, the 95 % interval of the mean (Student's t), min, max and number."""
        return _rows(over_seeds.INTERVAL_HEAD, (row for one in self._metrics for row in over_seeds.interval_rows(one)))

    def __repr__(self) -> str:
        """Name, verdict, size and place, in one line."""
        return f"<Results {self.name}: {self.verdict}, {counted(len(self.seeds), 'seed')}, {self.folder}>"

    def _repr_html_(self) -> str:
        """The metrics as a table."""
        head, rows = over_seeds.in_words(self._metrics, cases=any(one.case for one in self._metrics))
        titled = [(one.title, *row) for one, row in zip(self._metrics, rows, strict=True)]
        words = [self.backend, counted(len(self.seeds), "seed"), *(f"seed {n}: {p}" for n, p in self.problems.items())]
        return _html(self.name, self.verdict, ", ".join(words), [("", ("metric", *head), titled)])


@dataclass(frozen=True, repr=False)
class SweepResults:
    """What came of a sweep: its points, in `folder`, which ``mrc sweep`` continues.

    `verdicts` counts runs by verdict; `lost` are runs whose worker was lost, which the same call runs again.
    """

    folder: Path
    points: Sequence[Point]
    verdicts: Mapping[str, int]
    lost: Sequence[str]

    @property
    def passed(self) -> bool:
        """Whether all runs are done and met their expectations."""
        return not self.lost and set(self.verdicts) == {"pass"}

    @property
    def table(self) -> list[Row]:
        """A row for each point, seed and metric, which ``pandas.DataFrame`` takes; settings are in ``set.<key>``."""
        return _with_parameters(*tidy_table(self.points))

    @property
    def intervals(self) -> list[Row]:
        """A row for each point and metric: its mean, the 95 % interval of the mean (Student's t), min, max, number."""
        return _with_parameters(*interval_table(self.points))

    def plot(self, title: str) -> Picture:
        """A metric over the key that varies, or two; ExperimentError if there is no such metric, or more keys vary."""
        from mrc_lab.sweeps.sweep_plots import MOST_KEYS, plot  # matplotlib takes a second to load

        found = {metric.title: metric for metric in self._metrics}
        if title not in found:
            raise ExperimentError(f"there is no metric {title!r}; {suggest(title, found)}")
        keys = found[title].varying
        if not 1 <= len(keys) <= MOST_KEYS:
            raise ExperimentError(f"{len(keys)} keys vary, and plots are for 1 to {MOST_KEYS}")
        return Picture(plot(found[title]))

    @cached_property
    def _metrics(self) -> list[MetricOverPoints]:
        return by_metric(self.points)

    def __repr__(self) -> str:
        """Size, verdicts and place, in one line."""
        return f"<SweepResults: {counted(len(self.points), 'point')}, {self._in_words()}, {self.folder}>"

    def _in_words(self) -> str:
        words = [f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items())]
        return ", ".join(words + [f"{len(self.lost)} lost"] * bool(self.lost)) or "no run"

    def _repr_html_(self) -> str:
        """A table for each metric, with a row for each point."""
        several = len({point.experiment for point in self.points}) > 1
        tables = [(f"{one.experiment}: " * several + one.title, *table(one)) for one in self._metrics]
        return _html("sweep", "pass" if self.passed else "fail", self._in_words(), tables)


def _rows(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[Row]:
    return [dict(zip(head, row, strict=True)) for row in rows]


def _with_parameters(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[Row]:
    """The rows with plain numbers in the columns of settings where they were given."""
    found = _rows(head, rows)
    for row in found:
        row |= {name: parameter(str(value)) for name, value in row.items() if name.startswith("set.") and value != ""}
    return found


def _html(name: str, verdict: str, words: str, tables: Sequence[tuple[str, Sequence[str], Sequence[Any]]]) -> str:
    shown = [(title, head, rows[:_MOST_ROWS], len(rows) - _MOST_ROWS) for title, head, rows in tables]
    return render("notebook", name=name, verdict_=verdict, words=words, tables=shown, method=over_seeds.METHOD)
