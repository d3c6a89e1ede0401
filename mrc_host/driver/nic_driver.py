"""Drives one NIC device in real time: frames from and to interfaces, the clock, link state.

Each port is an :class:`~mrc_host.driver.packet.PacketPort` in the loop. When one is readable, frames are read in
bounded batches and passed to `nic.receive`. Then the turn runs: it calls `nic.tick` if the NIC's wake-up time has come,
and pulls `nic.transmit(port)` for every port that is free. It returns when it wants to run again: at the earliest of
the NIC's wake-up and the times at which busy ports become free.

**Pacing.** A port is busy for (frame length + 24 bytes of Ethernet overhead) / rate after each frame. When the process
wakes up late although frames were waiting, the port catches up on at most `burst_ns` of the time lost: so at most
`burst_ns` * rate + one frame leave back to back, and lateness up to `burst_ns` costs no rate. A port that had nothing
to send gains nothing. Rate 0 means unpaced.

**Back-pressure.** If somebody has put a queue in front of the interface that is slower than the port, the socket
accepts no more frames when it is full. The frame is then held, and the port sends nothing until the socket is writable
again: nothing is lost, so no path is suspected.

**Coalescing.** Waking a sleeping process costs the sender of a frame several times what creating and sending the frame
does, above all in a virtual machine. So, like NICs with adaptive interrupt coalescing, while frames arrive closely
spaced the driver sleeps for `coalesce_ns` at a time to collect them instead of waking for each, until a few sleeps in a
row collected none. Occasional frames, such as acknowledgements, wake it at once.

**Rings.** A port may have shared-memory rings beside its interface (:mod:`mrc_host.driver.packet`). They are looked
into at the beginning of each turn, and flushed after each batch. They stand aside while the interface is not plain:
somebody captures there, or it has a queueing discipline.

**Delays.** On request the driver measures how late frames were received and sent (:mod:`mrc_host.driver.delays`).

**Links.** A port whose interface has no carrier, is down, or has vanished is reported to the NIC as down; nothing is
transmitted on it. An interface that returns under its name (even as a new one) is opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Protocol

from mrc_common.delays import PortDelays
from mrc_common.link_monitor import LinkMonitor, LinkState
from mrc_host.config import NicConfig, PortConfig
from mrc_host.driver.delays import DelayCounter, StampClock
from mrc_host.driver.loop import READABLE, WRITABLE, Loop
from mrc_host.driver.packet import (
    ETHERNET_HEADER,
    ETHERNET_OVERHEAD,
    NicDriverError,
    PacketPort,
    is_link_error,
    is_lost_frame,
)

if TYPE_CHECKING:
    from mrc_host.driver.frame_ring import FrameRing

DEFAULT_BURST_NS = 1_000_000
DEFAULT_COALESCE_NS = 30_000
COALESCE_SPACING_NS = 25_000  # frames spaced more closely than this, over all ports, are collected
COALESCE_WINDOW_NS = 200_000  # the time over which the spacing is measured
COALESCE_VAIN = 3  # sleeps in a row without a frame, after which the next frame wakes the driver
RECEIVE_BATCH = 8  # frames read from one port before the others, and transmission, have their turn
TRANSMIT_BATCH = 16  # frames sent on one port before the others, and reception, have their turn
_QUERY_INTERVAL_NS = 1_000_000  # between netlink queries of a link that may be down
_BITS_NS = 8 * 1_000_000_000


class Device(Protocol):
    """The verbs of a device with ports that the driver needs (a :class:`mrc_host.nic.Nic` has them).

    `receive` may use `frame` only during the call: its memory is reused for the next frame.
    """

    def receive(self, port: int, frame: memoryview, now: int) -> None:
        """Take one frame that arrived on `port`."""

    def transmit(self, port: int, now: int) -> bytes | None:
        """The next frame for `port`, which is free; None if there is none."""

    def wakeup(self) -> int | None:
        """When `tick` or `transmit` may next have something to do; None: only after input."""

    def tick(self, now: int) -> None:
        """Let time pass up to `now`."""

    def port_changed(self, port: int, up: bool, now: int) -> None:
        """The link of `port` went up or down."""


@dataclass(frozen=True, slots=True)
class PortStatus:
    """One port as the driver sees it: interface, usable or not, rate in bit/s, frame, byte and drop counters."""

    port: int
    interface: str
    up: bool
    rate_bps: int
    tx_frames: int
    tx_bytes: int
    rx_frames: int
    rx_bytes: int
    tx_dropped: int
    rx_dropped: int


class _NicPort:
    """One port's socket and transmission state."""

    __slots__ = (
        "arrivals",
        "backlog",
        "blocked",
        "config",
        "departures",
        "enabled",
        "free_at",
        "has_link",
        "held",
        "idle",
        "index",
        "ns_per_byte",
        "number",
        "packet",
        "queried",
        "ring",
        "rx_bytes",
        "rx_dropped",
        "rx_frames",
        "tx_bytes",
        "tx_dropped",
        "tx_frames",
        "up",
    )  # fmt: skip

    def __init__(self, number: int, config: PortConfig) -> None:
        self.number = number
        self.config = config
        self.packet: PacketPort | None = None
        self.ring: FrameRing | None = None  # stays when the interface vanishes
        self.index = 0
        self.up = True  # the NIC's initial assumption
        self.enabled = True  # used when it has a link
        self.has_link = True
        self.free_at = 0.0
        self.backlog = False  # when the port became busy there may have been more to send
        self.held: bytes | None = None  # a frame that the socket had no room for
        self.blocked = False  # the socket has no room: wait until it is writable
        self.ns_per_byte = _BITS_NS / config.rate_bps if config.rate_bps else 0.0
        self.queried = 0  # when netlink was last queried because a frame could not be sent
        self.tx_frames = self.tx_bytes = self.tx_dropped = 0
        self.rx_frames = self.rx_bytes = self.rx_dropped = 0
        self.arrivals, self.departures = DelayCounter(), DelayCounter()
        self.idle = 0.0  # ns without sending although there was more to send, while delays are measured


class NicDriver:
    """Connects `nic` to the interfaces named in `config`, in `loop`.

    :meth:`start` opens the ports; NicDriverError when an interface is missing or its MTU too small. All methods belong
    to the loop's thread; use `loop.call` from elsewhere. `clock`, `real_clock`, `open_port` and `open_monitor` are for
    tests.
    """

    def __init__(
        self,
        nic: Device,
        config: NicConfig,
        loop: Loop,
        *,
        burst_ns: int = DEFAULT_BURST_NS,
        coalesce_ns: int = DEFAULT_COALESCE_NS,
        clock: Callable[[], int] = monotonic_ns,
        real_clock: Callable[[], int] = time_ns,
        open_port: Callable[[str, bytes, int], PacketPort] = PacketPort,
        open_monitor: Callable[[Callable[[LinkState], None]], LinkMonitor] = LinkMonitor,
    ) -> None:
        self._clock = clock
        self._open_packet_port = open_port
        self._open_monitor = open_monitor
        self._nic = nic
        self._config = config
        self._loop = loop
        self._burst_ns = burst_ns
        self._coalesce_ns = coalesce_ns
        self._taken = 0  # frames read since the last turn
        self._left = False  # there may be more to read
        self._stream = False  # frames arrive closely spaced
        self._counted = 0  # frames read since `_count_from`
        self._count_from = 0
        self._vain = 0  # sleeps in a row that collected no frame
        self._measuring = False  # delays
        self._stamps = StampClock(real_clock)
        self._taken_at = 0  # when the first frame since the last turn was read; 0: none was, or measuring is off
        self._cause_at = 0  # the same, or when the turn began
        self._now = 0  # the latest time passed to the NIC by a turn: it must not see an earlier one later
        self._ports = [_NicPort(i, port) for i, port in enumerate(config.ports)]
        self._ringed: list[_NicPort] = []  # those with rings
        self._buffer = memoryview(bytearray(1 << 16))
        self._monitor: LinkMonitor | None = None

    def start(self) -> None:
        """Open all ports, report those that are down to the NIC, and enter the loop."""
        try:
            try:
                self._monitor = monitor = self._open_monitor(self._on_link)
            except TimeoutError as error:
                raise NicDriverError(str(error)) from None
            links = monitor.links()
            for nic_port in self._ports:
                self._check(nic_port, links.get(nic_port.config.interface))
                if nic_port.packet is None:
                    self._link_changed(nic_port, links[nic_port.config.interface])
            self._loop.add(monitor.fileno(), READABLE, monitor.on_readable)
        except BaseException:
            self.close()
            raise
        self._loop.add_turn(self._turn)

    def close(self) -> None:
        """Leave the loop and close every socket. Closing twice, or without start, does nothing."""
        self._loop.remove_turn(self._turn)
        for nic_port in self._ports:
            self._close_port(nic_port)
            if nic_port.ring is not None:
                self._loop.remove_ring(nic_port.ring)
        if self._monitor is not None:
            self._loop.remove(self._monitor.fileno())
            self._monitor.close()
            self._monitor = None

    def ports(self) -> tuple[PortStatus, ...]:
        """State and counters of every port."""
        return tuple(self._status(nic_port) for nic_port in self._ports)

    def enable_port(self, port: int, enabled: bool) -> None:
        """Use a port whenever it has a link (the default), or treat it as one without: nothing is sent or received."""
        nic_port = self._ports[port]
        nic_port.enabled = enabled
        self._update(nic_port)

    def measure_delays(self, on: bool) -> None:
        """Turn measuring of delays on or off (the default). It costs a microsecond or two per batch of frames."""
        self._measuring = on

    def delays(self) -> tuple[PortDelays, ...]:
        """The delays of every port measured so far."""
        return tuple(
            PortDelays(port.number, port.arrivals.read(), port.departures.read(), int(port.idle))
            for port in self._ports
        )

    # -- frames ----------------------------------------------------------------------------------------------------

    def _on_readable(self, nic_port: _NicPort, mask: int) -> None:
        packet = nic_port.packet
        if packet is None:
            return
        if mask & WRITABLE:
            self._unblock(nic_port)
            if mask == WRITABLE:
                return
            mask &= ~WRITABLE
        if mask != READABLE and packet.take_error() and self._monitor is not None:
            self._monitor.on_readable()
            return
        self._receive(nic_port, packet.receive_into, packet)

    def _receive(
        self, nic_port: _NicPort, receive_into: Callable[[memoryview], int], packet: PacketPort | None
    ) -> None:
        """Pass a batch of frames to the NIC; `packet` if they come from there, None: they come from the ring."""
        buffer = self._buffer
        usable = nic_port.enabled and nic_port.packet is not None
        receive, port, clock = self._nic.receive if usable else _discard, nic_port.number, self._clock
        frames = total = 0
        measuring = self._measuring
        waited: int | None = None
        try:
            for _ in range(RECEIVE_BATCH):
                length = receive_into(buffer)
                if not length:
                    break
                if measuring:  # the first of the batch only
                    measuring, waited = False, self._waited(nic_port, packet, clock())
                receive(port, buffer[:length], clock())
                frames += 1
                total += length
        except BlockingIOError:
            pass
        except OSError as error:
            if not is_link_error(error):
                raise
        nic_port.rx_frames += frames
        nic_port.rx_bytes += total
        if waited is not None:
            nic_port.arrivals.note(waited, frames)
        self._taken += frames
        self._left |= frames == RECEIVE_BATCH

    def _waited(self, nic_port: _NicPort, packet: PacketPort | None, now: int) -> int | None:
        """How long the frame just read had waited; None when that is unknown."""
        if not self._taken_at:
            self._taken_at = now
        if packet is not None:
            return self._stamps.delay(packet.stamp(), now)
        return None if nic_port.ring is None else now - nic_port.ring.sent

    def _take_from_rings(self) -> None:
        for nic_port in self._ringed:
            ring = nic_port.ring
            if ring is not None and ring.pending():
                self._receive(nic_port, ring.receive_into, None)
                ring.release()

    def _turn(self, now: int) -> int | None:
        nic = self._nic
        if self._ringed:
            self._take_from_rings()
            now = self._clock()
        self._cause_at, self._taken_at = self._taken_at or now, 0
        self._coalesce(now)
        wakeup = nic.wakeup()
        if wakeup is not None and wakeup <= now:
            nic.tick(now)
        again, busy = self._serve_ports(now)
        now = self._now
        wakeup = nic.wakeup()
        if not again and wakeup is not None and wakeup <= now:
            # What left on one port made another ready. Send that now, before other turns report arrivals to clients:
            # one that then destroys its queue pair must not discard the acknowledgement that its peer waits for.
            nic.tick(now)
            again, busy = self._serve_ports(now)
            wakeup = nic.wakeup()
        if again:
            return self._now
        if busy is None:
            return wakeup
        free = ceil(busy)
        return free if wakeup is None or wakeup > free else wakeup

    def _coalesce(self, now: int) -> None:
        """Rest to collect frames when they arrive closely spaced and all have been read."""
        taken, left = self._taken, self._left
        self._taken, self._left = 0, False
        self._counted += taken
        elapsed = now - self._count_from
        if elapsed >= COALESCE_WINDOW_NS:
            self._stream = self._counted * COALESCE_SPACING_NS >= elapsed
            self._counted, self._count_from = 0, now
        self._vain = 0 if taken else self._vain + 1
        if self._stream and not left and self._vain < COALESCE_VAIN:
            self._loop.rest(now + self._coalesce_ns)

    def _serve_ports(self, now: int) -> tuple[bool, float | None]:
        """Send on every port that is free; whether to go on at once, and when the first busy port becomes free."""
        again = False
        busy: float | None = None
        self._now = now
        for nic_port in self._ports:
            if nic_port.up:
                now = self._now  # time has passed while earlier ports were served
                if nic_port.free_at <= now and not nic_port.blocked and self._transmit(nic_port, now):
                    again = True
                if nic_port.free_at > now and (busy is None or nic_port.free_at < busy):
                    busy = nic_port.free_at
        return again, busy

    def _transmit(self, nic_port: _NicPort, now: int) -> bool:
        """Send what the NIC has until the port is busy; True if the batch ended before either did."""
        packet = nic_port.packet
        if packet is None:
            return False
        transmit, send, port, clock = self._nic.transmit, packet.send, nic_port.number, self._clock
        ns_per_byte, longest = nic_port.ns_per_byte, packet.max_frame
        measuring, due = self._measuring, nic_port.free_at if nic_port.backlog else self._cause_at
        free_at = max(nic_port.free_at, now - self._burst_ns) if nic_port.backlog else float(now)
        idle = free_at - nic_port.free_at if nic_port.backlog and nic_port.ns_per_byte else 0.0
        nic_port.backlog = True
        frames = total = 0
        held, nic_port.held = nic_port.held, None
        for _ in range(TRANSMIT_BATCH):
            frame, held = held or transmit(port, now), None
            if frame is None:
                nic_port.backlog = False
                break
            length = len(frame)
            if length > longest:
                nic_port.tx_dropped += 1
                continue
            try:
                send(frame)
                frames += 1
                total += length
            except BlockingIOError:
                self._block(nic_port, frame)
                break
            except OSError as error:
                self._send_failed(nic_port, error, now)
            now = clock()
            free_at += (length + ETHERNET_OVERHEAD) * ns_per_byte
            if measuring:
                nic_port.departures.note(int(now - due))
                nic_port.idle += idle
                due, idle = free_at, 0.0
            if free_at > now:
                break
        if packet.ring is not None:
            packet.ring.flush()
        nic_port.free_at = free_at
        nic_port.tx_frames += frames
        nic_port.tx_bytes += total
        self._now = now
        return nic_port.backlog and free_at <= now and not nic_port.blocked

    def _block(self, nic_port: _NicPort, frame: bytes) -> None:
        """Hold a frame until the socket has room for it."""
        nic_port.held, nic_port.blocked = frame, True
        if nic_port.packet is not None:
            self._loop.modify(nic_port.packet.fileno(), READABLE | WRITABLE)

    def _unblock(self, nic_port: _NicPort) -> None:
        if nic_port.blocked:
            nic_port.blocked = False
            if nic_port.packet is not None:
                self._loop.modify(nic_port.packet.fileno(), READABLE)

    def _send_failed(self, nic_port: _NicPort, error: OSError, now: int) -> None:
        """Count a frame that was lost before the wire; MRC retransmits it."""
        if not is_lost_frame(error):
            raise error
        nic_port.tx_dropped += 1
        # netlink may be delaying a carrier change: query the state now
        if self._monitor is not None and nic_port.index and now - nic_port.queried >= _QUERY_INTERVAL_NS:
            nic_port.queried = now
            self._monitor.query(nic_port.index)

    # -- links -----------------------------------------------------------------------------------------------------

    def _check(self, nic_port: _NicPort, link: LinkState | None) -> None:
        name, needed = nic_port.config.interface, self._config.mtu
        if link is None:
            raise NicDriverError(
                f"Interface {name!r} of port {nic_port.number} does not exist in this network namespace: "
                "start the agent inside the host's namespace, after its links are made."
            )
        if link.mtu < needed:
            raise NicDriverError(
                f"Interface {name!r} has MTU {link.mtu}, the NIC needs {needed}: "
                f"set it with `ip link set {name} mtu {needed}`, on both ends of the link."
            )

    def _on_link(self, link: LinkState) -> None:
        for nic_port in self._ports:
            if nic_port.config.interface == link.name:
                self._link_changed(nic_port, link)

    def _link_changed(self, nic_port: _NicPort, link: LinkState) -> None:
        if link.index != nic_port.index:
            self._close_port(nic_port)
            if link.index:
                self._open_port(nic_port, link)
        if nic_port.ring is not None:
            nic_port.ring.stand_aside(not (link.plain and link.index))
        nic_port.has_link = link.up and nic_port.packet is not None
        self._update(nic_port)

    def _update(self, nic_port: _NicPort) -> None:
        up = nic_port.has_link and nic_port.enabled
        if up != nic_port.up:
            nic_port.up = up
            nic_port.free_at, nic_port.backlog = 0.0, False
            self._drop_held(nic_port)
            self._nic.port_changed(nic_port.number, up, self._clock())

    def _open_port(self, nic_port: _NicPort, link: LinkState) -> None:
        max_frame = self._config.mtu + ETHERNET_HEADER
        try:
            packet = self._open_packet_port(nic_port.config.interface, nic_port.config.mac, max_frame)
        except NicDriverError:  # vanished again meanwhile: netlink is about to say so
            return
        nic_port.packet, nic_port.index = packet, link.index
        if packet.ring is not None and nic_port.ring is None:
            nic_port.ring = packet.ring
            self._ringed.append(nic_port)
            self._loop.add_ring(packet.ring)
        self._loop.add(packet.fileno(), READABLE, lambda mask: self._on_readable(nic_port, mask))

    def _drop_held(self, nic_port: _NicPort) -> None:
        """A frame held for the socket is lost with the link, like those on it."""
        self._unblock(nic_port)
        if nic_port.held is not None:
            nic_port.held = None
            nic_port.tx_dropped += 1

    def _close_port(self, nic_port: _NicPort) -> None:
        self._drop_held(nic_port)
        packet = nic_port.packet
        nic_port.packet, nic_port.index = None, 0
        if packet is not None:
            nic_port.rx_dropped += packet.kernel_drops()
            self._loop.remove(packet.fileno())
            packet.close()

    def _status(self, nic_port: _NicPort) -> PortStatus:
        if nic_port.packet is not None:
            nic_port.rx_dropped += nic_port.packet.kernel_drops()
        return PortStatus(
            port=nic_port.number,
            interface=nic_port.config.interface,
            up=nic_port.up and nic_port.packet is not None,
            rate_bps=nic_port.config.rate_bps,
            tx_frames=nic_port.tx_frames,
            tx_bytes=nic_port.tx_bytes,
            rx_frames=nic_port.rx_frames,
            rx_bytes=nic_port.rx_bytes,
            tx_dropped=nic_port.tx_dropped,
            rx_dropped=nic_port.rx_dropped,
        )


def _discard(_port: int, _frame: memoryview, _now: int) -> None:
    """Receive a frame on a port that is not enabled."""
