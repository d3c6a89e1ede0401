"""Table entries of each switch, derived from the fabric alone: static, but for routes around links that are down.

The entries are neutral values, not P4Runtime messages: `controller/` turns them into P4Runtime, `simulation/`
writes them into embedded switches directly. Names of tables, actions and parameters are those of ``p4src/``; keys
are given in the order of the table's key. Per switch:

- ``usid_local``: its own uSID is shifted out (docs/protocol.md §5, behaviour uN).
- ``usid_next``: the uSID of every neighbour names a port; on a T0 that is each T1 above and each NIC below.
- ``ipv6_route``: plain IPv6 for RoCE and the hosts' kernels (``ip_routes``). A T0 knows its NICs and their kernel
  addresses; the /64 of another T0 leads down where it is below, and else up to an ECMP group.
- ``adaptive_route``: where a group leads, once more, for the second of two members that adaptive routing draws.
- ``ecmp_seed``: a seed of its own for the switch's hash.
- ``traffic_class``: DSCP roles that overtake data.
- ``adaptive_class``: the one whose packets are routed adaptively.
- ``queue_profile``, ``trimmable``, ``ecn_profile``: queue signals of each port (``topologies.queues``).

A kernel switch (``topologies.kernel_routes``) has no P4 tables in emulation. In simulation a P4 switch stands for it,
without priorities, trimming and marks, which Linux does not do there.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from mrc_common.p4_match import Exact, GroupRef, Lpm, Match, MemberRef
from topologies import addressing
from topologies.fabric import Fabric, Link, LinkEnd, LinkKind, Switch, Tier
from topologies.ip_routes import NO_LINKS, IpRoutes, ip_routes

ECMP = "ecmp"
UPLINKS = "uplinks"  # of adaptive routing
PRIORITY_CONTROL = 7  # control packets and trimmed ones: strict priority over all else
PRIORITY_RETRANSMIT = 1  # retransmissions go ahead of first transmissions (docs/protocol.md §2)


@dataclass(frozen=True, slots=True)
class TableAction:
    """An action and its arguments by parameter name."""

    name: str
    args: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry; `match` follows the order of the table's key.

    `priority` is 0 for tables without ternary keys and more for others; the largest that matches wins.
    """

    table: str
    match: tuple[Match, ...]
    target: TableAction | GroupRef | MemberRef
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an action selector."""

    profile: str
    member_id: int
    action: TableAction


@dataclass(frozen=True, slots=True)
class Group:
    """A group of an action selector: members and their weights."""

    profile: str
    group_id: int
    members: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SwitchEntries:
    """All a switch holds. To be written in the order members, groups, entries, and deleted in the reverse order."""

    switch: str
    members: tuple[Member, ...]
    groups: tuple[Group, ...]
    entries: tuple[TableEntry, ...]


def switch_entries(fabric: Fabric, switch: Switch, without: frozenset[str] = NO_LINKS) -> SwitchEntries:
    """The entries of one switch; its routes for plain IPv6 are over no link of `without`, by name."""
    hops = {port: _set_egress(fabric, switch, port) for port in switch.ports}
    routed = route_entries(fabric, switch, without)
    may_be_chosen = set(chain.from_iterable(ip_routes(fabric, switch).groups.values()))  # also while a link is down
    return SwitchEntries(
        switch=switch.name,
        members=(
            *(Member(ECMP, port, hop) for port, hop in hops.items()),
            *(Member(UPLINKS, port, hops[port]) for port in sorted(may_be_chosen)),
        ),
        groups=routed.groups,
        entries=(
            _usid_local(fabric, switch),
            *(TableEntry("usid_next", (Exact(key),), hops[port]) for key, port in _neighbours(fabric, switch)),
            *routed.entries,
            _ecmp_seed(fabric, switch),
            *(() if switch.kernel else (*_traffic_classes(fabric), *_trimmable(fabric))),
            *(entry for port in switch.ports for entry in _queue_signals(fabric, switch, port)),
        ),
    )


def route_entries(fabric: Fabric, switch: Switch, without: frozenset[str]) -> SwitchEntries:
    """Of :func:`switch_entries`, what the links of `without` make a difference to: plain IPv6 routes and groups."""
    routes = ip_routes(fabric, switch, without)
    groups = tuple(
        Group(profile, number, tuple((port, 1) for port in ports))
        for profile in (ECMP, UPLINKS)
        for number, ports in routes.groups.items()
    )
    return SwitchEntries(switch.name, (), groups, tuple(_routes(fabric, switch, routes, without)))


def _set_egress(fabric: Fabric, switch: Switch, port: int) -> TableAction:
    """To the neighbour's MAC address, from that of the port it leaves by, as any router sends."""
    own = LinkEnd(switch.name, port)
    peer = fabric.peer(own)
    assert peer is not None, "a fabric has a link on every port"
    dmac, smac = (int.from_bytes(addressing.mac(fabric, end), "big") for end in (peer, own))
    return TableAction("set_egress", (("port", port), ("dmac", dmac), ("smac", smac)))


def _link(fabric: Fabric, switch: Switch, port: int) -> Link:
    link = fabric.link_at(LinkEnd(switch.name, port))
    assert link is not None, "a fabric has a link on every port"
    return link


def _usid_local(fabric: Fabric, switch: Switch) -> TableEntry:
    own = addressing.locator(fabric, addressing.switch_usid(switch))
    return TableEntry("usid_local", (Exact(own),), TableAction("usid_shift"))


def _neighbours(fabric: Fabric, switch: Switch) -> Iterator[tuple[int, int]]:
    """First 48 bits of the address of every neighbour's uSID, and the port to it."""
    for port in switch.ports:
        peer = fabric.peer(LinkEnd(switch.name, port))
        assert peer is not None, "a fabric has a link on every port"
        if peer.node in fabric.nic_names:
            usid = addressing.nic_usid(fabric.nic(peer.node), switch.plane)
        else:
            usid = addressing.switch_usid(fabric.switch(peer.node))
        yield addressing.locator(fabric, usid), port


def _routes(fabric: Fabric, switch: Switch, routes: IpRoutes, without: frozenset[str]) -> Iterator[TableEntry]:
    for t0 in range(fabric.t0_count):
        prefix = addressing.t0_prefix(fabric, t0)
        key = Lpm(int(prefix.network_address), prefix.prefixlen)
        if switch.tier is Tier.T0 and t0 == switch.index:
            yield from _local_routes(fabric, switch, without)
        elif t0 in routes.ports:
            yield TableEntry("ipv6_route", (key,), MemberRef(routes.ports[t0]))
        elif t0 in routes.group_of:
            for table in ("ipv6_route", "adaptive_route"):
                yield TableEntry(table, (key,), GroupRef(routes.group_of[t0]))


def _local_routes(fabric: Fabric, switch: Switch, without: frozenset[str]) -> Iterator[TableEntry]:
    """A T0's own NICs, and their hosts' kernels; those without a link in this plane are not there."""
    for nic in fabric.nics_of(switch.index):
        link = fabric.nic_link(nic, switch.plane)
        if link is not None and link.name not in without:
            for address in (addressing.nic_address(fabric, nic), addressing.kernel_address(fabric, nic, switch.plane)):
                yield TableEntry("ipv6_route", (Lpm(int(address), 128),), MemberRef(nic.downlink + 1))


def _traffic_classes(fabric: Fabric) -> Iterator[TableEntry]:
    dscp = fabric.settings.dscp
    priorities = {
        dscp.control: PRIORITY_CONTROL,
        dscp.trimmed: PRIORITY_CONTROL,
        dscp.trimmed_lasthop: PRIORITY_CONTROL,
    }
    if fabric.queues.retransmissions_first:
        priorities[dscp.retransmit] = PRIORITY_RETRANSMIT
    for value, priority in sorted(priorities.items()):
        yield TableEntry("traffic_class", (Exact(value),), TableAction("set_priority", (("priority", priority),)))
    yield TableEntry("adaptive_class", (Exact(dscp.adaptive),), TableAction("route_adaptively"))


def ecmp_seed(fabric: Fabric, switch: Switch) -> int:
    """What a switch multiplies its hash of a flow by, so that switches choose independently."""
    return zlib.crc32(f"{fabric.name}/{switch.name}".encode())


def _ecmp_seed(fabric: Fabric, switch: Switch) -> TableEntry:
    action = TableAction("set_seed", (("seed", ecmp_seed(fabric, switch)),))
    return TableEntry("ecmp_seed", (Lpm(0, 0),), action)


def _trimmable(fabric: Fabric) -> Iterator[TableEntry]:
    if fabric.queues.trimming:
        port = Exact(fabric.settings.udp_port)
        for dscp in (fabric.settings.dscp.trimmable, fabric.settings.dscp.retransmit):
            yield TableEntry("trimmable", (Exact(dscp), port), TableAction("trimmable_data"))


def _queue_signals(fabric: Fabric, switch: Switch, port: int) -> Iterator[TableEntry]:
    """What a switch's port does when its queue grows."""
    link = _link(fabric, switch, port)
    profile, dscp = fabric.queues, fabric.settings.dscp
    last_hop = link.kind is LinkKind.NIC_T0
    rates = (_link(fabric, switch, number).rate_bps for number in switch.ports) if profile.pfc else (link.rate_bps,)
    limit = ("limit", profile.data_limit(max(rates), fabric.mtu, len(switch.ports)))
    if profile.trimming and not switch.kernel:
        threshold = profile.bytes_at(profile.trim_lasthop if last_hop else profile.trim, link.rate_bps, fabric.mtu)
        role = dscp.trimmed_lasthop if last_hop else dscp.trimmed
        full = TableAction("trim", (("threshold", threshold), limit, ("dscp", role), ("keep", profile.trim_keep)))
    else:
        full = TableAction("tail_drop", (limit,))
    yield TableEntry("queue_profile", (Exact(port),), full)
    if profile.ecn and not switch.kernel and (not last_hop or profile.ecn_lasthop):
        low = profile.frames_at(profile.ecn_low, link.rate_bps, fabric.mtu)
        high = profile.frames_at(profile.ecn_high, link.rate_bps, fabric.mtu)
        marking = TableAction("mark_between", (("start", low), ("width", max(1, high - low))))
        yield TableEntry("ecn_profile", (Exact(port),), marking)
