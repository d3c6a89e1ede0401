"""Routes of a switch for plain IPv6: to each T0's /64 down where it is below, and else up where it can be reached.

Up and down only, as MRC's own paths (``up_down``), so there are no loops and no deadlocks. Several ports that lead to
the same T0 make an ECMP group; switches that lack a link on the way are not in it. A T0 that cannot be reached up and
down has no route.
"""

from __future__ import annotations

from dataclasses import dataclass

from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd, Switch, Tier

MAX_MEMBERSHIPS = 2048  # members of all groups of a switch: ECMP_MEMBERS in p4src/sizes.p4


@dataclass(frozen=True, slots=True)
class IpRoutes:
    """Routes of one switch by T0 number: a single port below, or a group (its number counts from 1) in `groups`.

    The first group of a T0 or T1 has all its uplinks.
    """

    ports: dict[int, int]
    group_of: dict[int, int]
    groups: tuple[tuple[int, ...], ...]


def ip_routes(fabric: Fabric, switch: Switch) -> IpRoutes:
    """The routes of a switch to all T0s but itself; FabricError if its tables do not hold them."""
    plane = fabric.derived(("ip routes", switch.plane), lambda: _Plane(fabric))
    down: dict[int, list[int]] = {}
    for port, below in plane.downlinks(switch).items():
        for t0 in plane.below(below):
            down.setdefault(t0, []).append(port)
    up = {link.lower.port: plane.reached(link.upper.node) for link in fabric.uplinks(switch.name).values()}
    everywhere = frozenset.intersection(*up.values()) if up else frozenset()
    every_uplink = tuple(up)
    groups: dict[tuple[int, ...], int] = {every_uplink: 1} if up else {}
    ports: dict[int, int] = {}
    group_of: dict[int, int] = {}
    for t0 in range(fabric.t0_count):
        if switch.tier is Tier.T0 and switch.index == t0:
            continue
        lead = tuple(down.get(t0, ()))
        if len(lead) == 1:
            ports[t0] = lead[0]
            continue
        if not lead:
            lead = every_uplink if t0 in everywhere else tuple(port for port, reached in up.items() if t0 in reached)
        if lead:
            group_of[t0] = groups.setdefault(lead, len(groups) + 1)
    memberships = sum(map(len, groups))
    if memberships > MAX_MEMBERSHIPS:
        raise FabricError(
            f"switch {switch.name} needs {len(groups)} ECMP groups with {memberships} members in all, more than the"
            f" {MAX_MEMBERSHIPS} of the P4 program: leave fewer links missing"
        )
    return IpRoutes(ports, group_of, tuple(groups))


class _Plane:
    """Which T0s can be reached from the switches of one plane."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._below: dict[str, frozenset[int]] = {}
        self._reached: dict[str, frozenset[int]] = {}

    def downlinks(self, switch: Switch) -> dict[int, str]:
        """Ports to switches of the tier below, and these."""
        peers = {port: self._fabric.peer(LinkEnd(switch.name, port)) for port in switch.ports}
        uplinks = {link.lower.port for link in self._fabric.uplinks(switch.name).values()}
        names = self._fabric.nic_names
        return {
            port: peer.node
            for port, peer in peers.items()
            if peer is not None and port not in uplinks and peer.node not in names
        }

    def below(self, name: str) -> frozenset[int]:
        """T0s that a switch reaches going down; a T0 reaches itself."""
        if name not in self._below:
            switch = self._fabric.switch(name)
            t0s = (t0 for below in self.downlinks(switch).values() for t0 in self.below(below))
            self._below[name] = frozenset((switch.index,) if switch.tier is Tier.T0 else t0s)
        return self._below[name]

    def reached(self, name: str) -> frozenset[int]:
        """T0s that a switch reaches going down, or up first."""
        if name not in self._reached:
            above = self._fabric.uplinks(name).values()
            self._reached[name] = self.below(name).union(*(self.reached(link.upper.node) for link in above))
        return self._reached[name]
