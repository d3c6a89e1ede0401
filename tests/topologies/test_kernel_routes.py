"""Routes and neighbours of a kernel switch: walked like the P4 program's tables, it leads to the same ports."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, IPv6Network

import pytest

from tests.topologies.shapes import SHAPES, build
from topologies import addressing, paths
from topologies.clos import multi_plane_clos
from topologies.entries import switch_entries
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd
from topologies.kernel_routes import KernelTables, kernel_tables
from topologies.loader import dump_text, load_text
from topologies.queues import QueueProfile


def longest(tables: KernelTables, address: int) -> frozenset[int] | None:
    """The ports that a kernel's longest-prefix match gives."""
    matching = [prefix for prefix in tables.routes if IPv6Address(address) in prefix]
    return tables.routes[max(matching, key=lambda prefix: prefix.prefixlen)] if matching else None


class Walker:
    """Follows addresses through the routes of all switches, by what RFC 9800 and routing say."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.tables = {switch.name: kernel_tables(fabric, switch) for switch in fabric.switches}

    def ends(self, at: LinkEnd, address: int) -> Iterator[tuple[LinkEnd, int]]:
        """Where a packet that arrives at a switch may end, with its address then."""
        if at.node in self.fabric.nic_names:
            yield at, address
            return
        tables = self.tables[at.node]
        if IPv6Address(address) in tables.own:
            address = address >> 96 << 96 | address << 16 & (1 << 96) - 1
        for port in longest(tables, address) or ():
            peer = self.fabric.peer(LinkEnd(at.node, port))
            assert peer is not None
            assert tables.neighbours[port] == addressing.mac(self.fabric, peer)
            yield from self.ends(peer, address)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_entropy_value_leads_to_its_nic_in_its_plane(shape: dict[str, int]) -> None:
    fabric = build(shape)
    walker = Walker(fabric)
    for nic in fabric.nics:
        for peer in paths.nic_config(fabric, nic).destinations:
            target = fabric.nic(peer.name)
            for ev in peer.evs:
                plane = peer.template.plane(ev)
                start = fabric.peer(LinkEnd(nic.name, plane))
                assert start is not None
                address = int.from_bytes(peer.template.address(ev), "big")
                last = addressing.usid_address(fabric, addressing.nic_usid(target, plane))
                assert list(walker.ends(start, address)) == [(LinkEnd(target.name, plane), last)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_plain_ipv6_takes_every_uplink(shape: dict[str, int]) -> None:
    fabric = build(shape)
    walker = Walker(fabric)
    for source in fabric.nics:
        for target in fabric.nics:
            address = int(addressing.nic_address(fabric, target))
            start = fabric.peer(LinkEnd(source.name, 0))
            assert start is not None
            found = list(walker.ends(start, address))
            assert set(found) == {(LinkEnd(target.name, 0), address)}
            assert len(found) == (1 if source.t0 == target.t0 else fabric.t1_count)


def test_the_prefixes_are_those_of_locators() -> None:
    fabric = multi_plane_clos(planes=1, t0=1, t1=0, hosts=1, usid_block=0xFC001234)
    (switch,) = fabric.switches
    tables = kernel_tables(fabric, switch)
    assert tables.own == IPv6Network("fc00:1234:2000::/48")  # kind 1, plane 0, number 0
    assert tables.routes[IPv6Network("fc00:1234:6000::/48")] == {1}  # kind 3: the NIC
    assert len(tables) == 1 + len(tables.routes) + 1


# Fabrics with such switches


def test_patterns_choose_switches_and_survive_a_file() -> None:
    fabric = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4, kernel_switches=["t1-0@p0", "t0-*@p1"])
    names = ["t1-0@p0", "t0-0@p1", "t0-1@p1"]
    assert [switch.name for switch in fabric.kernel_switches] == names
    assert {switch.name for switch in fabric.p4_switches} == {one.name for one in fabric.switches} - set(names)
    assert load_text(dump_text(fabric)) == fabric
    assert not fabric.trims
    assert multi_plane_clos().trims


FILE = "name: lab\nplanes: 1\nt0: 1\nt1: 0\nhosts: 2\nkernel_switches: {}\n{}"


@pytest.mark.parametrize(
    ("value", "more", "problem"),
    [
        ("[t0-7@p0]", "", "fabric, line 6: kernel_switches: fabric lab has no switch that matches 't0-7@p0'"),
        ("t0-0@p0", "", "fabric, line 6: kernel_switches: must be a list, not 't0-0@p0'"),
        ("[3]", "", "fabric, line 6: kernel_switches: fabric lab has no switch that matches '3'"),
        ("[t0-0@p0]", "queues: {pfc: yes}", "t0-0@p0 is the kernel's, which has no priority flow control"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(value: str, more: str, problem: str) -> None:
    with pytest.raises(FabricError) as caught:
        load_text(FILE.format(value, more))
    assert problem in str(caught.value)


def test_flow_control_and_a_kernel_switch_exclude_each_other() -> None:
    with pytest.raises(FabricError, match="no priority flow control"):
        multi_plane_clos(queues=QueueProfile(pfc=True)).with_kernel_switches(["t1-0@p0"])


def test_links_are_watched_at_a_p4_switch_where_there_is_one() -> None:
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4, kernel_switches=["t1-0@p0", "t0-1@p0"])
    watched = {link.name: fabric.watched_end(link).node for link in fabric.links}
    assert watched["h1@p0"] == watched["t0-0:t1-0@p0"] == watched["t0-0:t1-1@p0"] == "t0-0@p0"
    assert watched["t0-1:t1-1@p0"] == "t1-1@p0"
    assert watched["h3@p0"] == watched["t0-1:t1-0@p0"] == "t0-1@p0"  # the kernel is at every end


def test_in_simulation_such_a_switch_neither_trims_nor_marks_nor_prefers() -> None:
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4, kernel_switches=["t1-0@p0"])
    entries = {name: switch_entries(fabric, fabric.switch(name)).entries for name in ("t1-0@p0", "t1-1@p0")}
    tables = {name: {entry.table for entry in found} for name, found in entries.items()}
    assert tables["t1-1@p0"] - tables["t1-0@p0"] == {"traffic_class", "adaptive_class", "trimmable", "ecn_profile"}
    (action,) = {entry.target.name for entry in entries["t1-0@p0"] if entry.table == "queue_profile"}  # type: ignore[union-attr]
    assert action == "tail_drop"
