"""The paths that each queue pair uses, where it uses a random subset of them (`transport: {paths: N}`).

As in a NIC (`mrc_host/transport/path_rings.py`) a queue pair has equally many *active* paths in each plane, drawn at
random and without regard to others; the rest are *backups*. A path that turns out bad is replaced by a backup of its
plane, if there is one that is not known to be bad, though it may be dead as well. A path that works again fills a gap
if there is any, and is a backup otherwise. A failed path takes the place of its replacement in the NIC's list of
backups, which is searched from the front: so those that were bad once, and work again, are taken before the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from mrc_lab.scale.network import Booleans, Floats, Integers, Network
from mrc_lab.scale.stream_paths import CrossingPaths, StreamPaths
from mrc_lab.scale.streams import Streams
from topologies.parts import Tier

BACKUP: Final = 0
ACTIVE: Final = 1
BAD: Final = 2
RETURNED: Final = 3  # a backup that was bad once
ABSENT: Final = 4  # there is no such path

_RANK: Final = (1, 0, 0, 2, 0)  # as a replacement, by state; 0: it is none
_CHUNK: Final = 4096  # queue pairs whose paths are drawn at once


class PathSubsets:
    """States of the paths of queue pairs between racks; a byte for each path and queue pair.

    `most` are the active paths of a queue pair in a plane, by stream.
    """

    def __init__(
        self, network: Network, streams: Streams, paths: StreamPaths, wanted: int, chance: np.random.Generator
    ) -> None:
        """`wanted` is the size of the active set of a queue pair, over all planes."""
        self._network, self._paths, self._chance = network, paths, chance
        self._qps = streams.qps
        pairs = np.where(paths.between, streams.qps, 0)
        self._first = np.cumsum(pairs) - pairs
        self._stream = np.repeat(np.arange(len(streams)), pairs)  # by queue pair
        planes = ((network.access[streams.source] > 0) & (network.access[streams.destination] > 0)).sum(axis=1)
        self.most = np.maximum(wanted // np.maximum(planes, 1), 1)
        self._state = np.zeros((len(self._stream), network.planes, _widest(network)), dtype=np.uint8)
        for first in range(0, len(self._stream), _CHUNK):
            which = slice(first, first + _CHUNK)
            for plane in range(network.planes):
                self._state[which, plane] = self._drawn(self._stream[which], plane)

    def _drawn(self, stream: Integers, plane: int) -> Integers:
        """States of all paths of a plane [queue pair, turn] of queue pairs of these streams, at first."""
        exists = self._existing(stream, plane)
        keys = np.where(exists, self._chance.random(exists.shape), np.inf)
        last = np.minimum(self.most[stream], exists.shape[1]) - 1
        ordered = np.partition(keys, np.unique(last), axis=1)
        active = keys <= np.take_along_axis(ordered, last[:, None], axis=1)
        return np.where(exists, np.where(active, ACTIVE, BACKUP), ABSENT)

    def _existing(self, stream: Integers, plane: int) -> Booleans:
        """Which paths of a plane there are [queue pair, turn]."""
        network, paths = self._network, self._paths
        count = np.array([network.paths_between(tier) for tier in Tier])[paths.tier[stream]]
        turns = np.arange(self._state.shape[2])
        found: Booleans = turns < count[:, None]
        if (network.uplinks == 0).any():
            whose, turn = np.nonzero(found)
            crossed = paths.crossed(CrossingPaths(plane, stream[whose], turn))
            found[whose, turn] = (network.uplinks[crossed] > 0).all(axis=1)
        return found

    # ---- looking ----------------------------------------------------------------------------------------------------

    def in_state(self, paths: CrossingPaths, state: int) -> CrossingPaths:
        """Those of `paths` that are in a state, by queue pair."""
        if paths.pair is None:
            paths = self._of_each(paths)
        return paths.of(self._state[self._rows(paths), paths.plane, paths.turn] == state)

    def bad(self) -> Floats:
        """Bad paths of each stream, the mean of its queue pairs."""
        count = np.zeros(len(self._stream))
        for plane in range(self._network.planes):
            count += (self._state[:, plane] == BAD).sum(axis=1)
        found: Floats = np.bincount(self._stream, weights=count, minlength=len(self._qps)) / self._qps
        return found

    def _of_each(self, paths: CrossingPaths) -> CrossingPaths:
        """The same paths of every queue pair of their streams."""
        qps = self._qps[paths.stream]
        where = np.repeat(np.arange(len(qps)), qps)
        pair = np.arange(len(where)) - np.repeat(np.cumsum(qps) - qps, qps)
        return CrossingPaths(paths.plane, paths.stream[where], paths.turn[where], pair)

    def _rows(self, paths: CrossingPaths) -> Integers:
        assert paths.pair is not None, "they are of queue pairs"
        rows: Integers = self._first[paths.stream] + paths.pair
        return rows

    # ---- changes ----------------------------------------------------------------------------------------------------

    def retire(self, paths: CrossingPaths) -> CrossingPaths:
        """Active paths are bad from now on; returns the backups that take their places."""
        self._state[self._rows(paths), paths.plane, paths.turn] = BAD
        found = []
        for some in self._one_of_each(paths):
            rows = self._rows(some)
            rank = np.array(_RANK)[self._state[rows, some.plane]]
            turn = (rank + self._chance.random(rank.shape)).argmax(axis=1)
            new = some._replace(turn=turn).of(rank.max(axis=1) > 0)
            self._state[self._rows(new), new.plane, new.turn] = ACTIVE
            found.append(new)
        return _together(paths, found)

    def restore(self, paths: CrossingPaths) -> CrossingPaths:
        """Bad paths work again; returns those that are active from now on."""
        self._state[self._rows(paths), paths.plane, paths.turn] = RETURNED
        found = []
        for some in self._one_of_each(paths):
            active = (self._state[self._rows(some), some.plane] == ACTIVE).sum(axis=1)
            new = some.of(active < self.most[some.stream])
            self._state[self._rows(new), new.plane, new.turn] = ACTIVE
            found.append(new)
        return _together(paths, found)

    def _one_of_each(self, paths: CrossingPaths) -> Iterator[CrossingPaths]:
        """All of them, in parts that have no more than one of a queue pair."""
        while paths:
            first = np.zeros(len(paths.stream), dtype=bool)
            first[np.unique(self._rows(paths), return_index=True)[1]] = True
            yield paths.of(first)
            paths = paths.of(~first)


def subsets_of(
    network: Network, streams: Streams, paths: StreamPaths, wanted: int | None, chance: np.random.Generator
) -> PathSubsets | None:
    """The subsets of `wanted` paths, over all planes; None where that is all of them."""
    if wanted is None or wanted >= network.planes * _widest(network):
        return None
    return PathSubsets(network, streams, paths, wanted, chance)


def _widest(network: Network) -> int:
    """Paths of a plane where there are the most."""
    return max(network.paths_between(tier) for tier in Tier)


def _together(paths: CrossingPaths, parts: list[CrossingPaths]) -> CrossingPaths:
    """Parts of `paths` as one."""
    if not parts:
        return paths
    stream, turn, pair = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("stream", "turn", "pair")
    )
    return CrossingPaths(paths.plane, stream, turn, pair)
