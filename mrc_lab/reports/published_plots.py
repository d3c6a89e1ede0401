"""Published and ours in one plot: curves over time or size, flows from the slowest, and single numbers by their ratio.

Everything is drawn from the block ``published`` of a summary, of one run or of several seeds (`reports.seeds`): then
bands and whiskers are 95 % intervals. Published curves are red and dashed where there is one, else dashed in the colour
of ours.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from mrc_common.units import show_size
from mrc_lab.reports.axes import (
    COUNT_UNITS,
    RATE_UNITS,
    TIME_UNITS,
    beside,
    fitted,
    label_ticks,
    new_figure,
    svg,
    title,
)
from mrc_lab.reports.published import NEAR

Row = Mapping[str, Any]
_OURS, _THEIRS = "#1f5fa8", "#c62828"
_UNITS = {"rate": RATE_UNITS, "time": TIME_UNITS}
_COLOURS = ("#1f5fa8", "#c62828", "#7b4fa6", "#2e7d32", "#d98200", "#00838f", "#8a8f98", "#5d4037", "#ad1457")
_LOG_SPAN = 20  # curves whose largest values differ by more are drawn on a logarithmic axis
_MIN_RATIO, _MAX_RATIO = 0.01, 100.0


def drawings(block: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Title and SVG of every plot there is of a block, drawn once: the page of all figures has those of each report."""
    return _drawn(json.dumps(block))


@functools.lru_cache(maxsize=64)
def _drawn(block: str) -> tuple[tuple[str, str], ...]:
    return tuple(_draw(json.loads(block)))


def _draw(block: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, curves in _grouped(block["curves"], "plot"):
        yield name, (_over_size if curves[0]["over"] == "size" else _over_time)(curves)
    drawn = {curve["over"] for curve in block["curves"]}
    measured = [row for row in block["numbers"] if row["ours"] is not None]
    for name, rows in _grouped([row for row in measured if row["place"] is not None], "entry"):
        yield f"Flows from the slowest to the fastest: {name}", _flows(rows)
    for name, rows in _grouped([row for row in measured if row["size"] is not None], "entry"):
        if "size" not in drawn:
            yield name, _over_size([_curve_of(name, rows)])
    single = [row for row in measured if row["place"] is None and row["size"] is None and not row["bound"]]
    if any(row["published"] for row in single):
        yield "Ours over published", _ratios([row for row in single if row["published"]])


def _grouped(rows: Sequence[Row], key: str) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return list(found.items())


def _over_time(curves: Sequence[Row]) -> str:
    """Ours in steps with its band, the published curve dashed."""
    figure = new_figure(2.8)
    axes = figure.add_subplot()
    for curve, colour in zip(curves, itertools.cycle(_COLOURS), strict=False):
        name = fitted(curve["title"]) + ", " if len(curves) > 1 else ""
        theirs = _THEIRS if len(curves) == 1 else colour
        axes.plot(*_columns(curve["published"]), color=theirs, linestyle="--", linewidth=1, label=f"{name}published")
        x, y = _columns(curve["ours"])
        axes.plot(x, y, color=colour, linewidth=1.3, drawstyle="steps-mid", label=f"{name}ours")
        _band(axes, curve, x, colour)
    largest = [max((y for _, y in curve[whose]), default=0) for curve in curves for whose in ("published", "ours")]
    if min(largest) > 0 and max(largest) > _LOG_SPAN * min(largest):
        axes.set_yscale("symlog", linthresh=min(largest) / _LOG_SPAN)
    else:
        _label_values(axes, curves[0])
    axes.set_ylim(bottom=0)
    label_ticks(axes.xaxis, TIME_UNITS)
    axes.set_xlabel("time in our run; published times are placed beside it")
    beside(axes)
    return svg(figure)


def _over_size(curves: Sequence[Row]) -> str:
    """Both on logarithmic axes, with a mark at each size."""
    figure = new_figure(4.2)
    axes = figure.add_subplot()
    for curve, colour in zip(curves, itertools.cycle(_COLOURS), strict=False):
        name = fitted(curve["title"])
        axes.plot(*_columns(curve["published"]), color=colour, linestyle="--", linewidth=1, label=f"{name}, published")
        x, y = _columns(curve["ours"])
        axes.plot(x, y, color=colour, marker="o", markersize=4, linewidth=1.3, label=f"{name}, ours")
        _band(axes, curve, x, colour)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: show_size(size)))
    _label_values(axes, curves[0])
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("message size")
    beside(axes)
    return svg(figure)


def _flows(rows: Sequence[Row]) -> str:
    """Two bars for each flow, the slowest first."""
    figure = new_figure(2.6)
    axes = figure.add_subplot()
    places = range(len(rows))
    for shift, key, colour, name in ((-0.2, "published", _THEIRS, "published"), (0.2, "ours", _OURS, "ours")):
        axes.bar([n + shift for n in places], [row[key] for row in rows], width=0.38, color=colour, label=name)
    _whiskers(axes, [n + 0.2 for n in places], rows)
    axes.set_xticks(places, [str(row["place"]) for row in rows])
    _label_values(axes, rows[0])
    axes.set_ylim(bottom=0)
    beside(axes)
    return svg(figure)


def _ratios(rows: Sequence[Row]) -> str:
    """A dot for each number at ours over published; what is within 10 % lies in the shaded band."""
    figure = new_figure(0.9 + 0.28 * len(rows))
    axes = figure.add_subplot()
    axes.axvspan(1 - NEAR, 1 + NEAR, color="#2e7d32", alpha=0.15, lw=0)
    for height, row in enumerate(reversed(rows)):
        ratio = row["ours"] / row["published"]
        if row.get("low") is not None:
            ends = [max(_MIN_RATIO, row[end] / row["published"]) for end in ("low", "high")]
            axes.plot(ends, [height, height], color=_OURS, linewidth=1.2)
        axes.plot([min(max(ratio, _MIN_RATIO), _MAX_RATIO)], [height], marker="o", color=_OURS, markersize=5)
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, *_limits(rows)) * 0.9, max(2, *_limits(rows)) * 1.1)
    label_ticks(axes.xaxis, COUNT_UNITS)
    axes.set_yticks(range(len(rows)), [fitted(row["what"], 60) for row in reversed(rows)])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    title(axes, f"within 10 % is shaded; less than {_MIN_RATIO:g} is drawn there")
    return svg(figure)


def _limits(rows: Sequence[Row]) -> list[float]:
    return [min(max(row["ours"] / row["published"], _MIN_RATIO), _MAX_RATIO) for row in rows]


def _band(axes: Axes, curve: Row, places: Sequence[float], colour: str) -> None:
    if curve.get("low") is not None:
        axes.fill_between(places, curve["low"], curve["high"], color=colour, alpha=0.2, linewidth=0)


def _whiskers(axes: Axes, places: Sequence[float], rows: Sequence[Row]) -> None:
    if rows[0].get("low") is not None:
        half = [row["high"] - row["ours"] for row in rows]
        axes.errorbar(places, [row["ours"] for row in rows], yerr=half, fmt="none", color="black", linewidth=1)


def _label_values(axes: Axes, row: Row) -> None:
    label_ticks(axes.yaxis, _UNITS.get(row["unit"], COUNT_UNITS))
    axes.set_ylabel({"max": "of the largest", "median": "of the median"}.get(row.get("relative", ""), ""))


def _columns(points: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _curve_of(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    """A curve over size made of numbers."""
    banded = rows[0].get("low") is not None
    return {
        "title": name,
        "unit": rows[0]["unit"],
        "published": [[row["size"], row["published"]] for row in rows],
        "ours": [[row["size"], row["ours"]] for row in rows],
        "low": [row["low"] for row in rows] if banded else None,
        "high": [row["high"] for row in rows] if banded else None,
    }
