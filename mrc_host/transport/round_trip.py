"""Round-trip times of a plane, smoothed as in RFC 6298. Shared by all queue pairs to one peer."""

from __future__ import annotations


class RoundTrip:
    """Smoothed round-trip time of one plane (RFC 6298), in ns; 0 until the first sample.

    An answer that ends a long silence may have been delayed by an outage. Such a sample is doubtful: it is used while
    there is nothing better, as the paths may really have become that slow, and replaced by the next sample that is not.
    """

    __slots__ = ("asked", "bound", "doubtful", "fresh_until", "min_rtt", "sampled", "smoothed", "variation")

    def __init__(self) -> None:
        self.smoothed = 0
        self.variation = 0
        self.min_rtt = 0
        self.doubtful = False  # the latest sample may include an outage
        self.sampled = 0  # when that was taken
        self.asked = 0  # when a sample was last taken, or a packet requested an acknowledgement for the sake of one
        self.fresh_until = 0  # a PTO later, as far as that is known: until then no other need request one
        self.bound = 0  # before the first sample: an upper bound; 0 when not even that is known

    def limit(self, waited: int) -> None:
        """A packet was acknowledged after `waited`, perhaps long after it had arrived."""
        if not self.bound or waited < self.bound:
            self.bound = waited

    def pto(self) -> int:
        """Probe timeout without backoff: SRTT + max(SRTT, 4 * RTTVAR); 0 before the first sample."""
        return self.smoothed + max(self.smoothed, 4 * self.variation)

    def sample(self, rtt: int, late: bool = False, now: int = 0) -> None:
        """Add one sample at time `now`; `late` when it may include an outage."""
        self.sampled = self.asked = now
        if not self.smoothed or (self.doubtful and not late):
            self.min_rtt = min(rtt, self.min_rtt) if self.smoothed else rtt
            self.doubtful = late
            self.smoothed = rtt
            self.variation = rtt // 2
        else:
            self.doubtful = late
            self.variation += (abs(rtt - self.smoothed) - self.variation) // 4
            self.smoothed += (rtt - self.smoothed) // 8
            self.min_rtt = min(rtt, self.min_rtt)
        self.fresh_until = now + self.pto()

    def ask(self, now: int) -> None:
        """A packet that leaves now requests an acknowledgement for the sake of a sample."""
        self.asked = now
        self.fresh_until = now + self.pto()
