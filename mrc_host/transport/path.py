"""A path of a queue pair: its state, and what was sent, lost and measured there.

All of it lies together in memory: a data packet meets a path that was last used many packets ago. Compiled, a number
takes no object of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from mrc_host.transport.sent_packet import SentPacket
from mrc_host.verbs_types import PathReason, PathState

GOOD: Final = 0
SKIP: Final = 1  # only of entropy values (``paths``)
BAD: Final = 2
DENIED: Final = 3
OUTSIDE: Final = 4  # a path of the peer of which the queue pair may use no entropy value

_RETIRED: Final = (PathReason.LOSS, PathReason.TIMEOUT, PathReason.PEER_SKIP)
TRANSITIONS: Final[Mapping[tuple[PathState, PathState], tuple[PathReason, ...]]] = {
    (PathState.GOOD, PathState.SKIP): (PathReason.ECN, PathReason.TRIMMED),
    (PathState.SKIP, PathState.GOOD): (PathReason.ROTATION,),
    (PathState.GOOD, PathState.ASSUMED_BAD): _RETIRED,
    (PathState.SKIP, PathState.ASSUMED_BAD): _RETIRED,
    (PathState.ASSUMED_BAD, PathState.GOOD): (PathReason.PROBE, PathReason.ARRIVED, PathReason.PORT_UP),
    (PathState.GOOD, PathState.DENIED): (PathReason.CONTROLLER,),
    (PathState.SKIP, PathState.DENIED): (PathReason.CONTROLLER,),
    (PathState.ASSUMED_BAD, PathState.DENIED): (PathReason.CONTROLLER,),
    (PathState.DENIED, PathState.GOOD): (PathReason.CONTROLLER,),
}
"""Every change of state that is reported, with its possible reasons (docs/protocol.md §3)."""


class Path:
    """`state` is one of the above, times are in ns. Serials and `last` are of first transmissions only."""

    __slots__ = (
        "arrived_serial",
        "last",
        "lost",
        "marked",
        "round_trip",
        "round_trip_before",
        "sent",
        "state",
        "trimmed",
    )

    def __init__(self, state: int = 0) -> None:
        self.state: i64 = state
        self.sent: i64 = 0  # packets; so are the next three
        self.lost: i64 = 0
        self.marked: i64 = 0
        self.trimmed: i64 = 0
        self.round_trip: i64 = 0  # of the latest packet that a SACK answered
        self.round_trip_before: i64 = 0  # of the one before it
        self.arrived_serial: i64 = 0  # of the latest packet that arrived
        self.last: SentPacket | None = None  # the record of the latest packet sent
