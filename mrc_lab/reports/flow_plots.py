"""Plots of flows that have a size: distributions of completion times and slowdowns, and slowdowns by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.running.recording import FlowRecord, Recording
from mrc_lab.reports.axes import (
    COUNT_UNITS,
    TIME_UNITS,
    beside,
    dashes,
    fitted,
    label_ticks,
    new_figure,
    svg,
    title,
)
from mrc_lab.reports.flow_times import flow_statistic
from mrc_lab.reports.statistics import Values

_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))  # ticks are at powers of ten
_GROUPS = 10  # of flows by size, of equal number
_FEWEST = 3  # flows in each
_PERCENTILES = (("median", "-"), ("p99", "--"))


def counted_flows(case: Case, recording: Recording) -> list[FlowRecord]:
    """Flows that began after the warm-up."""
    begin = case.measure.warmup * recording.time_scale
    return [record for record in recording.flow_records if record.began >= begin]


def distributions(recordings: Mapping[str, Recording], cases: Mapping[str, Case]) -> str:
    """Distributions of completion times, and below of slowdowns; flows that have not ended count in the whole."""
    found = {name: counted_flows(cases[name], recording) for name, recording in recordings.items()}
    found = {name: records for name, records in found.items() if any(record.ended is not None for record in records)}
    if not found:
        return ""
    figure = new_figure(5.0)
    upper, lower = figure.subplots(2, 1)
    for axes, metric in ((upper, "time"), (lower, "slowdown")):
        series = {name: _sorted(records, metric) for name, records in found.items()}
        if metric == "time":
            series = {name: values / 1000 for name, values in series.items()}
        for (name, values), style in zip(series.items(), dashes(list(series.values())), strict=True):
            number = len(found[name])
            shares = np.arange(1, len(values) + 1) / number
            label = f"{fitted(name)} ({number})" if len(recordings) > 1 else "_"
            axes.step(values, shares, where="post", label=label, linestyle=style)
        axes.set_xscale("log")
        axes.set_ylim(0, 1)
        axes.set_ylabel("share of flows")
        beside(axes)
    label_ticks(upper.xaxis, TIME_UNITS, of=1000)
    upper.set_xlabel("completion time of a flow")
    label_ticks(lower.xaxis, COUNT_UNITS)
    lower.set_xlabel("slowdown")
    return svg(figure)


def _sorted(records: Sequence[FlowRecord], of: str) -> Values:
    values: list[Any] = [value for record in records if (value := getattr(record, of)) is not None]
    return np.sort(np.array(values, dtype=float))


def by_size(recordings: Mapping[str, Recording], cases: Mapping[str, Case]) -> str:
    """Median and 99th percentile of the slowdown, over the size of flows, in groups of equal number."""
    figure = new_figure(2.8)
    axes = figure.add_subplot()
    drawn = False
    for number, (name, recording) in enumerate(recordings.items()):
        records = sorted(counted_flows(cases[name], recording), key=lambda record: record.size)
        groups = min(_GROUPS, len({record.size for record in records}), len(records) // _FEWEST)
        if groups < 2:
            continue
        parts = [records[len(records) * n // groups : len(records) * (n + 1) // groups] for n in range(groups)]
        sizes = [float(np.median([record.size for record in part])) for part in parts]
        for statistic, style in _PERCENTILES:
            values = [flow_statistic(statistic, part, recording.end, "slowdown") for part in parts]
            label = statistic if len(recordings) == 1 else f"{fitted(name)}, {statistic}"
            axes.plot(
                sizes, np.array(values, float), style, color=f"C{number}", marker="o", markersize=3, linewidth=1,
                label=label,
            )  # fmt: skip
        drawn = True
    if not drawn:
        return ""
    axes.set_xscale("log")
    axes.set_yscale("log")
    label_ticks(axes.xaxis, _BYTES)
    label_ticks(axes.yaxis, COUNT_UNITS)
    axes.set_xlabel("size of a flow")
    axes.set_ylabel("slowdown")
    title(axes, "groups of equally many flows; a gap where flows had not ended")
    beside(axes)
    return svg(figure)
