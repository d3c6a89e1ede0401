"""Base of the RoCE queue pairs: one path, its sending half, and congestion notifications.

The path is chosen when the queue pair connects and does not move (``path``). While its port has no link the queue pair
waits and retries, as single-path RDMA does. With DCQCN the receiving end answers ECN marks with congestion notification
packets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.dcqcn import CnpGenerator
from mrc_host.transport.peer import Peer
from mrc_host.transport.qp import NicQueuePair, QueuePairCreation
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.roce.rate_control import cnp_generator
from mrc_host.verbs_types import PathInfo, PathReason, PathState
from mrc_host.wire import opcodes
from mrc_host.wire.encap import Drop, Flow


class SinglePathRequester(ABC):
    """Sending half of a queue pair with one path."""

    __slots__ = ("cc", "last_sent")

    def __init__(self, cc: CongestionControl) -> None:
        self.cc = cc
        self.last_sent = 0

    @abstractmethod
    def psns_used(self) -> int:
        """How many PSNs were sent in this life."""

    @abstractmethod
    def ready(self, now: int) -> bool:
        """Whether a packet may be sent at `now`; if only the rate prevents it, the queue pair is woken in time."""

    @abstractmethod
    def starving(self, now: int) -> None:
        """If data waits while the port is down, start the timer, so that the requests fail eventually."""

    @abstractmethod
    def transmit(self, now: int) -> bytes | None:
        """Next packet, or None."""

    @abstractmethod
    def on_timer(self, now: int) -> int:
        """Send, or send again, where due. Returns the next time, 0 for none."""


class SinglePathQueuePair(NicQueuePair):
    """Queue pair of a RoCE type."""

    __slots__ = ("_cnp", "_cnp_due", "path")

    def __init__(self, creation: QueuePairCreation) -> None:
        super().__init__(creation)
        self.path: RcPath | None = None  # from RTR on
        self._cnp: CnpGenerator | None = None  # with DCQCN
        self._cnp_due = False

    def open_path(self, adaptive: bool = False) -> RcPath:
        """INIT to RTR: choose the path; with `adaptive`, switches choose one for each packet of data."""
        sport = self.attributes.udp_sport
        path = RcPath(
            self.nic, self.connected_peer(), self.qpn, self.remote_qpn, sport, adaptive, self.attributes.planes
        )
        self.path = path
        self._cnp = cnp_generator(self.connection(), path)
        return path

    @abstractmethod
    def sending_half(self) -> SinglePathRequester | None:
        """What ``start_sending`` created."""

    def psns_sent(self) -> int:
        """How many PSNs were sent in this life."""
        half = self.sending_half()
        return 0 if half is None else half.psns_used()

    def stop(self) -> None:
        """Drop the path and who answers marks on it."""
        self.path = None
        self._cnp = None
        self._cnp_due = False

    # ---- receiving ----------------------------------------------------------------------------------------------

    @abstractmethod
    def carries_data(self, opcode: int) -> bool:
        """Whether a packet of this type is one of data."""

    @abstractmethod
    def receive_data(self, opcode: int, frame: memoryview, flow: Flow, port: int) -> Drop | None:
        """Handle a packet of data."""

    @abstractmethod
    def receive_answer(self, opcode: int, frame: memoryview, start: int, now: int) -> Drop | None:
        """Handle an answer to what was sent, whose BTH is at `start`."""

    def receive(self, opcode: int, frame: memoryview, flow: Flow, port: int, now: int) -> Drop | None:
        """Handle a packet from the peer."""
        receiving, sending = self.receiving_half(), self.sending_half()
        if receiving is None:
            return Drop.QP_STATE
        if flow.trimmed:
            return Drop.MALFORMED
        if opcode != opcodes.RC_CNP and self.carries_data(opcode):
            if not self.running:
                return None if receiving.repeat_nak() else Drop.QP_STATE
            if flow.ce:
                self.marked(now)
            return self.receive_data(opcode, frame, flow, port)
        if not self.running or sending is None:
            return Drop.QP_STATE
        drop: Drop | None = None
        if opcode == opcodes.RC_CNP:
            self.stats.cnps_received += 1
            sending.cc.on_cnp(now)
        else:
            drop = self.receive_answer(opcode, frame, flow.start, now)
        if drop is None:
            self.check_broken_head(now)
            self.kick(now)
        return drop

    def marked(self, now: int) -> None:
        """A packet with an ECN mark arrived: a congestion notification may be due."""
        if self._cnp is not None and self._cnp.on_packet(True, now):
            self._cnp_due = True
            self.offer_control()

    def receive_late(self, opcode: int, frame: memoryview, flow: Flow, peer: Peer, now: int) -> None:
        """A RoCE NIC silently drops packets for a queue pair that cannot receive."""

    # ---- sending ------------------------------------------------------------------------------------------------

    @abstractmethod
    def answer_waits(self) -> bool:
        """Whether an acknowledgement is due."""

    @abstractmethod
    def next_answer(self, port: int, now: int) -> bytes | None:
        """The acknowledgement that is due."""

    def offer_data(self) -> None:
        """Queue at our port if there is data to send."""
        mask = self.data_ports()
        if mask:
            self.nic.scheduler.activate_data(self, mask)

    def offer_control(self) -> None:
        """Queue at our port if an acknowledgement or a congestion notification is due."""
        path = self.path
        if path is not None and (self._cnp_due or self.answer_waits()):
            self.nic.scheduler.activate_control(self, 1 << path.port)

    def kick(self, now: int) -> None:
        """A request was posted, or an acknowledgement made room."""
        self.offer_data()
        half = self.sending_half()
        if half is not None:
            half.starving(now)

    def data_ports(self) -> int:
        """Mask of our port, if data may leave."""
        half, path = self.sending_half(), self.path
        if half is None or path is None or not self.running:
            return 0
        return 1 << path.port if half.ready(max(self.nic.now, half.last_sent)) else 0

    def transmit_data(self, port: int, now: int) -> bytes | None:
        """Next data packet; None at a port where only an earlier life with another path was queued."""
        half, path = self.sending_half(), self.path
        if half is None or path is None or port != path.port or not self.running:
            return None
        return half.transmit(now)

    def transmit_control(self, port: int, now: int) -> bytes | None:
        """Next acknowledgement, or a congestion notification first."""
        path = self.path
        if path is None or port != path.port:
            return None
        if self._cnp_due:
            self._cnp_due = False
            self.stats.cnps_sent += 1
            frame: bytes | None = path.notification(self.remote_qpn)
        else:
            frame = self.next_answer(port, now)
        self.offer_control()
        return frame

    def on_timer(self, now: int) -> int:
        """Send, or send again, where due."""
        half = self.sending_half()
        return half.on_timer(now) if half is not None and self.running else 0

    # ---- the path -----------------------------------------------------------------------------------------------

    def planes_changed(self, now: int) -> None:
        """The path does not move; it may work again."""
        self.offer_data()
        self.offer_control()

    def peer_reported(self, now: int) -> None:
        """Does nothing: timeouts are waited for."""

    def path_denied(self, index: int, denied: bool, now: int) -> None:
        """Does nothing: switches choose the path, so none can be denied."""

    def path_probed_good(self, index: int, reason: PathReason, lossy: bool, now: int) -> None:
        """Does nothing: it does not use the peer's paths."""

    def paths_info(self) -> tuple[PathInfo, ...]:
        """The one path: its entropy value is the UDP source port."""
        path = self.path
        if path is None:
            return ()
        return (PathInfo(path.entropy, path.port, PathState.GOOD, True),)

    def gauges(self) -> dict[str, int]:
        """Current state of the window."""
        gauges = super().gauges()
        half = self.sending_half()
        if half is not None:
            gauges["cwnd_bytes"] = half.cc.cwnd
            gauges["cwnd_used_bytes"] = gauges["inflight_bytes"] = half.cc.inflight
        return gauges
