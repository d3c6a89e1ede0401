"""The active rings of one queue pair, and the backups outside them: which entropy values take turns on each plane.

A ring has at most `target` values, and as long as all paths work, the same number of each path. The values of a path
leave together, and backups take their places as far as there are any; when the path is back, its values take what is
free, and then the places of values whose paths have more than their share. A path may *rest* instead: it stays outside
until it replaces another. Values and paths are numbered as in ``entropy_values``.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from mrc_host.transport.path import BAD, Path


class PathRings:
    """By plane: `active` values in the order of turns, `backups`, and the `paths` that have any value in the ring."""

    __slots__ = ("_count", "_each", "_plane_of", "_target", "active", "backups", "held", "paths", "resting")

    def __init__(self, each: Sequence[Path], plane_of: bytes, members: list[list[int]], target: int) -> None:
        """`each` are the paths, `members` the values of each plane, of which the first `target` become active."""
        self._each = each
        self._plane_of = plane_of
        self._count = len(plane_of)
        self._target = target
        self.active = [m[:target] for m in members]
        self.backups = [m[target:] for m in members]
        held, paths = self._count_held()
        # Every queue pair has these for every path, so they are arrays, smaller than lists.
        self.held = array("H", held)  # by path: how many of its values are in its ring
        self.paths = [array("I", present) for present in paths]
        self.resting: dict[int, None] = {}  # paths, the first to rest first

    def _count_held(self) -> tuple[list[int], list[list[int]]]:
        """What `held` and `paths` begin with, as lists: one access to an array takes as long as several to a list."""
        count = self._count
        held = [0] * count
        paths: list[list[int]] = []
        for ring in self.active:
            present = []
            for value in ring:
                index = value % count
                if not held[index]:
                    present.append(index)
                held[index] += 1
            paths.append(present)
        return held, paths

    def _enter(self, value: int) -> None:
        index = value % self._count
        if not self.held[index]:
            self.paths[self._plane_of[index]].append(index)
            self.resting.pop(index, None)
        self.held[index] += 1

    def _exit(self, value: int) -> None:
        index = value % self._count
        self.held[index] -= 1
        if not self.held[index]:
            self.paths[self._plane_of[index]].remove(index)

    def members(self, plane: int) -> list[int]:
        """All paths of a plane, those in the ring first."""
        return list(dict.fromkeys([value % self._count for value in (*self.active[plane], *self.backups[plane])]))

    def has_spare(self, plane: int) -> bool:
        """Whether a path of `plane` that has no value in the ring is usable."""
        for value in self.backups[plane]:
            index = value % self._count
            if not self.held[index] and self._each[index].state < BAD:
                return True
        return False

    def trade(self, plane: int, at: int, place: int) -> None:
        """Exchange the value at `at` of a ring with the backup at `place`."""
        ring, backups = self.active[plane], self.backups[plane]
        ring[at], backups[place] = backups[place], ring[at]
        self._enter(ring[at])
        self._exit(backups[place])

    def leave(self, index: int, floor: int) -> list[int]:
        """A path became unusable: replace its values by backups, or remove them; returns the paths that come in.

        A backup whose path has the fewest values in the ring comes first. What cannot be replaced stays when there are
        no more than `floor` paths in the ring.
        """
        plane, each, held = self._plane_of[index], self._each, self.held
        ring, backups = self.active[plane], self.backups[plane]
        usable = [place for place, backup in enumerate(backups) if each[backup % self._count].state < BAD]
        left = [at for at, value in enumerate(ring) if value % self._count == index]
        new: list[int] = []
        while left and usable:
            place = min(usable, key=lambda place: held[backups[place] % self._count])
            usable.remove(place)
            if not held[backups[place] % self._count]:
                new.append(backups[place] % self._count)
            self.trade(plane, left.pop(0), place)
        if left and len(self.paths[plane]) > floor:
            for at in reversed(left):
                backups.append(ring.pop(at))
                self._exit(backups[-1])
        return new

    def stand_back(self, index: int) -> None:
        """Backups of other usable paths take the places of a path's values, which become the last backups."""
        plane = self._plane_of[index]
        backups = self.backups[plane]
        own = [value for value in backups if value % self._count == index]
        backups[:] = [value for value in backups if value % self._count != index]
        self.leave(index, len(self._each))
        backups.sort(key=lambda value: value % self._count == index)
        backups += own

    def rest(self, index: int, most: int, floor: int) -> int:
        """Let path `index` rest outside its ring, where `most` of its plane may.

        Returns the path that must come back instead, for it has rested longest, or is needed: perhaps `index`; else -1.
        """
        plane, each = self._plane_of[index], self._each
        if not most or sum([each[other].state < BAD for other in self.paths[plane]]) < floor:
            return index
        self.resting[index] = None
        others = [other for other in self.resting if self._plane_of[other] == plane]
        return others[0] if len(others) > most else -1

    def come_back(self, index: int) -> None:
        """A path is usable again: its values replace those of bad paths, fill gaps, and take the path's share."""
        plane, each = self._plane_of[index], self._each
        ring, backups = self.active[plane], self.backups[plane]
        self.resting.pop(index, None)
        returning = [place for place, value in enumerate(backups) if value % self._count == index]
        kept = [at for at, value in enumerate(ring) if each[value % self._count].state >= BAD]
        for at in kept[: len(returning)]:
            self.trade(plane, at, returning.pop(0))
        for place in reversed(returning[: max(0, self._target - len(ring))]):
            ring.append(backups.pop(place))
            self._enter(ring[-1])
        self._share_equally(plane)

    def _share_equally(self, plane: int) -> None:
        """Let values of paths that have the fewest in the ring take places of paths that have the most."""
        ring, backups, held, each = self.active[plane], self.backups[plane], self.held, self._each
        while True:
            fewest = most = -1
            for value in backups:
                index = value % self._count
                usable = each[index].state < BAD and index not in self.resting
                if usable and (fewest < 0 or held[index] < held[fewest]):
                    fewest = index
            for index in self.paths[plane]:
                if most < 0 or held[index] > held[most]:
                    most = index
            if fewest < 0 or held[most] - held[fewest] <= 1:
                return
            at = next(at for at, value in enumerate(ring) if value % self._count == most)
            self.trade(plane, at, next(at for at, value in enumerate(backups) if value % self._count == fewest))
