"""An RC queue pair: requester and responder on one fixed path."""

from __future__ import annotations

from typing import Final

from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.transport.dcqcn import CnpGenerator
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer import Peer
from mrc_host.transport.qp import NicQueuePair
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.roce.rate_control import cnp_generator
from mrc_host.transport.roce.requester import RcRequester
from mrc_host.transport.roce.responder import RcResponder
from mrc_host.verbs_types import (
    CompletionStatus,
    PathInfo,
    PathReason,
    PathState,
    QpAttributes,
    QpType,
)
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import Drop, Flow

_bth: Final = headers.bth.unpack_from


class RcQueuePair(NicQueuePair):
    """Queue pair of type RC."""

    __slots__ = ("_cnp", "_cnp_due", "_path", "_requester", "_responder")

    def __init__(
        self,
        nic: NicContext,
        qpn: int,
        pd: int,
        send_cq: NicCompletionQueue,
        recv_cq: NicCompletionQueue,
        attributes: QpAttributes,
    ) -> None:
        super().__init__(nic, QpType.RC, qpn, pd, send_cq, recv_cq, attributes)
        self._path: RcPath | None = None
        self._requester: RcRequester | None = None
        self._responder: RcResponder | None = None
        self._cnp: CnpGenerator | None = None  # with DCQCN: answers ECN marks
        self._cnp_due = False

    def start_receiving(self, first_psn: int, now: int) -> None:
        """INIT to RTR: create the receiving half."""
        self._path = RcPath(self.nic, self.connected_peer(), self.qpn, self.remote_qpn, self.attributes.udp_sport)
        source = self.connected_peer().address
        self._responder = RcResponder(self, self.connection(), self._path, source, first_psn)
        self._cnp = cnp_generator(self.connection(), self._path)

    def start_sending(self, first_psn: int, now: int) -> None:
        """RTR to RTS: create the sending half."""
        assert self._path is not None
        self._requester = RcRequester(self, self.connection(), self._path, self.sends, first_psn)

    def psns_sent(self) -> int:
        """How many PSNs were sent in this life."""
        return 0 if self._requester is None else self._requester.sent.psns_used()

    def psns_received(self) -> int:
        """How many PSNs there are up to the highest one accepted in this life."""
        return 0 if self._responder is None else self._responder.psns_used()

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
        self._cnp = None
        self._cnp_due = False

    def receive(self, opcode: int, frame: memoryview, flow: Flow, port: int, now: int) -> Drop | None:
        """Handle a packet from the peer."""
        requester, responder = self._requester, self._responder
        if responder is None:
            return Drop.QP_STATE
        if flow.trimmed:
            return Drop.MALFORMED
        start = flow.start
        if opcode == opcodes.RC_ACK:
            if not self.running or requester is None:
                return Drop.QP_STATE
            *_, word, last = headers.aeth.unpack_from(frame, start)
            requester.acks.on_ack(word & 0xFFFFFF, last >> 24, now)
            self.check_broken_head(now)
            self.kick(now)
            return None
        if opcode == opcodes.RC_CNP:
            if requester is None:
                return Drop.QP_STATE
            self.stats.cnps_received += 1
            requester.cc.on_cnp(now)
            return None
        if not self.running:
            if not responder.fatal:
                return Drop.QP_STATE
            responder.repeat_nak()
            return None
        if flow.ce:
            self._marked(now)
        return self._receive_data(responder, opcode - opcodes.RC_WRITE_FIRST, frame, flow)

    def answer_due(self, psn: int, flow: Flow, stamp: int) -> None:
        """The datapath in C has carried a packet that is marked, or requests an acknowledgement: then `psn` is 1."""
        assert self._responder is not None
        if flow.ce:
            self._marked(self.nic.now)
        if psn:
            self._responder.answer_due()

    def _marked(self, now: int) -> None:
        """A packet with an ECN mark arrived: a congestion notification may be due."""
        self.stats.marks_received += 1
        if self._cnp is not None and self._cnp.on_packet(True, now):
            self._cnp_due = True
            self.offer_control()

    def receive_late(self, opcode: int, frame: memoryview, flow: Flow, peer: Peer, now: int) -> None:
        """A RoCE NIC silently drops packets for a queue pair that cannot receive."""

    def remote_gone(self, number: int, stamp: int, now: int) -> None:
        """Does nothing: RC uses up its retries."""

    def _receive_data(self, responder: RcResponder, kind: int, frame: memoryview, flow: Flow) -> Drop | None:
        start = flow.start
        flags: int  # annotated because struct returns Any
        address = rkey = length = imm = 0
        if kind == opcodes.ONLY_IMM:
            _o, flags, _k, _q, word, address, rkey, length, imm = headers.rc_only_imm.unpack_from(frame, start)
            body = start + headers.rc_only_imm.size
        elif kind == 0 or kind == opcodes.ONLY:
            _o, flags, _k, _q, word, address, rkey, length = headers.rc_first.unpack_from(frame, start)
            body = start + headers.rc_first.size
        elif kind == opcodes.LAST_IMM:
            _o, flags, _k, _q, word, imm = headers.rc_last_imm.unpack_from(frame, start)
            body = start + headers.rc_last_imm.size
        else:
            _o, flags, _k, _q, word = _bth(frame, start)
            body = start + headers.BTH_LENGTH
        end = flow.end - (flags >> 4 & 3)
        if end <= body and (end < body or length or kind < opcodes.ONLY):  # only the whole of an empty message is empty
            return Drop.MALFORMED
        return responder.receive(kind, word, address, rkey, length, imm, frame[body:end])

    def fail_responder(self, reason: str) -> None:
        """The responder received something that ends the connection."""
        self.enter_error(CompletionStatus.FLUSHED, reason, self.nic.now)

    def on_cq_room(self) -> None:
        """Does nothing: the peer sends the dropped packet again by itself."""

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
        if self._path is not None:
            self.nic.scheduler.activate_control(self, 1 << self._path.port)

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
        if self._cnp_due and self._path is not None:
            self._cnp_due = False
            self.stats.cnps_sent += 1
            self.offer_control()
            return self._path.notification(self.remote_qpn)
        return None if self._responder is None else self._responder.transmit()

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

    def on_timer(self, now: int) -> int:
        """Send, or go back, where due."""
        if self._requester is None or not self.running:
            return 0
        return self._requester.on_timer(now)

    def planes_changed(self, now: int) -> None:
        """Does nothing: a single path does not move."""

    def peer_reported(self, now: int) -> None:
        """Does nothing: go-back-N waits for its timeout."""

    def path_denied(self, index: int, denied: bool, now: int) -> None:
        """Does nothing: ECMP chooses the path, so none can be denied."""

    def path_probed_good(self, index: int, reason: PathReason, lossy: bool, now: int) -> None:
        """Does nothing: RC does not use the peer's paths."""

    def paths_info(self) -> tuple[PathInfo, ...]:
        """The one path: its entropy value is the UDP source port."""
        path = self._path
        if path is None:
            return ()
        return (PathInfo(path.entropy, path.port, PathState.GOOD, True),)
