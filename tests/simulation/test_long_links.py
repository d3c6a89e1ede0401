"""Long links are filled: the range of PSNs that a world chooses suffices for its bandwidth-delay product."""

from __future__ import annotations

import pytest

from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, US, Pair
from topologies.clos import multi_plane_clos

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
