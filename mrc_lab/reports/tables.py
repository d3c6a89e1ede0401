"""The raw series of a recording as CSV files, one row a fact, times in nanoseconds from the beginning of the run."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mrc_common.written_files import writing
from mrc_lab.experiments.running.recording import FLOW_COUNTERS, LINK_COUNTERS, SIGNAL_COUNTERS, Recording, Samples
from mrc_lab.reports import queues
from mrc_lab.workloads.schedules.schedule import OperationKind

_TASKS = (
    *("workload", "rank", "host", "operation", "label", "line", "peer", "tag", "size", "cpu", "nic"),
    *("began_ns", "ended_ns"),
)


def write_tables(recording: Recording, folder: Path) -> list[str]:
    """Write the tables, and return their names.

    They are flows.csv, links.csv, completions.csv, events.csv and, if there is something in them, tasks.csv,
    queues.csv and signals.csv.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, tuple[tuple[str, ...], Iterable[Sequence[object]]]] = {
        "flows.csv": (("begin_ns", "end_ns", "flow", "bits_per_s", *FLOW_COUNTERS), _flows(recording)),
        "links.csv": (("begin_ns", "end_ns", "link", "direction", *LINK_COUNTERS), _links(recording)),
        "completions.csv": (("flow", "began_ns", "ended_ns", "bytes", "ok"), _completions(recording)),
        "events.csv": (
            ("time_ns", "event", "host", "flow", "qpn", "ev", "plane", "old", "new", "reason", "first_loss_ns"),
            _events(recording),
        ),
    }
    if recording.tasks:
        tables["tasks.csv"] = _TASKS, _tasks(recording)
    if recording.queue_samples is not None:
        tables["queues.csv"] = queues.HEAD, queues.rows(recording, _bins(recording))
    if recording.signal_samples is not None and recording.signal_edges is not None:
        rows = _signals(recording, recording.signal_edges, recording.signal_samples)
        tables["signals.csv"] = ("begin_ns", "end_ns", "link", "direction", *SIGNAL_COUNTERS), rows
    for name, (head, facts) in tables.items():
        with writing(folder / name, newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(head)
            writer.writerows(facts)
    return list(tables)


def _flows(recording: Recording) -> Iterable[Sequence[object]]:
    """A row for each bin and flow: of an all-to-all among many these are millions, so a bin is converted at once."""
    rates = np.rint(recording.rates()).astype(np.int64)
    steps = np.diff(recording.flow_samples, axis=0)
    names = [flow.name for flow in recording.flows]
    for number, (begin, end) in enumerate(_bins(recording)):
        for name, rate, counts in zip(names, rates[number].tolist(), steps[number].tolist(), strict=True):
            yield begin, end, name, rate, *counts


def _links(recording: Recording) -> Iterable[Sequence[object]]:
    """Only lines that carried something in a bin have a row there."""
    steps = np.diff(recording.link_samples, axis=0)
    for number, (begin, end) in enumerate(_bins(recording)):
        busy = np.flatnonzero(steps[number].any(axis=1))
        for column, counts in zip(busy.tolist(), steps[number, busy].tolist(), strict=True):
            line = recording.channels[column]
            yield begin, end, line[:-1], "up" if line[-1] == ">" else "down", *counts


def _signals(recording: Recording, edges: Samples, samples: Samples) -> Iterable[Sequence[object]]:
    """What was marked and trimmed from one sample to the next, which may be several bins; only where something was."""
    steps = np.diff(samples, axis=0)
    for number, (first, last) in enumerate(itertools.pairwise(edges)):
        begin, end = int(recording.times[first]), int(recording.times[last])
        for column in np.flatnonzero(steps[number].any(axis=1)):
            name = recording.channels[column]
            yield begin, end, name[:-1], "up" if name[-1] == ">" else "down", *map(int, steps[number, column])


def _completions(recording: Recording) -> Iterable[Sequence[object]]:
    for message in recording.messages:
        yield recording.flows[message.flow].name, message.began, message.time, message.size, int(message.ok)
    for operation in recording.operations:
        yield _tenant(recording, operation.tenant) or "collective", operation.began, operation.ended, operation.size, 1


def _tasks(recording: Recording) -> Iterable[Sequence[object]]:
    """Every operation of schedules; a time is empty if it did not come to that. A calc's size is in ns."""
    for task in recording.tasks:
        one, times = task.operation, ("" if time is None else time for time in (task.began, task.ended))
        peer, tag = ("", "") if one.kind is OperationKind.CALC else (one.peer, one.tag)
        what = one.rank, task.host, one.kind.value, one.label, one.line or "", peer, tag, one.size, one.cpu, one.queue
        yield _tenant(recording, task.tenant), *what, *times


def _tenant(recording: Recording, number: int) -> str:
    return recording.tenants[number].name if recording.tenants else ""


def _events(recording: Recording) -> Iterable[Sequence[object]]:
    rows: list[tuple[object, ...]] = []
    for path in recording.paths:
        flow, first = recording.flows[path.flow].name, "" if path.first_loss is None else path.first_loss
        states = path.old, path.new, path.reason
        rows.append((path.time, "path", path.host, flow, path.qpn, path.ev, path.plane, *states, first))
    for port in recording.ports:
        kind = "port" if port.local else "peer port"
        old, new = ("down", "up") if port.up else ("up", "down")
        rows.append((port.time, kind, port.host, "", "", "", port.port, old, new, "", ""))
    for fault in recording.faults:
        rows.append((fault.at, "fault begins", "", "", "", "", "", "", "", fault.label, ""))
        if fault.until is not None:
            rows.append((fault.until, "fault ends", "", "", "", "", "", "", "", fault.label, ""))
    rows += [(one.time, "reroute", "", "", "", "", one.plane, "", "", one.text, "") for one in recording.reroutes]
    return sorted(rows, key=lambda row: int(str(row[0])))


def _bins(recording: Recording) -> Iterable[tuple[int, int]]:
    edges = [int(edge) for edge in recording.times]
    return itertools.pairwise(edges)
