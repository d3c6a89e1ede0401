"""Routes and neighbours of a kernel switch, derived from the same plan as the P4 entries.

They are derived from those entries (``entries``), so that both kinds of switch send a packet the same way:

- ``usid_local`` is the route of the switch's own uSID: SRv6's ``End`` with NEXT-CSID (RFC 9800), which shifts the list.
- ``usid_next`` is a route for the uSID of each neighbour.
- ``ipv6_route`` is a route, of several hops where it is an ECMP group. Linux chooses by a hash of its own.
- MAC addresses are those of static neighbours: each port has one, at the other end of its link.

There are no equals of the tables for queues and traffic classes. And Linux looks up every destination in the same
routes: a packet that does not begin with the switch's own uSID, but with that of a neighbour, goes there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Network

from mrc_common.p4_match import Exact, GroupRef, Lpm, MemberRef
from topologies import addressing
from topologies.entries import SwitchEntries, TableAction, TableEntry, switch_entries
from topologies.fabric import Fabric, Switch
from topologies.ip_routes import NO_LINKS

BLOCK_BITS = 32
_LOCATOR_BITS = BLOCK_BITS + addressing.USID_BITS


@dataclass(frozen=True, slots=True)
class KernelTables:
    """The route of the switch's own uSID, ports by destination, and the MAC address at the other end of each port."""

    own: IPv6Network
    routes: Mapping[IPv6Network, frozenset[int]]
    neighbours: Mapping[int, bytes]

    def __len__(self) -> int:
        return 1 + len(self.routes) + len(self.neighbours)


def kernel_tables(fabric: Fabric, switch: Switch, without: frozenset[str] = NO_LINKS) -> KernelTables:
    """The tables of a switch of the fabric; its routes for plain IPv6 are over no link of `without`, by name."""
    entries = switch_entries(fabric, switch, without)
    own = next(entry for entry in entries.entries if entry.table == "usid_local")
    hops = {member.member_id: dict(member.action.args) for member in entries.members}
    return KernelTables(
        own=_locator(own),
        routes=dict(_routes(entries)),
        neighbours={hop["port"]: hop["dmac"].to_bytes(6, "big") for hop in hops.values()},
    )


def _routes(entries: SwitchEntries) -> Iterator[tuple[IPv6Network, frozenset[int]]]:
    ports = {member.member_id: dict(member.action.args)["port"] for member in entries.members}
    groups = {group.group_id: frozenset(ports[member] for member, _ in group.members) for group in entries.groups}
    for entry in entries.entries:
        if entry.table == "usid_next" and isinstance(entry.target, TableAction):
            yield _locator(entry), frozenset((dict(entry.target.args)["port"],))
        elif entry.table == "ipv6_route":
            (key,) = entry.match
            assert isinstance(key, Lpm), "a route is of a prefix"
            if isinstance(entry.target, GroupRef):
                yield IPv6Network((key.value, key.prefix_len)), groups[entry.target.group_id]
            elif isinstance(entry.target, MemberRef):
                yield IPv6Network((key.value, key.prefix_len)), frozenset((ports[entry.target.member_id],))


def _locator(entry: TableEntry) -> IPv6Network:
    (key,) = entry.match
    assert isinstance(key, Exact), "uSIDs are matched exactly"
    return IPv6Network((key.value << 128 - _LOCATOR_BITS, _LOCATOR_BITS))
