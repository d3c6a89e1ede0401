"""Queues and pauses of switch ports: metrics for the summary, and the raw series. `queue_plots` draws them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mrc_lab.experiments.files.model import Selection
from mrc_lab.experiments.running.recording import QUEUE_COUNTERS, Recording
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.statistics import rounded

_TIME, _DEPTH, _PEAK, _BYTE_NS, _PAUSED_NS, _PAUSES = range(len(QUEUE_COUNTERS))
HEAD = ("begin_ns", "end_ns", "link", "direction", "depth_bytes", "peak_bytes", "mean_bytes", "paused_ns", "pauses")


def summary(metrics: MetricTable, of: Selection) -> dict[str, Any]:
    """What the summary says of a case's queues, where the file asks for it."""
    recording = metrics.row("queue_depth", of).recording
    samples = recording.queue_samples
    if samples is None:
        return {}
    peaks = samples[1:, :, _PEAK].max(axis=0, initial=-1)
    deepest = int(np.argmax(peaks))
    depth = {
        f"{name}_bytes": rounded(metrics.value("queue_depth", replace(of, statistic=name)))
        for name in ("max", "mean", "median", "p99")
    }
    pauses = {
        name: rounded(metrics.value(metric, of)) for name, metric in (("paused_ns", "pause_time"), ("pauses", "pauses"))
    }
    return {"queues": {"deepest": recording.channels[deepest] if peaks[deepest] > 0 else None, **depth, **pauses}}


def rows(recording: Recording, bins: Iterable[tuple[int, int]]) -> Iterable[Sequence[object]]:
    """Rows of `HEAD` for every bin and port where something waited or was paused; what is not known is empty."""
    samples = recording.queue_samples
    if samples is None:
        return
    for number, (begin, end) in enumerate(bins, 1):
        now, grown = samples[number], samples[number] - samples[number - 1]
        for column in np.flatnonzero((now[:, _PEAK] > 0) | (grown[:, _PAUSED_NS] > 0)):
            name = recording.channels[column]
            mean = round(grown[column, _BYTE_NS] / max(1, grown[column, _TIME]))
            depths = (now[column, _DEPTH], now[column, _PEAK], mean) if now[column, _DEPTH] >= 0 else ("", "", "")
            pauses = grown[column, _PAUSED_NS:]
            yield begin, end, name[:-1], "up" if name[-1] == ">" else "down", *depths, *map(int, pauses)
