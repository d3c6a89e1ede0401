"""Links of an emulated fabric as the kernel sees them: state, traffic, and taking them down and up.

A link is taken down at its lowest end at a P4 switch, an interface of the root namespace. The other end of the veth
link then loses its carrier: a NIC sees its port fail, and the port of a switch above goes down. A link is brought up at
every end at a switch, in case somebody else took the other end down. Where all switches of a link are the kernel's, the
end is an interface in the namespace of one of them, which is entered for a moment.

Netlink calls take a fraction of a millisecond, but block; they run in one thread of their own, which owns the
socket. Shaping takes pyroute2, which is imported there when it is first needed: it would be a third of what starting a
controller costs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import TypeVar

from controller import kernel_ports
from controller.errors import ControllerError
from controller.values import LinkEndInfo, LinkStatus
from topologies import addressing
from topologies.emulation import link_counters
from topologies.emulation.link_counters import LinkTraffic
from topologies.emulation.route_netlink import RouteSocket
from topologies.fabric import Fabric, Link, LinkEnd
from topologies.faults.effect import PortShaping

T = TypeVar("T")
_PATIENCE_S = 30.0  # the kernel changes one interface of a machine after the other, also those of other fabrics
_IFF_UP_AND_CARRIER = 0x1 | 0x10000  # IFF_UP and IFF_LOWER_UP, netdevice(7)


class FabricLinks:
    """The links of a fabric on this machine."""

    def __init__(self, fabric: Fabric, set_delays: Callable[[Mapping[LinkEnd, int]], Awaitable[None]]) -> None:
        """`set_delays` delays (ns) what leaves ends, 0: no longer; its ControllerError goes on to the caller."""
        self._fabric = fabric
        self._set_delays = set_delays
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="netlink")
        self._netlink: RouteSocket | None = None

    async def read(self, links: Iterable[Link]) -> list[LinkStatus]:
        """State and traffic of links; one that does not exist on this machine is down and has carried nothing."""
        wanted = list(links)
        return await self._call(lambda netlink: self._read(netlink, wanted))

    async def set_up(self, links: Iterable[Link], *, up: bool, absent_ok: bool = False) -> None:
        """Take links down or up, one after the other.

        ControllerError names one that this machine does not have; with `absent_ok` it is passed over.
        """
        ends = [end for link in links for end in (link.switch_ends if up else (self._fabric.watched_end(link),))]
        names: dict[str, list[str]] = {}
        for end in ends:
            name = addressing.interface_name(self._fabric, end)
            names.setdefault(end.node if self._fabric.is_kernel(end.node) else "", []).append(name)

        def work(netlink: RouteSocket) -> None:
            for switch, interfaces in names.items():
                if switch:
                    kernel_ports.set_up(self._fabric, switch, interfaces, up, absent_ok)
                else:
                    kernel_ports.set_interfaces(netlink, interfaces, up, absent_ok, "on this machine")

        await self._call(work)

    def prepare_shaping(self) -> None:
        """Import what shaping takes, so that a first change which comes later is made in time."""
        self._thread.submit(_shaping)

    async def shape(self, shapes: Mapping[LinkEnd, PortShaping | None]) -> None:
        """Shape what leaves ports, None: as it was made; ControllerError where machine, kernel or switch cannot."""
        wanted = dict(shapes)
        await self._set_delays({end: 0 if shape is None else shape.delay for end, shape in wanted.items()})

        await self._call(lambda _: _shaping().shape(self._fabric, wanted))

    async def close(self) -> None:
        """End the thread and its socket."""
        if self._netlink is not None:
            await self._call(lambda netlink: netlink.close())
            self._netlink = None
        self._thread.shutdown()

    async def _call(self, function: Callable[[RouteSocket], T]) -> T:
        def work() -> T:
            try:
                if self._netlink is None:
                    self._netlink = RouteSocket(_PATIENCE_S)
                return function(self._netlink)
            except OSError as error:  # what is looked at may go away at any time
                raise ControllerError(f"Links cannot be read or changed on this machine: {error.args[-1]}.") from None

        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _read(self, netlink: RouteSocket, links: list[Link]) -> list[LinkStatus]:
        flags = {link.name or "": link.link_flags for link in netlink.links()}
        ends = {link.name: self._fabric.watched_end(link) for link in links}
        for switch in {end.node for end in ends.values() if self._fabric.is_kernel(end.node)}:
            flags |= kernel_ports.flags(self._fabric, switch)
        carried = link_counters.read(self._fabric)
        now = time.monotonic_ns()
        return [
            self._status(
                link, flags.get(addressing.interface_name(self._fabric, ends[link.name]), 0), carried[link.name], now
            )
            for link in links
        ]

    def _status(self, link: Link, flags: int, carried: LinkTraffic, now: int) -> LinkStatus:
        return LinkStatus(
            name=link.name,
            kind=link.kind,
            plane=link.plane,
            lower=self._end(link.lower),
            upper=self._end(link.upper),
            rate_bps=link.rate_bps,
            up=flags & _IFF_UP_AND_CARRIER == _IFF_UP_AND_CARRIER,
            upward=carried.upward,
            downward=carried.downward,
            fault_ids=(),
            read_at_ns=now,
        )

    def _end(self, end: LinkEnd) -> LinkEndInfo:
        return LinkEndInfo(end.node, end.port, addressing.interface_name(self._fabric, end))


def _shaping() -> ModuleType:
    from controller import shaping

    return shaping
