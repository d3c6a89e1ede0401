"""Common parts of a report's plots: figures, tick labels with units, legends, names that fit.

Labels must not meet, whatever is plotted. So tick labels of an axis share one unit and have the digits that tell them
apart, their number follows from the room that they have, a figure is as high as its legend needs, and of long names the
middle is left out.
"""

from __future__ import annotations

import io
import itertools
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator, NullFormatter

WIDTH = 9.0  # inches, of every figure
LETTER = 0.066  # inches, mean width of a small one
LONGEST_NAME = 40  # letters, in legends and of bars
SMALL = 8  # points: legends and titles
TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
RATE_UNITS = ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s"))
SIZE_UNITS = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
COUNT_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_DASH = 4.0  # line widths
_NEAR = 0.01  # of the largest value: nearer than that lines hide each other
_LEGEND_LINE = 0.18  # inches
_MAX_TICKS = 8
_IMAGE_DPI = 110  # of what is drawn in pixels, such as maps of queues
STYLE: Any = {
    "svg.hashsalt": "mrc-testbed",  # the same plot gives the same file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
}


def new_figure(height: float) -> Figure:
    """An empty figure, `height` inches high."""
    with mpl.rc_context(STYLE):
        return Figure(figsize=(WIDTH, height), layout="constrained")


def svg(figure: Figure) -> str:
    """The figure as SVG text."""
    out = io.StringIO()
    with mpl.rc_context(STYLE):
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        canvas = FigureCanvasSVG(figure)
        layout = figure.get_layout_engine()
        if layout is not None:
            layout.execute(figure)  # savefig would draw everything for that, and then again for the file
            figure.set_layout_engine("none")
        figure.set_dpi(_IMAGE_DPI)
        canvas.print_svg(out, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call] # as it is
    text = out.getvalue()
    return text[text.index("<svg") :]


def unit_for(largest: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest of some units, each (factor, name), that is not larger than `largest`; the last if all are."""
    return next(((factor, name) for factor, name in units if largest >= factor), units[-1])


class UnitFormatter(Formatter):
    """Labels all ticks of an axis in one unit, with as many digits as tell one from the next."""

    def __init__(self, units: Sequence[tuple[float, str]], of: float = 1.0) -> None:
        """`of` is how many of the smallest unit the axis's own unit is."""
        self._units, self._of = units, of
        self._ticks: list[float] = []

    def set_locs(self, locs: Iterable[float]) -> None:
        """Where the ticks are."""
        self._ticks = [float(tick) for tick in locs]

    def __call__(self, value: float, pos: int | None = None) -> str:
        """The label of a tick; nought needs no unit."""
        if value == 0:
            return "0"
        ticks = sorted({self._of * tick for tick in (*self._ticks, value)})
        if isinstance(self.axis, Axis) and self.axis.get_scale() == "log":
            ticks = [self._of * value]  # which spans more than one unit covers
        factor, name = unit_for(max(map(abs, ticks)), self._units)
        step = min((b - a for a, b in itertools.pairwise(ticks)), default=abs(ticks[0])) / factor
        digits = next((n for n in range(9) if abs(round(step, n) - step) < step / 100), 9)
        return f"{self._of * value / factor:.{digits}f} {name}".rstrip()


class UnitLocator(MaxNLocator):
    """Ticks at round numbers of the unit that the axis is labelled in: at 100, 200 KiB, not at 98 and 195."""

    def __init__(self, units: Sequence[tuple[float, str]], of: float, most: int) -> None:
        """`of` is how many of the smallest unit the axis's own unit is."""
        super().__init__(most, steps=(1, 2, 2.5, 5, 10))
        self._units, self._of = units, of

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Where the ticks are for an axis between two values."""
        factor, _ = unit_for(max(abs(vmin), abs(vmax)) * self._of, self._units)
        scale = factor / self._of
        return np.asarray(super().tick_values(vmin / scale, vmax / scale)) * scale


def label_ticks(axis: Axis, units: Sequence[tuple[float, str]], of: float = 1.0, most: int = _MAX_TICKS) -> None:
    """Give an axis at most `most` ticks, labelled in `units`; a logarithmic one at 1, 2 and 5, or at powers of ten."""
    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 200 * low else (1,), numticks=most))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(UnitLocator(units, of, most))
    axis.set_major_formatter(UnitFormatter(units, of))


def label_counts(axis: Axis) -> None:
    """Give an axis ticks at whole numbers only."""
    axis.set_major_locator(MaxNLocator(_MAX_TICKS, integer=True))


def beside(axes: Axes, longest: int = LONGEST_NAME) -> None:
    """A legend to the right of `axes`, names with at most `longest` letters; the figure gets as high as it needs."""
    handles, names = axes.get_legend_handles_labels()
    if not handles:
        return
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.set_figheight(max(figure.get_figheight(), _LEGEND_LINE * len(handles) + 0.4))
    labels = [fitted(name, longest) for name in names]
    axes.legend(handles, labels, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=SMALL)


def dashes(series: Sequence[Any]) -> list[Any]:
    """Line styles for some series of numbers: those that lie upon one another are dashed in turn, so that all show."""
    alike: list[list[int]] = []
    for number, values in enumerate(series):
        for group in alike:
            if _coincide(series[group[0]], values):
                group.append(number)
                break
        else:
            alike.append([number])
    styles: list[Any] = ["-"] * len(series)
    for group in alike:
        for place, number in enumerate(group):
            if len(group) > 1:
                styles[number] = (_DASH * place, (_DASH, _DASH * (len(group) - 1)))
    return styles


def _coincide(one: Any, other: Any) -> bool:
    """Whether two series are hardly apart anywhere."""
    first, second = np.asarray(one, float), np.asarray(other, float)
    if first.shape != second.shape:
        return False
    apart = _NEAR * max(np.nanmax(np.abs(first), initial=0), np.nanmax(np.abs(second), initial=0))
    return bool(np.allclose(first, second, rtol=0, atol=apart, equal_nan=True))


def title(axes: Axes, text: str, width: float = WIDTH - 1.2) -> None:
    """A small title above `axes`, of as many lines as it needs where `width` inches are free."""
    axes.set_title(wrapped(text, width), fontsize=SMALL, loc="left")


def wrapped(text: str, width: float) -> str:
    """`text` in lines of at most `width` inches."""
    return textwrap.fill(text, max(8, int(width / LETTER)))


def fitted(name: str, longest: int = LONGEST_NAME) -> str:
    """A name, with its middle left out when it is too long."""
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2]}…{name[-(longest - longest // 2 - 1) :]}"
