"""The plots of a report, each an SVG text. Faults are shaded wherever there is an axis of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrc_lab.experiments.files.model import Case, Expectation, Selection, case_label
from mrc_lab.experiments.running.channel_names import in_words
from mrc_lab.experiments.running.recording import Recording
from mrc_lab.reports.axes import (
    COUNT_UNITS,
    LETTER,
    RATE_UNITS,
    SIZE_UNITS,
    TIME_UNITS,
    WIDTH,
    beside,
    dashes,
    fitted,
    label_counts,
    label_ticks,
    new_figure,
    svg,
    title,
)
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.time_layout import LEGEND_LETTERS, colour_bar_axes, time_panels

_BLUE, _RED, _GREY, _GREEN = "#1f5fa8", "#c62828", "#8a8f98", "#2e7d32"
_MAX_FLOWS, _MAX_LINES, _MAX_BARS = 16, 160, 24
_PANELS = 3  # of `bars` in a row
_LONGEST_CASE = 36  # letters beside them
_LONGEST_LOSS = 64  # letters
UNITS = {"rate": RATE_UNITS, "time": TIME_UNITS, "size": SIZE_UNITS}
_LOG_SPAN = 20  # completion times that differ by more are drawn on a logarithmic axis


def throughput(case: Case, recording: Recording, expectations: Iterable[Expectation]) -> str:
    """Payload delivered over time: the total with published levels dashed, below it single flows if they are few."""
    unit, name = (1e9, "Gb/s") if recording.nic_bps >= 10**9 else (1e6, "Mb/s")
    edges, rates = recording.times / 1000, recording.rates() / unit
    apart = 1 < len(recording.flows) <= _MAX_FLOWS
    figure, panels = time_panels(*((1.7, max(1.5, 0.2 * len(recording.flows))) if apart else (2.4,)))
    for panel in panels:
        _over_time(panel, recording, name)
    if apart:
        styles = dashes(list(rates.T))
        for column, flow in enumerate(recording.flows):
            panels[1].stairs(
                rates[:, column], edges, linewidth=0.8, label=flow.name, baseline=None, linestyle=styles[column]
            )
        panels[1].set_ylim(bottom=0)
        panels[1].set_ylabel(f"each, {name}")
        beside(panels[1], LEGEND_LETTERS)
    axes = panels[0]
    axes.stairs(rates.sum(axis=1), edges, color="black", linewidth=1.3, label="total", baseline=None)
    labelled = False
    for expectation in expectations:
        published, of = expectation.published, expectation.of
        if expectation.metric != "throughput" or expectation.against or published is None or published.number is None:
            continue
        start = (case.measure.warmup if of.start is None else of.start) * recording.time_scale / 1000
        end = (case.duration if of.end is None else of.end) * recording.time_scale / 1000
        level = published.number * recording.rate_scale / unit
        label = "_" if labelled else "published"
        axes.hlines(level, start, end, color=_RED, linestyle="--", linewidth=1.2, label=label)
        labelled = True
    axes.set_ylim(bottom=0)
    beside(axes, LEGEND_LETTERS)
    return svg(figure)


def compare_throughput(metrics: MetricTable) -> str:
    """Totals of several cases over time in one plot."""
    recordings = metrics.recordings
    first = next(iter(recordings.values()))
    unit, name = (1e9, "Gb/s") if first.nic_bps >= 10**9 else (1e6, "Mb/s")
    figure, axes = time_axes(max(recordings.values(), key=lambda recording: recording.end), name)
    series = [metrics.row("throughput", Selection(name)).series / unit for name in recordings]
    for (label, recording), values, style in zip(recordings.items(), series, dashes(series), strict=True):
        axes.stairs(values, recording.times / 1000, label=label, baseline=None, linestyle=style)
    axes.set_ylim(bottom=0)
    beside(axes, LEGEND_LETTERS)
    return svg(figure)


def totals(series: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Some totals over time, each with its edges in us and its values in bits/s."""
    largest = max((max(values, default=0) for _, values in series.values()), default=0)
    unit, name = (1e9, "Gb/s") if largest >= 1e9 else (1e6, "Mb/s")
    figure, (axes,) = time_panels(2.4)
    axes.set_xlim(0, max((edges[-1] for edges, _ in series.values() if len(edges)), default=0) or 1)
    styles = dashes([values for _, values in series.values()])
    for (label, (edges, values)), style in zip(series.items(), styles, strict=True):
        axes.stairs(np.array(values) / unit, edges, label=label, baseline=None, linestyle=style)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(name)
    label_ticks(axes.xaxis, TIME_UNITS, of=1000)
    beside(axes, LEGEND_LETTERS)
    return svg(figure)


def flow_bars(recordings: Mapping[str, Recording], cases: Mapping[str, Case]) -> str:
    """Mean rate of every flow, sorted, one group a case."""
    figure = new_figure(3.2)
    axes = figure.add_subplot()
    left, largest = 0, 0.0
    for name, recording in recordings.items():
        first = int(np.searchsorted(recording.times, cases[name].measure.warmup * recording.time_scale))
        means = np.sort(recording.rates()[first:].mean(axis=0))[::-1]
        axes.bar(range(left, left + len(means)), means, label=name, width=0.9)
        left, largest = left + len(means) + 1, max(largest, means.max(initial=0))
    label_ticks(axes.yaxis, RATE_UNITS)
    axes.set_ylabel("mean of each flow")
    axes.set_xticks([])
    beside(axes)
    return svg(figure)


def bars(figures: Sequence[Mapping[str, Any]]) -> str:
    """One panel for each figure (title, unit, values by case), a bar for each case; none of those that are all 0."""
    figures = [one for one in figures if any(one["values"].values())]
    if not figures:
        return ""
    names = list(figures[0]["values"])[::-1]
    columns = min(_PANELS, len(figures))
    rows = -(-len(figures) // columns)
    figure = new_figure(rows * (1.2 + 0.22 * len(names)))
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    shown = [fitted(case_label(name), _LONGEST_CASE) for name in names]
    room = (WIDTH - 0.5 - LETTER * max(map(len, shown))) / columns
    for axes, one in zip(panels, figures, strict=False):
        values = [one["values"][name] or 0 for name in names]
        axes.barh(range(len(names)), values, color=_BLUE)
        axes.set_xlim(0, 1.05 * max(values) or 1)
        label_ticks(axes.xaxis, UNITS.get(one["unit"], COUNT_UNITS), most=max(2, int(1.5 * room)))
        axes.set_yticks(range(len(names)), shown)
        title(axes, one["title"], room)
    for axes in panels[len(figures) :]:
        axes.set_axis_off()
    return svg(figure)


def over_axis(figures: Sequence[Mapping[str, Any]]) -> str:
    """One panel for each figure (title, unit, values and points by case): a line for each variant over the points.

    Figures that are 0 everywhere have none.
    """
    figures = [one for one in figures if any(one["values"].values())]
    if not figures:
        return ""
    points = list(dict.fromkeys(figures[0]["points"].values()))
    lines: dict[str, dict[str, str]] = {}
    for name, point in figures[0]["points"].items():
        lines.setdefault(name.removesuffix(point).removesuffix("."), {})[point] = name
    figure = new_figure(2.8 * len(figures))
    for axes, one in zip(figure.subplots(len(figures), squeeze=False).ravel(), figures, strict=True):
        series = [
            np.array([one["values"][cases[point]] if point in cases else None for point in points], float)
            for cases in lines.values()
        ]
        for variant, values, style in zip(lines, series, dashes(series), strict=True):
            axes.plot(
                range(len(points)), values, marker="o", markersize=4, linewidth=1, label=variant or "_", linestyle=style
            )
        axes.set_xticks(range(len(points)), points)
        axes.set_ylim(bottom=0)
        label_ticks(axes.yaxis, UNITS.get(one["unit"], COUNT_UNITS))
        title(axes, one["title"])
        beside(axes)
    return svg(figure)


def activity(recording: Recording) -> str:
    """What links carried upwards when, a row for each: of uplinks of T0s, each the path of an entropy value."""
    steps = np.diff(recording.link_samples[:, :, 1], axis=0)
    widths = np.diff(recording.times)[:, None]
    rates = steps * 8 / np.where(widths > 0, widths, 1)  # Gb/s
    paths = any(":" in line and rates[:, n].any() for n, line in enumerate(recording.channels))
    chosen = [
        n
        for n, line in enumerate(recording.channels)
        if line.endswith(">") and (":" in line) == paths and rates[:, n].max(initial=0) > 0
    ]
    busy = np.percentile(rates[:, chosen].max(axis=0), 90) / 50 if chosen else 0  # not those that carry only ACKs
    used = [n for n in chosen if rates[:, n].max() >= busy]
    chosen = sorted(used, key=lambda n: -steps[:, n].sum())[:_MAX_LINES]
    chosen.sort(key=lambda n: (recording.channels[n].split("@")[1], recording.channels[n]))
    figure, (axes,) = time_panels(min(8.6, 1.2 + 0.12 * max(len(chosen), 4)))
    if chosen:
        edges = recording.times / 1000
        unit, name = (1.0, "Gb/s") if rates[:, chosen].max() >= 1 else (1e3, "Mb/s")
        shades = unit * rates[:, chosen].T
        mesh = axes.pcolormesh(edges, np.arange(len(chosen) + 1), shades, cmap="viridis", rasterized=True)
        figure.colorbar(mesh, cax=colour_bar_axes(figure), label=name)
        if len(chosen) < len(used):
            title(axes, f"the {len(chosen)} busiest of {len(used)} links")
        every = max(1, len(chosen) // 24)
        shown = range(0, len(chosen), every)
        axes.set_yticks([n + 0.5 for n in shown], [recording.channels[chosen[n]][:-1] for n in shown], fontsize=7)
    for fault in recording.faults:
        axes.axvline(fault.at / 1000, color=_RED, linewidth=0.8)
        if fault.until is not None:
            axes.axvline(fault.until / 1000, color="white", linewidth=0.8, linestyle="--")
    axes.grid(visible=False)
    _time_ticks(axes, recording)
    return svg(figure)


def path_states(recording: Recording) -> str:
    """How many paths were out of use over time, by plane, and why they left."""
    figure, axes = time_axes(recording, "paths out of use, all QPs")
    planes = sorted({record.plane for record in recording.paths})
    for plane in planes:
        times, counts, now = [0.0], [0], 0
        bad: dict[tuple[str, int, int], bool] = {}
        for record in sorted(recording.paths, key=lambda record: record.time):
            if record.plane != plane:
                continue
            key = (record.host, record.qpn, record.ev)
            now += (record.new == "assumed_bad") - bad.get(key, False)
            bad[key] = record.new == "assumed_bad"
            times.append(record.time / 1000)
            counts.append(now)
        axes.step([*times, recording.end / 1000], [*counts, now], where="post", label=f"plane {plane}", linewidth=1)
    beside(axes, LEGEND_LETTERS)
    reasons = Counter(f"{record.old} to {record.new}: {record.reason}" for record in recording.paths)
    text = ", ".join(f"{name} ({count})" for name, count in reasons.most_common(5))
    title(axes, text or "no path changed its state")
    label_counts(axes.yaxis)
    return svg(figure)


def losses(recording: Recording) -> str:
    """Frames lost on links, packets trimmed on their way to links and frames dropped by switches, the largest first."""
    lost = recording.link_samples[-1, :, 2] - recording.link_samples[0, :, 2]
    rows = [
        (f"lost on {in_words(line)}", int(count)) for line, count in zip(recording.channels, lost, strict=True) if count
    ]
    rows += [(f"trimmed for {in_words(line)}", count) for line, count in recording.trimmed.items() if count]
    rows += [(f"dropped: {reason}", count) for reason, count in recording.drops.items() if count]
    every = sorted(rows, key=lambda row: -row[1])
    rows = every[:_MAX_BARS]
    figure = new_figure(1.0 + 0.2 * max(len(rows), 1))
    axes = figure.add_subplot()
    if len(rows) < len(every):
        left = sum(count for _, count in every[_MAX_BARS:])
        title(axes, f"the largest; {len(every) - len(rows)} more have {left} frames together")
    if rows:
        axes.barh(range(len(rows)), [count for _, count in rows][::-1], color=_BLUE)
        axes.set_yticks(range(len(rows)), [fitted(name, _LONGEST_LOSS) for name, _ in rows][::-1])
        label_ticks(axes.xaxis, COUNT_UNITS)
        axes.set_xlabel("frames")
    else:
        axes.text(0.5, 0.5, "nothing was lost, trimmed or dropped", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
    return svg(figure)


def completions(recordings: Mapping[str, Recording], cases: Mapping[str, Case]) -> str:
    """Distribution of completion times of writes, or of operations, after the warm-up."""
    figure = new_figure(2.8)
    axes = figure.add_subplot()
    found: dict[str, Any] = {}
    for name, recording in recordings.items():
        begin = cases[name].measure.warmup * recording.time_scale
        times = [record.ended - record.began for record in recording.operations if record.counted]
        times += [m.time - m.began for m in recording.messages if m.ok and m.time >= begin]
        if times:
            found[name] = np.sort(np.array(times)) / 1000
    for (name, values), style in zip(found.items(), dashes(list(found.values())), strict=True):
        label = f"{fitted(name)} ({len(values)})" if len(recordings) > 1 else "_"
        shares = np.arange(1, len(values) + 1) / len(values)
        axes.step(values, shares, where="post", label=label, linestyle=style)
    least = min((values[0] for values in found.values()), default=0)
    most = max((values[-1] for values in found.values()), default=0)
    number = sum(map(len, found.values()))
    beside(axes)
    if 0 < least * _LOG_SPAN < most:
        axes.set_xscale("log")
    label_ticks(axes.xaxis, TIME_UNITS, of=1000)
    axes.set_xlabel("completion time")
    axes.set_ylabel(f"share of {number} completions")
    axes.set_ylim(0, 1)
    return svg(figure)


def time_axes(recording: Recording, label: str) -> tuple[Figure, Axes]:
    """An empty plot over the time of a run, with its faults shaded."""
    figure, (axes,) = time_panels(2.4)
    _over_time(axes, recording, label)
    return figure, axes


def _over_time(axes: Axes, recording: Recording, label: str) -> None:
    """Prepare a panel over the time of a run."""
    for fault in recording.faults:
        end = recording.end if fault.until is None else fault.until
        axes.axvspan(fault.at / 1000, end / 1000, color=_RED, alpha=0.25 / max(1, len(recording.faults) ** 0.5), lw=0)
    axes.set_ylabel(label)
    _time_ticks(axes, recording)


def _time_ticks(axes: Axes, recording: Recording) -> None:
    axes.set_xlim(0, recording.end / 1000 or 1)
    label_ticks(axes.xaxis, TIME_UNITS, of=1000)


def colours() -> Sequence[str]:
    """Blue, red, grey, green: for parts of a report that are not plots."""
    return (_BLUE, _RED, _GREY, _GREEN)


def embedded(svg: str, prefix: str) -> Markup:
    """Our own SVG as part of a page; its ids begin with `prefix`, so that they do not meet those of another."""
    prefix = "".join(letter if letter.isalnum() else "_" for letter in prefix)
    for before in ('id="', 'href="#', "url(#"):
        svg = svg.replace(before, before + prefix)
    return Markup(svg)
