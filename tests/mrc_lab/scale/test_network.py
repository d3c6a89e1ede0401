"""Fabrics of two and three tiers as arrays, beside what the fabric itself says of its links and paths."""

from __future__ import annotations

import random
from itertools import pairwise, permutations

import numpy as np
import pytest

from mrc_lab.scale.network import DOWN, UP, Network, turning_switch
from mrc_lab.scale.rates import UsableLinks
from mrc_lab.scale.stream_paths import CrossingPaths, StreamPaths
from mrc_lab.scale.streams import SPRAYED
from tests.seeds import SEED
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric, LinkEnd, LinkKind
from topologies.link_rules import LinkRule
from topologies.parts import Tier
from topologies.up_down import nodes

TWO = {"planes": 2, "t0": 4, "t1": 3, "hosts": 8}
THREE = {"planes": 2, "racks": [[2, 1], [1, 3, 1], [2]], "t1": 2, "t2": 6}
MISSING = [LinkRule("t0-1:t1-0@p0", missing=True), LinkRule("t1-2:t2-1@p1", missing=True)]
FABRICS = [
    multi_plane_clos("two", **TWO),
    multi_plane_clos("three", **THREE),
    multi_plane_clos("gaps", **THREE, links=MISSING),
    multi_plane_clos("single", planes=2, t0=1, t1=0, hosts=3),
]


class Everybody:
    """A stream between every two hosts, as far as paths ask."""

    def __init__(self, network: Network) -> None:
        pairs = np.array(list(permutations(range(network.nics), 2)))
        self.source, self.destination = pairs.T
        self.plane = np.full(len(pairs), SPRAYED)
        self.active = np.ones(len(pairs), dtype=bool)


def direction(network: Network, near: str, far: str) -> int:
    """The number of the direction between two switches."""
    link = network.fabric.link_between(near, far)
    return network.number(link, link.lower if link.lower.node == near else link.upper)


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_every_direction_of_an_uplink_has_a_number_of_its_own(fabric: Fabric) -> None:
    network = Network.of(fabric)
    numbers: dict[int, tuple[str, LinkEnd]] = {}
    for link in fabric.links:
        if link.kind is LinkKind.NIC_T0:
            assert network.access[network.port(link)] == link.rate_bps
            continue
        for end, way in ((link.lower, UP), (link.upper, DOWN)):
            number = network.number(link, end)
            place = network.directions.place(number)
            assert (place.way, place.plane) == (way, link.plane)
            assert network.directions.number(*place) == number
            assert f"t{int(place.tier)}-{place.lower}@p{place.plane}" == link.lower.node
            assert numbers.setdefault(number, (link.name, end)) == (link.name, end)
            assert network.uplinks[number] == link.rate_bps
    assert len(numbers) == np.count_nonzero(np.isfinite(network.uplinks) & (network.uplinks > 0))
    assert network.uplinks[network.directions.none] == np.inf


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_paths_cross_the_links_that_the_fabric_says(fabric: Fabric) -> None:
    network = Network.of(fabric)
    none = network.directions.none
    for near, far in permutations(fabric.nics, 2):
        tier = Tier(int(network.turning_tier(np.array(near.t0), np.array(far.t0))))
        for path in fabric.paths(near, far):
            assert path.turn is tier
            if tier is Tier.T0:
                continue
            turn = turning_switch(path)
            assert network.path(tier, path.plane, turn) == path
            (crossed,) = network.crossed(*(np.array([one]) for one in (near.t0, far.t0)), path.plane, np.array([turn]))
            names = nodes(fabric, near, far, path)
            assert set(crossed.tolist()) - {none} == {direction(network, *ends) for ends in pairwise(names)}


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_racks_are_joined_by_the_paths_that_are_left(fabric: Fabric) -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    network = Network.of(fabric)
    for share in (0.0, 0.2, 0.6):
        works = network.uplinks > 0
        works &= np.array([chance.random() >= share for _ in works])
        works[-1] = True
        joined = UsableLinks(network, network.access > 0, works).joined
        for near, far in permutations(fabric.nics, 2):
            if near.t0 == far.t0:
                continue
            found = [0] * fabric.planes
            for path in fabric.paths(near, far):
                ends = pairwise(nodes(fabric, near, far, path))
                found[path.plane] += all(works[direction(network, *two)] for two in ends)
            assert joined[:, near.t0, far.t0].tolist() == found


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_the_paths_over_a_direction_are_those_that_cross_it(fabric: Fabric) -> None:
    network, streams = Network.of(fabric), Everybody(Network.of(fabric))
    paths = StreamPaths(network, streams)  # type: ignore[arg-type]
    expected: dict[int, set[tuple[int, int]]] = {}
    for number, (source, target) in enumerate(zip(streams.source, streams.destination, strict=True)):
        near, far = fabric.nics[source], fabric.nics[target]
        for path in fabric.paths(near, far) if near.t0 != far.t0 else ():
            for ends in pairwise(nodes(fabric, near, far, path)):
                expected.setdefault(direction(network, *ends), set()).add((number, turning_switch(path)))
    for link in range(network.directions.none):
        found = paths.over(link)
        there = (network.uplinks[paths.crossed(found)] > 0).all(axis=1)  # no link of theirs is missing
        assert set(zip(*(part.tolist() for part in found.of(there)[1:3]), strict=True)) == expected.get(link, set())
        assert len(found.of(there).stream) == len(expected.get(link, set()))
        assert not found or paths.longest(link) == paths.tier[found.stream].max()


def test_no_path_is_false() -> None:
    nobody = np.empty(0, dtype=np.int64)
    assert not CrossingPaths(0, nobody, nobody)
