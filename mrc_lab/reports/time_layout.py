"""The layout of plots over time: the same width and left edge in every one, so that times line up down a page.

Other plots are laid out by what their labels need (`axes.new_figure`). Here margins are fixed, in inches: on the left
there is room for a link's name, on the right for a legend or a colour bar. Panels of one figure stand above each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine

from mrc_lab.reports.axes import STYLE, WIDTH

RIGHT = 1.9  # inches beside a panel
LEGEND_LETTERS = 22  # of a name in a legend there
_LEFT = 1.1
_BOTTOM = 0.32  # below the last panel, for labels of ticks
_TOP = 0.08
_TITLE_LINE = 0.17
_GAP = 0.14  # between panels
_BAR = 0.14  # width of a colour bar
_COLOUR_BAR = "colour bar"


class TimeLayout(LayoutEngine):
    """Panels from top to bottom, `heights` inches each for whatever the figure's own height leaves in that ratio."""

    _adjust_compatible = True
    _colorbar_gridspec = False

    def __init__(self, heights: Sequence[float]) -> None:
        super().__init__()
        self._heights = tuple(heights)

    def execute(self, fig: Figure) -> None:
        """Put everything in its place."""
        width, height = fig.get_size_inches()
        panels = [axes for axes in fig.axes if axes.get_label() != _COLOUR_BAR]
        titles = [_title_height(panel) for panel in panels]
        free = height - _BOTTOM - _TOP - sum(titles) - _GAP * (len(panels) - 1)
        share = free / sum(self._heights[: len(panels)])
        left, wide, upper = _LEFT / width, (width - _LEFT - RIGHT) / width, height - _TOP
        for panel, room, own in zip(panels, titles, self._heights, strict=False):
            upper -= room + own * share
            panel.set_position((left, upper / height, wide, own * share / height))
            upper -= _GAP
        for bar in (axes for axes in fig.axes if axes.get_label() == _COLOUR_BAR):
            box = panels[0].get_position()
            bar.set_position((left + wide + 0.1 / width, box.y0, _BAR / width, box.height))


def _title_height(panel: Axes) -> float:
    text = panel.get_title(loc="left")
    return _TITLE_LINE * (text.count("\n") + 1) if text else 0.0


def time_panels(*heights: float) -> tuple[Figure, list[Axes]]:
    """A figure with a panel of each of the heights (inches), the first on top; they share the axis of time."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, sum(heights) + _BOTTOM + _TOP), layout=TimeLayout(heights))
        panels = list(figure.subplots(len(heights), sharex=True, squeeze=False).ravel())
    for panel in panels[:-1]:
        panel.tick_params(labelbottom=False)
    return figure, panels


def colour_bar_axes(figure: Figure) -> Axes:
    """Axes for a colour bar beside the first panel."""
    return figure.add_axes((0.9, 0.1, 0.02, 0.8), label=_COLOUR_BAR)
