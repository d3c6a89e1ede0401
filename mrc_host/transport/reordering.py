"""The reorder window: how much later than a packet another must have been sent to show, by arriving, that it is lost.

It is measured as RACK does (RFC 8985): a share of the round-trip time, what that time varies by, and how late packets
were really seen to come, retransmissions that proved spurious included.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.round_trip import RoundTrip

_MEMORY: Final = 1024  # round trips until reordering not seen again counts half
_UNBOUNDED: Final = 1 << 62
MAX_ROUND_TRIPS: Final = 16  # the widest reorder window


class Reordering:
    """How far packets of one lane overtake each other. Shared by all queue pairs towards one peer. Times are ns."""

    __slots__ = ("_since", "extent")

    def __init__(self) -> None:
        self.extent = 0  # how much earlier than a packet that had arrived a later arrival was sent
        self._since = 0

    def saw(self, extent: int, now: int) -> None:
        """A packet arrived although one sent `extent` later had arrived before."""
        if extent > self.extent:
            self.extent = extent
            self._since = now

    def windows(self, trip: RoundTrip, fraction: int, now: int) -> tuple[int, int]:
        """Reorder windows: for a path without later packets of its own, and for one that has some.

        `fraction` is the least share of the round-trip time, in percent. Where no overtaking is known both stay within
        one round trip and four variations, so that a dead path is noticed within three round trips. Before anything was
        measured the bound of the round-trip time serves for both.
        """
        smoothed, variation = trip.smoothed, trip.variation
        if not smoothed:
            bound = trip.bound or _UNBOUNDED
            return bound, bound
        if self.extent and now - self._since > _MEMORY * smoothed:
            self.extent >>= 1
            self._since = now
        seen = min(self.extent * 5 // 4, MAX_ROUND_TRIPS * smoothed)
        most = smoothed + 4 * variation
        narrow = max(min(max(smoothed * fraction // 100, 2 * variation), most), seen)
        return max(narrow, 1), max(smoothed, 4 * variation, seen, 1)
