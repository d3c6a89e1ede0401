"""The summary of a result: what a program wants to know of it, as JSON. The same file and seed give the same summary.

Whatever differs from run to run of the same thing (when, how long it took, on what machine) is kept apart, in
`run.json`.
"""

from __future__ import annotations

import dataclasses
import functools
import platform
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from mrc_common import children
from mrc_common.declared.sections import keys_of
from mrc_lab.experiments.files.fabric_part import FabricPart, build_fabric
from mrc_lab.experiments.files.model import Case, Experiment, Selection, TransportPart
from mrc_lab.experiments.files.sizes import size_of
from mrc_lab.experiments.running.extent import extent_of
from mrc_lab.experiments.running.recording import FLOW_COUNTERS
from mrc_lab.reports import flow_times, queues
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.no_difference import without_difference
from mrc_lab.reports.published import summarize_published
from mrc_lab.reports.reported_metrics import reported_metrics
from mrc_lab.reports.statistics import rounded, statistic
from mrc_lab.reports.step_times import job_steps
from mrc_lab.reports.verdicts import Judged, overall

FORMAT = 1
_PACKAGES = ("mrc-testbed", "numpy", "matplotlib", "PyYAML")
_SHARES = ("median", "p99", "max")


def summarize(
    experiment: Experiment, metrics: MetricTable, judged: list[Judged], backend: str, seed: int
) -> dict[str, Any]:
    """Everything of `summary.json`."""
    recordings = metrics.recordings
    trusted = all(recording.fidelity.trusted for recording in recordings.values())
    return {
        "format": FORMAT,
        "name": experiment.name,
        "title": experiment.title,
        "figure": experiment.figure,
        "about": experiment.about,
        "scaled": experiment.scaled,
        "backend": backend,
        "seed": seed,
        "verdict": overall(judged, trusted).value,
        "trusted": trusted,
        "expectations": [_expectation(one) for one in judged],
        "published": summarize_published(experiment, metrics),
        "reported": _rounded_all(reported_metrics(experiment, metrics)),
        "no_difference": list(without_difference(experiment, recordings, backend)),
        "cases": {case.name: _case(case, metrics, seed) for case in experiment.cases},
    }


def _expectation(one: Judged) -> dict[str, Any]:
    found = dataclasses.asdict(one)
    found["verdict"] = one.verdict.value
    return {name: rounded(value) for name, value in found.items()}


def _case(case: Case, metrics: MetricTable, seed: int) -> dict[str, Any]:
    recording, whole = metrics.recordings[case.name], Selection(variant=case.name)
    rates = recording.rates()
    totals = recording.flow_samples[-1].sum(axis=0)
    return {
        "transport": _transport(case.transport),
        "fabric": {
            name: getattr(case.fabric, keys_of(FabricPart)[name].field)
            for name in ("hosts", "planes", "t0", "t1", "rate", "delay", "mtu")
        },
        "extent": extent_of(case, build_fabric(case.fabric), seed).numbers(),
        "nic_bps": recording.nic_bps,
        "rate_scale": recording.rate_scale,
        "time_scale": recording.time_scale,
        "end_ns": recording.end,
        "throughput_bps": rounded(metrics.value("throughput", whole)),
        "flows": {
            flow.name: {
                "median_bps": rounded(statistic("median", rates[:, column])),
                "min_bps": rounded(statistic("min", rates[:, column])),
                "max_bps": rounded(statistic("max", rates[:, column])),
                "packets": int(recording.flow_samples[-1, column, 0]),
            }
            for column, flow in enumerate(recording.flows)
        },
        "packets": {name: int(value) for name, value in zip(FLOW_COUNTERS, totals, strict=True)},
        "completion_time_ns": _completion_times(metrics, whole),
        "size_bytes": None if case.tenant_names else size_of(case.workload),
        **_tenants(case, metrics),
        **queues.summary(metrics, whole),
        **flow_times.summary(recording, recording.flow_records),
        "steps": {one.tenant: one.numbers() for one in job_steps(case, recording)},
        "messages": len(recording.messages),
        "operations": len(recording.operations),
        "path_events": len(recording.paths),
        "paths_bad_at_end": recording.bad_paths,
        "trimmed": dict(recording.trimmed),
        "drops": dict(recording.drops),
        "warnings": list(recording.warnings),
        **({"interrupted": recording.interrupted} if recording.interrupted else {}),
        "errors": list(recording.errors),
        "wrong_bytes": recording.wrong_bytes,
        "checked_bytes": recording.checked_bytes,
        "faults": [dataclasses.asdict(fault) for fault in recording.faults],
        "fidelity": {
            "trusted": recording.fidelity.trusted,
            "reasons": list(recording.fidelity.reasons),
            "measurements": dict(recording.fidelity.measurements),
            "notes": list(recording.fidelity.notes),
        },
    }


def _completion_times(metrics: MetricTable, of: Selection) -> dict[str, float | None]:
    return {name: rounded(metrics.value("completion_time", replace(of, statistic=name))) for name in _SHARES}


def _tenants(case: Case, metrics: MetricTable) -> dict[str, Any]:
    """Each tenant's share of the figures above, where a file has tenants."""
    if not case.tenant_names:
        return {}
    return {"tenants": {name: tenant_summary(case, metrics, number) for number, name in enumerate(case.tenant_names)}}


def tenant_summary(case: Case, metrics: MetricTable, number: int) -> dict[str, Any]:
    """What one tenant did: `bytes` are those of its writes and operations that completed."""
    recording = metrics.recordings[case.name]
    tenant, record = case.tenants[number], recording.tenants[number]
    own = Selection(variant=case.name, tenant=tenant.name)
    flows = [column for column, flow in enumerate(recording.flows) if flow.tenant == number]
    packets = recording.flow_samples[-1, flows].sum(axis=0)
    messages = [one for one in recording.messages if recording.flows[one.flow].tenant == number]
    operations = [one for one in recording.operations if one.tenant == number]
    return {
        "workload": tenant.workload.name,
        "transport": _transport(tenant.transport),
        "size_bytes": size_of(tenant.workload),
        "start_ns": record.start,
        "ended_ns": record.ended,
        "throughput_bps": rounded(metrics.value("throughput", own)),
        "completion_time_ns": _completion_times(metrics, own),
        "packets": {name: int(value) for name, value in zip(FLOW_COUNTERS, packets, strict=True)},
        "bytes": sum(one.size for one in messages if one.ok) + sum(one.size for one in operations),
        "messages": len(messages),
        "operations": len(operations),
        "paths_bad_at_end": record.bad_paths,
        "errors": list(record.errors),
        "wrong_bytes": record.wrong_bytes,
        "checked_bytes": record.checked_bytes,
    }


def _transport(part: TransportPart) -> dict[str, Any]:
    return {"type": part.type, "qps": part.qps, "congestion": part.congestion}


def circumstances(wall_seconds: float, packets: int) -> dict[str, Any]:
    """Everything of `run.json`: when, where, with what, how fast."""
    return {
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "wall_seconds": round(wall_seconds, 3),
        "packets_per_wall_second": round(packets / wall_seconds) if wall_seconds else 0,
        "command": sys.argv,
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": versions(),
        "commit": commit(),
    }


def versions() -> dict[str, str]:
    """Versions of what computes the figures."""
    return {package: _version(package) for package in _PACKAGES}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


@functools.cache
def commit() -> str:
    """The checkout's commit, marked where it was changed; empty outside of one."""
    root = Path(__file__).resolve().parent
    try:
        ran = children.run(
            ("git", "describe", "--always", "--dirty", "--abbrev=12"),
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return str(ran.stdout).strip()


def _rounded_all(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "values": {case: rounded(value) for case, value in one["values"].items()}} for one in found]


__all__ = ["circumstances", "commit", "summarize", "versions"]
