"""Recordings of runs in which little or nothing happened, into summary, report, comparison, playback and traces.

A case has no, one or a few flows, time bins, messages, operations, path and port events, faults, channels, queues,
drops and errors, in any combination: whatever a run left behind, each of these must write something, without a warning
of numpy or matplotlib.
"""

from __future__ import annotations

import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.model import Experiment
from mrc_lab.experiments.running.recording import (
    FaultSpan,
    FlowInfo,
    MessageRecord,
    OperationRecord,
    PathRecord,
    PortRecord,
    Recording,
    TenantRecord,
)
from mrc_lab.reports import result_folder
from mrc_lab.reports.compare import compare
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.perfetto.convert import convert
from mrc_lab.reports.report import write_report
from mrc_lab.reports.summary import circumstances, summarize
from mrc_lab.reports.verdicts import judge
from mrc_lab.web.result_page import comparison_page, result_page

HEAD = """\
fabric: {hosts: 4, planes: 2, t0: 2, t1: 2, rate: 100G, pfc: yes}
duration: 100us
measure: {bin: 10us, queues: yes}
"""
FLOWS = "workload: {kind: write_bw, pairs: [h1>h3, h2>h4]}\n"
RANKS = "workload: {kind: collective, operation: all_reduce, bytes: 64K}\n"
METRICS = (
    "throughput", "completion_time", "outage", "failover_time", "recovery_time", "lost", "retransmitted", "fairness",
    "queue_depth", "pause_time", "pauses", "trimmed", "errors", "wrong_bytes", "paths_bad", "path_failures",
    "retransmit_share", "timeouts",
)  # fmt: skip
CHANNELS = ("h1@p0>", "h1@p0<", "t0-0:t1-0@p0>", "t0-0:t1-0@p0<")
MANY = (0, 0, 1, 1, 2, 5)


class Fuzzer:
    """Makes recordings by hand and has everything written of them."""

    def case(self, chance: random.Random) -> None:
        experiment = _experiment(chance)
        recordings = {case.name: _recording(chance, case.name) for case in experiment.cases}
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("error")
            folder = Path(place) / "result"
            folder.mkdir()
            metrics = MetricTable(experiment.cases, recordings)
            summary = summarize(experiment, metrics, judge(experiment, metrics, "sim"), "sim", 1)
            run = circumstances(chance.choice([0.0, 1.5]), 0)
            result_folder.write_result(folder, experiment, recordings, summary, run)
            write_report(folder, experiment, metrics, summary, run)
            assert "</html>" in (folder / "report.html").read_text("utf-8")
            assert compare(folder, folder)
            if all(recording.end for recording in recordings.values()):
                assert result_page(folder)
                assert comparison_page(folder, folder)
            for case in recordings:
                convert([folder / case], Path(place) / f"{case}.pftrace")

    def close(self) -> None:
        pass


def _experiment(chance: random.Random) -> Experiment:
    text = HEAD + chance.choice([FLOWS, RANKS])
    text += f"report: [{', '.join(f'{{metric: {name}}}' for name in chance.sample(METRICS, 4))}]\n"
    if chance.randrange(2):
        text += "variants: [{name: a}, {name: b}]\n"
    return load_text(text, name="empty")


def _recording(chance: random.Random, case: str) -> Recording:
    bins, flows = chance.choice([1, 1, 2, 10]), chance.choice([0, 1, 2])
    channels = CHANNELS[: chance.choice([1, 4])]
    rising = np.random.default_rng(chance.randrange(1 << 32))

    def samples(things: int, counters: int) -> Any:
        most = chance.choice([1, 50]) if flows else 1  # without a flow nothing is on the links
        steps = rising.integers(0, most, (bins, things, counters))
        return np.concatenate([np.zeros((1, things, counters), np.int64), np.cumsum(steps, axis=0)])

    def some(of: int = 1) -> range:
        return range(chance.choice(MANY) if of else 0)

    width = 10_000 if flows or bins > 1 or chance.randrange(2) else 0  # a schedule of nothing is over at once
    end = bins * width
    at = lambda: chance.randint(0, end)  # noqa: E731
    states = ("good", "assumed_bad")
    queues = samples(len(channels), 6) if chance.randrange(2) else None
    return Recording(
        case=case,
        times=np.arange(bins + 1, dtype=np.int64) * width,
        flows=tuple(FlowInfo(f"h{n + 1}>h{n + 3}", f"h{n + 1}", f"h{n + 3}", 1, 1000.0) for n in range(flows)),
        flow_samples=samples(flows, 6),
        channels=channels,
        link_samples=samples(len(channels), 3),
        messages=tuple(MessageRecord(n % flows, 0, at(), 4096, chance.randrange(3) > 0) for n in some(flows)),
        paths=tuple(
            PathRecord(at(), 0, "h1", 5, n, n % 2, *chance.sample(states, 2), "loss", chance.choice([None, at()]))
            for n in some(flows)
        ),
        ports=tuple(PortRecord(at(), "h1", n % 2, n % 2 == 0, True) for n in some()),
        operations=tuple(OperationRecord(0, at(), chance.choice([0, 65536]), chance.randrange(3) > 0) for _ in some()),
        faults=tuple(
            FaultSpan("link_down", "link down h1@p0", at(), chance.choice([None, end]), ("h1@p0",)[: n % 2])
            for n in some()
        ),
        bad_paths=0,
        trimmed=dict.fromkeys(channels[: chance.choice([0, 1])], chance.choice([0, 12])),
        drops={"port_down": 3} if chance.randrange(2) else {},
        errors=("it failed",) * chance.choice(MANY),
        wrong_bytes=0,
        checked_bytes=0,
        nic_bps=chance.choice([0, 200 * 10**9]),
        tenants=(TenantRecord("", 0, chance.choice([None, end]), 0, (), 0, 0),),
        queue_samples=queues,
        signal_edges=np.array([0, bins], np.int64) if queues is not None and chance.randrange(2) else None,
        signal_samples=samples(len(channels), 2)[[0, -1]] if queues is not None else None,
    )
