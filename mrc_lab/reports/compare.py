"""Two results side by side, in one self-contained HTML page: metrics, verdicts and throughput over time.

Where one of them was scaled (emulation), its rates and times are put back to those of its file, so that the same
experiment on both backends can be compared.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrc_common import named_files
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.model import case_label, case_prefix, joined
from mrc_lab.reports.pages import render
from mrc_lab.reports.plots import embedded, totals
from mrc_lab.reports.result_folder import read_summary
from mrc_lab.reports.verdicts import show

_SETTINGS = ("fabric", "transport")  # of a case
_ROWS = (
    ("throughput_bps", "mean throughput", "rate"),
    ("end_ns", "length of the run", "time"),
    ("path_events", "path events", "count"),
    ("paths_bad_at_end", "paths out of use at the end", "count"),
    ("wrong_bytes", "wrong bytes", "count"),
)
_TENANT_ROWS = (
    ("throughput_bps", "mean throughput", "rate"),
    ("ended_ns", "done", "time"),
    ("bytes", "moved", "size"),
    ("paths_bad_at_end", "paths out of use at the end", "count"),
    ("wrong_bytes", "wrong bytes", "count"),
)
Pair = Sequence[Mapping[str, Any]]


def compare(first: Path, second: Path) -> str:
    """The page. Raises ExperimentError when a folder holds no result."""
    summaries = read_summary(first), read_summary(second)
    try:
        return _compared(first, second, summaries)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ExperimentError(
            f"{first} and {second} do not hold the same metrics ({type(error).__name__}: {error})",
            "One is of another version, or was changed: run its experiment again.",
        ) from None


def _compared(first: Path, second: Path, summaries: tuple[Mapping[str, Any], Mapping[str, Any]]) -> str:
    throughput = []
    for number, (a, b) in enumerate(pairs(summaries), 1):
        scales = [_scales(summary["cases"][name]) for summary, name in zip(summaries, (a, b), strict=True)]
        series = {
            joined("A", case_label(a)): read_total(first / a, *scales[0]),
            joined("B", case_label(b)): read_total(second / b, *scales[1]),
        }
        names_of_both = " and ".join(filter(None, dict.fromkeys((case_label(a), case_label(b)))))
        throughput.append((joined("Throughput", names_of_both), embedded(totals(series), f"{number}-")))
    return render(
        "comparison",
        title="Two results",
        names=(label(summaries[0], first, "A"), label(summaries[1], second, "B")),
        differences=list(_differences(summaries)),
        expectations=list(_expectations(*summaries)),
        metrics=list(_metrics(*summaries)),
        throughput=throughput,
    )


def label(summary: Mapping[str, Any], folder: Path, letter: str) -> str:
    """How a result is called in the page."""
    return f"{letter}: {summary['name']} ({summary['backend']}, seed {summary['seed']}, {folder.resolve().name})"


def pairs(summaries: tuple[Mapping[str, Any], Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Cases that belong together: those of one name, or the only ones."""
    a, b = (list(summary["cases"]) for summary in summaries)
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    common = [(name, name) for name in a if name in b]
    if not common:
        raise ExperimentError(f"the two results have no case in common: {', '.join(a)} here, {', '.join(b)} there")
    return common


def read_total(folder: Path, rate: float = 1.0, time: float = 1.0) -> tuple[list[float], list[float]]:
    """Edges of the time bins in us, and payload over all flows in bits/s, from a result's flows.csv.

    `rate` and `time` are the scales of the run, which are taken back.
    """
    total: dict[tuple[int, int], float] = defaultdict(float)
    try:
        for row in csv.DictReader(named_files.lines(folder / "flows.csv")):
            total[int(row["begin_ns"]), int(row["end_ns"])] += float(row["bits_per_s"])
    except OSError as error:
        raise ExperimentError(f"{folder / 'flows.csv'} cannot be read: {error.strerror}") from None
    except (KeyError, ValueError, TypeError):
        raise ExperimentError(f"{folder / 'flows.csv'} is not the table of flows that 'mrc run' writes") from None
    bins = sorted(total)
    edges = [begin for begin, _ in bins] + [bins[-1][1] if bins else 0]
    return [edge / time / 1000 for edge in edges], [total[key] / rate for key in bins]


def _differences(summaries: tuple[Mapping[str, Any], Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for key in ("name", "backend", "seed", "scaled", "verdict"):
        if summaries[0][key] != summaries[1][key]:
            yield key, *(str(summary[key]) for summary in summaries)
    by_case = {
        a: list(_different_settings(summaries[0]["cases"][a], summaries[1]["cases"][b])) for a, b in pairs(summaries)
    }
    for row in dict.fromkeys(row for rows in by_case.values() for row in rows):
        cases = [name for name, rows in by_case.items() if row in rows]
        if len(cases) == len(by_case):
            yield row
        else:
            yield from ((f"{case_prefix(name)}{row[0]}", *row[1:]) for name in cases)


def _different_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for part in _SETTINGS:
        for name in dict.fromkeys((*a[part], *b[part])):
            values = a[part].get(name, ""), b[part].get(name, "")
            if values[0] != values[1]:
                yield f"{part}: {name}", *(str(value) for value in values)
    tenants = [case.get("tenants", {}) for case in (a, b)]
    if list(tenants[0]) != list(tenants[1]):
        yield "tenants", *(", ".join(map(str, names)) for names in tenants)
    for name, left, right in _of_both(a, b):
        for what, values in (
            ("workload", (left["workload"], right["workload"])),
            *((part, (left["transport"][part], right["transport"][part])) for part in left["transport"]),
        ):
            if values[0] != values[1]:
                yield f"{name}: {what}", *map(str, values)
    if _scales(a) != _scales(b):
        yield "rates, times", *(f"x {rate:.3g}, x {time:.3g}" for rate, time in map(_scales, (a, b)))


def _scales(case: Mapping[str, Any]) -> tuple[float, float]:
    """Rates and times of a run over those in its file."""
    return case["rate_scale"], case["time_scale"]


def _as_in_file(value: float | None, unit: str, case: Mapping[str, Any]) -> float | None:
    rate, time = _scales(case)
    return None if value is None else value / {"rate": rate, "time": time}.get(unit, 1.0)


def _expectations(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, str]], str]]:
    """Title, what each of both has of it, and the ratio."""
    others = {one["title"]: one for one in b["expectations"]}
    for one in a["expectations"]:
        other = others.get(one["title"])
        if other is not None:
            # Cases of one result are scaled alike.
            ours = [
                _as_in_file(each["ours"], each["unit"], next(iter(summary["cases"].values())))
                for each, summary in ((one, a), (other, b))
            ]
            both = [
                {"text": show(value, each["unit"]), "verdict": each["verdict"]}
                for value, each in zip(ours, (one, other), strict=True)
            ]
            yield one["title"], both, _ratio(*ours)


def _metrics(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for left, right in pairs((a, b)):
        prefix = case_prefix(left)
        cases = a["cases"][left], b["cases"][right]
        for key, name, unit in _ROWS:
            values = [_as_in_file(case[key], unit, case) for case in cases]
            yield prefix + name, *(show(value, unit) for value in values), _ratio(*values)
        yield from _shared_metrics(prefix, cases, cases)
        for name, *of_tenant in _of_both(*cases):
            yield from _tenant_metrics(f"{prefix}{name}: ", of_tenant, cases)


def _tenant_metrics(prefix: str, tenants: Pair, cases: Pair) -> Iterator[tuple[str, ...]]:
    for key, name, unit in _TENANT_ROWS:
        values = [_as_in_file(tenant[key], unit, case) for tenant, case in zip(tenants, cases, strict=True)]
        yield prefix + name, *(show(value, unit) for value in values), _ratio(*values)
    yield from _shared_metrics(prefix, tenants, cases)


def _shared_metrics(prefix: str, parts: Pair, cases: Pair) -> Iterator[tuple[str, ...]]:
    """What cases and tenants both have: `parts` are the cases themselves, or a tenant of each."""
    for name in parts[0]["packets"]:
        values = [part["packets"][name] for part in parts]
        yield f"{prefix}packets {name}", *map(str, values), _ratio(*values)
    for name in parts[0]["completion_time_ns"]:
        times = [
            _as_in_file(part["completion_time_ns"][name], "time", case) for part, case in zip(parts, cases, strict=True)
        ]
        yield f"{prefix}completion time, {name}", *(show(value, "time") for value in times), _ratio(*times)


def _of_both(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Name and summaries of each tenant that both cases have."""
    others = b.get("tenants", {})
    return ((name, one, others[name]) for name, one in a.get("tenants", {}).items() if name in others)


def _ratio(a: float | None, b: float | None) -> str:
    return f"{b / a:.3f}" if a and b is not None else ""
