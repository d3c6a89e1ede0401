"""Fabrics of any shape in simulation: three tiers, uneven racks, missing links, links with times of their own."""

from __future__ import annotations

import random

import pytest

from mrc_host.verbs.context import Context
from simulation.world import SimulatedWorld
from tests.topologies.random_fabrics import random_fabric, three_tiers
from topologies.clos import multi_plane_clos
from topologies.link_rules import LinkRule
from topologies.round_trip import ACK, FRAME, PathRoundTrips, serialization


@pytest.mark.parametrize("seed", range(12))
def test_every_planned_path_carries_a_packet_and_its_answer(seed: int) -> None:
    print(f"seed {seed}")
    fabric = random_fabric(random.Random(seed))
    with SimulatedWorld(fabric, seed=seed) as world:
        contexts = {nic.name: world.open(nic.name) for nic in fabric.nics}
        for name, context in contexts.items():
            for peer in context.controller().destinations():
                for ev in peer.evs:
                    assert _rtt(context, peer.address, ev) is not None, (name, peer.name, ev)


def _rtt(context: Context, address: bytes, ev: int) -> int | None:
    return context.controller().ping(address, ev).rtt


def test_a_hosts_missing_port_has_no_carrier_and_the_others_carry_on() -> None:
    fabric = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4, links=[LinkRule("h1@p1", missing=True)])
    with SimulatedWorld(fabric, seed=1) as world:
        assert [port.up for port in world.open("h1").controller().ports()] == [True, False]
        world.restart_nic("h1")
        assert [port.up for port in world.open("h1").controller().ports()] == [True, False]


def test_nics_know_the_base_rtt_of_each_destination_where_distances_differ() -> None:
    fabric = three_tiers()
    with SimulatedWorld(fabric, seed=1, rate=10**11, delay=500) as world:
        base_rtts = {d.name: d.base_rtt for d in world.nic("h1").config.destinations}
    link = serialization(FRAME, 10**11) + serialization(ACK, 10**11) + 1000
    assert (base_rtts["h2"], base_rtts["h3"], base_rtts["h5"]) == (2 * link, 4 * link, 6 * link)
    with SimulatedWorld(multi_plane_clos(), seed=1) as world:
        assert {d.base_rtt for d in world.nic("h1").config.destinations} == {0}


def test_the_longest_path_of_a_pair_depends_on_its_own_links() -> None:
    rules = [LinkRule("t0-0:t1-1@p0", delay_ns=7_000), LinkRule("h3@p0", rate_bps=10**9)]
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4, rate_bps=10**11, links=rules)
    trips = PathRoundTrips(fabric, delay=100)
    h1, h2, h3, h4 = fabric.nics
    fast, slow = (serialization(FRAME, rate) + serialization(ACK, rate) for rate in (10**11, 10**9))
    assert trips.of(h1, h2) == 2 * (fast + 200)
    assert trips.of(h1, h4) == 4 * fast + 3 * 200 + 14_000
    assert trips.of(h3, h4) == slow + fast + 2 * 200
