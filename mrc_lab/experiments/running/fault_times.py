"""Whether the faults of an emulated run were made and taken back when the file says.

The controller does both at the time, one change of the fabric after the other; a machine that is slow, or whose kernel
is busy with other interfaces, makes it late. What was done when is in the controller's records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.values import FaultRecord


@dataclass(frozen=True, slots=True)
class FaultTimes:
    """A fault of a run in words, and when it is to be there and gone (ns of CLOCK_MONOTONIC; None: it stays)."""

    label: str
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True)
class LateChange:
    """What was done to a fault ("the fault ... was made"), and how much later than planned (ns); `ns` is 0 for none."""

    what: str = ""
    ns: int = 0


def problems(planned: Mapping[str, FaultTimes], records: Iterable[FaultRecord]) -> list[str]:
    """Sentences on faults, planned by id, that could not be made."""
    return [
        f"fault {record.id} could not be made as planned: {record.problem}"
        for record in records
        if record.id in planned and record.problem
    ]


def latest_change(planned: Mapping[str, FaultTimes], records: Iterable[FaultRecord], over: int) -> LateChange:
    """The one that was latest, of those due before a run was `over`; what has not been done is as late as that."""
    late = [LateChange()]
    for record in records:
        if record.id not in planned:
            continue
        times = planned[record.id]
        for verb, due, done in (
            ("made", times.begin, record.applied_at_ns),
            ("taken back", times.end, record.cleared_at_ns),
        ):
            if due is not None and due < over:
                late.append(LateChange(f"the fault {times.label} was {verb}", (done or over) - due))
    return max(late, key=lambda change: change.ns)
