"""Opens and closes ports as their interfaces come, change and go.

A port whose interface has no carrier, is down, or has vanished has no link. An interface that returns under its name
(even as a new one) is opened again. Rings stand aside while the interface is not plain: somebody captures there, or it
has a queueing discipline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mrc_common.link_monitor import LinkMonitor, LinkState
from mrc_host.driver.loop import READABLE, WRITABLE, Loop
from mrc_host.driver.nic_port import NicPort
from mrc_host.driver.packet_port import ETHERNET_HEADER, InterfaceGoneError, NicDriverError, PacketPort

_QUERY_INTERVAL_NS = 1_000_000  # between netlink queries of a link that may be down

OpenPort = Callable[[str, bytes, int, int], PacketPort]
OpenMonitor = Callable[[Callable[[LinkState], None]], LinkMonitor]


class PortLinks:
    """The interfaces of `ports`, which need an MTU of `mtu`.

    `on_readable` is called in `loop` with a port and the epoll mask of its socket, `on_change` with one whose link came
    or went, once it is opened or before it is closed.
    """

    def __init__(
        self,
        ports: Sequence[NicPort],
        mtu: int,
        loop: Loop,
        *,
        on_readable: Callable[[NicPort, int], None],
        on_change: Callable[[NicPort], None],
        open_port: OpenPort,
        open_monitor: OpenMonitor,
    ) -> None:
        self.ringed: list[NicPort] = []  # ports with rings
        self._ports = ports
        self._mtu = mtu
        self._loop = loop
        self._on_readable = on_readable
        self._on_change = on_change
        self._open_packet_port = open_port
        self._open_monitor = open_monitor
        self._monitor: LinkMonitor | None = None
        self._started = False

    def start(self) -> None:
        """Open all ports; NicDriverError when an interface is missing, its MTU too small, or sockets not allowed."""
        try:
            self._monitor = monitor = self._open_monitor(self._on_link)
        except TimeoutError as error:
            raise NicDriverError(str(error)) from None
        links = monitor.links()
        for port in self._ports:
            self._check(port, links.get(port.config.interface))
            if port.packet is None:
                self._link_changed(port, links[port.config.interface])
        self._loop.add(monitor.fileno(), READABLE, monitor.on_readable)
        self._started = True

    def close(self) -> None:
        """Close everything. Closing twice, or without start, does nothing."""
        for port in self._ports:
            self._close_port(port)
            if port.ring is not None:
                self._loop.remove_ring(port.ring)
        if self._monitor is not None:
            self._loop.remove(self._monitor.fileno())
            self._monitor.close()
            self._monitor = None

    def refresh(self) -> None:
        """A socket reported an error: see what is new."""
        if self._monitor is not None:
            self._monitor.on_readable()

    def suspect(self, port: NicPort, now: int) -> None:
        """A frame could not be sent. netlink may be delaying a carrier change: query the state now."""
        if self._monitor is not None and port.index and now - port.queried >= _QUERY_INTERVAL_NS:
            port.queried = now
            self._monitor.query(port.index)

    def block(self, port: NicPort, frame: bytes) -> None:
        """Hold a frame until there is room for it."""
        port.held, port.blocked = frame, True
        port.for_ring = port.ring is not None and port.ring.refused > 0
        if port.packet is not None and not port.for_ring:
            self._loop.modify(port.packet.fileno(), READABLE | WRITABLE)

    def unblock(self, port: NicPort) -> None:
        """There is room, or the frame is not held any more."""
        if port.blocked:
            port.blocked = False
            if port.packet is not None and not port.for_ring:
                self._loop.modify(port.packet.fileno(), READABLE)

    def drop_held(self, port: NicPort) -> None:
        """A frame that is held is lost with the link, like those on it."""
        self.unblock(port)
        if port.held is not None:
            port.held = None
            port.tx_dropped += 1

    def _check(self, port: NicPort, link: LinkState | None) -> None:
        name = port.config.interface
        if link is None:
            raise NicDriverError(
                f"Interface {name!r} of port {port.number} does not exist in this network namespace: "
                "run this in the host's, as `mrc exec FABRIC HOST -- COMMAND` does, once its links are made."
            )
        if link.mtu < self._mtu:
            raise NicDriverError(
                f"Interface {name!r} has MTU {link.mtu}, the NIC needs {self._mtu}: "
                f"set it with `ip link set {name} mtu {self._mtu}`, on both ends of the link."
            )

    def _on_link(self, link: LinkState) -> None:
        for port in self._ports:
            if port.config.interface == link.name:
                self._link_changed(port, link)

    def _link_changed(self, port: NicPort, link: LinkState) -> None:
        if link.index != port.index:
            self._close_port(port)
            if link.index:
                self._open_port(port, link)
        if port.ring is not None:
            port.ring.stand_aside(not (link.plain and link.index))
        port.has_link = link.up and port.packet is not None
        self._on_change(port)

    def _open_port(self, port: NicPort, link: LinkState) -> None:
        try:
            packet = self._open_packet_port(
                port.config.interface, port.config.mac, self._mtu + ETHERNET_HEADER, port.config.rate_bps
            )
        except InterfaceGoneError:  # vanished again meanwhile: netlink is about to say so
            return
        except NicDriverError:  # without permission: an agent that has dropped its privileges has its sockets already
            if not self._started:
                raise
            return
        port.packet, port.index = packet, link.index
        if packet.ring is not None and port.ring is None:
            port.ring = packet.ring
            self.ringed.append(port)
            self._loop.add_ring(packet.ring)
        self._loop.add(packet.fileno(), READABLE, lambda mask: self._on_readable(port, mask))

    def _close_port(self, port: NicPort) -> None:
        self.drop_held(port)
        packet = port.packet
        port.packet, port.index = None, 0
        if packet is not None:
            port.rx_dropped += packet.kernel_drops()
            self._loop.remove(packet.fileno())
            packet.close()
