"""Weighted spraying: paths of a plane that are slower than the others carry fewer packets.

A link that runs at a fraction of its rate fills the queues of its own paths. Skipping such a path for one rotation
after each mark is not enough: it is back before its queue has drained, and the queue pair's single window shrinks for
all paths. So a path that stands out gets a weight of 1 / `every`: it is used once in `every` rotations.

* **Standing out.** Only an ECN mark starts a comparison, and only with other paths in the plane's ring that have the
  same weight or more. The delay of the marked packet (its round trip less the shortest known on the plane) must be
  twice that of the slowest of them, and half of that shortest round trip. Where all paths are equally congested none
  stands out, and at least half of a ring keeps its full weight.
* **Decrease.** Then `every` is multiplied by how many times slower the path is, between 2 and 4. Packets sent before
  that do not count again.
* **Increase.** After some round trips without a decrease, `every` shrinks by a quarter, by one at least: a link that
  has recovered is soon used as before, and one that has not stays in use without being flooded.

When a marked path stands out, congestion control does not see the mark, because the weight already reacts to it. All of
this is this project's own (docs/protocol.md §3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrc_host.transport.path import Path

_MAX_EVERY: Final = 64  # rotations
_EASE_AFTER: Final = 12  # shortest round trips until a path's weight increases
_OUTSTANDING: Final = 2  # times the delay of the others
_MIN_STEP: Final = 2
_MAX_STEP: Final = 4


class _Slow:
    """A path that stood out."""

    __slots__ = ("due", "every", "plane", "slowed", "turns")

    def __init__(self, plane: int) -> None:
        self.plane = plane
        self.every = 1
        self.turns = 0  # rotations that it has sat out since it was last used
        self.slowed = -1  # when `every` last grew
        self.due = 0  # when `every` shrinks next


class _Ring:
    """Paths of full weight in a plane's ring, cached for a round trip. Round trips are in ns."""

    __slots__ = ("first", "full", "second", "slowest", "until")

    def __init__(self) -> None:
        self.slowest = -1  # path
        self.first = 0  # its round trip
        self.second = 0  # that of the second slowest
        self.full = 0  # how many have full weight
        self.until = 0  # when to look again


class PathWeights:
    """The slow paths of one queue pair. `slow` is mostly empty: check it before calling `sits_out` or `ease`."""

    __slots__ = ("_due", "_planes", "_rings", "slow")

    def __init__(self, planes: int) -> None:
        self.slow: dict[int, _Slow] = {}
        self._due = 0  # when the first of them is due
        self._planes = planes
        self._rings: list[_Ring] = []  # created with the first mark: most queue pairs are idle

    def sits_out(self, index: int) -> bool:
        """Whether a path sits out its turn."""
        entry = self.slow.get(index)
        if entry is None:
            return False
        entry.turns += 1
        if entry.turns < entry.every:
            return True
        entry.turns = 0
        return False

    def every(self, index: int) -> int:
        """A path is used once in this many rotations."""
        entry = self.slow.get(index)
        return 1 if entry is None else entry.every

    def forget(self, index: int) -> None:
        """A path is out of use; when it returns it has full weight."""
        self.slow.pop(index, None)

    def marked(self, index: int, plane: int, ring: Sequence[int], paths: list[Path], least: int, now: int) -> bool:
        """A marked packet on path `index` was acknowledged: whether the path stands out, and so has less weight now.

        `paths` are all paths; `least` is the shortest round trip of the plane in ns.
        """
        trip = paths[index].round_trip
        excess = trip - least
        if 2 * excess < least:
            return False
        if not self._rings:
            self._rings = [_Ring() for _ in range(self._planes)]
        known = self._rings[plane]
        if now >= known.until:
            self._scan(known, ring, paths, now + least)
        entry = self.slow.get(index)
        if not self._stands_out(index, entry, known, paths, least):
            return False
        if entry is not None and now - trip < entry.slowed:
            return True
        self._scan(known, ring, paths, now + least)  # queues may have grown everywhere
        if not self._stands_out(index, entry, known, paths, least):
            return False
        if entry is None:
            if 2 * (known.full - 1) < len(ring):
                return False
            entry = self.slow[index] = _Slow(plane)
            known.until = now
        others = self._slowest_other(index, entry, known, paths)
        entry.every = min(entry.every * min(max(trip // others, _MIN_STEP), _MAX_STEP), _MAX_EVERY)
        entry.slowed = now
        entry.due = now + _EASE_AFTER * least
        self._due = min(slow.due for slow in self.slow.values())
        return True

    def _stands_out(self, index: int, entry: _Slow | None, known: _Ring, paths: list[Path], least: int) -> bool:
        others = self._slowest_other(index, entry, known, paths)
        return others > 0 and paths[index].round_trip - least >= _OUTSTANDING * (others - least)

    def _slowest_other(self, index: int, entry: _Slow | None, known: _Ring, paths: list[Path]) -> int:
        """The longest round trip of paths with at least the weight of `index`; 0 when none is known."""
        others = known.second if index == known.slowest else known.first
        if entry is not None:
            for path, other in self.slow.items():
                if other.plane == entry.plane and path != index and other.every <= entry.every:
                    others = max(others, paths[path].round_trip)
        return others

    def _scan(self, known: _Ring, ring: Sequence[int], paths: list[Path], until: int) -> None:
        """Scan the ring; once per round trip, since in congestion every other packet may be marked."""
        known.until = until
        known.slowest, known.first, known.second, known.full = -1, 0, 0, 0
        for path in ring:
            if path not in self.slow:
                trip = paths[path].round_trip
                known.full += 1
                if trip > known.first:
                    known.second, known.first, known.slowest = known.first, trip, path
                elif trip > known.second:
                    known.second = trip

    def ease(self, least: int, now: int) -> None:
        """Time has passed: increase the weights that are due. `least` as for `marked`."""
        if now < self._due:
            return
        for index, entry in list(self.slow.items()):
            if now >= entry.due:
                entry.every -= max(1, entry.every >> 2)
                entry.due = now + _EASE_AFTER * least
                if entry.every <= 1:
                    del self.slow[index]
        self._due = min((entry.due for entry in self.slow.values()), default=0)
