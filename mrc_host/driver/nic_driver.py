"""Drives one NIC device in real time: frames from and to interfaces, the clock, link state.

Each port is an :class:`~mrc_host.driver.packet_port.PacketPort` in the loop. When one is readable, frames are read in
bounded batches and passed to `nic.receive`. Then the turn runs: it calls `nic.tick` if the NIC's wake-up time has come,
and pulls `nic.transmit(port)` for every port that is free. It returns when it wants to run again: at the earliest of
the NIC's wake-up and the times at which busy ports become free.

**Carrying.** What the NIC's datapath in C carries is given to it without Python (``carry`` of a port or ring); a frame
that is not, or that makes an answer due, ends that. Without such a datapath every frame goes to `nic.receive`.

**Pacing.** A port is busy for (frame length + 24 bytes of Ethernet overhead) / rate after each frame. When the process
wakes up late although frames were waiting, the port catches up on at most `burst_ns` of the time lost: so at most
`burst_ns` * rate + one frame leave back to back, and lateness up to `burst_ns` costs no rate. A port that had nothing
to send gains nothing. Rate 0 means unpaced.

**Back-pressure.** A socket accepts no more frames when it is full, because somebody has put a queue in front of the
interface that is slower than the port; a ring, when the process at its other end does not take them. The frame is then
held, and the port sends nothing until there is room: nothing is lost, so no path is suspected.

**Coalescing.** While frames arrive closely spaced the driver sleeps for `coalesce_ns` at a time to collect them, and
longer while its ports are busy (:mod:`mrc_host.driver.coalescing`). A port that becomes free meanwhile waits for the
end, too, but no longer than half of `burst_ns`, and catches up on that as well: it was not late.

**Rings.** A port may have shared-memory rings beside its interface (:mod:`mrc_host.driver.packet_port`). They are
looked into at the beginning of each turn, and flushed after each batch.

**Delays.** On request the driver measures how late frames were received and sent
(:mod:`mrc_host.driver.machine_delays`).

**Links.** A port without link (:mod:`mrc_host.driver.port_links`) is reported to the NIC as down; nothing is
transmitted on it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from time import monotonic_ns, time_ns
from typing import Protocol

from mrc_common.delays import PortDelays
from mrc_common.link_monitor import LinkMonitor
from mrc_host.config import NicConfig
from mrc_host.driver.coalescing import DEFAULT_COALESCE_NS, Coalescing
from mrc_host.driver.loop import READABLE, WRITABLE, Loop
from mrc_host.driver.machine_delays import StampClock
from mrc_host.driver.nic_port import NicPort, PortStatus
from mrc_host.driver.packet_port import ETHERNET_OVERHEAD, AnswerDue, Carry, PacketPort, is_link_error, is_lost_frame
from mrc_host.driver.port_links import OpenMonitor, OpenPort, PortLinks

DEFAULT_BURST_NS = 1_000_000
RECEIVE_BATCH = 8  # frames read from one port before the others, and transmission, have their turn
CARRY_BATCH = 32  # the same, of frames that are carried
TRANSMIT_BATCH = 16  # frames sent on one port before the others, and reception, have their turn
_MORE_PASSES = 32  # over all ports in one turn, as long as each lets another port send at once


class Datapath(Protocol):
    """What the ports need of it (a :class:`mrc_host.transport.native_datapath.NativeDatapath` has both)."""

    @property
    def receiver(self) -> object:
        """Who receives for the NIC."""

    @property
    def carry_frame(self) -> object:
        """The capsule of mrc_common/carry_frame.h."""


class Device(Protocol):
    """The verbs of a device with ports that the driver needs (a :class:`mrc_host.nic.Nic` has them).

    `receive` may use `frame` only during the call: its memory is reused for the next frame.
    """

    @property
    def datapath(self) -> Datapath | None:
        """What carries frames without `receive`; None: nothing does."""

    def receive(self, port: int, frame: memoryview, now: int) -> None:
        """Take one frame that arrived on `port`."""

    def answer_due(self, due: AnswerDue, now: int) -> None:
        """The datapath has carried a frame and said this."""

    def transmit(self, port: int, now: int) -> bytes | None:
        """The next frame for `port`, which is free; None if there is none."""

    def waiting(self, ports: int) -> int:
        """The ports of the mask `ports`, all free, for which there may be a frame; the others count as asked."""

    def wakeup(self) -> int | None:
        """When `tick` or `transmit` may next have something to do; None: only after input."""

    def tick(self, now: int) -> None:
        """Let time pass up to `now`."""

    def port_changed(self, port: int, up: bool, now: int) -> None:
        """The link of `port` went up or down."""


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
        open_port: OpenPort = PacketPort,
        open_monitor: OpenMonitor = LinkMonitor,
    ) -> None:
        self._clock = clock
        self._nic = nic
        self._loop = loop
        self._burst_ns = burst_ns
        self._measuring = False  # delays
        self._stamps = StampClock(real_clock)
        self._taken_at = 0  # when the first frame since the last turn was read; 0: none was, or measuring is off
        self._cause_at = 0  # the same, or when the turn began
        self._chosen_wait = 0  # ns that the turn before let a free port wait: that is not late
        self._now = 0  # the latest time passed to the NIC by a turn: it must not see an earlier one later
        self._sent = 0  # frames, when all ports were last served
        self._ports = [NicPort(i, port) for i, port in enumerate(config.ports)]
        frame_ns = (config.mtu + ETHERNET_OVERHEAD) * min((port.ns_per_byte for port in self._ports), default=0.0)
        self._coalescing = Coalescing(coalesce_ns, frame_ns)
        self._links = PortLinks(
            self._ports,
            config.mtu,
            loop,
            on_readable=self._on_readable,
            on_change=self._update,
            open_port=open_port,
            open_monitor=open_monitor,
        )
        self._buffer = memoryview(bytearray(1 << 16))

    def start(self) -> None:
        """Open all ports, report those that are down to the NIC, and enter the loop."""
        try:
            self._links.start()
        except BaseException:
            self.close()
            raise
        self._loop.add_turn(self._turn)

    def close(self) -> None:
        """Leave the loop and close every socket. Closing twice, or without start, does nothing."""
        self._loop.remove_turn(self._turn)
        self._links.close()

    def ports(self) -> tuple[PortStatus, ...]:
        """State and counters of every port."""
        return tuple(port.status() for port in self._ports)

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

    def _on_readable(self, nic_port: NicPort, mask: int) -> None:
        packet = nic_port.packet
        if packet is None:
            return
        if mask & WRITABLE:
            self._links.unblock(nic_port)
            if mask == WRITABLE:
                return
            mask &= ~WRITABLE
        if mask != READABLE and packet.take_error():
            self._links.refresh()
            return
        self._receive(nic_port, packet.receive_into, packet.carry, packet)

    def _receive(
        self,
        nic_port: NicPort,
        receive_into: Callable[[memoryview], int],
        carry: Carry | None,
        packet: PacketPort | None,
    ) -> None:
        """Pass a batch of frames to the NIC; `packet` if they come from there, None: they come from the ring."""
        buffer = self._buffer
        usable = nic_port.enabled and nic_port.packet is not None
        receive, port, clock = self._nic.receive if usable else _discard, nic_port.number, self._clock
        frames = total = 0
        left = CARRY_BATCH
        measuring = self._measuring
        waited: int | None = None
        try:
            while left > 0:
                if carry is not None and usable and not measuring:
                    carried, size, due = carry(left)
                    frames += carried
                    total += size
                    left -= carried
                    if due is not None:
                        self._nic.answer_due(due, clock())
                        continue
                    if left <= 0:
                        break
                length = receive_into(buffer)
                if not length:
                    break
                if measuring:  # the first of the batch only
                    measuring, waited = False, self._waited(nic_port, packet, clock())
                receive(port, buffer[:length], clock())
                frames += 1
                total += length
                left -= CARRY_BATCH // RECEIVE_BATCH
        except BlockingIOError:
            pass
        except OSError as error:
            if not is_link_error(error):
                raise
        nic_port.rx_frames += frames
        nic_port.rx_bytes += total
        if waited is not None:
            nic_port.arrivals.note(waited, frames)
        self._coalescing.took(frames, left <= 0, (total + frames * ETHERNET_OVERHEAD) * nic_port.ns_per_byte)

    def _waited(self, nic_port: NicPort, packet: PacketPort | None, now: int) -> int | None:
        """How long the frame just read had waited; None when that is unknown."""
        if not self._taken_at:
            self._taken_at = now
        if packet is not None:
            return self._stamps.delay(packet.stamp(), now)
        return None if nic_port.ring is None else now - nic_port.ring.sent

    def _serve_rings(self) -> None:
        """Take a batch from each ring, and see whether a full one has room again."""
        for nic_port in self._links.ringed:
            ring = nic_port.ring
            if ring is None:
                continue
            if nic_port.blocked and nic_port.for_ring and not ring.full():
                self._links.unblock(nic_port)
            if ring.pending():
                self._receive(nic_port, ring.receive_into, ring.carry if self._nic.datapath is not None else None, None)
                ring.release()

    def _turn(self, now: int) -> int | None:
        nic = self._nic
        if self._links.ringed:
            self._serve_rings()
            now = self._clock()
        self._cause_at, self._taken_at = self._taken_at or now, 0
        rest = self._coalescing.rest_until(now)
        if rest:
            self._loop.rest(rest)
        wakeup = nic.wakeup()
        if wakeup is not None and wakeup <= now:
            nic.tick(now)
        again, busy = self._serve_ports(now)
        wakeup = nic.wakeup()
        for _ in range(_MORE_PASSES):
            if again or not self._sent or wakeup is None or wakeup > self._now:
                break
            # What left on one port made another ready. Send that now, before other turns report arrivals to clients:
            # one that then destroys its queue pair must not discard the acknowledgement that its peer waits for.
            nic.tick(self._now)
            again, busy = self._serve_ports(self._now)
            wakeup = nic.wakeup()
        self._chosen_wait = 0
        if again:
            return self._now
        if busy is None:
            return wakeup
        free = ceil(busy)
        self._chosen_wait = max(0, min(rest - free, self._burst_ns // 2))
        free += self._chosen_wait
        return free if wakeup is None or wakeup > free else wakeup

    def _serve_ports(self, now: int) -> tuple[bool, float | None]:
        """Send on every port that is free; whether to go on at once, and when the first busy port becomes free."""
        again = False
        busy: float | None = None
        self._now = now
        self._sent = 0
        idle = self._ask_at_once(now)
        for nic_port in self._ports:
            if nic_port.up and not idle >> nic_port.number & 1:
                now = self._now  # time has passed while earlier ports were served
                if nic_port.free_at <= now and not nic_port.blocked:
                    before = self._sent
                    if self._transmit(nic_port, now):
                        again = True
                    if idle and self._sent > before and self._nic.wakeup() == 0:
                        idle = self._ask_at_once(self._now)  # what left may have made one of these ready
                if nic_port.free_at > now and (busy is None or nic_port.free_at < busy):
                    busy = nic_port.free_at
        return again, busy

    def _ask_at_once(self, now: int) -> int:
        """A mask of the ports that are free and for which the NIC has no frame: most of them, most of the time."""
        free = 0
        for nic_port in self._ports:
            if nic_port.up and nic_port.free_at <= now and not nic_port.blocked and nic_port.held is None:
                free |= 1 << nic_port.number
        idle = free & ~self._nic.waiting(free)
        for nic_port in self._ports:
            if idle >> nic_port.number & 1:
                nic_port.backlog = False
        return idle

    def _transmit(self, nic_port: NicPort, now: int) -> bool:
        """Send what the NIC has until the port is busy; True if the batch ended before either did."""
        packet = nic_port.packet
        if packet is None:
            return False
        transmit, send, port, clock = self._nic.transmit, packet.send, nic_port.number, self._clock
        ns_per_byte, longest = nic_port.ns_per_byte, packet.max_frame
        measuring, due = self._measuring, nic_port.free_at if nic_port.backlog else self._cause_at
        allowed = self._burst_ns + self._chosen_wait
        free_at = max(nic_port.free_at, now - allowed) if nic_port.backlog else float(now)
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
                self._links.block(nic_port, frame)
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
        self._coalescing.sent((total + frames * ETHERNET_OVERHEAD) * nic_port.ns_per_byte)
        self._now = now
        self._sent += frames
        return nic_port.backlog and free_at <= now and not nic_port.blocked

    def _send_failed(self, nic_port: NicPort, error: OSError, now: int) -> None:
        """Count a frame that was lost before the wire; MRC retransmits it."""
        if not is_lost_frame(error):
            raise error
        nic_port.tx_dropped += 1
        self._links.suspect(nic_port, now)

    def _update(self, nic_port: NicPort) -> None:
        packet, datapath = nic_port.packet, self._nic.datapath
        if packet is not None and datapath is not None:
            packet.carry_to(datapath.receiver, datapath.carry_frame, nic_port.number)
        up = nic_port.has_link and nic_port.enabled
        if up != nic_port.up:
            nic_port.up = up
            nic_port.free_at, nic_port.backlog = 0.0, False
            self._links.drop_held(nic_port)
            self._nic.port_changed(nic_port.number, up, self._clock())


def _discard(_port: int, _frame: memoryview, _now: int) -> None:
    """Receive a frame on a port that is not enabled."""
