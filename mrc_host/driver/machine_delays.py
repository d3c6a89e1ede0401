"""Delays of frames at a NIC's ports that this machine caused, beyond what the port's rate explains.

Two histograms per port, while measuring is on. *Arrivals*: from the kernel's receive timestamp until the NIC had the
frame. The timestamp is read once per batch, for its first frame; the others of the batch are assumed to have waited as
long. *Departures*: from when the port was free, if there may have been more to send by then, otherwise from the cause
(the frame received, or the turn), until the frame was sent. Lateness that costs no rate, because the port catches up
(`burst_ns`), counts too; time that it does not catch up on is counted once, with the next frame, and also summed up
separately.

Timestamps are of CLOCK_REALTIME. :class:`StampClock` compares it with the monotonic clock at every batch, and gives no
delay when one has moved against the other: the clock was set, or this process was interrupted just then.
"""

from __future__ import annotations

from collections.abc import Callable

from mrc_common.delays import DelayHistogram

_BUCKETS = 40
_MIN_STEP_NS = 1_000_000  # that the clocks may seem to move against each other between two batches ...
_STEP_SHARE = 1000  # ... and this part of the time between the batches


class DelayCounter:
    """Counts delays of frames."""

    __slots__ = ("_histogram", "_total_ns")

    def __init__(self) -> None:
        self._histogram = [0] * _BUCKETS
        self._total_ns = 0

    def note(self, ns: int, frames: int = 1) -> None:
        """`frames` frames were delayed by `ns` each; negative counts as 0."""
        if ns < 0:
            ns = 0
        self._histogram[min(ns.bit_length(), _BUCKETS - 1)] += frames
        self._total_ns += ns * frames

    def read(self) -> DelayHistogram:
        """The delays counted so far."""
        used = max((i for i, count in enumerate(self._histogram, 1) if count), default=0)
        return DelayHistogram(self._total_ns, tuple(self._histogram[:used]))


class StampClock:
    """Turns kernel timestamps into delays. `real` reads CLOCK_REALTIME in ns."""

    def __init__(self, real: Callable[[], int]) -> None:
        self._real_clock = real
        self._offset = 0
        self._checked: int | None = None

    def delay(self, stamp: int, now: int) -> int | None:
        """Time from `stamp` to `now` (monotonic, just read); None at the first call, and when a clock was set."""
        offset = self._real_clock() - now
        before, checked = self._offset, self._checked
        self._offset, self._checked = offset, now
        if checked is None or abs(offset - before) > _MIN_STEP_NS + (now - checked) // _STEP_SHARE:
            return None
        return now + offset - stamp
