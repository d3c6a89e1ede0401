from __future__ import annotations

import pytest

from mrc_common.p4_match import Exact, GroupRef
from tests.topologies.shapes import SHAPES, build
from tests.topologies.walk import Walker
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.entries import ECMP, UPLINKS, TableAction, TableEntry, switch_entries
from topologies.fabric import LinkEnd, Tier
from topologies.queues import QueueProfile

ROUTES = ("ipv6_route", "adaptive_route")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_plain_ipv6_reaches_every_nic_address_over_every_uplink_and_no_other_path(shape: dict[str, int]) -> None:
    fabric = build(shape)
    walker = Walker(fabric)
    for source in fabric.nics:
        for target in fabric.nics:
            address = int(addressing.nic_address(fabric, target))
            for plane in range(fabric.planes):
                start = fabric.peer(LinkEnd(source.name, plane))
                assert start is not None
                ends = list(walker.routed_ends(start, address))
                assert {end for _, end in ends} == {LinkEnd(target.name, plane)}
                assert len(ends) == (1 if source.t0 == target.t0 else fabric.t1_count)
                assert len({tuple(nodes) for nodes, _ in ends}) == len(ends)


def test_kernel_addresses_are_reached_in_their_own_plane_only() -> None:
    fabric = build(SHAPES[0])
    walker = Walker(fabric)
    source, target = fabric.nics[0], fabric.nics[-1]
    for plane in range(fabric.planes):
        start = fabric.peer(LinkEnd(source.name, plane))
        assert start is not None
        for address_plane in range(fabric.planes):
            address = int(addressing.kernel_address(fabric, target, address_plane))
            ends = {end for _, end in walker.routed_ends(start, address)}
            assert ends == ({LinkEnd(target.name, plane)} if plane == address_plane else set())


def test_each_switch_matches_its_own_usid_only() -> None:
    fabric = build(SHAPES[-1])
    owners: dict[int, str] = {}
    for switch in fabric.switches:
        own = [entry for entry in switch_entries(fabric, switch).entries if entry.table == "usid_local"]
        (entry,) = own
        (key,) = entry.match
        assert isinstance(key, Exact)
        assert key.value not in owners, f"{switch.name} and {owners[key.value]} have one uSID"
        owners[key.value] = switch.name
    assert len(owners) == len(fabric.switches)


def test_keys_are_unique_and_members_exist() -> None:
    fabric = build(SHAPES[-1])
    for switch in fabric.switches:
        entries = switch_entries(fabric, switch)
        keys = [(entry.table, entry.match) for entry in entries.entries]
        assert len(set(keys)) == len(keys)
        members = {member.member_id for member in entries.members if member.profile == ECMP}
        assert members == set(switch.ports)
        for group in entries.groups:
            known = {member.member_id for member in entries.members if member.profile == group.profile}
            assert {member_id for member_id, _ in group.members} <= known <= members


def test_adaptive_routing_has_the_groups_of_ecmp_and_no_other_routes() -> None:
    fabric = build(SHAPES[-1])
    for switch in fabric.switches:
        entries = switch_entries(fabric, switch)
        groups = [
            {group.group_id: group.members for group in entries.groups if group.profile == profile}
            for profile in (ECMP, UPLINKS)
        ]
        assert groups[0] == groups[1]
        routes = [{e.match: e.target for e in entries.entries if e.table == table} for table in ROUTES]
        assert routes[1] == {key: target for key, target in routes[0].items() if isinstance(target, GroupRef)}


def test_control_traffic_has_priority_and_dscps_are_the_fabrics() -> None:
    fabric = multi_plane_clos(t1=2)
    dscp = fabric.settings.dscp
    classes = {
        entry.match: entry.target
        for entry in switch_entries(fabric, fabric.switches[0]).entries
        if entry.table == "traffic_class"
    }

    def priority(value: int) -> int:
        target = classes.get((Exact(value),))
        return dict(target.args)["priority"] if isinstance(target, TableAction) else 0

    data = max(priority(dscp.trimmable), priority(dscp.no_trim))
    assert data == 0 < priority(dscp.retransmit) < priority(dscp.control)
    assert priority(dscp.trimmed) == priority(dscp.trimmed_lasthop) == priority(dscp.control) <= 7


def test_retransmissions_may_share_the_class_of_other_data() -> None:
    fabric = multi_plane_clos(t1=2, queues=QueueProfile(retransmissions_first=False))
    entries = switch_entries(fabric, fabric.switches[0]).entries
    classes = {entry.match for entry in entries if entry.table == "traffic_class"}
    assert (Exact(fabric.settings.dscp.retransmit),) not in classes
    assert (Exact(fabric.settings.dscp.control),) in classes
    trimmed = {entry.match[0] for entry in entries if entry.table == "trimmable"}
    assert Exact(fabric.settings.dscp.retransmit) in trimmed, "they are cut all the same"


def test_a_single_switch_per_plane_has_no_ecmp_group() -> None:
    fabric = build(SHAPES[1])
    entries = switch_entries(fabric, fabric.switches[0])
    assert entries.groups == ()
    assert not any(isinstance(entry.target, GroupRef) for entry in entries.entries)


def test_a_t1_routes_the_prefix_of_every_t0() -> None:
    fabric = build(SHAPES[0])
    t1 = fabric.tier(Tier.T1, 0)[0]
    routes = [entry for entry in switch_entries(fabric, t1).entries if entry.table == "ipv6_route"]
    assert len(routes) == fabric.t0_count
    assert all(isinstance(entry, TableEntry) for entry in routes)
