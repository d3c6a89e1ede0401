"""Tenants side by side: a table of what each did, and the throughput of each over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrc_common.units import show_size
from mrc_lab.experiments.files.model import Case, Selection
from mrc_lab.reports import plots
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.verdicts import show

_HEAD = (
    "tenant", "workload", "transport", "began", "done", "throughput", "completion time, median", "p99",
    "moved", "retransmitted", "errors",
)  # fmt: skip
_NUMBERS = range(3, len(_HEAD))
_STILL = "no"  # it had not done all when the run ended


def table(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """For the page, from a case's summary; None where the file has one workload."""
    if "tenants" not in summary:
        return None
    return {
        "head": _HEAD,
        "numbers": _NUMBERS,
        "rows": [_row(name, found) for name, found in summary["tenants"].items()],
    }


def _row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    times, ended = found["completion_time_ns"], found["ended_ns"]
    return (
        name,
        found["workload"],
        f"{found['transport']['type']}, {found['transport']['qps']} QPs",
        show(found["start_ns"], "time"),
        _STILL if ended is None else show(ended, "time"),
        show(found["throughput_bps"], "rate"),
        show(times["median"], "time"),
        show(times["p99"], "time"),
        show_size(found["bytes"]),
        str(found["packets"]["retransmitted"]),
        str(len(found["errors"])),
    )


def throughput(case: Case, metrics: MetricTable) -> str:
    """Payload delivered over time, by tenant; nothing where the file has one workload."""
    if not case.tenant_names:
        return ""
    edges = (metrics.recordings[case.name].times / 1000).tolist()
    rows = {name: metrics.row("throughput", Selection(case.name, tenant=name)) for name in case.tenant_names}
    return plots.totals({name: (edges, row.series.tolist()) for name, row in rows.items()})
