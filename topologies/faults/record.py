"""A fault as it is listed, in both backends and by whoever asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.faults.kind import Fault, FaultState


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """What a fault is, the links it is on, the switches whose tables hold it, who made it.

    Times are ns: of CLOCK_MONOTONIC in emulation, since the beginning of the world in simulation. It begins at
    `starts_at_ns` and is over at `ends_at_ns` (None: when it is cleared);
    `began_at_ns` and `applied_at_ns` are before the first and after the last change that made it, 0 while pending;
    `cleared_at_ns` is when it had been taken back (by switches that were away: when they return), 0 until then.
    `problem` says why it could not be made, or is not as it should be.
    """

    id: str
    fault: Fault
    links: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    owner: str = ""
    state: FaultState = FaultState.ACTIVE
    starts_at_ns: int = 0
    ends_at_ns: int | None = None
    began_at_ns: int = 0
    applied_at_ns: int = 0
    cleared_at_ns: int = 0
    problem: str = ""
