"""Coalescing: when a busy NIC collects frames instead of waking for each.

Waking a sleeping process costs the sender of a frame several times what creating and sending the frame does, above all
in a virtual machine. So, like NICs with adaptive interrupt coalescing, a driver sleeps for some time, whatever arrives:

- While frames arrive closely spaced, until a few sleeps in a row collected none.
- While ports with a rate are busy, for a few times as long as a frame occupies the fastest of them: a line on which
  frames follow one another hides that, and what it did not send meanwhile it catches up on. They count as busy once
  they have been used for half of the time, added up over ports and directions, for as long as four times so many frames
  take: a short message, whose end somebody waits for, is over by then.

Occasional frames, such as acknowledgements and small messages, wake it at once.
"""

from __future__ import annotations

DEFAULT_COALESCE_NS = 30_000
COALESCE_SPACING_NS = 25_000  # frames spaced more closely than this, over all ports, are collected
COALESCE_WINDOW_NS = 200_000  # the time over which spacing and use of lines are measured
COALESCE_VAIN = 3  # sleeps in a row without a frame, after which the next frame wakes the driver
COALESCE_FRAME_TIMES = 4  # of the longest frame: how long a sleep lasts while ports are busy, but
COALESCE_LONGEST_NS = 500_000  # no longer than this
COALESCE_BUSY_FRAME_TIMES = 16  # for how long lines must have been used before ports count as busy


def busy_rest_ns(rest_ns: int, frame_ns: float) -> int:
    """How long to sleep at a time while ports are busy on which the longest frame takes `frame_ns` (0: without a rate).

    At least as long as otherwise (`rest_ns`), which is not at all when that is 0.
    """
    return max(rest_ns, min(int(COALESCE_FRAME_TIMES * frame_ns), COALESCE_LONGEST_NS)) if rest_ns else 0


class Coalescing:
    """Decides it for one driver, on whose fastest port the longest frame takes `frame_ns` (0: without a rate).

    It sleeps for `rest_ns` at a time, and for ``busy_rest_ns`` while its ports are busy.
    """

    __slots__ = (
        "_busy_after_ns",
        "_busy_rest_ns",
        "_busy_since",
        "_count_from",
        "_counted",
        "_left",
        "_occupied",
        "_rest_ns",
        "_stream",
        "_taken",
        "_vain",
    )

    def __init__(self, rest_ns: int, frame_ns: float) -> None:
        self._rest_ns = rest_ns
        self._busy_rest_ns = busy_rest_ns(rest_ns, frame_ns)
        self._busy_after_ns = int(COALESCE_BUSY_FRAME_TIMES * frame_ns)
        self._taken = 0  # frames read since the last turn
        self._left = False  # there may be more to read
        self._stream = False  # frames arrive closely spaced
        self._counted = 0  # frames read since `_count_from`
        self._occupied = 0.0  # ns that frames have occupied lines since then, over all ports and both directions
        self._count_from = 0
        self._busy_since = 0  # from when on lines were used for half of the time, measurement by measurement; 0: not
        self._vain = 0  # sleeps in a row that collected no frame

    def took(self, frames: int, more: bool, occupied: float) -> None:
        """So many frames were read at once, which occupied a line for so many ns; and there may be `more`."""
        self._taken += frames
        self._left |= more
        self._occupied += occupied

    def sent(self, occupied: float) -> None:
        """Frames were sent that occupy a line for so many ns."""
        self._occupied += occupied

    def rest_until(self, now: int) -> int:
        """Until when to sleep after the turn that begins, whatever arrives; 0: until something does."""
        taken, left = self._taken, self._left
        self._taken, self._left = 0, False
        self._counted += taken
        if now - self._count_from >= COALESCE_WINDOW_NS:
            self._measure(now)
        self._vain = 0 if taken else self._vain + 1
        if left:
            return 0
        if self._busy_since and now - self._busy_since >= self._busy_after_ns:
            return now + self._busy_rest_ns
        return now + self._rest_ns if self._stream and self._vain < COALESCE_VAIN else 0

    def _measure(self, now: int) -> None:
        """A window ends, and the next one begins."""
        elapsed = now - self._count_from
        self._stream = self._counted * COALESCE_SPACING_NS >= elapsed
        if 2 * self._occupied < elapsed:
            self._busy_since = 0
        elif not self._busy_since:
            self._busy_since = self._count_from
        self._counted, self._occupied, self._count_from = 0, 0.0, now
