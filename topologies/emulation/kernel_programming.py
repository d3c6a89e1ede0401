"""Routes and neighbours of a kernel switch: what it should hold against what it holds.

Written by the controller, over a socket in the switch's namespace. The kernel drops the routes and neighbours of an
interface that is taken down, so a port that is down has none, and gets them back when it is up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Network

from mrc_common.rtnetlink import LinkMessage
from topologies import addressing
from topologies.emulation.route_netlink import IFF_UP, KernelRoute, Neighbour, RouteSocket, Shift
from topologies.fabric import Fabric, LinkEnd, Switch
from topologies.kernel_routes import BLOCK_BITS, KernelTables, kernel_tables

SID_LINK = ("sid0", "sid1")  # a link to nowhere, which is always up, for the route of the switch's own uSID


@dataclass(frozen=True, slots=True)
class RouteDifference:
    """What a switch lacks of what it should hold, and what it holds beside, of routes and neighbours.

    `up` are the ports that were up then. `down` are ends of the link to nowhere that are: nobody but a person at the
    switch's shell takes them down.
    """

    missing: tuple[KernelRoute | Neighbour, ...]
    superfluous: tuple[IPv6Network, ...]
    held: int  # of what it should hold
    up: frozenset[int]
    down: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.superfluous or self.down)


class KernelRoutes:
    """The routes and neighbours of a switch, over a socket of its namespace."""

    def __init__(self, fabric: Fabric, switch: Switch, kernel: RouteSocket) -> None:
        self.tables: KernelTables = kernel_tables(fabric, switch)
        self._kernel = kernel
        self._names = {addressing.interface_name(fabric, LinkEnd(switch.name, port)): port for port in switch.ports}

    def compare(self) -> RouteDifference:
        """The difference between what the switch should hold and what it holds. Ports that are down have no routes."""
        links = self._kernel.links()
        up = self._ports_up(links)
        down = tuple(link.index for link in links if link.name in SID_LINK and not link.link_flags & IFF_UP)
        wanted = {route.prefix: route for route in self._wanted_routes(up)}
        found = {route.prefix: route for route in self._kernel.routes()}
        neighbours = {Neighbour(up[port], addressing.KERNEL_GATEWAY, mac) for port, mac in self._of(up)}
        lacking = neighbours - set(self._kernel.neighbours())
        wrong = [prefix for prefix, route in found.items() if wanted.get(prefix) != route]
        missing = [route for prefix, route in wanted.items() if found.get(prefix) != route]
        held = len(wanted) + len(neighbours) - len(missing) - len(lacking)
        return RouteDifference((*lacking, *missing), tuple(wrong), held, frozenset(up), down)

    def repair(self, difference: RouteDifference) -> None:
        """Bring the switch to what it should hold."""
        for index in difference.down:
            self._kernel.set_link(index, on=IFF_UP)
        for prefix in difference.superfluous:
            self._kernel.delete_route(prefix)
        for one in difference.missing:  # neighbours first
            if isinstance(one, Neighbour):
                self._kernel.add_neighbour(one)
            else:
                self._kernel.add_route(one)

    def absent(self) -> list[str]:
        """The interfaces that do not exist, of those that the switch should have."""
        return sorted({*self._names, *SID_LINK} - {link.name for link in self._kernel.links()})

    def _ports_up(self, links: Sequence[LinkMessage]) -> Mapping[int, int]:
        """Indices of the interfaces of ports that are up, by port; of the link to nowhere, up or not, under 0."""
        ports = {**self._names, SID_LINK[0]: 0}
        found = [link for link in links if link.link_flags & IFF_UP or link.name == SID_LINK[0]]
        return {ports[link.name]: link.index for link in found if link.name in ports}

    def _of(self, up: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
        return ((port, mac) for port, mac in self.tables.neighbours.items() if port in up)

    def _wanted_routes(self, up: Mapping[int, int]) -> Iterator[KernelRoute]:
        if 0 in up:
            shift = Shift(BLOCK_BITS, addressing.USID_BITS)
            yield KernelRoute(self.tables.own, frozenset(((up[0], None),)), shift)
        for prefix, ports in self.tables.routes.items():
            hops = frozenset((up[port], addressing.KERNEL_GATEWAY) for port in ports if port in up)
            if hops:
                yield KernelRoute(prefix, hops)
