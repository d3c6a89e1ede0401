"""The cumulative PSN of an acknowledgement, unbounded, and whether it is one of this life of the queue pair."""

from __future__ import annotations

from mrc_host.wire.encap import Drop
from mrc_host.wire.psn import expand


def cumulative(wire: int, una: int) -> int:
    """The unbounded PSN whose low 24 bits are `wire`, nearest to the one before `una`, the oldest not acknowledged."""
    return expand(wire, una - 1)


def outside_life(psn: int, first: int, following: int) -> Drop | None:
    """Why cumulative PSN `psn` cannot be of this life, whose PSNs are `first` to before `following`; None if it can."""
    if psn >= following:
        return Drop.MALFORMED
    if psn < first - 1:
        return Drop.OTHER_LIFE
    return None
