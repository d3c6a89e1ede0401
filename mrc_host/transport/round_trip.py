"""Round-trip times of a plane, smoothed as in RFC 6298. Shared by all queue pairs towards one peer."""

from __future__ import annotations


class RoundTrip:
    """Smoothed round-trip time of one plane (RFC 6298), in ns; 0 until the first sample.

    An answer with which a long silence ended may have waited for the end of an outage: what it says is all there is to
    go by where paths have become so slow, but counts no more once another did not wait.
    """

    __slots__ = ("bound", "doubtful", "min_rtt", "sampled", "smoothed", "variation")

    def __init__(self) -> None:
        self.smoothed = 0
        self.variation = 0
        self.min_rtt = 0
        self.doubtful = False  # what was measured last may have waited for the end of an outage
        self.sampled = 0  # when that was
        self.bound = 0  # until something was measured: it takes no longer than this; 0 when not even that is known

    def limit(self, waited: int) -> None:
        """A packet was acknowledged after `waited`, perhaps together with others long after it had arrived."""
        if not self.bound or waited < self.bound:
            self.bound = waited

    def patience(self) -> int:
        """Twice the smoothed time, or four deviations above it; 0 before the first sample."""
        return self.smoothed + max(self.smoothed, 4 * self.variation)

    def sample(self, rtt: int, late: bool = False, now: int = 0) -> None:
        """Take one measurement at time `now`, `late` when it may have waited for the end of an outage."""
        self.sampled = now
        if not self.smoothed or (self.doubtful and not late):
            self.min_rtt = min(rtt, self.min_rtt) if self.smoothed else rtt
            self.doubtful = late
            self.smoothed = rtt
            self.variation = rtt // 2
            return
        self.doubtful = late
        self.variation += (abs(rtt - self.smoothed) - self.variation) // 4
        self.smoothed += (rtt - self.smoothed) // 8
        self.min_rtt = min(rtt, self.min_rtt)
