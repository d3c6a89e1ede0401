"""Routes of a switch for plain IPv6: to each T0's /64 down where it is below, and else up where it can be reached.

Up and down only, as MRC's own paths (``up_down``), so there are no loops and no deadlocks. Several ports that lead to
the same T0 make an ECMP group; switches that lack a link on the way are not in it. A T0 that cannot be reached up and
down has no route.

The routes may be those without some links that are down (``Fabric.reroute_ns``). A group stands for the neighbours that
lead to the same T0s, whether the switch's own links to them are up or not, and has the ports of those that are. So a
link of the switch changes groups, and one elsewhere changes which group a T0 has; a group's number always stands for
the same neighbours. Where the tables have no room for more groups, further T0s are reached by one of their ports.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd, Switch, Tier

MAX_MEMBERSHIPS = 2048  # members of all groups of a switch: ECMP_MEMBERS in p4src/sizes.p4
NO_LINKS: frozenset[str] = frozenset()
_KEPT = 4  # sets of links that are down, of a plane: the present one, and those before


@dataclass(frozen=True, slots=True)
class IpRoutes:
    """Routes of one switch by T0 number: a single port, or the number of a group in `groups`, which has its ports.

    Group 1 of a T0 or T1 has all its uplinks.
    """

    ports: Mapping[int, int]
    group_of: Mapping[int, int]
    groups: Mapping[int, tuple[int, ...]]


def ip_routes(fabric: Fabric, switch: Switch, without: frozenset[str] = NO_LINKS) -> IpRoutes:
    """The routes of a switch to all T0s but itself, over no link of `without`.

    FabricError if its tables do not hold those of the whole fabric.
    """
    planes = fabric.derived(("ip routes", switch.plane), lambda: _Planes(fabric, switch.plane))
    plane = planes.without(without)
    if switch.name not in plane.routes:
        plane.routes[switch.name] = _routes(fabric, switch, plane)
    return plane.routes[switch.name]


def _routes(fabric: Fabric, switch: Switch, plane: _Plane) -> IpRoutes:
    whole = ip_routes(fabric, switch) if plane.dead else None
    down: dict[int, list[int]] = {}
    for port, below in downlinks(fabric, switch).items():
        for t0 in plane.below(below):
            down.setdefault(t0, []).append(port)
    up = {link.lower.port: plane.reached(link.upper.node) for link in fabric.uplinks(switch.name).values()}
    everywhere = frozenset.intersection(*up.values()) if up else frozenset()
    every_uplink = tuple(up)
    dead = plane.dead_ports(switch)
    groups = _Groups(every_uplink, whole)
    ports: dict[int, int] = {}
    group_of: dict[int, int] = {}
    for t0 in range(fabric.t0_count):
        if switch.tier is Tier.T0 and switch.index == t0:
            continue
        lead = tuple(down.get(t0, ()))
        if len(lead) == 1 and not dead.issuperset(lead):
            ports[t0] = lead[0]
            continue
        if dead.issuperset(lead):
            lead = every_uplink if t0 in everywhere else tuple(port for port, reached in up.items() if t0 in reached)
        present = [port for port in lead if port not in dead]
        if present:
            number = groups.number(lead)
            if number is None:
                ports[t0] = present[t0 % len(present)]
            else:
                group_of[t0] = number
    if whole is None and groups.memberships > MAX_MEMBERSHIPS:
        raise FabricError(
            f"switch {switch.name} needs {len(groups.numbers)} ECMP groups with {groups.memberships} members in all,"
            f" more than the {MAX_MEMBERSHIPS} of the P4 program: leave fewer links missing"
        )
    return IpRoutes(ports, group_of, groups.without(dead))


def downlinks(fabric: Fabric, switch: Switch) -> dict[int, str]:
    """Ports of a switch to switches of the tier below, and these."""
    links = {port: fabric.link_at(LinkEnd(switch.name, port)) for port in switch.ports}
    names = fabric.nic_names
    return {
        port: link.lower.node
        for port, link in links.items()
        if link is not None and link.upper.node == switch.name and link.lower.node not in names
    }


class _Groups:
    """The groups of a switch by the ports of their neighbours; those of the `whole` fabric keep their numbers."""

    def __init__(self, every_uplink: tuple[int, ...], whole: IpRoutes | None) -> None:
        self.numbers = {every_uplink: 1} if every_uplink else {}
        self._whole = None if whole is None else {ports: number for number, ports in whole.groups.items()}
        # Groups of before and after are there together for a moment, so those of one set of links get half the room.
        self._room = 0 if whole is None else (MAX_MEMBERSHIPS - sum(map(len, whole.groups.values()))) // 2

    @property
    def memberships(self) -> int:
        """Members of all groups."""
        return sum(map(len, self.numbers))

    def without(self, dead: Collection[int]) -> dict[int, tuple[int, ...]]:
        """The groups by number, without ports that are `dead`; those that have no other are not there."""
        present = ((number, tuple(p for p in ports if p not in dead)) for ports, number in self.numbers.items())
        return {number: ports for number, ports in present if ports}

    def number(self, ports: tuple[int, ...]) -> int | None:
        """The number of the group of these ports; None if there is no room for it."""
        if ports not in self.numbers:
            number = len(self.numbers) + 1 if self._whole is None else self._whole.get(ports) or self._new(ports)
            if not number:
                return None
            self.numbers[ports] = number
        return self.numbers[ports]

    def _new(self, ports: tuple[int, ...]) -> int:
        """A number that follows from the ports; 0 if there is no room."""
        if len(ports) > self._room:
            return 0
        self._room -= len(ports)
        taken = {*self.numbers.values(), *(self._whole or {}).values(), 0}
        number = zlib.crc32(repr(ports).encode())
        while number in taken:
            number = (number + 1) & 0xFFFFFFFF
        return number


class _Planes:
    """One plane of a fabric, whole and without those sets of links that were asked for last."""

    def __init__(self, fabric: Fabric, plane: int) -> None:
        self._fabric = fabric
        self._names = frozenset(link.name for link in fabric.links if link.plane == plane)
        self._whole = _Plane(fabric, NO_LINKS)
        self._recent: dict[frozenset[str], _Plane] = {}

    def without(self, links: frozenset[str]) -> _Plane:
        """The plane without some links, as far as they are its own."""
        dead = links & self._names
        if not dead:
            return self._whole
        found = self._recent.pop(dead, None) or _Plane(self._fabric, dead)
        self._recent[dead] = found
        while len(self._recent) > _KEPT:
            del self._recent[next(iter(self._recent))]
        return found


@dataclass(slots=True)
class _Plane:
    """Which T0s can be reached from the switches of one plane without the links that are `dead`."""

    fabric: Fabric
    dead: frozenset[str]
    routes: dict[str, IpRoutes] = field(default_factory=dict)
    _below: dict[str, frozenset[int]] = field(default_factory=dict)
    _reached: dict[str, frozenset[int]] = field(default_factory=dict)

    def dead_ports(self, switch: Switch) -> frozenset[int]:
        """Ports of a switch whose link is dead."""
        if not self.dead:
            return frozenset()
        links = ((port, self.fabric.link_at(LinkEnd(switch.name, port))) for port in switch.ports)
        return frozenset(port for port, link in links if link is not None and link.name in self.dead)

    def below(self, name: str) -> frozenset[int]:
        """T0s that a switch reaches going down; a T0 reaches itself."""
        if name not in self._below:
            switch = self.fabric.switch(name)
            dead = self.dead_ports(switch)
            lower = (node for port, node in downlinks(self.fabric, switch).items() if port not in dead)
            t0s = (t0 for node in lower for t0 in self.below(node))
            self._below[name] = frozenset((switch.index,) if switch.tier is Tier.T0 else t0s)
        return self._below[name]

    def reached(self, name: str) -> frozenset[int]:
        """T0s that a switch reaches going down, or up first."""
        if name not in self._reached:
            above = (link for link in self.fabric.uplinks(name).values() if link.name not in self.dead)
            self._reached[name] = self.below(name).union(*(self.reached(link.upper.node) for link in above))
        return self._reached[name]
