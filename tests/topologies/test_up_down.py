"""Ways up and down through fabrics of any shape, as entries, addresses, probes and IPv6 routes have them."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest

from tests.swarm import oracle
from tests.topologies.random_fabrics import random_fabric, three_tiers
from tests.topologies.walk import Walker
from topologies import addressing, paths
from topologies.clos import multi_plane_clos
from topologies.entries import switch_entries
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd, T2Wiring, Tier
from topologies.link_rules import LinkRule
from topologies.probe_plan import ProbeKind, probe_plan
from topologies.up_down import first_path, nodes

SEEDS = range(40)


def walked(fabric: Fabric, walker: Walker, source: str, plane: int, address: bytes) -> tuple[list[str], LinkEnd]:
    start = fabric.peer(LinkEnd(source, plane))
    assert start is not None
    found, end, rest = walker.usid_path(start, int.from_bytes(address, "big"))
    own = addressing.locator(fabric, addressing.nic_usid(fabric.nic(end.node), plane))
    assert rest == own << 80, "only the NIC's own uSID is left"
    return found, end


@pytest.mark.parametrize("seed", SEEDS)
def test_every_path_leads_up_and_down_over_existing_links(seed: int) -> None:
    print(f"seed {seed}")
    fabric = random_fabric(random.Random(seed))
    walker = Walker(fabric)
    for source in fabric.nics:
        for known in paths.nic_config(fabric, source).destinations:
            peer = fabric.nic(known.name)
            taken = set()
            for ev, path in zip(known.evs, fabric.paths(source, peer), strict=True):
                plane = known.template.plane(ev)
                found, end = walked(fabric, walker, source.name, plane, known.template.address(ev))
                assert end == LinkEnd(peer.name, plane)
                assert tuple(found) == nodes(fabric, source, peer, path)
                tiers = [fabric.switch(name).tier for name in found]
                top = tiers.index(max(tiers))
                assert tiers[: top + 1] == sorted(tiers[: top + 1])
                assert tiers[top:] == sorted(tiers[top:], reverse=True)
                taken.add(tuple(found))
            assert len(taken) == len(known.evs) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_paths_match_the_oracle(seed: int) -> None:
    print(f"seed {seed}")
    fabric = random_fabric(random.Random(seed))
    for source in fabric.nics:
        for known in paths.nic_config(fabric, source).destinations:
            assert sorted(known.evs) == sorted(ev for ev, _ in oracle.paths(fabric, source.name, known.name))


@pytest.mark.parametrize("seed", SEEDS)
def test_plain_ipv6_reaches_every_connected_host_without_loops(seed: int) -> None:
    print(f"seed {seed}")
    fabric = random_fabric(random.Random(seed))
    walker = Walker(fabric)
    for source in fabric.nics:
        for target in fabric.nics:
            for path in fabric.paths(source, target) if source != target else ():
                start = fabric.peer(LinkEnd(source.name, path.plane))
                assert start is not None
                ends = list(walker.routed_ends(start, int(addressing.nic_address(fabric, target))))
                assert {end for _, end in ends} == {LinkEnd(target.name, path.plane)}
                assert all(len(set(found)) == len(found) for found, _ in ends)


@pytest.mark.parametrize("seed", SEEDS)
def test_probes_cover_all_reachable_links_and_follow_the_plan(seed: int) -> None:
    print(f"seed {seed}")
    fabric = random_fabric(random.Random(seed))
    walker = Walker(fabric)
    covered = set()
    for route in probe_plan(fabric).all_routes:
        found, end = walked(fabric, walker, route.source, route.plane, route.path.outer)
        assert (tuple(found), end) == (route.switches, LinkEnd(route.target, route.plane))
        for crossing, (near, far) in zip(route.crossings, pairwise((route.source, *found, route.target)), strict=True):
            link = fabric.link(crossing.link)
            assert (link.lower.node, link.upper.node) == ((near, far) if crossing.upward else (far, near))
            covered.add(link.name)
    for link in fabric.links:
        above = link.lower.node in fabric.nic_names or any(_hosts_below(fabric, link.lower.node))
        assert (link.name in covered) == above


def _hosts_below(fabric: Fabric, node: str) -> list[str]:
    below = [link.lower.node for link in fabric.links_of(node) if link.upper.node == node]
    return [name for lower in below for name in ([lower] if lower in fabric.nic_names else _hosts_below(fabric, lower))]


@pytest.mark.parametrize("seed", SEEDS)
def test_entries_have_unique_keys_and_existing_members(seed: int) -> None:
    fabric = random_fabric(random.Random(seed))
    for switch in fabric.switches:
        entries = switch_entries(fabric, switch)
        keys = [(entry.table, entry.match) for entry in entries.entries]
        assert len(set(keys)) == len(keys)
        members = {member.member_id for member in entries.members}
        assert members == set(switch.ports)
        assert all(group.members and {port for port, _ in group.members} <= members for group in entries.groups)


def test_paths_over_three_tiers_use_six_usids_and_within_a_pod_four() -> None:
    fabric = three_tiers()
    h1, h2, h3, h5 = (fabric.nic(name) for name in ("h1", "h2", "h3", "h5"))
    assert [path.turn for path in fabric.paths(h1, h2)] == [Tier.T0] * 2
    assert [path.turn for path in fabric.paths(h1, h3)] == [Tier.T1] * 4
    assert [path.turn for path in fabric.paths(h1, h5)] == [Tier.T2] * 8  # 2 planes of 4 T2s
    known = paths.destination(fabric, h1, h5)
    address = known.template.address(addressing.entropy_value(1, 1, 3, 1)).hex(":", 2)
    # block, T0 0, T1 1, T2 3, T1 3, T0 2, downlink 0, all of plane 1
    assert address == "fc00:0000:2400:4401:8403:4403:2402:6400"
    assert nodes(fabric, h1, h5, fabric.paths(h1, h5)[-1]) == ("t0-0@p1", "t1-1@p1", "t2-3@p1", "t1-3@p1", "t0-2@p1")


def test_grouped_t2s_connect_t1s_of_one_index_and_meshed_t2s_all() -> None:
    groups = three_tiers()
    assert [link.upper.node for link in groups.links_of("t1-2@p0") if link.lower.node == "t1-2@p0"] == [
        "t2-0@p0",
        "t2-1@p0",
    ]
    mesh = multi_plane_clos(planes=1, pods=2, t0=1, t1=2, t2=3, hosts=2, t2_wiring=T2Wiring.MESH)
    assert len(list(mesh.links_of("t2-1@p0"))) == 4
    paths = mesh.paths(mesh.nics[0], mesh.nics[1])
    assert len(paths) == 6
    assert {path.downlink for path in paths} == {0, 1}


def test_probes_to_a_t2_return_on_the_same_path() -> None:
    fabric = three_tiers()
    turned = [route for route in probe_plan(fabric).routes["h1"] if route.kind is ProbeKind.T2]
    assert turned
    assert all(route.switches == route.switches[::-1] for route in turned)
    probed = {route.crossings[2].link for route in probe_plan(fabric).all_routes if route.kind is ProbeKind.T2}
    assert probed == {link.name for link in fabric.find_links("t1-*:t2-*@*")}


def test_a_missing_link_is_on_no_path() -> None:
    fabric = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4, links=[LinkRule("t0-0:t1-0@p0", missing=True)])
    paths = fabric.paths(fabric.nic("h1"), fabric.nic("h3"))
    assert [(path.plane, path.uplink) for path in paths] == [(0, 1), (1, 0), (1, 1)]
    assert fabric.switch("t0-0@p0").ports == (1, 2, 4)
    assert fabric.link("t0-0:t1-1@p0").lower == LinkEnd("t0-0@p0", 4)


def test_t0s_of_a_pod_without_a_common_t1_use_a_t2() -> None:
    rules = [LinkRule("t0-0:t1-0@*", missing=True), LinkRule("t0-1:t1-1@*", missing=True)]
    fabric = multi_plane_clos(planes=1, pods=2, t0=2, t1=2, t2=2, hosts=4, t2_wiring=T2Wiring.MESH, links=rules)
    h1, h2 = fabric.nics[:2]
    assert {nodes(fabric, h1, h2, path)[1:4] for path in fabric.paths(h1, h2)} == {
        ("t1-1@p0", "t2-0@p0", "t1-0@p0"),
        ("t1-1@p0", "t2-1@p0", "t1-0@p0"),
    }


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([LinkRule("h1@p*", missing=True)], "h1 has no link in any plane"),
        ([LinkRule("h1@p0", missing=True), LinkRule("h2@p1", missing=True)], "h1 and h2 have no path in any plane"),
        ([LinkRule("t0-0:t1-*@*", missing=True)], "h1 and h3 have no path in any plane"),
        ([LinkRule("t1-t2", missing=True)], "there are no t1-t2 links"),
        ([LinkRule("h9@p0", rate_bps=1)], "no link matches 'h9@p0': names are as in h1@p0, classes are nic-t0, t0-t1"),
        ([LinkRule("h1@p0", rate_bps=1)], "rate of link h1@p0 is 1 b/s"),
        ([LinkRule("h1@p0", delay_ns=-1)], "delay of link h1@p0 is -1 ns"),
    ],
)
def test_invalid_link_rules_are_refused(rules: list[LinkRule], message: str) -> None:
    with pytest.raises(FabricError) as raised:
        multi_plane_clos(planes=2, t0=2, t1=2, hosts=4, links=rules)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"pods": 2}, "2 pods need at least one T1 each and one T2 per plane"),
        ({"t2": 1, "t1": 0, "t0": 1}, "T2s need T1s below them"),
        ({"pods": 2, "t2": 3}, "3 T2s cannot be divided evenly over the 4 T1s of a pod"),
        ({"pods": 3, "t2": 4, "hosts": 8}, "8 hosts cannot be spread evenly over 6 T0 groups"),
        ({"racks": [[1, 0]]}, "number of hosts in a rack is 0"),
        ({"racks": []}, "racks must list the hosts of every T0"),
        ({"pods": 510, "t1": 1, "t2": 1, "t0": 1, "hosts": 510}, "switch t2-0@p0 has 510 ports"),
    ],
)
def test_impossible_tiers_are_refused(sizes: dict[str, object], message: str) -> None:
    with pytest.raises(FabricError) as raised:
        multi_plane_clos(**sizes)  # type: ignore[arg-type]
    assert message in str(raised.value)


def test_more_ecmp_groups_than_the_tables_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [LinkRule("t0-1:t1-0@p0", missing=True), LinkRule("t0-2:t1-1@p0", missing=True)]
    sizes = {"planes": 1, "t0": 3, "t1": 3, "hosts": 3}
    assert multi_plane_clos(**sizes, links=rules)  # type: ignore[arg-type]
    monkeypatch.setattr("topologies.ip_routes.MAX_MEMBERSHIPS", 6)  # of t0-0: all three uplinks, and two pairs of them
    with pytest.raises(FabricError, match="switch t0-0@p0 needs 3 ECMP groups with 7 members in all"):
        multi_plane_clos(**sizes, links=rules)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_path_is_found_without_the_others(seed: int) -> None:
    print(f"seed {seed}")
    fabric = random_fabric(random.Random(seed))
    for source, target in product(fabric.nics, repeat=2):
        planes = fabric.common_planes(source, target)
        assert first_path(fabric, planes, source.t0, target.t0) == fabric.paths(source, target)[0]
    assert first_path(fabric, (), 0, 0) is None
