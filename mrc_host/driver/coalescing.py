"""When to collect frames instead of waking for each.

Waking a sleeping process costs the sender of a frame several times what creating and sending the frame does, above all
in a virtual machine. So, like NICs with adaptive interrupt coalescing, while frames arrive closely spaced a driver
sleeps for some time to collect them, until a few sleeps in a row collected none. Occasional frames, such as
acknowledgements, wake it at once.
"""

from __future__ import annotations

DEFAULT_COALESCE_NS = 30_000
COALESCE_SPACING_NS = 25_000  # frames spaced more closely than this, over all ports, are collected
COALESCE_WINDOW_NS = 200_000  # the time over which the spacing is measured
COALESCE_VAIN = 3  # sleeps in a row without a frame, after which the next frame wakes the driver


class Coalescing:
    """Decides it for one driver, which sleeps for `rest_ns` at a time."""

    __slots__ = ("_count_from", "_counted", "_left", "_rest_ns", "_stream", "_taken", "_vain")

    def __init__(self, rest_ns: int) -> None:
        self._rest_ns = rest_ns
        self._taken = 0  # frames read since the last turn
        self._left = False  # there may be more to read
        self._stream = False  # frames arrive closely spaced
        self._counted = 0  # frames read since `_count_from`
        self._count_from = 0
        self._vain = 0  # sleeps in a row that collected no frame

    def took(self, frames: int, more: bool) -> None:
        """So many frames were read at once, and there may be `more`."""
        self._taken += frames
        self._left |= more

    def rest_until(self, now: int) -> int:
        """Until when to sleep after the turn that begins, whatever arrives; 0: until something does."""
        taken, left = self._taken, self._left
        self._taken, self._left = 0, False
        self._counted += taken
        elapsed = now - self._count_from
        if elapsed >= COALESCE_WINDOW_NS:
            self._stream = self._counted * COALESCE_SPACING_NS >= elapsed
            self._counted, self._count_from = 0, now
        self._vain = 0 if taken else self._vain + 1
        if self._stream and not left and self._vain < COALESCE_VAIN:
            return now + self._rest_ns
        return 0
