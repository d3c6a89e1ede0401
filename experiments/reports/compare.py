"""Two results side by side, in one self-contained HTML page: figures, verdicts and throughput over time."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError
from experiments.reports.folder import read_summary
from experiments.reports.html import page, table
from experiments.reports.plots import totals
from experiments.reports.verdicts import show

_ROWS = (
    ("throughput_bps", "mean throughput", "rate"),
    ("end_ns", "length of the run", "time"),
    ("path_events", "path events", "count"),
    ("paths_bad_at_end", "paths out of use at the end", "count"),
    ("wrong_bytes", "wrong bytes", "count"),
)


def compare(first: Path, second: Path) -> str:
    """The page. Raises ExperimentError when a folder holds no result."""
    summaries = read_summary(first), read_summary(second)
    names = label(summaries[0], first, "A"), label(summaries[1], second, "B")
    parts = [f"<h1>{escape(names[0])} against {escape(names[1])}</h1>"]
    parts.append(_differences(summaries))
    parts.append("<h2>Expectations</h2>" + table(("figure", *names, "B over A"), _expectations(*summaries), (1, 2, 3)))
    parts.append("<h2>Figures</h2>" + table(("figure", *names, "B over A"), _figures(*summaries), (1, 2, 3)))
    for a, b in pairs(summaries):
        series = {f"A: {a}": read_total(first / a), f"B: {b}": read_total(second / b)}
        parts.append(f"<h2>Throughput: {escape(a if a == b else f'{a} and {b}')}</h2>" + totals(series))
    return page("Two results", "".join(parts))


def label(summary: Mapping[str, Any], folder: Path, letter: str) -> str:
    """How a result is called in the page."""
    return f"{letter}: {summary['name']} ({summary['world']}, seed {summary['seed']}, {folder.resolve().name})"


def pairs(summaries: tuple[Mapping[str, Any], Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Cases that belong together: those of one name, or the only ones."""
    a, b = (list(summary["cases"]) for summary in summaries)
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    common = [(name, name) for name in a if name in b]
    if not common:
        raise ExperimentError(f"the two results have no case in common: {', '.join(a)} here, {', '.join(b)} there")
    return common


def read_total(folder: Path) -> tuple[list[float], list[float]]:
    """Edges of the time bins in us, and payload over all flows in bits/s, from a result's flows.csv."""
    total: dict[tuple[int, int], float] = defaultdict(float)
    try:
        with (folder / "flows.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                total[int(row["begin_ns"]), int(row["end_ns"])] += float(row["bits_per_s"])
    except (OSError, KeyError, ValueError) as error:
        raise ExperimentError(f"{folder / 'flows.csv'} cannot be read: {error}") from None
    bins = sorted(total)
    return [begin / 1000 for begin, _ in bins] + [bins[-1][1] / 1000 if bins else 0.0], [total[key] for key in bins]


def _differences(summaries: tuple[Mapping[str, Any], Mapping[str, Any]]) -> str:
    keys = [key for key in ("name", "world", "seed", "scaled", "verdict") if summaries[0][key] != summaries[1][key]]
    if not keys:
        return "<p>The same experiment, world and seed.</p>"
    return table(("", "A", "B"), [(key, *(escape(str(summary[key])) for summary in summaries)) for key in keys])


def _expectations(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    others = {one["title"]: one for one in b["expectations"]}
    for one in a["expectations"]:
        other = others.get(one["title"])
        if other is not None:
            yield escape(one["title"]), _cell(one), _cell(other), _ratio(one["ours"], other["ours"])


def _cell(one: Mapping[str, Any]) -> str:
    return f'{show(one["ours"], one["unit"])} <span class="{one["verdict"]}">{one["verdict"]}</span>'


def _figures(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for left, right in pairs((a, b)):
        prefix = "" if left == "only" else f"{left}: "
        cases = a["cases"][left], b["cases"][right]
        for key, name, unit in _ROWS:
            values = [case[key] for case in cases]
            yield escape(prefix + name), *(show(value, unit) for value in values), _ratio(*values)
        for name in cases[0]["packets"]:
            values = [case["packets"][name] for case in cases]
            yield escape(f"{prefix}packets {name}"), *map(str, values), _ratio(*values)
        for name in cases[0]["completion_time_ns"]:
            values = [case["completion_time_ns"][name] for case in cases]
            yield escape(f"{prefix}completion time, {name}"), *(show(v, "time") for v in values), _ratio(*values)


def _ratio(a: float | None, b: float | None) -> str:
    return f"{b / a:.3f}" if a and b is not None else ""
