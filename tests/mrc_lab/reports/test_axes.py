"""Labels of plots do not meet and are not cut off, whatever is plotted: measured on the figures as they are drawn."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from mrc_lab.experiments.running.recording import FlowInfo, MessageRecord, PathRecord
from mrc_lab.reports import axes, plots
from tests.mrc_lab.reports.recordings import experiment, metrics, recording

CASE = experiment().cases[0]
NAMES = ("mrc-with-the-long-name-of-a-variant-and-more", "mrc-2", "roce-baseline-with-go-back-n-and-dcqcn")
CASES = dict.fromkeys(NAMES, CASE)
LONG = "packets retransmitted although the first copy had arrived (all flows)"


def test_long_names_are_shortened_in_the_middle() -> None:
    assert axes.fitted("a" * 40) == "a" * 40
    assert axes.fitted("a" * 30 + "b" * 30) == "a" * 20 + "…" + "b" * 19


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        ((0, 250, 500, 1000), ["0", "0.25 ms", "0.50 ms", "1.00 ms"]),
        ((0, 20, 40), ["0", "20 us", "40 us"]),
        ((0.5, 1, 1.5), ["0.5 us", "1.0 us", "1.5 us"]),
        ((100_000, 100_008, 100_016), ["100.000 ms", "100.008 ms", "100.016 ms"]),
        ((2e6, 2.5e6, 3e6), ["2.0 s", "2.5 s", "3.0 s"]),
    ],
)
def test_ticks_share_a_unit_and_have_distinguishing_digits(ticks: tuple[float, ...], labels: list[str]) -> None:
    formatter = axes.UnitFormatter(axes.TIME_UNITS, of=1000)
    formatter.set_locs(list(ticks))
    assert [formatter(tick) for tick in ticks] == labels


def completions(*times: float) -> str:
    made = recording(messages=tuple(MessageRecord(0, 10_000, 10_000 + int(t), 4096, True) for t in times))
    return plots.completions(dict.fromkeys(NAMES, made), CASES)


def many_flows() -> str:
    flows = tuple(FlowInfo(f"h{n + 100}>h{n + 1000}", "h1", "h3", 1, 1000.0) for n in range(16))
    samples = np.zeros((11, 16, 6), np.int64)
    samples[:, :, 0] = np.arange(11)[:, None] * np.arange(1, 17)
    made = replace(recording(), flows=flows, flow_samples=samples, times=recording().times * 123_457)
    return plots.throughput(CASE, made, ())


def bars(number: int) -> str:
    units = ("rate", "time", "count", "share")
    figures = [
        {"title": LONG, "unit": units[n % 4], "values": {name: 1.2345 * 7**n * (k + 1) for k, name in enumerate(NAMES)}}
        for n in range(number)
    ]
    return plots.bars(figures)


def path_states() -> str:
    states = ("good", "assumed_bad")
    reasons = ("loss", "probe", "timeout", "port_down", "denied")
    paths = tuple(
        PathRecord(900 * n, 0, "h1", 5, n, n % 8, states[n % 2], states[1 - n % 2], reasons[n % 5], None)
        for n in range(60)
    )
    return plots.path_states(recording(paths=paths))


def activity(lines: int) -> str:
    names = tuple(f"t0-{n % 16}:t1-{n // 16 + 100}@p{n % 8}>" for n in range(lines))
    links = np.zeros((11, lines, 3), np.int64)
    links[:, :, 1] = np.arange(11)[:, None] * np.arange(8000, 8000 + lines)
    return plots.activity(replace(recording(), channels=names, link_samples=links))


PLOTS: dict[str, Callable[[], str]] = {
    "flows": many_flows,
    "cases": lambda: plots.compare_throughput(metrics(dict.fromkeys(NAMES, recording()))),
    "means": lambda: plots.flow_bars(dict.fromkeys(NAMES, recording()), CASES),
    "states": path_states,
    "losses": lambda: plots.losses(recording(drops={f"port down, t0-{n}:t1-{n}@p7 down": 2**n for n in range(30)})),
    "long reason": lambda: plots.losses(recording(drops={"a reason of many words " * 9: 123_456_789})),
    **{f"completions over {span}": lambda span=span: completions(*np.geomspace(5000, 5000 * span, 50)) for span in
       (1.0001, 1.01, 2, 12, 19, 30, 150, 1000, 10**7)},
    **{f"{n} figures": lambda n=n: bars(n) for n in (1, 2, 3, 4, 8)},
    **{f"{n} lines": lambda n=n: activity(n) for n in (1, 3, 30, 160)},
}  # fmt: skip


def boxes(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[float, float, float, float]]]:
    """Every text that is drawn, with its left, lower, right and upper edge in pixels."""
    drawn: list[Text] = []
    draw = Text.draw

    def record(text: Text, renderer: RendererBase) -> None:
        drawn.append(text)
        draw(text, renderer)

    monkeypatch.setattr(Text, "draw", record)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    seen = {id(text): text for text in drawn if text.get_visible() and text.get_text().strip()}
    return [(text.get_text(), text.get_window_extent(renderer).extents) for text in seen.values()]


@pytest.mark.parametrize("name", PLOTS)
def test_labels_neither_overlap_nor_are_cut_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(plots, "svg", lambda figure: figures.append(figure) or "")
    PLOTS[name]()
    (figure,) = figures
    found = boxes(figure, monkeypatch)
    assert len(found) > 5
    width, height = figure.canvas.get_width_height()
    for text, (left, low, right, high) in found:
        assert min(left, low) >= -1, f"{text!r} is cut off"
        assert right <= width + 1, f"{text!r} is cut off"
        assert high <= height + 1, f"{text!r} is cut off"
    for (one, a), (other, b) in itertools.combinations(found, 2):
        apart = a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 1 or b[3] <= a[1] + 1
        assert apart, f"{one!r} meets {other!r}"


OVER_TIME = ("flows", "cases", "states", "3 lines", "160 lines")


def test_plots_over_time_have_the_same_width_and_left_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    places = set()
    for name in OVER_TIME:
        figures: list[Figure] = []
        monkeypatch.setattr(plots, "svg", lambda figure, figures=figures: figures.append(figure) or "")
        PLOTS[name]()
        FigureCanvasAgg(figures[0]).draw()
        for panel in figures[0].axes:
            if panel.get_label() != "colour bar":
                places.add((round(panel.get_position().x0, 6), round(panel.get_position().x1, 6)))
    assert len(places) == 1


@pytest.mark.parametrize(
    ("units", "most", "ticks"),
    [
        (axes.SIZE_UNITS, 500 * 1024, [0, 100 * 1024, 200 * 1024, 300 * 1024, 400 * 1024, 500 * 1024]),
        (axes.SIZE_UNITS, 3 << 20, [n << 19 for n in range(7)]),
        (axes.RATE_UNITS, 400e9, [n * 50e9 for n in range(9)]),
    ],
)
def test_ticks_are_round_in_the_unit_that_they_are_labelled_in(
    units: tuple[tuple[float, str], ...], most: float, ticks: list[float]
) -> None:
    plot = Figure().add_subplot()
    plot.set_ylim(0, most)
    axes.label_ticks(plot.yaxis, units)
    assert [tick for tick in plot.yaxis.get_major_locator()() if tick <= most] == pytest.approx(ticks)


def test_lines_that_lie_upon_one_another_are_dashed_in_turn() -> None:
    styles = axes.dashes([[1, 2, 3], [5, 5, 5], [1, 2, 3.001], [1, 2], [1, 2, 3]])
    assert styles == [(0.0, (4.0, 8.0)), "-", (4.0, (4.0, 8.0)), "-", (8.0, (4.0, 8.0))]


def test_metrics_that_are_zero_everywhere_have_no_plot() -> None:
    nothing = {"title": "trimmed", "unit": "count", "values": {"a": 0, "b": None}, "points": {"a": "a", "b": "b"}}
    some = {**nothing, "title": "lost", "values": {"a": 0, "b": 3}}
    for draw in (plots.bars, plots.over_axis):
        assert draw([nothing]) == ""
        assert "lost" in draw([nothing, some]) or "<svg" in draw([nothing, some])
        assert len(draw([nothing, some])) < len(draw([some, some]))


def test_a_figure_is_laid_out_and_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes most of the time of a report."""
    drawn = []
    draw = Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: (drawn.append(figure), draw(figure, renderer)))
    figure = axes.new_figure(2.0)
    plot = figure.subplots()
    plot.set_ylabel("a label that needs room")
    before = plot.get_position().x0
    assert "<svg" in axes.svg(figure)
    assert drawn == [figure]
    assert plot.get_position().x0 != before, "the layout was not applied"
