"""Plots of a sweep: each metric over the key that varies, with the 95 % interval of each mean.

Of two keys that vary, the one with more values is the axis and the other gives the lines; so do the cases of a file.
More keys than two make no plot. Plain numbers are where they belong on the axis, other values stand side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from mrc_common.written_files import write_text
from mrc_lab.reports.axes import COUNT_UNITS, beside, dashes, fitted, label_ticks, new_figure, svg, title
from mrc_lab.reports.over_seeds import MetricOverSeeds
from mrc_lab.reports.plots import UNITS
from mrc_lab.sweeps.points import MetricOverPoints, magnitude

MOST_KEYS = 2
_LOG_SPAN = 50  # values that differ by more are on a logarithmic axis
_MAX_LABELS = 16  # of values side by side
_LONGEST_VALUE = 20  # letters
_MAX_LINES = 24


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    rows: tuple[tuple[str, MetricOverSeeds], ...]  # each with its value of the axis's key


def write_plots(folder: Path, metrics: Sequence[MetricOverPoints]) -> list[Path]:
    """Write a plot for each metric of which one key varies, or two; returns the files. An OSError names the file."""
    written: list[Path] = []
    for metric in metrics:
        if not 1 <= len(metric.varying) <= MOST_KEYS or not any(one.known for _, one in metric.rows):
            continue
        folder.mkdir(exist_ok=True)
        place = folder / f"{_file_name(metric, {path.stem for path in written})}.svg"
        write_text(place, plot(metric))
        written.append(place)
    return written


def plot(metric: MetricOverPoints) -> str:
    """The plot of a metric, as SVG."""
    axis, lines = _lines(metric)
    values = list(dict.fromkeys(point.settings[axis] for point, _ in metric.rows))
    numbers = {value: found for value in values if (found := _number(value)) is not None}
    plain = len(numbers) == len(values)
    where = numbers if plain else {value: float(place) for place, value in enumerate(values)}
    figure = new_figure(3.2)
    axes = figure.add_subplot()
    shown = lines[:_MAX_LINES]
    styles = dashes([[(one.interval.mean if one.interval else np.nan) for _, one in line.rows] for line in shown])
    for line, style in zip(shown, styles, strict=True):
        _draw(axes, line, where, style)
    if plain:
        _numeric(axes, list(where.values()))
    else:
        every = -(-len(values) // _MAX_LABELS)
        axes.set_xticks(range(0, len(values), every), [fitted(value, _LONGEST_VALUE) for value in values[::every]])
    axes.set_xlabel(axis)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    label_ticks(axes.yaxis, UNITS.get(metric.unit, COUNT_UNITS))
    left_out = f", the first {_MAX_LINES} of {len(lines)} lines" if len(lines) > len(shown) else ""
    title(axes, f"{metric.experiment}: {metric.title} (mean and its 95 % interval over seeds{left_out})")
    beside(axes)
    return svg(figure)


def _lines(metric: MetricOverPoints) -> tuple[str, list[_Line]]:
    """The key of the axis, and a line for each value of the other key and each case."""
    counts = {key: len({point.settings[key] for point, _ in metric.rows}) for key in metric.varying}
    axis = max(counts, key=counts.__getitem__)
    other = next((key for key in metric.varying if key != axis), None)
    found: dict[str, list[tuple[str, MetricOverSeeds]]] = {}
    for point, one in metric.rows:
        words = [f"{other}={point.settings[other]}"] if other else []
        words += [one.case] if metric.several_cases else []
        found.setdefault(", ".join(words) or "_", []).append((point.settings[axis], one))
    return axis, [_Line(label, tuple(rows)) for label, rows in found.items()]


def _draw(axes: Axes, line: _Line, where: dict[str, float], style: object) -> None:
    """A line through the means, a bar at each for its interval where there is one."""
    found = [(where[place], one.interval) for place, one in line.rows]
    means = np.array([interval.mean if interval else np.nan for _, interval in found])
    halves = np.array(
        [interval.high - interval.mean if interval and interval.high is not None else 0.0 for _, interval in found]
    )
    axes.errorbar(
        [x for x, _ in found], means, yerr=halves if halves.any() else None,
        label=line.label, marker="o", markersize=4, linewidth=1, capsize=3, linestyle=style,
    )  # fmt: skip


def _numeric(axes: Axes, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    if low > 0 and high > _LOG_SPAN * low:
        axes.set_xscale("log")
    if len(values) <= _MAX_LABELS:
        axes.set_xticks(values, [f"{value:.10g}" for value in values])
        axes.minorticks_off()


def _number(value: str) -> float | None:
    """A value without a unit."""
    return magnitude(value) if re.fullmatch(r"\s*-?[0-9.eE+-]+\s*", value) else None


def _file_name(metric: MetricOverPoints, taken: set[str]) -> str:
    """Experiment and title as a word that no file has yet."""
    word = "-".join(filter(None, re.split(r"[^A-Za-z0-9.]+", f"{metric.experiment}-{metric.title}")))[:80]
    return next(name for name in _numbered(word) if name not in taken)


def _numbered(word: str) -> Iterator[str]:
    yield word
    yield from (f"{word}-{number}" for number in range(2, 10_000))
