"""Phases of a collective operation: which streams each takes, and what a rank passes on there.

A flat operation has one phase, in a ring of all ranks or between all of them. An all-reduce in two levels has three,
one after another: reduce-scatter in each cluster of ranks, all-reduce of a rank's segment with the ranks of its number
in the other clusters, all-gather in each cluster (`mrc_lab/workloads/collectives/hierarchical.py`). Here a phase begins
when all rings have done the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrc_lab.scale.latency import Latency
from mrc_lab.scale.network import Integers, Network
from mrc_lab.scale.ring_times import Passing, passing_steps

_WHOLE = ("send_receive", "broadcast")  # a rank passes all of it on


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase. `first` and `last` (not included) are the streams that it takes, in rings of `ranks` ranks each.

    Of an operation's bytes it is about one in `parts`. `arrival` is what the last byte of a chunk takes from a rank to
    the next on average, `farthest` at most, and `way_and_back` at most with a credit back, in ns.
    """

    operation: str
    ranks: int
    parts: int
    first: int
    last: int
    arrival: float
    farthest: int
    way_and_back: int

    def passing(self, size: int, item: int, channels: int, chunk: int, slots: int) -> Passing:
        """One channel's part of an operation of `size` bytes, which are items of `item` bytes."""
        elements = max(self.ranks, size // self.parts // item // channels // self.ranks * self.ranks)
        segment = elements * item if self.operation in _WHOLE else elements * item // self.ranks
        steps = passing_steps(self.operation, self.ranks)
        return Passing(steps, segment, chunk, slots, self.arrival, self.way_and_back)


@dataclass(frozen=True, slots=True)
class RankStreams:
    """The streams of a collective: from which NIC to which, the group of each (streams that have one rate), phases."""

    pairs: tuple[tuple[int, int], ...]
    groups: tuple[int, ...]
    phases: tuple[Phase, ...]


def rank_streams(operation: str, ranks: Integers, clusters: int, network: Network, latency: Latency) -> RankStreams:
    """The streams of an operation among `ranks`, NICs in their order, in so many clusters (1: it is flat)."""
    if clusters == 1:
        everybody = ranks[None]
        pairs, groups = _between_all(ranks) if operation == "all_to_all" else _rings(everybody)
        if operation == "send_receive":  # nothing is passed on
            groups = list(range(len(pairs)))
        phase = _phase(operation, len(ranks), 1, pairs, 0, network, latency)
        return RankStreams(tuple(pairs), tuple(groups), (phase,))
    by_cluster = ranks.reshape(clusters, -1)
    size = by_cluster.shape[1]
    inside, inside_groups = _rings(by_cluster)
    across, across_groups = _rings(by_cluster.T)
    groups = [*inside_groups, *(clusters + group for group in across_groups)]
    phases = [
        _phase("reduce_scatter", size, 1, inside, 0, network, latency),
        _phase("all_reduce", clusters, size, across, len(inside), network, latency),
        _phase("all_gather", size, 1, inside, 0, network, latency),
    ]
    return RankStreams((*inside, *across), tuple(groups), tuple(phase for phase in phases if phase.ranks > 1))


def _rings(members: Integers) -> tuple[list[tuple[int, int]], list[int]]:
    """A ring of each row, if it has two members or more; the streams of a ring are a group."""
    if members.shape[1] < 2:
        return [], []
    pairs = np.stack([members, np.roll(members, -1, axis=1)], axis=2).reshape(-1, 2)
    groups = np.repeat(np.arange(len(members)), members.shape[1])
    return [(near, far) for near, far in pairs.tolist()], groups.tolist()


def _between_all(ranks: Integers) -> tuple[list[tuple[int, int]], list[int]]:
    pairs = [(near, far) for near in ranks.tolist() for far in ranks.tolist() if near != far]
    return pairs, list(range(len(pairs)))


def _phase(
    operation: str,
    ranks: int,
    parts: int,
    pairs: list[tuple[int, int]],
    first: int,
    network: Network,
    latency: Latency,
) -> Phase:
    ends = network.rack[np.array(pairs, dtype=np.int64).reshape(-1, 2)]
    tiers = network.turning_tier(*ends.T)
    arrivals = np.array(latency.arrival)[tiers]
    return Phase(
        operation=operation,
        ranks=ranks,
        parts=parts,
        first=first,
        last=first + len(pairs),
        arrival=float(arrivals.mean()) if len(pairs) else 0.0,
        farthest=int(arrivals.max(initial=0)),
        way_and_back=int(latency.completions(tiers).max(initial=0)),
    )
