"""The reorder window: if a packet sent this much later has arrived, a missing packet is lost.

It is measured as in RACK (RFC 8985): a fraction of the round-trip time, its variation, and how late packets were
actually seen to arrive, including those whose retransmission proved spurious.

How late is measured twice: by when packets were sent, for judging by what was sent later, and by when they arrived, for
judging by time. Of a packet that is late by many round trips the former says no more than how much was sent meanwhile,
which at the end of a message is little.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.round_trip import RoundTrip

_MEMORY: Final = 1024  # round trips after which reordering not seen again counts half
_UNBOUNDED: Final = (1 << 62) - 1  # no more, or compiled code would need an object for it
MAX_ROUND_TRIPS: Final = 16  # the widest reorder window


class ReorderWindow:
    """How far packets of one lane overtake each other. Shared by all queue pairs to one peer. Times are ns."""

    __slots__ = ("_late_since", "_since", "extent", "lateness")

    def __init__(self) -> None:
        self.extent = 0  # how much earlier a late arrival was sent than a packet that had arrived before it
        self._since = 0
        self.lateness = 0  # how much longer than a round trip a late arrival took
        self._late_since = 0

    def observe(self, extent: int, now: int) -> None:
        """A packet arrived after one that was sent `extent` later."""
        if extent > self.extent:
            self.extent = extent
            self._since = now

    def observe_late(self, lateness: int, now: int) -> None:
        """A packet that had been overtaken arrived; its round trip took `lateness` longer than others."""
        if lateness > self.lateness:
            self.lateness = lateness
            self._late_since = now

    def wait(self, trip: RoundTrip, now: int) -> int:
        """How long late arrivals are waited for when only time can show a loss; 0 where none were seen."""
        if self.lateness and now - self._late_since > _MEMORY * trip.smoothed:
            self.lateness >>= 1
            self._late_since = now
        return min(self.lateness * 5 // 4, MAX_ROUND_TRIPS * trip.smoothed)

    def windows(self, trip: RoundTrip, fraction: int, now: int) -> tuple[int, int]:
        """Reorder windows: for a path without later packets of its own, and for a path with some.

        `fraction` is the minimum fraction of the round-trip time, in percent. Without known reordering both windows
        stay within one round trip and four variations, so that a dead path is noticed within three round trips. Before
        the first measurement both are the upper bound of the round-trip time.
        """
        smoothed, variation = trip.smoothed, trip.variation
        if not smoothed:
            bound = trip.bound or _UNBOUNDED
            return bound, bound
        if self.extent and now - self._since > _MEMORY * smoothed:
            self.extent >>= 1
            self._since = now
        seen = max(min(self.extent * 5 // 4, MAX_ROUND_TRIPS * smoothed), 1)
        most = smoothed + 4 * variation
        narrow = min(max(smoothed * fraction // 100, 2 * variation), most)
        wide = max(smoothed, 4 * variation)
        return max(narrow, seen), max(wide, seen)  # of two each: with more, compiled code takes a tuple and a call
