"""From the record of a run to its metrics. Pure functions; nothing is asked of the running world.

A step takes as long as on its slowest rank. A stall is the time between two step completions (a step is complete when
the last rank has it), so it covers verification between steps too, and time after the last completion when the job
never got further. A path is out of use when its NIC says it is ASSUMED_BAD (or DENIED); how long that took counts
from the moment its earliest packet now known lost was sent or, where a port status update arrived before any packet was
lost, from link down. It has recovered when its NIC says GOOD (or SKIP) and does not revoke that before the next fault;
that counts from link up.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from mrc_host.verbs_types import PathState
from mrc_lab.demo.faults import LinkCut, crosses
from mrc_lab.demo.record import RankPathEvent, RunRecord
from mrc_lab.reports.step_times import Step, steps_around
from topologies import addressing
from topologies.fabric import Fabric, LinkKind

_OUT_OF_USE = (PathState.ASSUMED_BAD, PathState.DENIED)
WARM_UP_STEPS = 2


@dataclass(frozen=True, slots=True)
class Spread:
    """Least, median and largest of some metrics."""

    count: int
    least: float
    median: float
    largest: float


@dataclass(frozen=True, slots=True)
class FaultMetrics:
    """What one fault did to one run; seconds, None where there is nothing to measure.

    `lost_s` is what steps took longer than usual (:mod:`mrc_lab.reports.step_times`). `failover` and `recovery` are
    over the paths that cross the link and went out of use; `never_recovered` of them did not return;
    `collateral_paths` went out of use in the same time although they do not cross the link. For a NIC's link
    `port_down` and `port_up` are over the NICs concerned: from the cut until each avoided the plane towards that NIC
    (by its own carrier or its peer's message), and from its return until each used it again.
    """

    kind: str
    link: str
    link_down_s: float
    link_up_s: float | None
    cut_after_step: int
    step_before: Spread | None
    step_during: Spread | None
    step_after: Spread | None
    lost_s: float | None
    longest_stall_s: float
    resumed_after_link_up_s: float | None
    failover: Spread | None
    recovery: Spread | None
    never_recovered: int
    collateral_paths: int
    port_down: Spread | None
    port_up: Spread | None


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """Metrics of one run of the job; shares of the processor are of all cores (1: none was idle).

    `cpu_used_share` is what the fabric and the job used, `cpu_idle_share` what nobody did, `cpu_idle_least` the
    least of that in any second.
    """

    steps: int
    duration_s: float
    median_step_s: float | None
    longest_stall_s: float
    packets_sent: int
    packets_lost: int
    packets_retransmitted: int
    spurious_retransmitted: int
    timeouts: int
    faults: tuple[FaultMetrics, ...]
    wrong_bytes: int
    verified_bytes: int
    unequal_gradients: int
    cpu_used_share: float | None
    cpu_idle_share: float | None
    cpu_idle_least: float | None


def steps_of(record: RunRecord) -> list[Step]:
    """The steps that every rank completed, in order."""
    found = []
    for number in sorted(record.steps):
        reports = record.steps[number].values()
        if len(reports) == len(record.hosts):
            slowest = max(r.end_ns - r.begin_ns for r in reports)
            begin, end = min(r.begin_ns for r in reports), max(r.end_ns for r in reports)
            found.append(Step(number, begin, end, slowest))
    return found


def run_metrics(record: RunRecord, fabric: Fabric) -> RunMetrics:
    """All metrics of a run, as far as it went."""
    steps = steps_of(record)
    counters = record.counters()
    transfers = [status["transfer"] for status in record.status.values()]
    idle = record.cpu_idle
    return RunMetrics(
        steps=len(steps),
        duration_s=(record.ended_ns - record.started_ns) / 1e9,
        median_step_s=statistics.median(s.duration_s for s in steps) if steps else None,
        longest_stall_s=_longest_gap(_gaps(record, steps), 0, record.ended_ns),
        packets_sent=counters["data_sent"],
        packets_lost=counters["lost"],
        packets_retransmitted=counters["retransmitted"],
        spurious_retransmitted=counters["spurious_retransmitted"],
        timeouts=counters["timeouts"],
        faults=tuple(_fault_metrics(record, fabric, steps, index) for index in range(len(record.faults))),
        wrong_bytes=record.pattern_wrong + sum(t["wrong_bytes"] for t in transfers),
        verified_bytes=record.pattern_checked + sum(t["bytes"] for t in transfers),
        unequal_gradients=sum(len({r.crc for r in reports.values()}) > 1 for reports in record.steps.values()),
        cpu_used_share=_cpu_used_share(record),
        cpu_idle_share=statistics.fmean(idle) if idle else None,
        cpu_idle_least=min(idle) if idle else None,
    )


def _cpu_used_share(record: RunRecord) -> float | None:
    lasted_s = (record.ended_ns - record.started_ns) / 1e9
    if record.cpu_seconds is None or lasted_s <= 0:
        return None
    return record.cpu_seconds / lasted_s / (os.cpu_count() or 1)


def _fault_metrics(record: RunRecord, fabric: Fabric, steps: Sequence[Step], index: int) -> FaultMetrics:
    fault = record.faults[index]
    link_up = fault.link_up_ns
    begin = record.faults[index - 1].link_up_ns if index else None
    end = record.faults[index + 1].link_down_ns if index + 1 < len(record.faults) else record.ended_ns
    around = steps_around(steps, fault.link_down_ns, link_up, begin_ns=begin or 0, end_ns=end, first=WARM_UP_STEPS)
    failover, recovery, never_recovered, collateral = _path_metrics(record, fabric, fault, end)
    resumed = min((s.end_ns for s in steps if link_up is not None and s.end_ns > link_up), default=None)
    return FaultMetrics(
        kind=fault.kind.value,
        link=fault.link,
        link_down_s=record.seconds(fault.link_down_ns),
        link_up_s=None if link_up is None else record.seconds(link_up),
        cut_after_step=fault.step,
        step_before=spread([s.duration_s for s in around.before]),
        step_during=spread([s.duration_s for s in around.during]),
        step_after=spread([s.duration_s for s in around.after]),
        lost_s=None if around.lost_ns is None else around.lost_ns / 1e9,
        longest_stall_s=_longest_gap(_gaps(record, steps), fault.link_down_ns, link_up or end),
        resumed_after_link_up_s=None if resumed is None or link_up is None else (resumed - link_up) / 1e9,
        failover=spread(failover),
        recovery=spread(recovery),
        never_recovered=never_recovered,
        collateral_paths=collateral,
        port_down=_port_metrics(record, fabric, fault, fault.link_down_ns, up=False),
        port_up=_port_metrics(record, fabric, fault, link_up, up=True),
    )


def _port_metrics(
    record: RunRecord, fabric: Fabric, fault: LinkCut, since_ns: int | None, *, up: bool
) -> Spread | None:
    """Seconds from `since_ns` until each NIC concerned stopped (or began) to use the plane of a cut NIC link."""
    link = fabric.link(fault.link)
    if link.kind is not LinkKind.NIC_T0 or since_ns is None or record.transport != "mrc":
        return None
    nic = link.lower.node
    address = addressing.nic_address(fabric, fabric.nic(nic)).packed.hex()
    first: dict[int, float] = {}
    for event in record.other_events:
        if event["kind"] != "port" or event["port"] != link.plane or event["up"] is not up or event["time"] < since_ns:
            continue
        own = event["local"] and record.hosts[event["rank"]] == nic
        if own or event["peer"] == address:
            first.setdefault(event["rank"], (event["time"] - since_ns) / 1e9)
    return spread(list(first.values()))


def _path_metrics(
    record: RunRecord, fabric: Fabric, fault: LinkCut, end_ns: int
) -> tuple[list[float], list[float], int, int]:
    """Failover and recovery seconds of each path hit, paths that never did, and paths hit without cause."""
    link = fabric.link(fault.link)
    histories: dict[tuple[int, int, int], list[RankPathEvent]] = {}
    for entry in sorted(record.path_events, key=lambda entry: entry.event.time):
        if fault.link_down_ns <= entry.event.time < end_ns:
            histories.setdefault((entry.rank, entry.event.qpn, entry.event.ev), []).append(entry)
    failover: list[float] = []
    recovery: list[float] = []
    never_recovered = collateral = 0
    for (rank, qpn, ev), history in histories.items():
        first_bad = next((e.event for e in history if e.event.new in _OUT_OF_USE), None)
        if first_bad is None:
            continue
        peer = record.peer_of(rank, qpn)
        since = fault.link_down_ns if first_bad.first_loss_time is None else first_bad.first_loss_time
        too_late = fault.link_up_ns is not None and since >= fault.link_up_ns
        if too_late or peer is None or not crosses(fabric, link, record.hosts[rank], peer, ev):
            collateral += 1
            continue
        failover.append((first_bad.time - since) / 1e9)
        returned = _returned_at(history, fault.link_up_ns)
        if returned is None:
            never_recovered += 1
        else:
            recovery.append(returned)
    return failover, recovery, never_recovered, collateral


def _returned_at(history: Sequence[RankPathEvent], link_up_ns: int | None) -> float | None:
    """How long (s) after the link was restored a path was in use again; None if it never was."""
    if link_up_ns is None:
        return None
    usable_at_mending = True
    for entry in history:
        usable = entry.event.new not in _OUT_OF_USE
        if entry.event.time >= link_up_ns and usable:
            return (entry.event.time - link_up_ns) / 1e9
        if entry.event.time < link_up_ns:
            usable_at_mending = usable
    return 0.0 if usable_at_mending else None


def _gaps(record: RunRecord, steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Intervals (ns) between step completions, and the rest of the run where the job did not finish."""
    times = [steps[0].begin_ns if steps else record.started_ns, *(s.end_ns for s in steps)]
    if not record.complete and not record.interrupted:
        times.append(max(record.ended_ns, times[-1]))
    return list(itertools.pairwise(times))


def _longest_gap(gaps: Sequence[tuple[int, int]], begin: int, end: int) -> float:
    """Longest of the gaps that overlap begin..end, in seconds; 0 when none does."""
    return max((b - a for a, b in gaps if b > begin and a < end), default=0) / 1e9


def spread(values: Sequence[float]) -> Spread | None:
    """Spread of some metrics; None of none."""
    if not values:
        return None
    return Spread(len(values), min(values), statistics.median(values), max(values))
