"""A RoCE queue pair with selective repeat: on one path in order, or on many that the switches choose.

Its receiving half is MRC's responder, which places packets in any order; its answers take the one path back. The
sending half is ``selective_requester``. ECMP chooses the path by the UDP source port; with adaptive routing
(``adaptive``) the switches choose one for each packet of data, by its traffic class, and nothing is concluded from what
arrives first.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.transport.data_arrival import receive_data
from mrc_host.transport.dcqcn import CnpGenerator
from mrc_host.transport.naks import refusal
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer import Peer
from mrc_host.transport.qp import NicQueuePair
from mrc_host.transport.queue_pair_interfaces import MrcResponderOwner
from mrc_host.transport.responder import Responder
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.roce.rate_control import cnp_generator, controller, link_parameters
from mrc_host.transport.roce.return_path import OnePath
from mrc_host.transport.roce.selective_requester import SelectiveRequester, bandwidth_delay
from mrc_host.verbs_types import CompletionStatus, PathInfo, PathReason, PathState, QpAttributes, QpState, QpType
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.headers import BTH_LENGTH

_GONE: Final = "The peer's queue pair is gone: it was destroyed, or its NIC has restarted."
_UNLIMITED: Final = 1 << 60


class SelectiveQueuePair(NicQueuePair, MrcResponderOwner):
    """Queue pair of type RC_SR or RC_AR."""

    __slots__ = (
        "_adaptive", "_cnp", "_cnp_due", "_nak_pending", "_path", "_requester", "_responder", "_solicited"
    )  # fmt: skip

    def __init__(
        self,
        nic: NicContext,
        kind: QpType,
        qpn: int,
        pd: int,
        send_cq: NicCompletionQueue,
        recv_cq: NicCompletionQueue,
        attributes: QpAttributes,
    ) -> None:
        super().__init__(nic, kind, qpn, pd, send_cq, recv_cq, attributes)
        self._adaptive = kind is QpType.RC_AR
        self._solicited = headers.solicited_bit(nic.settings.bth_order)
        self._path: RcPath | None = None
        self._requester: SelectiveRequester | None = None
        self._responder: Responder | None = None
        self._nak_pending = False
        self._cnp: CnpGenerator | None = None  # with DCQCN: answers ECN marks
        self._cnp_due = False

    def start_receiving(self, first_psn: int, now: int) -> None:
        """INIT to RTR: create the receiving half."""
        peer = self.connected_peer()
        path = RcPath(self.nic, peer, self.qpn, self.remote_qpn, self.attributes.udp_sport, self._adaptive)
        ports = len(self.nic.config.ports)
        self._path = path
        threshold = self.nic.transport.sack_threshold
        self._responder = Responder(self, self.connection(), OnePath(path), peer.address, ports, first_psn, threshold)
        received = self._responder.received
        received.hashed = True
        received.in_order = not self._adaptive
        self._cnp = cnp_generator(self.connection(), path)

    def start_sending(self, first_psn: int, now: int) -> None:
        """RTR to RTS: create the sending half."""
        assert self._path is not None
        connection, path = self.connection(), self._path
        given = self.attributes.congestion_window is not None
        most = _UNLIMITED if given else bandwidth_delay(link_parameters(connection, path))
        self._requester = SelectiveRequester(
            self, connection, path, OnePath(path), controller(connection, path), self.sends, first_psn, most,
            not self._adaptive,
        )  # fmt: skip

    def psns_sent(self) -> int:
        """How many PSNs were sent in this life."""
        return 0 if self._requester is None else self._requester.psns_used()

    def psns_received(self) -> int:
        """How many PSNs there are up to the highest one accepted in this life."""
        if self._responder is None:
            return 0
        received = self._responder.received
        return received.max_psn + 1 - received.first_psn

    def end_requests(self, status: CompletionStatus, reason: str, now: int) -> None:
        """Go to ERROR, where no packet is placed."""
        super().end_requests(status, reason, now)
        if self._responder is not None:
            self._responder.received.carries = False

    def stop(self) -> None:
        """Drop both halves; queue entries and timers that still refer to this queue pair find nothing to do."""
        if self._responder is not None:
            self._responder.close()
        self._path = None
        self._requester = None
        self._responder = None
        self._nak_pending = False
        self._cnp = None
        self._cnp_due = False

    # ---- receiving ----------------------------------------------------------------------------------------------

    def receive(self, opcode: int, frame: memoryview, flow: Flow, port: int, now: int) -> Drop | None:
        """Handle a packet from the peer."""
        responder = self._responder
        if responder is None:
            return Drop.QP_STATE
        if flow.trimmed:
            return Drop.MALFORMED
        if opcode <= opcodes.WRITE_ONLY_IMM and opcode != opcodes.RC_CNP:
            return self._receive_data(responder, opcode, frame, flow, port, now)
        requester = self._requester
        if not self.running or requester is None:
            return Drop.QP_STATE
        at = flow.start + BTH_LENGTH
        drop: Drop | None = None
        if opcode == opcodes.SACK:
            drop = requester.on_sack(control.parse_sack(frame, at), now)
        elif opcode == opcodes.NACK:
            requester.on_nack(control.parse_nack(frame, at), now)
        elif opcode == opcodes.TRANSPORT_ACK:
            *_, word, last = headers.aeth.unpack_from(frame, flow.start)
            drop = requester.on_ack(word & 0xFFFFFF, last >> 24, last & 0xFFFFFF, now)
        elif opcode == opcodes.RC_CNP:
            self.stats.cnps_received += 1
            requester.cc.on_cnp(now)
        else:
            return Drop.OPCODE
        if drop is None:
            self.check_broken_head(now)
            self.kick(now)
        return drop

    def _receive_data(
        self, responder: Responder, opcode: int, frame: memoryview, flow: Flow, port: int, now: int
    ) -> Drop | None:
        if not self.running:
            if not responder.acks.nak:
                return Drop.QP_STATE
            self._nak_pending = True
            self.offer_control()
            return None
        if flow.ce:
            self._marked(now)
        return receive_data(responder, opcode, frame, flow, port, self._solicited)

    def answer_due(self, psn: int, flow: Flow, stamp: int) -> None:
        """The datapath in C has placed packet `psn`, and that makes a SACK due; a mark does, too."""
        assert self._responder is not None
        if flow.ce:
            self._marked(self.nic.now)
        self._responder.acks.due(psn, flow, stamp)

    def _marked(self, now: int) -> None:
        """A packet with an ECN mark arrived: a congestion notification may be due."""
        if self._cnp is not None and self._cnp.on_packet(True, now):
            self._cnp_due = True
            self.offer_control()

    def receive_late(self, opcode: int, frame: memoryview, flow: Flow, peer: Peer, now: int) -> None:
        """A RoCE NIC silently drops packets for a queue pair that cannot receive."""

    def remote_gone(self, number: int, stamp: int, now: int) -> None:
        """The peer reports that it does not have the other end."""
        requester = self._requester
        if self.running and requester is not None and requester.is_in_flight(number, stamp):
            self.enter_error(CompletionStatus.REMOTE_OPERATION_ERROR, _GONE, now)

    def refuse(self, syndrome: int) -> None:
        """The responder received a message that is not allowed: send a NAK and enter ERROR."""
        self._nak_pending = True
        if syndrome == headers.NAK_REMOTE_ACCESS:
            self.stats.access_refused += 1
        else:
            self.stats.operation_refused += 1
        self.enter_error(CompletionStatus.FLUSHED, refusal(syndrome), self.nic.now)
        self.offer_control()

    def fail_responder(self, reason: str) -> None:
        """The peer violated the protocol: enter ERROR."""
        self.stats.operation_refused += self.state is not QpState.ERROR
        self.enter_error(CompletionStatus.FLUSHED, reason, self.nic.now)

    def on_cq_room(self) -> None:
        """The receive CQ was polled, so completions may fit again."""
        if self._responder is not None and self.running:
            self._responder.on_cq_room()

    # ---- sending ------------------------------------------------------------------------------------------------

    def offer_data(self) -> None:
        """Queue at our port if there is data to send."""
        mask = self.data_ports()
        if mask:
            self.nic.scheduler.activate_data(self, mask)

    def kick(self, now: int) -> None:
        """A request was posted, or an acknowledgement made room."""
        self.offer_data()
        if self._requester is not None:
            self._requester.starving(now)

    def offer_control(self) -> None:
        """Queue at our port: an acknowledgement or a CNP is due."""
        responder, path = self._responder, self._path
        if path is None or responder is None:
            return
        if self._nak_pending or self._cnp_due or responder.acks.pending():
            self.nic.scheduler.activate_control(self, 1 << path.port)

    def data_ports(self) -> int:
        """Mask of our port, if data may leave."""
        requester, path = self._requester, self._path
        if requester is None or path is None or not self.running:
            return 0
        if not requester.ready(max(self.nic.now, requester.last_sent)):
            return 0
        return 1 << path.port

    def transmit_data(self, port: int, now: int) -> bytes | None:
        """Next data packet."""
        if self._requester is None or not self.running:
            return None
        return self._requester.transmit(now)

    def transmit_control(self, port: int, now: int) -> bytes | None:
        """Next acknowledgement, or a congestion notification first."""
        responder, path = self._responder, self._path
        if responder is None or path is None or port != path.port:
            return None
        if self._cnp_due:
            self._cnp_due = False
            self.stats.cnps_sent += 1
            frame: bytes | None = path.notification(self.remote_qpn)
        elif self._nak_pending:
            self._nak_pending = False
            frame = responder.acks.build_nak(port, now)
        else:
            frame = responder.acks.transmit(port, now)
        self.offer_control()
        return frame

    def on_timer(self, now: int) -> int:
        """Send, or send again, where due."""
        if self._requester is None or not self.running:
            return 0
        again = self._requester.on_timer(now)
        return again if self.running else 0

    # ---- paths --------------------------------------------------------------------------------------------------

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

    # ---- counters -----------------------------------------------------------------------------------------------

    def settle_stats(self, now: int) -> None:
        """Bring the statistics up to `now`."""
        super().settle_stats(now)
        if self._responder is not None and self.running:
            self._responder.settle_stats(now)

    def collect_counts(self) -> None:
        """Have the statistics show what is counted elsewhere."""
        super().collect_counts()
        if self._responder is not None:
            self._responder.counts.collect()

    def gauges(self) -> dict[str, int]:
        """Current state of the window."""
        gauges = super().gauges()
        if self._requester is not None:
            cc = self._requester.cc
            gauges["cwnd_bytes"] = cc.cwnd
            gauges["cwnd_used_bytes"] = gauges["inflight_bytes"] = cc.inflight
        return gauges

    def paths_info(self) -> tuple[PathInfo, ...]:
        """The one path: its entropy value is the UDP source port."""
        path = self._path
        if path is None:
            return ()
        return (PathInfo(path.entropy, path.port, PathState.GOOD, True),)
