"""Queue depth and pauses of switch ports over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from mrc_lab.experiments.running.channel_names import in_words
from mrc_lab.experiments.running.recording import QUEUE_COUNTERS, Recording
from mrc_lab.reports.axes import SIZE_UNITS, beside, label_ticks, svg, title
from mrc_lab.reports.plots import time_axes
from mrc_lab.reports.time_layout import LEGEND_LETTERS

_MAX_PORTS = 10  # drawn by themselves
_PEAK, _PAUSED_NS = (QUEUE_COUNTERS.index(name) for name in ("peak", "paused_ns"))


def depth_plot(recording: Recording) -> str:
    """The most that waited in every bin, at the ports with the deepest queues; nothing where nobody waited."""
    samples = recording.queue_samples
    if samples is None or samples[1:, :, _PEAK].max(initial=0) <= 0:
        return ""
    peaks = samples[1:, :, _PEAK]
    figure, axes = time_axes(recording, "bytes in queues, peak")
    _draw(axes, recording, peaks)
    label_ticks(axes.yaxis, SIZE_UNITS)
    return svg(figure)


def pause_plot(recording: Recording) -> str:
    """For how much of every bin flow control kept links silent, those most; nothing where there was no pause."""
    samples = recording.queue_samples
    if samples is None or samples[-1, :, _PAUSED_NS].max(initial=0) <= 0:
        return ""
    paused = np.diff(samples[:, :, _PAUSED_NS], axis=0)
    shares = paused / np.maximum(1, np.diff(recording.times)[:, None])
    figure, axes = time_axes(recording, "share of time paused")
    _draw(axes, recording, shares)
    return svg(figure)


def _draw(axes: Axes, recording: Recording, series: NDArray[Any]) -> None:
    """The ports with the largest values, a line each."""
    chosen = _busiest(series)
    for number in chosen:
        name = in_words(recording.channels[number])
        axes.stairs(series[:, number], recording.times / 1000, label=name, baseline=None)
    axes.set_ylim(bottom=0)
    beside(axes, LEGEND_LETTERS)
    count = int((series.max(axis=0) > 0).sum())
    if len(chosen) < count:
        title(axes, f"the {len(chosen)} ports with the most, of {count}")


def _busiest(series: NDArray[Any]) -> list[int]:
    """Columns with the largest values that are more than nothing, the largest first."""
    most = series.max(axis=0)
    return [int(number) for number in np.argsort(-most, kind="stable")[:_MAX_PORTS] if most[number] > 0]
