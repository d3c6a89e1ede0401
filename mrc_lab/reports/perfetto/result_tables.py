"""The tables of a result folder as tracks: links and switch queues as counters, steps, tasks and faults as slices.

`mrc run` leaves a folder of CSV files for every case (mrc_lab/reports/tables.py), `mrc demo` one of steps and events
for both transports. Tables are read row by row. Their times count from the beginning of the run; `base` is added.
Slices that overlap, as writes of one flow do, get tracks of their own, as few as possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mrc_lab.reports.perfetto import json_lines
from mrc_lab.reports.perfetto.json_lines import naming_line
from mrc_lab.reports.perfetto.track_writer import TrackWriter
from mrc_lab.reports.read_table import Row, rows, time_bin

_ARROWS: Final = {"up": ">", "down": "<"}
_MAX_LANES: Final = 256


class Lanes:
    """Tracks for slices that may overlap, each on the first track that is free when it begins."""

    def __init__(self, writer: TrackWriter, name: str, parent: int) -> None:
        self._writer, self._name, self._parent = writer, name, parent
        self._ends: list[int] = []

    def slice(self, begin: int, end: int, name: str, values: Mapping[str, str | int | float] | None = None) -> int:
        """Write one slice; returns its track."""
        lane = next((lane for lane, last in enumerate(self._ends) if last <= begin), len(self._ends))
        if lane == len(self._ends):
            if lane == _MAX_LANES:
                raise ValueError(f"more than {_MAX_LANES} slices of {self._name} at once")
            self._ends.append(0)
        self._ends[lane] = end
        label = self._name if lane == 0 else f"{self._name} ({lane + 1})"
        track = self._writer.track(label, self._parent, rank=lane)
        self._writer.slice(track, begin, end, name, values)
        return track


class _Counters:
    """Counters that have a value in some bins, and `rest` in the others."""

    def __init__(self, writer: TrackWriter) -> None:
        self._writer = writer
        self._until: dict[int, int] = {}

    def put(self, track: int, begin: int, end: int, value: float) -> None:
        """It is `value` from `begin` to `end`."""
        until = self._until.get(track)
        if until is not None and until < begin:
            self._writer.counter(track, until, 0)
        self._writer.counter(track, begin, value)
        self._until[track] = end

    def close(self) -> None:
        """They end."""
        for track, until in self._until.items():
            self._writer.counter(track, until, 0)


def convert_case(writer: TrackWriter, folder: Path, base: int, paths: bool) -> None:
    """The tables of one case. With `paths` also the changes of paths, for where there is no event trace of the NICs."""
    _work(writer, folder, base)
    _faults_and_paths(writer, folder / "events.csv", base, paths)
    _links(writer, folder / "links.csv", base)
    if (folder / "queues.csv").exists():
        _queues(writer, folder / "queues.csv", base)
    if (folder / "signals.csv").exists():
        _signals(writer, folder / "signals.csv", base)


def convert_demo(writer: TrackWriter, folder: Path, transport: str) -> None:
    """The steps of the training job over one transport, and what happened meanwhile, on the clock of event traces."""
    happened = folder / f"events-{transport}.jsonl"
    base = _start(happened)
    group = writer.track(f"training over {transport}", rank=-2)
    lanes: dict[str, Lanes] = {}
    for path, number, row in rows(folder / f"steps-{transport}.csv", ("step", "rank", "begin_s", "end_s", "compute_s")):
        with naming_line(path, number, "a step of the demo"):
            begin, end, compute = (_ns(row[key]) for key in ("begin_s", "end_s", "compute_s"))
            rank = row["rank"]
            track = lanes.setdefault(rank, Lanes(writer, f"rank {int(rank)}", group)).slice(
                base + begin, base + end, f"step {int(row['step'])}", {"loss": float(row.get("loss", "nan"))}
            )
            if 0 < compute < end - begin:
                writer.slice(track, base + begin, base + begin + compute, "compute")
                writer.slice(track, base + begin + compute, base + end, "all-reduce")
    events = writer.track("events", group, rank=-1)
    for number, event in json_lines.lines(happened):
        with naming_line(happened, number, "an event of the demo"):
            kind = str(event["kind"])
            if kind == "start":
                continue
            what = {key: value for key, value in event.items() if isinstance(value, int | float | str)}
            place = event.get("link") or f"{event.get('host', '')} {event.get('new', '')}".strip()
            writer.instant(events, base + round(float(event["time_s"]) * 1e9), f"{kind}: {place}", what)


def _start(path: Path) -> int:
    """When the run began by the monotonic clock (ns); 0 in results that do not say it."""
    for number, event in json_lines.lines(path):
        with naming_line(path, number, "an event of the demo"):
            return int(event["monotonic_ns"]) if event["kind"] == "start" else 0
    return 0


def _ns(seconds: str) -> int:
    return round(float(seconds) * 1e9)


def _work(writer: TrackWriter, folder: Path, base: int) -> None:
    """Completed writes, steps of collectives and training jobs, and the tasks of schedules."""
    group = writer.track("workload", rank=-3)
    lanes: dict[str, Lanes] = {}
    steps: dict[str, int] = {}
    for path, number, row in rows(folder / "completions.csv", ("flow", "began_ns", "ended_ns", "bytes", "ok")):
        with naming_line(path, number, "a completion"):
            flow = row["flow"]
            steps[flow] = steps.get(flow, 0) + 1
            step = ">" not in flow
            lane = lanes.setdefault(flow, Lanes(writer, flow, group))
            name = (f"step {steps[flow]}" if step else "write") + ("" if row["ok"] == "1" else " (failed)")
            lane.slice(base + int(row["began_ns"]), base + int(row["ended_ns"]), name, {"bytes": int(row["bytes"])})
    if not (folder / "tasks.csv").exists():
        return
    columns = ("workload", "host", "operation", "label", "size", "began_ns", "ended_ns")
    for path, number, row in rows(folder / "tasks.csv", columns):
        with naming_line(path, number, "a task"):
            if row["began_ns"] and row["ended_ns"]:
                place = " ".join(filter(None, (row["workload"], row["host"])))
                lane = lanes.setdefault(f"tasks {place}", Lanes(writer, f"tasks of {place}", group))
                name = f"{row['operation']} {row['label']}"
                lane.slice(base + int(row["began_ns"]), base + int(row["ended_ns"]), name, {"size": int(row["size"])})


def _faults_and_paths(writer: TrackWriter, path: Path, base: int, paths: bool) -> None:
    faults = writer.track("faults", rank=-2)
    states: dict[int, int] = {}  # path's track -> when its state began
    began: dict[str, list[int]] = {}
    lanes = Lanes(writer, "fault", faults)
    last = base
    for source, number, row in rows(path, ("time_ns", "event", "host", "flow", "qpn", "ev", "plane", "new", "reason")):
        with naming_line(source, number, "an event"):
            time, kind = base + int(row["time_ns"]), row["event"]
            last = max(last, time)
            if kind == "fault begins":
                began.setdefault(row["reason"], []).append(time)
            elif kind == "fault ends":
                since = began.get(row["reason"]) or [base]
                lanes.slice(since.pop(0), time, row["reason"])
            elif kind == "reroute":
                writer.instant(writer.track(f"routes of plane {int(row['plane'])}", faults), time, row["reason"])
            elif kind == "path" and paths:
                host = writer.track(row["host"])
                pair = writer.track(f"queue pair {int(row['qpn']):#x} ({row['flow']})", host)
                track = writer.track(
                    f"plane {int(row['plane'])}, path {int(row['ev']):#x}", pair, rank=int(row["plane"])
                )
                since_ns = states.pop(track, None)
                if since_ns is None:
                    writer.slice(track, base, time, row["old"])
                else:
                    writer.end(track, time)
                writer.begin(track, time, row["new"], {"reason": row["reason"]})
                states[track] = time
    for label, times in began.items():
        for time in times:
            lanes.slice(time, max(last, time), f"{label} (to the end)")
    for track in states:
        writer.end(track, last)


def _links(writer: TrackWriter, path: Path, base: int) -> None:
    group, counters = writer.track("links", rank=-1), _Counters(writer)
    for source, number, row in rows(path, ("begin_ns", "end_ns", "link", "direction", "bytes", "lost")):
        with naming_line(source, number, "a row of links"):
            begin, end, name = _bin(row)
            rate = 8e3 * int(row["bytes"]) / max(1, end - begin)
            counters.put(writer.track(f"{name} rate", group, unit="Mbit/s"), base + begin, base + end, rate)
            lost = int(row["lost"])
            if lost:
                counters.put(writer.track(f"{name} lost", group, unit="packets"), base + begin, base + end, lost)
    counters.close()


def _queues(writer: TrackWriter, path: Path, base: int) -> None:
    group, counters = writer.track("switch queues", rank=0), _Counters(writer)
    for source, number, row in rows(path, ("begin_ns", "end_ns", "link", "direction", "peak_bytes", "mean_bytes")):
        with naming_line(source, number, "a row of queues"):
            begin, end, name = _bin(row)
            for what in ("mean", "peak"):
                if row[f"{what}_bytes"]:
                    track = writer.track(f"{name} {what}", group, unit="bytes")
                    counters.put(track, base + begin, base + end, int(row[f"{what}_bytes"]))
    counters.close()


def _signals(writer: TrackWriter, path: Path, base: int) -> None:
    group, counters = writer.track("switch queues", rank=0), _Counters(writer)
    for source, number, row in rows(path, ("begin_ns", "end_ns", "link", "direction", "marked", "trimmed")):
        with naming_line(source, number, "a row of signals"):
            begin, end, name = _bin(row)
            for what in ("marked", "trimmed"):
                if int(row[what]):
                    track = writer.track(f"{name} {what}", group, unit="packets")
                    counters.put(track, base + begin, base + end, int(row[what]))
    counters.close()


def _bin(row: Row) -> tuple[int, int, str]:
    begin, end = time_bin(row)
    return begin, end, row["link"] + _ARROWS.get(row["direction"], "")
