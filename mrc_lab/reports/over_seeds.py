"""Metrics over several seeds of one experiment: mean, 95 % interval of the mean, minimum, maximum and number.

Takes the summaries of the runs (`reports.summary`). Of each it reads what the file reports, expects and compares with
published numbers; of a file that reports nothing, the throughput and the median completion time of every case. The
interval is that of `confidence_interval`: Student's t distribution with one degree of freedom less than there are
values. A seed in which a metric has no value counts in no number, so that `count` may be less than the seeds.
"""

from __future__ import annotations

import csv
import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mrc_common.written_files import writing
from mrc_lab.experiments.files.metric_names import METRICS
from mrc_lab.experiments.files.model import case_label, joined
from mrc_lab.reports.confidence_interval import ConfidenceInterval, mean_interval
from mrc_lab.reports.pages import expected
from mrc_lab.reports.seeds import merge_number
from mrc_lab.reports.statistics import rounded
from mrc_lab.reports.verdicts import ALWAYS, show

Summary = Mapping[str, Any]

UNITS: Final = {"rate": "b/s", "time": "ns", "size": "B", "share": "", "count": ""}  # of values in tables
TABLE_HEAD: Final = ("case", "kind", "metric", "unit")
TIDY_HEAD: Final = ("seed", *TABLE_HEAD, "value", "verdict")
STATISTICS_HEAD: Final = ("mean", "low_95", "high_95", "min", "max", "count")
INTERVAL_HEAD: Final = (*TABLE_HEAD, *STATISTICS_HEAD)
COLUMNS: Final = ("mean", "95 % interval", "min", "max", "seeds")
METHOD: Final = "mean, 95 % interval of the mean (Student's t), minimum and maximum"
_DEFAULTS: Final = (("throughput", ("throughput_bps",)), ("completion_time", ("completion_time_ns", "median")))


class MetricKind(enum.Enum):
    """Why a file has a metric."""

    REPORTED = "reported"
    EXPECTED = "expected"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class MetricOverSeeds:
    """One metric of one case, by seed (None: it has no value); `case` is empty where no case is named.

    `verdicts` are those of an expectation by seed; `compared` is what is expected or was published, in words.
    """

    kind: MetricKind
    title: str
    case: str
    metric: str
    unit: str
    values: Mapping[int, float | None]
    verdicts: Mapping[int, str] = field(default_factory=dict)
    compared: str = ""

    @property
    def known(self) -> list[float]:
        """The values there are."""
        return [value for value in self.values.values() if value is not None]

    @property
    def interval(self) -> ConfidenceInterval | None:
        """Mean and interval; None if no seed has a value."""
        return mean_interval(self.known) if self.known else None

    @property
    def statistics(self) -> tuple[float | int | None, ...]:
        """The values of STATISTICS_HEAD."""
        found, known = self.interval, self.known
        if found is None:
            return (*(None,) * 5, 0)
        return (*map(rounded, (found.mean, found.low, found.high, min(known), max(known))), len(known))

    @property
    def cells(self) -> tuple[str, ...]:
        """Mean, interval, minimum, maximum and number in words."""
        mean, low, high, least, most, count = self.statistics
        interval = "-" if low is None else f"{show(low, self.unit)} to {show(high, self.unit)}"
        return show(mean, self.unit), interval, show(least, self.unit), show(most, self.unit), str(count)

    @property
    def outcome(self) -> str:
        """What is expected, with how many seeds met it; or what was published, with how the mean compares."""
        if not self.verdicts:
            return self.compared
        counts = Counter(self.verdicts.values())
        words = ", ".join(f"{word} {counts[word]}" for word in ("fail", "untrusted", "pass") if counts[word])
        return joined(self.compared, words)

    @property
    def unremarkable(self) -> bool:
        """Whether it only says that no request failed or that no byte was wrong."""
        return self.metric in ALWAYS and not any(self.known)


def over_seeds(summaries: Mapping[int, Summary]) -> list[MetricOverSeeds]:
    """Every metric over the seeds, in the order of the file: what is expected, reported, and published."""
    return [*_expected(summaries), *_reported(summaries), *_published(summaries)]


def in_words(metrics: Sequence[MetricOverSeeds], *, cases: bool) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """For people: titles of columns and a row for each metric, with its case where there are several."""
    outcomes = any(one.outcome for one in metrics)
    head = (*(("case",) if cases else ()), *COLUMNS, *(("outcome",) if outcomes else ()))
    rows = [
        (*((case_label(one.case),) if cases else ()), *one.cells, *((one.outcome,) if outcomes else ()))
        for one in metrics
    ]
    return head, rows


def write_csv(place: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table."""
    with writing(place, newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def labels(one: MetricOverSeeds) -> tuple[str, ...]:
    """The values of TABLE_HEAD."""
    return one.case, one.kind.value, one.title, UNITS[one.unit]


def interval_rows(one: MetricOverSeeds) -> Iterator[tuple[object, ...]]:
    """A row with the labels and the values of STATISTICS_HEAD."""
    yield (*labels(one), *one.statistics)


def tidy_rows(one: MetricOverSeeds) -> Iterator[tuple[object, ...]]:
    """A row for each seed: the seed, the labels, the value and the verdict."""
    for seed, value in one.values.items():
        yield seed, *labels(one), value, one.verdicts.get(seed, "")


def _expected(summaries: Mapping[int, Summary]) -> Iterator[MetricOverSeeds]:
    titles: dict[str, int] = {}
    for found in _by_place(summaries, lambda summary: summary.get("expectations", ())):
        first = next(iter(found.values()))
        yield MetricOverSeeds(
            MetricKind.EXPECTED,
            _unused(first["title"], titles),
            "",
            first["metric"],
            first["unit"],
            {seed: one["ours"] for seed, one in found.items()},
            {seed: one["verdict"] for seed, one in found.items()},
            expected(first),
        )


def _reported(summaries: Mapping[int, Summary]) -> Iterator[MetricOverSeeds]:
    titles: dict[str, int] = {}
    for found in _by_place(summaries, lambda summary: summary.get("reported") or _defaults(summary)):
        first = next(iter(found.values()))
        title = _unused(first["title"], titles)
        for case in first["values"]:
            values = {seed: one["values"].get(case) for seed, one in found.items()}
            yield MetricOverSeeds(
                MetricKind.REPORTED, title, case_label(case), first.get("metric", ""), first["unit"], values
            )


def _defaults(summary: Summary) -> list[dict[str, Any]]:
    """What is reported of a file that reports nothing."""
    found = []
    for metric, path in _DEFAULTS:
        values: dict[str, Any] = {}
        for case, numbers in summary["cases"].items():
            value: Any = numbers
            for name in path:
                value = value[name]
            values[case] = value
        title = " ".join([*path[1:], metric.replace("_", " ")])
        found.append({"title": title, "metric": metric, "unit": METRICS[metric], "values": values})
    return found


def _published(summaries: Mapping[int, Summary]) -> Iterator[MetricOverSeeds]:
    titles: dict[str, int] = {}
    for found in _by_place(summaries, lambda summary: summary.get("published", {}).get("numbers", ())):
        first = next(iter(found.values()))
        bound = f"{first['bound'].replace('_', ' ')} " if first["bound"] else ""
        standing = merge_number(list(found.values()))["standing"]
        yield MetricOverSeeds(
            MetricKind.PUBLISHED,
            _unused(first["what"], titles),
            "",
            "",
            first["unit"],
            {seed: one["ours"] for seed, one in found.items()},
            compared=f"published {bound}{show(first['published'], first['unit'])}: {standing}",
        )


def _by_place(summaries: Mapping[int, Summary], part: Any) -> Iterator[dict[int, Mapping[str, Any]]]:
    """The entries of a list that all summaries have, one place after the other, by seed."""
    lists = {seed: list(part(summary)) for seed, summary in summaries.items()}
    for place in range(max(map(len, lists.values()), default=0)):
        yield {seed: entries[place] for seed, entries in lists.items() if place < len(entries)}


def _unused(title: str, titles: dict[str, int]) -> str:
    """The title, with a number behind it if there was one like it."""
    titles[title] = titles.get(title, 0) + 1
    return title if titles[title] == 1 else f"{title} ({titles[title]})"
