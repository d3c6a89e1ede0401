"""Paths of MRC's streams between racks: which of them cross a direction, and which directions each crosses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc_lab.scale.network import Booleans, Integers, Network
from mrc_lab.scale.streams import Streams
from topologies.parts import Tier


class CrossingPaths(NamedTuple):
    """Some paths of one plane: a stream each, and where it turns. A stream may have several.

    `pair` is the number of the queue pair in its stream that has the path; None: all of them do.
    """

    plane: int
    stream: Integers
    turn: Integers
    pair: Integers | None = None

    def of(self, which: Booleans) -> CrossingPaths:
        """Some of them."""
        pair = None if self.pair is None else self.pair[which]
        return CrossingPaths(self.plane, self.stream[which], self.turn[which], pair)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return len(self.stream) > 0


class StreamPaths:
    """`near` and `far` are the racks of each stream, `between` are streams that are sprayed between racks.

    `tier` is where their paths turn.
    """

    def __init__(self, network: Network, streams: Streams) -> None:
        self._network = network
        self.near, self.far = network.rack[streams.source], network.rack[streams.destination]
        self.tier = network.turning_tier(self.near, self.far)
        self.between = (self.near != self.far) & (streams.plane < 0)
        over = self.between & (self.tier == Tier.T2)
        ends = self.near, self.far
        self._inside = tuple(_by_place(racks, self.between & ~over, network.racks) for racks in ends)
        self._over = tuple(_by_place(racks, over, network.racks) for racks in ends)
        self._of_pod = tuple(_by_place(network.pod[racks], over, network.pods) for racks in ends)

    def over(self, number: int) -> CrossingPaths:
        """All paths that cross a direction."""
        network = self._network
        tier, way, plane, lower, uplink = network.directions.place(number)
        if tier is Tier.T1:
            pod, t1 = divmod(lower, network.t1s)
            stream = self._of_pod[way][pod]
            return CrossingPaths(plane, stream, np.full(len(stream), t1 * network.group + uplink))
        inside, over = self._inside[way][lower], self._over[way][lower]
        turns = np.full(len(inside), uplink)
        if not len(over):
            return CrossingPaths(plane, inside, turns)
        above = uplink * network.group + np.arange(network.group)
        stream = np.concatenate([inside, np.repeat(over, network.group)])
        return CrossingPaths(plane, stream, np.concatenate([turns, np.tile(above, len(over))]))

    def longest(self, number: int) -> Tier:
        """Where the longest paths that cross a direction turn."""
        tier, way, _, lower, _ = self._network.directions.place(number)
        return Tier.T2 if tier is Tier.T1 or len(self._over[way][lower]) else Tier.T1

    def crossed(self, paths: CrossingPaths) -> Integers:
        """Numbers of the directions that each path crosses [path, direction]."""
        stream = paths.stream
        return self._network.crossed(self.near[stream], self.far[stream], paths.plane, paths.turn)


def _by_place(place: Integers, wanted: Booleans, places: int) -> list[Integers]:
    """Numbers of the streams that are wanted, by place."""
    chosen = np.flatnonzero(wanted)
    order = np.argsort(place[chosen], kind="stable")
    return np.split(chosen[order], np.cumsum(np.bincount(place[chosen], minlength=places))[:-1])
