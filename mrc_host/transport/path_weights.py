"""Weighted spraying: which paths of a plane carry fewer packets than the others, because they are slower.

A link that runs at a fraction of its rate fills the queues of its own paths. To rest such a path for one rotation after
each mark is not enough: it is back before its queue has drained, and the one window of the queue pair shrinks for all
paths. So a path that stands out gets a weight of 1 / `every`: it is used once in `every` rotations.

* **Standing out.** Only an ECN mark judges a path, and only against others of its plane's ring: those of its own weight
  and more. The delay of the marked packet (its round trip less the shortest known on the plane) must be twice that of
  the slowest of them, and half of that shortest round trip. Where all are congested alike none stands out, and half of
  a ring at least keeps its full weight.
* **Down.** Then `every` grows, as many times as the path is slower, between 2 and 4. Packets sent before that say
  nothing new.
* **Up.** After some round trips without that, `every` shrinks by a quarter, at least by one: a link that has recovered
  is soon used as before, one that has not is kept busy without being flooded.

A mark of a path that stands out is answered by this, so congestion control does not hear of it. All of it is this
project's own (docs/protocol.md §3).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

_MAX_EVERY: Final = 64  # rotations
_EASE_AFTER: Final = 12  # shortest round trips until a path gets more again
_OUTSTANDING: Final = 2  # times the delay of the others
_MIN_STEP: Final = 2
_MAX_STEP: Final = 4


class _Slow:
    """A path that stood out."""

    __slots__ = ("due", "every", "plane", "slowed", "turns")

    def __init__(self, plane: int) -> None:
        self.plane = plane
        self.every = 1
        self.turns = 0  # rotations that it has sat out since it was used
        self.slowed = -1  # when `every` last grew
        self.due = 0  # when it shrinks next


class _Ring:
    """The paths of full weight in a plane's ring, as of not long ago. Round trips are ns."""

    __slots__ = ("first", "full", "second", "slowest", "until")

    def __init__(self) -> None:
        self.slowest = -1  # path
        self.first = 0  # its round trip
        self.second = 0  # that of the second slowest
        self.full = 0  # how many there are
        self.until = 0  # when to look again


class PathWeights:
    """The slow paths of one queue pair. `slow` is empty most of the time: ask before calling `sits_out` or `ease`."""

    __slots__ = ("_due", "_planes", "_rings", "slow")

    def __init__(self, planes: int) -> None:
        self.slow: dict[int, _Slow] = {}
        self._due = 0  # the first of theirs
        self._planes = planes
        self._rings: list[_Ring] = []  # made with the first mark: most queue pairs are idle

    def sits_out(self, index: int) -> bool:
        """Whether a path lets its turn pass."""
        entry = self.slow.get(index)
        if entry is None:
            return False
        entry.turns += 1
        if entry.turns < entry.every:
            return True
        entry.turns = 0
        return False

    def every(self, index: int) -> int:
        """In how many rotations a path is used once."""
        entry = self.slow.get(index)
        return 1 if entry is None else entry.every

    def forget(self, index: int) -> None:
        """A path is out of use: when it returns it has its full weight."""
        self.slow.pop(index, None)

    def marked(
        self, index: int, plane: int, ring: Sequence[int], round_trips: array[int], least: int, now: int
    ) -> bool:
        """A marked packet on path `index` was acknowledged: whether the path stands out, and has a smaller weight now.

        `round_trips` are the latest of all paths in ns (0: none yet), `least` is the shortest one of the plane.
        """
        trip = round_trips[index]
        excess = trip - least
        if 2 * excess < least:
            return False
        if not self._rings:
            self._rings = [_Ring() for _ in range(self._planes)]
        known = self._rings[plane]
        if now >= known.until:
            self._look(known, ring, round_trips, now + least)
        entry = self.slow.get(index)
        if not self._stands_out(index, entry, known, round_trips, least):
            return False
        if entry is not None and now - trip < entry.slowed:
            return True
        self._look(known, ring, round_trips, now + least)  # queues may have grown everywhere
        if not self._stands_out(index, entry, known, round_trips, least):
            return False
        if entry is None:
            if 2 * (known.full - 1) < len(ring):
                return False
            entry = self.slow[index] = _Slow(plane)
            known.until = now
        others = self._slowest_other(index, entry, known, round_trips)
        entry.every = min(entry.every * min(max(trip // others, _MIN_STEP), _MAX_STEP), _MAX_EVERY)
        entry.slowed = now
        entry.due = now + _EASE_AFTER * least
        self._due = min(slow.due for slow in self.slow.values())
        return True

    def _stands_out(self, index: int, entry: _Slow | None, known: _Ring, round_trips: array[int], least: int) -> bool:
        others = self._slowest_other(index, entry, known, round_trips)
        return others > 0 and round_trips[index] - least >= _OUTSTANDING * (others - least)

    def _slowest_other(self, index: int, entry: _Slow | None, known: _Ring, round_trips: array[int]) -> int:
        """The longest round trip of paths that carry as much as `index` or more; 0 when none is known."""
        others = known.second if index == known.slowest else known.first
        if entry is not None:
            for path, other in self.slow.items():
                if other.plane == entry.plane and path != index and other.every <= entry.every:
                    others = max(others, round_trips[path])
        return others

    def _look(self, known: _Ring, ring: Sequence[int], round_trips: array[int], until: int) -> None:
        """Look through the ring: once in a round trip, since in congestion every other packet may be marked."""
        known.until = until
        known.slowest, known.first, known.second, known.full = -1, 0, 0, 0
        for path in ring:
            if path not in self.slow:
                trip = round_trips[path]
                known.full += 1
                if trip > known.first:
                    known.second, known.first, known.slowest = known.first, trip, path
                elif trip > known.second:
                    known.second = trip

    def ease(self, least: int, now: int) -> None:
        """Time has passed: give slow paths more again. `least` as for `marked`."""
        if now < self._due:
            return
        for index, entry in list(self.slow.items()):
            if now >= entry.due:
                entry.every -= max(1, entry.every >> 2)
                entry.due = now + _EASE_AFTER * least
                if entry.every <= 1:
                    del self.slow[index]
        self._due = min((entry.due for entry in self.slow.values()), default=0)
