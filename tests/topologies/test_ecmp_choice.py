"""Which uplink ECMP gives a packet: as computed from the fabric, and as the P4 program chooses it in simulation."""

import contextlib
from dataclasses import replace
from itertools import islice

import pytest

from mrc_host.verbs_types import QpType
from simulation.world import SimulatedWorld
from tests.simulation.worlds import Pair
from topologies.clos import multi_plane_clos
from topologies.ecmp_choice import chosen_uplink, source_ports
from topologies.errors import FabricError
from topologies.link_rules import LinkRule

FABRIC = multi_plane_clos("ecmp", planes=1, t0=2, t1=4, hosts=4)
H1, H3 = FABRIC.nic("h1"), FABRIC.nic("h3")


@pytest.mark.parametrize("uplink", range(4))
def test_a_queue_pair_with_such_a_source_port_takes_that_uplink(uplink: int) -> None:
    for sport in islice(source_ports(FABRIC, H1, H3, 0, uplink), 3):
        with SimulatedWorld(FABRIC, seed=1, rate=100_000_000_000) as world:
            attributes = replace(world.attributes(), udp_sport=sport)
            with contextlib.closing(Pair(world, kind=QpType.RC, attributes=attributes)) as pair:
                pair.write()
                world.run(pair.cq.next())
                carried = [world.link_stats(f"t0-0:t1-{number}@p0")[0].frames for number in range(4)]
        assert [number for number, frames in enumerate(carried) if frames > 250] == [uplink]


def test_source_ports_are_those_that_the_choice_says() -> None:
    found = {uplink: set(source_ports(FABRIC, H1, H3, 0, uplink)) for uplink in range(4)}
    assert set.union(*found.values()) == set(range(0xC000, 0x10000))
    for sport in range(0xC000, 0xC100):
        assert sport in found[chosen_uplink(FABRIC, H1, H3, 0, sport)]


def test_a_missing_uplink_is_no_choice() -> None:
    missing = [LinkRule("t0-0:t1-2@p0", missing=True)]
    fabric = multi_plane_clos("ecmp", planes=1, t0=2, t1=4, hosts=4, links=missing)
    h1, h3 = fabric.nic("h1"), fabric.nic("h3")
    assert {chosen_uplink(fabric, h1, h3, 0, sport) for sport in range(0xC000, 0xC100)} == {0, 1, 3}
    with pytest.raises(FabricError, match="h1 has no uplink 2 towards h3 in plane 0: there are 0, 1, 3"):
        next(source_ports(fabric, h1, h3, 0, 2))


def test_hosts_below_one_t0_have_no_uplink_to_each_other() -> None:
    with pytest.raises(FabricError, match="both are below one T0"):
        next(source_ports(FABRIC, H1, FABRIC.nic("h2"), 0, 0))
