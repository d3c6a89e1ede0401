"""The ranking: what each transport made of each workload under each condition, over the seeds.

A transport is the better the more of the ideal throughput it has in the mean; those that differ by less than a
hundredth are as good, and no others, however wide their intervals. Rows where MRC is not as good as the best come
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrc_lab.experiments.files.model import Case
from mrc_lab.rank.comparison import Comparison, case_of, name_of
from mrc_lab.rank.ideal import Capacity, ideal
from mrc_lab.reports.confidence_interval import ConfidenceInterval, mean_interval

Run = Mapping[str, Any]  # a row of the table
SUBJECT = "mrc"
_ALIKE = 0.01  # of the ideal throughput


@dataclass(frozen=True, slots=True)
class Result:
    """One transport in one row: means over the seeds, times in ns.

    `share` is of the ideal throughput. A time is None when in some seed a message failed, or had not ended when the run
    did; then `unfinished` counts these seeds. `failed` is how many requests failed, the sum over seeds.
    """

    share: ConfidenceInterval
    p99: float | None
    p100: float | None
    stall: float
    retransmitted: float
    failed: int
    unfinished: int


@dataclass(frozen=True, slots=True)
class Row:
    """One workload under one condition; `beside` are the transports that are shown without being ranked."""

    workload: str
    condition: str
    results: Mapping[str, Result]
    beside: frozenset[str] = frozenset()

    @property
    def best(self) -> tuple[str, ...]:
        """The best transport, and those that are as good."""
        ranked = {name: result.share.mean for name, result in self.results.items() if name not in self.beside}
        least = max(ranked.values(), default=0.0) - _ALIKE
        return tuple(name for name, share in ranked.items() if share > least)

    @property
    def behind(self) -> bool:
        """Whether MRC is not among the best."""
        return SUBJECT in self.results and SUBJECT not in self.best


def ranking(comparison: Comparison, runs: Mapping[str, Iterable[Run]]) -> list[Row]:
    """Rows from the table of each transport's sweep (``mrc_lab.sweeps.table``), those where MRC is behind first.

    What no run was done of is left out.
    """
    capacity = {condition["name"]: condition.get("capacity", 1.0) for condition in comparison.conditions}
    results: dict[tuple[str, str], dict[str, Result]] = {}
    for transport in comparison.transports:
        done: dict[str, list[Run]] = {}
        for run in runs.get(transport["name"], ()):
            done.setdefault(run["experiment"], []).append(run)
        for (workload, condition), content in comparison.experiments(transport).items():
            found = done.get(name_of(workload, condition))
            if found:
                result = _result(found, case_of(content), capacity[condition])
                results.setdefault((workload, condition), {})[transport["name"]] = result
    beside = frozenset(transport["name"] for transport in comparison.transports if transport.get("beside"))
    rows = [Row(workload, condition, found, beside) for (workload, condition), found in results.items()]
    return sorted(rows, key=lambda row: not row.behind)


def _result(runs: Sequence[Run], case: Case, capacity: float) -> Result:
    best = ideal(case, Capacity(capacity, min((planned.at for planned in case.faults), default=0)))

    def finished(run: Run) -> bool:
        return bool(run["end_ns"] < case.duration and run["report.p100"] is not None and not run["report.failed"])

    def share(run: Run) -> float:
        if finished(run):
            return float(best.time / run["end_ns"])
        return float(run["report.throughput"] * best.time / (best.delivered * 8e9))

    def mean(name: str) -> float:
        return mean_interval([float(run[f"report.{name}"] or 0.0) for run in runs]).mean

    unfinished = sum(not finished(run) for run in runs)
    return Result(
        mean_interval([share(run) for run in runs]),
        None if unfinished else mean("p99"),
        None if unfinished else mean("p100"),
        mean("stall"),
        mean("retransmitted"),
        round(sum(run["report.failed"] or 0 for run in runs)),
        unfinished,
    )
