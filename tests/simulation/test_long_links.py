"""Long links are filled: the range of PSNs that a world chooses suffices for its bandwidth-delay product."""

from __future__ import annotations

import pytest

from mrc_host.verbs_types import PathState
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, US, Pair
from topologies.clos import multi_plane_clos
from topologies.loader import load_text

RATE, PLANES, MTU = 25 * GIGA, 2, 4096
EFFICIENCY = MTU / (MTU + 166)  # of a full packet with its headers, preamble and gap
FULL = PLANES * RATE / GIGA * EFFICIENCY


@pytest.mark.parametrize("delay", [1 * US, 250 * US])
def test_one_queue_pair_fills_links_of_any_length(delay: int) -> None:
    """A round trip of 2 ms holds 12.5 MB, three times the 1,024 packets of 4 KB that an MPR of 8 allows."""
    fabric = multi_plane_clos("long", planes=PLANES, t0=2, t1=2, hosts=4)
    with SimulatedWorld(fabric, seed=1, rate=RATE, delay=delay) as world:
        pair = Pair(world, length=1 << 20)
        trip = world.timing.round_trip
        task = world.spawn(pair.write_without_end(32))
        world.run(2 * trip)
        before = pair.qp_far.counters().data_received
        took = max(2 * trip, 200 * US)
        world.run(world.now + took)
        rate = (pair.qp_far.counters().data_received - before) * MTU * 8 / took
        task.cancel()
        assert rate >= 0.97 * FULL


TWO_CLUSTERS = """
{name: two, planes: 2, pods: 2, t0: 1, t1: 1, t2: 1, hosts: 4, rate: 10G,
 links: {"t1-1:t2-*": {rate: 2500M, delay: 5ms}}}
"""


def out_of_use(peer: str) -> tuple[int, int]:
    """How long (ns) paths to `peer` stay out of use after 8 round trips that lost a plane, and its base RTT (ns)."""
    with SimulatedWorld(load_text(TWO_CLUSTERS), seed=1) as world:
        (known,) = (known for known in world.nic("h1").config.destinations if known.name == peer)
        pair = Pair(world, "h1", peer, length=256 << 10)
        task = world.spawn(pair.write_without_end(8))
        world.run(4 * known.base_rtt)
        world.faults.loss(f"{peer}@p0", 1.0, until=world.now + 8 * known.base_rtt)
        while not any(path.state is PathState.ASSUMED_BAD for path in pair.qp.paths()):
            world.run(world.now + known.base_rtt)
        world.run(world.now + 8 * known.base_rtt)
        begin = world.now
        while any(path.state is PathState.ASSUMED_BAD for path in pair.qp.paths()):
            world.run(world.now + known.base_rtt)
        task.cancel()
        return world.now - begin, known.base_rtt


def test_path_recovery_within_a_cluster_depends_on_its_own_round_trips() -> None:
    near, near_trip = out_of_use("h2")
    far, far_trip = out_of_use("h3")
    assert near_trip < far_trip / 100
    assert 20 * far_trip <= far, "three answered probes, ten round trips apart"
    assert near < far_trip
