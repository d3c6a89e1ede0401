"""Which uplink ECMP gives a packet: as computed from the fabric, and as the P4 program chooses it in simulation."""

import contextlib
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from mrc_host.verbs_types import QpType
from simulation.world import SimulatedWorld
from tests.simulation.worlds import Pair
from topologies.clos import multi_plane_clos
from topologies.ecmp_choice import chosen_uplink, ecmp_path, source_ports
from topologies.errors import FabricError
from topologies.link_rules import LinkRule
from topologies.parts import T2Wiring
from topologies.up_down import nodes

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


TIERS = {"planes": 1, "pods": 2, "t0": 2, "t1": 2, "t2": 8, "hosts": 4}
POD_1 = multi_plane_clos("tiers", **TIERS)


@pytest.mark.parametrize("target", ["h3", "h1"])
def test_packets_between_t0s_take_the_path_that_their_switches_choose(target: str) -> None:
    """Within the second pod, and from it to the first."""
    source = POD_1.nic("h4")
    for sport in (0xC000, 0xC0DE, 0xFFFF):
        path = ecmp_path(POD_1, source, POD_1.nic(target), 0, sport)
        with SimulatedWorld(POD_1, seed=1, rate=100_000_000_000) as world:
            attributes = replace(world.attributes(), udp_sport=sport)
            with contextlib.closing(Pair(world, "h4", target, kind=QpType.RC, attributes=attributes)) as pair:
                pair.write()
                world.run(pair.cq.next())
                frames = {link.name: max(one.frames for one in world.link_stats(link.name)) for link in POD_1.links}
        names = nodes(POD_1, source, POD_1.nic(target), path)
        crossed = {POD_1.link_between(*ends).name for ends in pairwise(names)} | {"h4@p0", f"{target}@p0"}
        assert {name for name, count in frames.items() if count > 250} == crossed


def test_uplinks_of_every_pod_count_from_0() -> None:
    h4, h1 = POD_1.nic("h4"), POD_1.nic("h1")
    for uplink in range(2):
        assert chosen_uplink(POD_1, h4, h1, 0, next(source_ports(POD_1, h4, h1, 0, uplink))) == uplink


def test_the_choice_of_a_t2_that_leads_to_several_t1s_is_not_foretold() -> None:
    fabric = multi_plane_clos("mesh", **TIERS, t2_wiring=T2Wiring.MESH)
    with pytest.raises(FabricError, match="leads to h1 over 2 T1s, and chooses"):
        ecmp_path(fabric, fabric.nic("h4"), fabric.nic("h1"), 0, 0xC000)
