"""Routes without links that are down: they reach whom they can, over no such link, and without loops."""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Iterator

import pytest

from mrc_common.p4_match import GroupRef, MemberRef
from tests.topologies.random_fabrics import random_fabric, three_tiers
from tests.topologies.reachability import reachable
from tests.topologies.walk import Walker
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.entries import ECMP, UPLINKS, Group, Member, SwitchEntries, TableEntry, route_entries, switch_entries
from topologies.entry_difference import Neutral, compare
from topologies.errors import FabricError
from topologies.fabric import Fabric, FabricNic, LinkEnd, Switch
from topologies.fabric_checks import MAX_REROUTE_NS
from topologies.ip_routes import ip_routes
from topologies.kernel_routes import kernel_tables
from topologies.loader import dump_text, load_text

SEEDS = range(40)


def drawn(seed: int) -> tuple[random.Random, Fabric, frozenset[str]]:
    print(f"seed {seed}")
    rng = random.Random(seed)
    fabric = random_fabric(rng)
    return rng, fabric, dead_links(rng, fabric)


def dead_links(rng: random.Random, fabric: Fabric) -> frozenset[str]:
    share = rng.choice((0.02, 0.1, 0.3, 0.6, 1.0))
    return frozenset(link.name for link in fabric.links if rng.random() < share)


def ends(walker: Walker, source: FabricNic, target: FabricNic, plane: int) -> Iterator[list[str]]:
    link = walker.fabric.nic_link(source, plane)
    assert link is not None
    for nodes, end in walker.routed_ends(link.upper, int(addressing.nic_address(walker.fabric, target))):
        assert end == LinkEnd(target.name, plane)
        yield [source.name, *nodes, target.name]


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_that_can_are_reached_over_live_links_alone_and_others_have_no_way(seed: int) -> None:
    _, fabric, dead = drawn(seed)
    walker = Walker(fabric, dead)
    for source in fabric.nics:
        for plane in range(fabric.planes):
            there = reachable(fabric, source.name, plane, dead)
            link = fabric.nic_link(source, plane)
            if link is None or link.name in dead:
                continue
            for target in fabric.nics:
                if target is source:
                    continue
                ways = list(ends(walker, source, target, plane))
                assert bool(ways) == (target.name in there), (source.name, target.name, plane)
                for way in ways:
                    assert len(set(way)) == len(way)
                    links = {fabric.link_between(*pair).name for pair in itertools.pairwise(way)}
                    assert not links & dead


@pytest.mark.parametrize("seed", SEEDS)
def test_no_member_of_any_group_leads_into_a_switch_without_a_route(seed: int) -> None:
    """`routed_ends` would pass over a member whose switch drops: here every member has to lead on."""
    _, fabric, dead = drawn(seed)
    for switch in fabric.switches:
        routes = ip_routes(fabric, switch, dead)
        for t0, ports in _leads(fabric, switch, dead).items():
            for port in ports:
                link = fabric.link_at(LinkEnd(switch.name, port))
                peer = fabric.peer(LinkEnd(switch.name, port))
                assert link is not None
                assert peer is not None
                assert link.name not in dead
                beyond = fabric.switch(peer.node)
                if beyond.name != f"t0-{t0}@p{switch.plane}":
                    onwards = ip_routes(fabric, beyond, dead)
                    assert t0 in onwards.ports or t0 in onwards.group_of
        assert all(routes.groups.values())


def _leads(fabric: Fabric, switch: Switch, dead: frozenset[str]) -> dict[int, tuple[int, ...]]:
    routes = ip_routes(fabric, switch, dead)
    single = {t0: (port,) for t0, port in routes.ports.items()}
    return {**single, **{t0: routes.groups[number] for t0, number in routes.group_of.items()}}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_difference_applied_to_before_gives_after_and_leaves_no_reference_dangling(seed: int) -> None:
    rng, fabric, before = drawn(seed)
    after = rng.choice((frozenset(), dead_links(rng, fabric), before | dead_links(rng, fabric)))
    for switch in fabric.switches:
        old, new = switch_entries(fabric, switch, before), switch_entries(fabric, switch, after)
        held = {_key(entry): entry for entry in _all(old)}
        for missing, wrong, superfluous in compare(new, old).stages():
            for entry in (*missing, *wrong):
                assert (_key(entry) in held) == (entry in wrong)
                held[_key(entry)] = entry
            for entry in superfluous:
                del held[_key(entry)]
            assert _dangling(held.values()) == []
        assert set(held.values()) == set(_all(new))


def _all(entries: SwitchEntries) -> tuple[Neutral, ...]:
    return (*entries.members, *entries.groups, *entries.entries)


def _key(entry: Neutral) -> Hashable:
    if isinstance(entry, TableEntry):
        return entry.table, entry.match
    return (type(entry), entry.profile, entry.member_id if isinstance(entry, Member) else entry.group_id)


def _dangling(held: object) -> list[Neutral]:
    entries: list[Neutral] = list(held)  # type: ignore[call-overload]
    members = {(entry.profile, entry.member_id) for entry in entries if isinstance(entry, Member)}
    groups = {(entry.profile, entry.group_id): entry for entry in entries if isinstance(entry, Group)}
    profiles = {"ipv6_route": ECMP, "adaptive_route": UPLINKS}
    found: list[Neutral] = [g for g in groups.values() if any((g.profile, m) not in members for m, _ in g.members)]
    for entry in entries:
        target = entry.target if isinstance(entry, TableEntry) else None
        if isinstance(target, MemberRef) and (ECMP, target.member_id) not in members:
            found.append(entry)
        if isinstance(target, GroupRef) and (profiles[entry.table], target.group_id) not in groups:  # type: ignore[union-attr]
            found.append(entry)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_plane_of_a_link_changes_and_there_only_routes(seed: int) -> None:
    _, fabric, dead = drawn(seed)
    dead = frozenset(name for name in dead if fabric.link(name).plane == 0)
    for switch in fabric.switches:
        difference = compare(switch_entries(fabric, switch, dead), switch_entries(fabric, switch))
        changed = [*difference.missing, *difference.wrong, *difference.superfluous]
        assert not changed or switch.plane == 0
        entries = [entry for entry in changed if not isinstance(entry, Group)]
        assert {getattr(entry, "table", None) for entry in entries} <= {"ipv6_route", "adaptive_route"}
        assert len(compare(switch_entries(fabric, switch), switch_entries(fabric, switch, frozenset()))) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_both_selectors_have_the_same_groups_and_a_number_the_same_neighbours(seed: int) -> None:
    rng, fabric, dead = drawn(seed)
    more = dead | dead_links(rng, fabric)
    for switch in fabric.switches:
        one = route_entries(fabric, switch, dead)
        ecmp, uplinks = ({g.group_id: g.members for g in one.groups if g.profile == name} for name in (ECMP, UPLINKS))
        assert ecmp == uplinks
        targets = [
            {e.match: e.target for e in one.entries if e.table == table and isinstance(e.target, GroupRef)}
            for table in ("ipv6_route", "adaptive_route")
        ]
        assert targets[0] == targets[1]
        other = ip_routes(fabric, switch, more).groups
        own = {link.name: end.port for link in fabric.links_of(switch.name) for end in (link.lower, link.upper)
               if end.node == switch.name}  # fmt: skip
        live = {port for name, port in own.items() if name not in more}
        for number, ports in ip_routes(fabric, switch, dead).groups.items():
            if number in other:
                both = live & {port for name, port in own.items() if name not in dead}
                assert set(ports) & both == set(other[number]) & both


def test_an_uplink_of_its_own_changes_two_groups_of_a_t0_and_no_entry() -> None:
    fabric = multi_plane_clos(planes=1, t0=8, t1=4, hosts=8)
    dead = frozenset({"t0-0:t1-2@p0"})
    own, other = fabric.switch("t0-0@p0"), fabric.switch("t0-5@p0")
    difference = compare(switch_entries(fabric, own, dead), switch_entries(fabric, own))
    assert (difference.missing, difference.superfluous) == ((), ())
    assert {(entry.profile, entry.group_id) for entry in difference.wrong if isinstance(entry, Group)} == {
        (ECMP, 1),
        (UPLINKS, 1),
    }
    there = compare(switch_entries(fabric, other, dead), switch_entries(fabric, other))
    assert [type(entry) for entry in (*there.missing, *there.wrong)] == [Group, Group, TableEntry, TableEntry]


def test_a_t0_without_uplinks_has_no_routes_and_nobody_has_one_to_it() -> None:
    fabric = three_tiers()
    dead = frozenset(link.name for link in fabric.find_links("t0-1:t1-*@p0"))
    assert not _leads(fabric, fabric.switch("t0-1@p0"), dead)
    for switch in fabric.switches:
        if switch.plane == 0 and switch.name != "t0-1@p0":
            assert set(_leads(fabric, switch, dead)) == set(range(4)) - {1, switch.index if switch.tier == 0 else 1}


def test_the_whole_plane_down_leaves_no_route() -> None:
    fabric = three_tiers()
    dead = frozenset(link.name for link in fabric.links if link.plane == 1)
    for switch in fabric.switches:
        found = route_entries(fabric, switch, dead)
        assert bool(found.entries) == bool(found.groups) == (switch.plane == 0) or switch.tier == 2


def test_a_nic_without_its_link_has_no_route_at_its_t0() -> None:
    fabric = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)
    t0 = fabric.switch("t0-0@p1")
    gone = compare(switch_entries(fabric, t0, frozenset({"h2@p1"})), switch_entries(fabric, t0))
    h2 = fabric.nic("h2")
    assert (gone.missing, gone.wrong) == ((), ())
    keys = {entry.match[0].value for entry in gone.superfluous if isinstance(entry, TableEntry)}  # type: ignore[union-attr]
    assert keys == {int(addressing.nic_address(fabric, h2)), int(addressing.kernel_address(fabric, h2, 1))}


def test_groups_that_have_no_room_give_way_to_single_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = multi_plane_clos(planes=1, t0=6, t1=4, hosts=6)
    dead = frozenset({"t0-1:t1-0@p0", "t0-2:t1-1@p0", "t0-3:t1-2@p0"})
    switch = fabric.switch("t0-0@p0")
    assert len(ip_routes(fabric, switch, dead).groups) == 4
    monkeypatch.setattr("topologies.ip_routes.MAX_MEMBERSHIPS", 4 + 2 * 4)  # all four uplinks, and one of three twice
    found = ip_routes(multi_plane_clos(planes=1, t0=6, t1=4, hosts=6), switch, dead)
    assert [len(ports) for ports in found.groups.values()] == [4, 3]
    assert sorted(found.ports) == [2, 3]
    leads = {2: {1, 3, 4}, 3: {1, 2, 4}}
    number = {link.lower.port: upper + 1 for upper, link in fabric.uplinks(switch.name).items()}
    assert all(number[port] in leads[t0] for t0, port in found.ports.items())


@pytest.mark.parametrize("seed", SEEDS)
def test_kernel_switches_send_to_the_same_ports(seed: int) -> None:
    _, fabric, dead = drawn(seed)
    for switch in fabric.switches:
        found = kernel_tables(fabric, switch, dead)
        for t0, ports in _leads(fabric, switch, dead).items():
            assert found.routes[addressing.t0_prefix(fabric, t0)] == frozenset(ports)
        lost = kernel_tables(fabric, switch).routes.keys() - found.routes.keys()
        assert {prefix.prefixlen for prefix in lost} <= {64, 128}


def test_few_sets_of_links_are_kept() -> None:
    fabric = multi_plane_clos(planes=1, t0=2, t1=8, hosts=2)
    switch = fabric.switches[0]
    whole = ip_routes(fabric, switch)
    names = [link.name for link in fabric.find_links("t0-0:t1-*@p0")]
    found = [ip_routes(fabric, switch, frozenset({name})) for name in names]
    assert ip_routes(fabric, switch, frozenset({names[-1]})) is found[-1]
    assert ip_routes(fabric, switch, frozenset({names[0]})) is not found[0]
    assert ip_routes(fabric, switch) is whole


SMALL = "name: small\nplanes: 2\nt0: 2\nt1: 2\nhosts: 4\n"


def test_the_key_is_a_time() -> None:
    assert load_text(SMALL).reroute_ns is None
    fabric = load_text(SMALL + "reroute: 50us\n")
    assert fabric.reroute_ns == 50_000
    assert load_text(dump_text(fabric)) == fabric
    assert multi_plane_clos(reroute_ns=MAX_REROUTE_NS).reroute_ns == MAX_REROUTE_NS


@pytest.mark.parametrize("time", ["0", "0us", "-5us", "11s", "soon", "no", "[50us]"])
def test_what_is_no_time_is_refused_with_the_key(time: str) -> None:
    with pytest.raises(FabricError, match=r"line 6: reroute[: ]"):
        load_text(SMALL + f"reroute: {time}\n")


@pytest.mark.parametrize("time", [0, -1, MAX_REROUTE_NS + 1])
def test_a_program_is_refused_one_too(time: int) -> None:
    with pytest.raises(FabricError, match="reroute"):
        multi_plane_clos(reroute_ns=time)
