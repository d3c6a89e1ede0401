"""Delays of frames by the machine, as NIC and switch drivers measure them at a port in emulation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True, slots=True)
class DelayHistogram:
    """Delays of some frames: the total in ns, and how many were delayed by 0 ns, then by 2^(i-1) to 2^i ns.

    Zeros at the end of the histogram are left out.
    """

    total_ns: int = 0
    histogram: tuple[int, ...] = ()

    def __add__(self, other: DelayHistogram) -> DelayHistogram:
        pairs = zip_longest(self.histogram, other.histogram, fillvalue=0)
        return DelayHistogram(self.total_ns + other.total_ns, tuple(a + b for a, b in pairs))

    @property
    def frames(self) -> int:
        """Number of frames."""
        return sum(self.histogram)

    @property
    def mean_ns(self) -> float:
        """Mean delay in ns; 0 if there were no frames."""
        return self.total_ns / self.frames if self.frames else 0.0

    def since(self, before: DelayHistogram) -> DelayHistogram:
        """What was added after `before`; everything if the counts have restarted from 0."""
        pairs = list(zip_longest(self.histogram, before.histogram, fillvalue=0))
        if self.total_ns < before.total_ns or any(now < then for now, then in pairs):
            return self
        return DelayHistogram(self.total_ns - before.total_ns, tuple(now - then for now, then in pairs))

    def quantile_ns(self, share: float) -> float:
        """Delay that `share` (0..1) of the frames do not exceed; between two powers of two, as if evenly spread."""
        wanted, seen = share * self.frames, 0
        for bucket, count in enumerate(self.histogram):
            if count and seen + count >= wanted:
                low, high = (0, 0) if bucket == 0 else (1 << bucket - 1, 1 << bucket)
                return low + (high - low) * (wanted - seen) / count
            seen += count
        return 0.0


@dataclass(frozen=True, slots=True)
class PortDelays:
    """Delays at one port since its driver was created, of the frames measured.

    `link_idle_ns`: how long the port was idle although there was more to send, without what it caught up on.
    """

    port: int
    arrivals: DelayHistogram
    departures: DelayHistogram
    link_idle_ns: int = 0
