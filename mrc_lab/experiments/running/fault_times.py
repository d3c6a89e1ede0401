"""Times of an emulated run's faults, compared with those of the file.

The controller does both at the time, one change of the fabric after the other; a machine that is slow, or whose kernel
is busy with other interfaces, makes it late. What was done when is in the controller's records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from topologies.faults.record import FaultRecord


@dataclass(frozen=True, slots=True)
class FaultTimes:
    """A fault of a run in words, and when it is to be there and gone (ns of CLOCK_MONOTONIC; None: it stays)."""

    label: str
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Deviation:
    """By how much (ns) a fault was made or taken back too late or too early, and a sentence that says so."""

    ns: int
    text: str


def problems(planned: Mapping[str, FaultTimes], records: Iterable[FaultRecord]) -> list[str]:
    """Sentences on faults, planned by id, that could not be made, or of which the controller has no record."""
    known = {record.id: record for record in records}
    found = [
        f"fault {fault} could not be made as planned: {known[fault].problem}"
        for fault in planned
        if fault in known and known[fault].problem
    ]
    lost = [f"{times.label} ({fault})" for fault, times in planned.items() if fault not in known]
    if lost:
        found.append(f"the controller does not know any more when it made {', '.join(lost)}: was it restarted?")
    return found


def deviations(planned: Mapping[str, FaultTimes], records: Iterable[FaultRecord], over: int) -> tuple[Deviation, ...]:
    """Of every change due before a run was `over`, largest first; what was not done by then is late by the rest."""
    found = [
        deviation
        for record in records
        if record.id in planned
        for deviation in _of_fault(planned[record.id], record.applied_at_ns, record.cleared_at_ns, over)
    ]
    return tuple(sorted(found, key=lambda deviation: -deviation.ns))


def _of_fault(times: FaultTimes, made: int, cleared: int, over: int) -> Iterator[Deviation]:
    if times.begin < over:
        yield _late(times.label, "made", times.begin, made, over)
    due = over if times.end is None else min(times.end, over)
    if cleared and cleared < due:
        yield Deviation(due - cleared, f"the fault {times.label} was taken back {_ms(due - cleared)} early")
    elif times.end is not None and times.end < over:
        yield _late(times.label, "taken back", times.end, cleared, over)


def _late(label: str, done: str, due: int, at: int, over: int) -> Deviation:
    if not at or at > over:
        return Deviation(over - due, f"the fault {label} was not {done} in the {_ms(over - due)} until the end")
    return Deviation(at - due, f"the fault {label} was {done} {_ms(at - due)} late")


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.0f} ms"
