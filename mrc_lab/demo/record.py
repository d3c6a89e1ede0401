"""The record of one run of the job: reports of all ranks in order, and the faults that were made meanwhile."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrc_common import strict_json
from mrc_common.written_files import writing
from mrc_host.verbs_types import PathEvent, PathReason, PathState
from mrc_lab.demo.faults import LinkCut


@dataclass(frozen=True, slots=True)
class StepReport:
    """One rank's step; times in ns of the monotonic clock."""

    step: int
    rank: int
    begin_ns: int
    end_ns: int
    compute_ns: int
    loss: float
    accuracy: float
    crc: int


@dataclass(frozen=True, slots=True)
class RankPathEvent:
    """A path event and the rank whose NIC reported it."""

    rank: int
    event: PathEvent


@dataclass(slots=True)
class RunRecord:
    """One run of the job over one transport, filled report by report."""

    transport: str
    hosts: tuple[str, ...]
    planned_steps: int
    started_ns: int
    ended_ns: int = 0
    steps: dict[int, dict[int, StepReport]] = field(default_factory=dict)
    completed_steps: int = 0  # by every rank
    path_events: list[RankPathEvent] = field(default_factory=list)
    other_events: list[dict[str, Any]] = field(default_factory=list)
    queue_pairs: dict[int, tuple[int, int]] = field(default_factory=dict)  # rank -> QPN to next, to previous
    status: dict[int, dict[str, Any]] = field(default_factory=dict)  # rank -> latest
    pattern_checked: int = 0
    pattern_wrong: int = 0
    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    faults: list[LinkCut] = field(default_factory=list)
    cpu_idle: list[float] = field(default_factory=list)  # share of all cores, about one a second
    cpu_seconds: float | None = None  # used by the fabric and the job
    interrupted: bool = False

    def take(self, rank: int, report: Mapping[str, Any]) -> None:
        """Account for one report of a worker."""
        value = {key: item for key, item in report.items() if key != "kind"}
        kind = report["kind"]
        if kind == "step":
            reports = self.steps.setdefault(value["step"], {})
            reports[rank] = StepReport(rank=rank, **value)
            self.completed_steps += len(reports) == len(self.hosts)
        elif kind == "path":
            self.path_events.append(RankPathEvent(rank, _path_event(value)))
        elif kind in ("port", "slow_port", "qp"):
            self.other_events.append({"kind": kind, "rank": rank, **value})
        elif kind == "status":
            self.status[rank] = value
        elif kind == "joined":
            self.queue_pairs[rank] = (value["to_next"], value["to_previous"])
        elif kind == "pattern":
            self.pattern_checked += value["checked"]
            self.pattern_wrong += value["wrong"]
        elif kind == "done":
            self.done[rank] = value
        elif kind == "failed":
            self.failures.append(f"rank {rank}: {value['reason']}")
        else:
            raise ValueError(f"unknown report {kind!r} from rank {rank}")

    @property
    def complete(self) -> bool:
        """Whether every rank did the whole job."""
        return self.completed_steps == self.planned_steps and len(self.done) == len(self.hosts)

    def counters(self) -> Counter[str]:
        """Queue pair counters, summed over all ranks (as far as reported)."""
        total: Counter[str] = Counter()
        for status in self.status.values():
            total.update(status["counters"])
        return total

    def peer_of(self, rank: int, qpn: int) -> str | None:
        """Host at the other end of a rank's queue pair."""
        to_next, to_previous = self.queue_pairs.get(rank, (-1, -1))
        if qpn not in (to_next, to_previous):
            return None
        return self.hosts[(rank + (1 if qpn == to_next else -1)) % len(self.hosts)]

    def write(self, folder: Path) -> None:
        """Write the raw series: one CSV of steps, one file of events as JSON lines."""
        reports = [self.steps[step][rank] for step in sorted(self.steps) for rank in sorted(self.steps[step])]
        steps = folder / f"steps-{self.transport}.csv"
        with writing(steps, newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "rank", "begin_s", "end_s", "compute_s", "loss", "accuracy", "gradient_crc"])
            for r in reports:
                begin, end = (f"{(t - self.started_ns) / 1e9:.6f}" for t in (r.begin_ns, r.end_ns))
                compute = f"{r.compute_ns / 1e9:.6f}"
                writer.writerow([r.step, r.rank, begin, end, compute, r.loss, r.accuracy, f"{r.crc:08x}"])
        events = folder / f"events-{self.transport}.jsonl"
        with writing(events) as file:
            start = {"time_s": 0.0, "kind": "start", "monotonic_ns": self.started_ns}
            file.write(strict_json.dumps(start) + "\n")  # puts the times on the clock of event traces
            for event in sorted(self._events(), key=lambda event: event["time_s"]):
                file.write(strict_json.dumps(strict_json.finite(event)) + "\n")

    def _events(self) -> Iterable[dict[str, Any]]:
        """Faults and NIC events as JSON objects, times in seconds since the start of the run."""
        for fault in self.faults:
            yield {
                "time_s": self.seconds(fault.link_down_ns),
                "kind": "link_down",
                "link": fault.link,
                "step": fault.step,
            }
            if fault.link_up_ns is not None:
                yield {"time_s": self.seconds(fault.link_up_ns), "kind": "link_up", "link": fault.link}
        for entry in self.path_events:
            event = entry.event
            loss = None if event.first_loss_time is None else self.seconds(event.first_loss_time)
            yield {
                "time_s": self.seconds(event.time),
                "kind": "path",
                "host": self.hosts[entry.rank],
                "peer": self.peer_of(entry.rank, event.qpn),
                "ev": event.ev,
                "plane": event.plane,
                "old": event.old.value,
                "new": event.new.value,
                "reason": event.reason.value,
                "first_loss_s": loss,
            }
        for other in self.other_events:
            value = {key: item for key, item in other.items() if key not in ("time", "rank")}
            yield {"time_s": self.seconds(other["time"]), "host": self.hosts[other["rank"]], **value}

    def seconds(self, time_ns: int) -> float:
        """Seconds since the start of the run, to the microsecond."""
        return round((time_ns - self.started_ns) / 1e9, 6)


def _path_event(value: Mapping[str, Any]) -> PathEvent:
    enums = {
        "old": PathState(value["old"]),
        "new": PathState(value["new"]),
        "reason": PathReason(value["reason"]),
    }
    return PathEvent(**{**value, **enums})
