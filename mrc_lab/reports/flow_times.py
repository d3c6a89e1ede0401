"""Completion times of flows, and what is known of them although some flows have not ended.

A flow that is still under way when the run ends has taken longer than it has lasted so far, and nobody knows how much.
A percentile is given only if it is the same whatever that was; a mean or a maximum only if all flows have ended. To
leave such flows out instead would make the times of a congested fabric look short, since the slowest flows are the
last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mrc_common.units import counted, show_time, size_word
from mrc_lab.experiments.files.size_range import SizeRange
from mrc_lab.experiments.running.recording import FlowRecord, Recording
from mrc_lab.reports.statistics import rounded, statistic

SIZE_BUCKETS = (  # as in the literature short, medium and long flows, with one more at each end
    SizeRange(0, 10 << 10),
    SizeRange(10 << 10, 100 << 10),
    SizeRange(100 << 10, 1 << 20),
    SizeRange(1 << 20, 10 << 20),
    SizeRange(10 << 20, None),
)
_NEVER = 1e30  # longer than any flow takes


def flow_statistic(name: str, records: Sequence[FlowRecord], end: int, metric: str) -> float | None:
    """A statistic of ``fct`` (ns) or ``slowdown`` over flows of a run that ended at `end`.

    None when there are no flows, or when it depends on flows that have not ended.
    """
    least = statistic(name, [_value(one, end - one.began, metric) for one in records])
    most = statistic(name, [_value(one, _NEVER, metric) for one in records])
    return least if least == most else None


def _value(record: FlowRecord, unended: float, metric: str) -> float:
    """The time of a flow or its slowdown, where one that has not ended takes `unended` ns."""
    time = unended if record.time is None else float(record.time)
    return time / record.ideal if metric == "slowdown" else time


def unfinished(records: Iterable[FlowRecord]) -> int:
    """How many of the flows have not ended."""
    return sum(record.ended is None for record in records)


def flow_warnings(recording: Recording) -> Iterator[str]:
    """Sentences without full stop on what completion times do not say: of each tenant's flows, and in emulation."""
    if recording.rate_scale != 1 and recording.flow_records:
        yield (
            "slowdowns of flows of few packets say little in emulation: a frame passes an idle link at once, which"
            " the ideal does not know, and takes the time of processes, which is not in it either"
        )
    for number, tenant in enumerate(recording.tenants):
        records = [one for one in recording.flow_records if recording.flows[one.flow].tenant == number]
        if late := unfinished(records):
            of = f"{tenant.name}: " if tenant.name else ""
            yield (
                f"{of}{late} of {counted(len(records), 'flow')} had not ended when the run did, so statistics of fct"
                " and slowdown that depend on these are not given: make the run longer, let flows begin earlier,"
                " or select those that begin before an earlier end (of: {end: ...})"
            )


def buckets(records: Sequence[FlowRecord]) -> Iterator[tuple[SizeRange, list[FlowRecord]]]:
    """The flows of each size bucket that has any."""
    for sizes in SIZE_BUCKETS:
        if found := [record for record in records if record.size in sizes]:
            yield sizes, found


def bucket_name(sizes: SizeRange) -> str:
    """As people say it."""
    if sizes.most is None:
        return f"above {size_word(sizes.above)}"
    return (
        f"up to {size_word(sizes.most)}" if not sizes.above else f"{size_word(sizes.above)} to {size_word(sizes.most)}"
    )


def table(records: Sequence[FlowRecord], end: int) -> dict[str, Any] | None:
    """For the page: a row for each size bucket, and one for all; None where no flow has a size."""
    if not records:
        return None
    groups = [(bucket_name(sizes), found) for sizes, found in buckets(records)]
    if len(groups) != 1:
        groups.append(("all", list(records)))
    return {
        "head": ("size", "flows", "not ended", "fct, mean", "median", "p99", "slowdown, mean", "median", "p99", "p999"),
        "numbers": range(1, 10),
        "rows": [(name, str(len(found)), str(unfinished(found)), *_cells(found, end)) for name, found in groups],
    }


def _cells(records: Sequence[FlowRecord], end: int) -> Iterator[str]:
    for metric, names in (("fct", ("mean", "median", "p99")), ("slowdown", ("mean", "median", "p99", "p999"))):
        for name in names:
            value = flow_statistic(name, records, end, metric)
            yield "-" if value is None else show_time(value) if metric == "fct" else f"{value:.4g}"


def summary(recording: Recording, records: Sequence[FlowRecord]) -> dict[str, Any]:
    """What the summary says of a case's flows that have a size; nothing where there are none."""
    if not records:
        return {}
    names = ("mean", "median", "p99", "p999")
    return {
        "flow_completion": {
            "flows": len(records),
            "unfinished": unfinished(records),
            "bytes": sum(record.size for record in records),
            **{
                f"{metric}{unit}": {
                    name: rounded(flow_statistic(name, records, recording.end, metric)) for name in names
                }
                for metric, unit in (("fct", "_ns"), ("slowdown", ""))
            },
        }
    }
