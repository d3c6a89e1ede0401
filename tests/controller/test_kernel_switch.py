"""The routes of a kernel switch whose ports come and go while they are written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controller.kernel_switch import _NamespaceView
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation.kernel_programming import SID_LINK, KernelRoutes
from topologies.emulation.route_netlink import IFF_UP, KernelRoute, Neighbour
from topologies.fabric import LinkEnd

FABRIC = multi_plane_clos("coming", planes=1, t0=2, t1=2, hosts=4)
SWITCH = FABRIC.switch("t0-1@p0")


class Kernel:
    """One in which one port more is up each time something has been written, and none at first."""

    def __init__(self) -> None:
        names = [addressing.interface_name(FABRIC, LinkEnd(SWITCH.name, port)) for port in SWITCH.ports]
        self._links = [SimpleNamespace(name=name, index=at, link_flags=0) for at, name in enumerate(names, 10)]
        self._sid = [SimpleNamespace(name=name, index=at, link_flags=IFF_UP) for at, name in enumerate(SID_LINK, 2)]
        self._routes: dict[Any, KernelRoute] = {}
        self._neighbours: set[Neighbour] = set()

    def _written(self) -> None:
        for link in self._links:
            if not link.link_flags:
                link.link_flags = IFF_UP
                return

    def links(self) -> list[Any]:
        return [*self._sid, *self._links]

    def routes(self) -> list[KernelRoute]:
        return list(self._routes.values())

    def neighbours(self) -> list[Neighbour]:
        return list(self._neighbours)

    def add_route(self, route: KernelRoute) -> None:
        self._routes[route.prefix] = route
        self._written()

    def add_neighbour(self, neighbour: Neighbour) -> None:
        self._neighbours.add(neighbour)
        self._written()

    def delete_route(self, prefix: Any) -> None:
        del self._routes[prefix]
        self._written()


def test_ports_that_come_up_while_routes_are_written_get_theirs_and_are_no_problem() -> None:
    kernel: Any = Kernel()
    routes = KernelRoutes(FABRIC, SWITCH, kernel)
    nothing: Any = None
    outcome = _NamespaceView(nothing, kernel, nothing, routes).reconcile()
    assert outcome.problems == ()
    assert outcome.held == len(routes.tables) == len(kernel.routes()) + len(kernel.neighbours())
