"""How long this machine delayed frames at a NIC: what a line of the port's rate does not explain.

Two histograms a port, while somebody asks for them. *Arrivals*: from the kernel's receive stamp until the NIC had the
frame. The stamp is asked for once a batch, of its first frame, and the others of the batch are taken to have waited as
long; what comes while a batch is taken waits for the next, whose first frame tells. *Departures*: from when the line
was free, if there may have been more to send by then, or else from when the cause was there (a frame that was taken, or
the turn), until the frame was sent. Lateness that costs no rate, because the line makes up for it (`burst_ns`), is
lateness all the same; line time that it does not make up for is counted once, with the frame that leaves after it, and
summed up beside.

Stamps are of CLOCK_REALTIME. :class:`StampClock` compares it with the monotonic clock at every batch, and says nothing
when one has moved against the other: then it was set, or this process was interrupted just there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_BUCKETS = 40
_MIN_STEP_NS = 1_000_000  # that the clocks may seem to move against each other between two batches ...
_STEP_SHARE = 1000  # ... and this part of the time between the batches


@dataclass(frozen=True, slots=True)
class Delays:
    """Total in ns, and a histogram: frames delayed by 0 ns, then by 2^(i-1) ns or more but less than 2^i.

    Zeros at the end are left out.
    """

    total_ns: int
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PortDelays:
    """Delays at one port since the driver was made, of frames that were measured.

    `line_idle_ns`: how long the line stood idle although there was more to send, beyond what it made up for.
    """

    port: int
    arrivals: Delays
    departures: Delays
    line_idle_ns: int = 0


class DelayCounter:
    """Counts delays of frames."""

    __slots__ = ("_histogram", "_total_ns")

    def __init__(self) -> None:
        self._histogram = [0] * _BUCKETS
        self._total_ns = 0

    def note(self, ns: int, frames: int = 1) -> None:
        """So many frames were delayed by `ns` each; less than 0 counts as 0."""
        if ns < 0:
            ns = 0
        self._histogram[min(ns.bit_length(), _BUCKETS - 1)] += frames
        self._total_ns += ns * frames

    def read(self) -> Delays:
        """What was counted so far."""
        used = max((i for i, count in enumerate(self._histogram, 1) if count), default=0)
        return Delays(self._total_ns, tuple(self._histogram[:used]))


class StampClock:
    """Turns kernel stamps into delays. `real` is CLOCK_REALTIME in ns."""

    def __init__(self, real: Callable[[], int]) -> None:
        self._real = real
        self._offset = 0
        self._checked: int | None = None

    def delay(self, stamp: int, now: int) -> int | None:
        """Time from `stamp` until `now` (monotonic, just read); None at the first call, and when a clock was set."""
        offset = self._real() - now
        before, checked = self._offset, self._checked
        self._offset, self._checked = offset, now
        if checked is None or abs(offset - before) > _MIN_STEP_NS + (now - checked) // _STEP_SHARE:
            return None
        return now + offset - stamp
