"""The paths that queue pairs have in use: how many, which replace them, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from mrc_lab.scale.network import Network
from mrc_lab.scale.path_subsets import ACTIVE, BAD, PathSubsets, subsets_of
from mrc_lab.scale.stream_paths import CrossingPaths, StreamPaths
from tests.mrc_lab.scale.test_network import FABRICS, Everybody
from tests.seeds import SEED
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric

WIDE = multi_plane_clos("wide", planes=2, t0=2, t1=8, hosts=4)
PAIRS = 3  # queue pairs of a stream


class QueuePairs(Everybody):
    """The same, of several queue pairs each."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.qps = np.full(len(self), PAIRS)

    def __len__(self) -> int:
        return len(self.plane)


def made(fabric: Fabric, wanted: int) -> tuple[Network, StreamPaths, PathSubsets]:
    print("seed", SEED)
    network = Network.of(fabric)
    streams = QueuePairs(network)
    paths = StreamPaths(network, streams)
    found = subsets_of(network, streams, paths, wanted, np.random.default_rng(SEED))
    assert found is not None
    return network, paths, found


def turns(paths: CrossingPaths) -> dict[tuple[int, int], set[int]]:
    """Where paths turn, by stream and queue pair."""
    found: dict[tuple[int, int], set[int]] = {}
    for stream, turn, pair in zip(paths.stream.tolist(), paths.turn.tolist(), paths.pair.tolist(), strict=True):
        assert turn not in found.setdefault((stream, pair), set())
        found[stream, pair].add(turn)
    return found


def of_plane(paths: StreamPaths, plane: int, count: int, streams: Iterable[int]) -> CrossingPaths:
    """The first `count` paths of a plane, or as many as there are, of some streams."""
    stream, turn = np.meshgrid(list(streams), np.arange(count), indexing="ij")
    return CrossingPaths(plane, stream.reshape(-1), turn.reshape(-1))


@pytest.mark.parametrize("fabric", [fabric for fabric in [*FABRICS, WIDE] if fabric.t1_count])
def test_each_plane_has_as_many_paths_of_those_that_there_are(fabric: Fabric) -> None:
    network, paths, subsets = made(fabric, 5)  # two of each plane, or all if there are fewer
    there: dict[tuple[int, int], set[int]] = {}
    streams = QueuePairs(network)
    for number, (source, target) in enumerate(zip(streams.source, streams.destination, strict=True)):
        near, far = fabric.nics[source], fabric.nics[target]
        for path in fabric.paths(near, far) if near.t0 != far.t0 else ():
            there.setdefault((number, path.plane), set()).add(path.t2 if path.turn == 2 else path.uplink)
    between = np.flatnonzero(paths.between)
    for plane in range(network.planes):
        widest = max(network.paths_between(tier) for tier in paths.tier)
        found = turns(subsets.in_state(of_plane(paths, plane, widest, between), ACTIVE))
        for stream in between.tolist():
            for pair in range(PAIRS):
                mine, all_of_them = found.get((stream, pair), set()), there.get((stream, plane), set())
                assert len(mine) == min(2, len(all_of_them))
                assert mine <= all_of_them


def test_queue_pairs_do_not_choose_alike() -> None:
    _, paths, subsets = made(WIDE, 4)
    found = turns(subsets.in_state(of_plane(paths, 0, 8, np.flatnonzero(paths.between)), ACTIVE))
    assert len({frozenset(chosen) for chosen in found.values()}) > len(found) / 3
    assert set().union(*found.values()) == set(range(8))


def test_all_paths_are_no_subset() -> None:
    network = Network.of(WIDE)
    streams = QueuePairs(network)
    for wanted in (None, 16, 256):
        assert subsets_of(network, streams, StreamPaths(network, streams), wanted, np.random.default_rng(1)) is None


def test_backups_of_the_plane_take_the_places_of_bad_paths_until_there_are_none() -> None:
    _, paths, subsets = made(WIDE, 4)
    some = of_plane(paths, 1, 8, [int(np.flatnonzero(paths.between)[0])])
    for bad in (2, 4, 6):
        new = subsets.retire(subsets.in_state(some, ACTIVE))
        assert turns(new) == turns(subsets.in_state(some, ACTIVE))
        assert all(len(chosen) == 2 for chosen in turns(new).values())
        assert [len(chosen) for chosen in turns(subsets.in_state(some, BAD)).values()] == [bad] * PAIRS
    assert not subsets.retire(subsets.in_state(some, ACTIVE))
    assert not subsets.in_state(some, ACTIVE)
    other = some._replace(plane=0)
    assert all(len(chosen) == 2 for chosen in turns(subsets.in_state(other, ACTIVE)).values())
    stream = some.stream[0]
    assert subsets.bad()[stream] == 8
    assert subsets.bad().sum() == 8


def test_a_path_that_works_again_fills_a_gap_or_is_the_first_to_replace_another() -> None:
    _, paths, subsets = made(WIDE, 4)
    some = of_plane(paths, 1, 8, [int(np.flatnonzero(paths.between)[0])])
    first = subsets.in_state(some, ACTIVE)
    second = subsets.retire(first)
    assert not subsets.restore(first)  # nothing is missing
    assert turns(subsets.in_state(some, ACTIVE)) == turns(second)
    assert turns(subsets.retire(second)) == turns(first)  # and not those that were never used
    for _ in range(3):
        subsets.retire(subsets.in_state(some, ACTIVE))
    assert not subsets.in_state(some, ACTIVE)
    assert turns(subsets.restore(subsets.in_state(some, BAD))) == turns(subsets.in_state(some, ACTIVE))
    assert all(len(chosen) == 2 for chosen in turns(subsets.in_state(some, ACTIVE)).values())
