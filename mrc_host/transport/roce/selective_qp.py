"""A RoCE queue pair with selective repeat: on one path in order, or on many that the switches choose.

Its receiving half is MRC's responder, which places packets in any order; its answers take the one path back. The
sending half is ``selective_requester``. ECMP chooses the path by the UDP source port; with adaptive routing the
switches choose one for each packet of data, by its traffic class, and nothing is concluded from what arrives first.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.data_arrival import receive_data
from mrc_host.transport.naks import failure
from mrc_host.transport.qp import QueuePairCreation
from mrc_host.transport.responder import Responder
from mrc_host.transport.roce.rate_control import controller, link_parameters
from mrc_host.transport.roce.return_path import OnePath
from mrc_host.transport.roce.selective_requester import SelectiveRequester, bandwidth_delay
from mrc_host.transport.roce.single_path_qp import SinglePathQueuePair
from mrc_host.verbs_types import CompletionStatus, QpType
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.headers import BTH_LENGTH
from mrc_host.wire.psn import MASK

_GONE: Final = "The peer's queue pair is gone: it was destroyed, or its NIC has restarted."
_UNLIMITED: Final = 1 << 60


class SelectiveQueuePair(SinglePathQueuePair):
    """Queue pair of type RC_SR, or of RC_AR, whose data takes paths that the switches choose."""

    __slots__ = ("_requester", "_responder", "_solicited")

    def __init__(self, creation: QueuePairCreation) -> None:
        super().__init__(creation)
        self._requester: SelectiveRequester | None = None
        self._responder: Responder | None = None
        self._solicited = headers.solicited_bit(self.nic.settings.bth_order)

    def start_receiving(self, first_psn: int, now: int) -> None:
        """INIT to RTR: create the receiving half."""
        nic, adaptive = self.nic, self.kind is QpType.RC_AR
        answers = OnePath(self.open_path(adaptive))
        self._responder = Responder(
            self, self.connection(), answers, self.connected_peer().address, len(nic.config.ports), first_psn,
            nic.transport.sack_threshold,
        )  # fmt: skip
        received = self._responder.received
        received.hashed = True
        received.in_order = not adaptive

    def start_sending(self, first_psn: int, now: int) -> None:
        """RTR to RTS: create the sending half."""
        assert self.path is not None
        connection, path = self.connection(), self.path
        given = self.attributes.congestion_window is not None
        most = _UNLIMITED if given else bandwidth_delay(link_parameters(connection, path))
        self._requester = SelectiveRequester(
            self, connection, path, OnePath(path), controller(connection, path), self.sends, first_psn, most,
            self.kind is not QpType.RC_AR,
        )  # fmt: skip

    def receiving_half(self) -> Responder | None:
        """The responder."""
        return self._responder

    def sending_half(self) -> SelectiveRequester | None:
        """The requester."""
        return self._requester

    def stop(self) -> None:
        """Drop both halves; queue entries and timers that still refer to this queue pair find nothing to do."""
        super().stop()
        self._requester = None
        self._responder = None

    def carries_data(self, opcode: int) -> bool:
        """Whether a packet of this type is one of data."""
        return opcode <= opcodes.WRITE_ONLY_IMM

    def receive_data(self, opcode: int, frame: memoryview, flow: Flow, port: int) -> Drop | None:
        """Take a packet apart for the responder."""
        assert self._responder is not None
        return receive_data(self._responder, opcode, frame, flow, port, self._solicited)

    def receive_answer(self, opcode: int, frame: memoryview, start: int, now: int) -> Drop | None:
        """Handle a SACK, NACK or transport ACK."""
        requester = self._requester
        assert requester is not None
        if opcode == opcodes.SACK:
            return requester.on_sack(control.parse_sack(frame, start + BTH_LENGTH), now)
        if opcode == opcodes.NACK:
            requester.on_nack(control.parse_nack(frame, start + BTH_LENGTH), now)
            return None
        if opcode != opcodes.TRANSPORT_ACK:
            return Drop.OPCODE
        *_, word, last = headers.aeth.unpack_from(frame, start)
        nak = last >> 24 & 0xE0 == headers.SYNDROME_NAK
        drop = requester.on_ack(word & MASK, nak, last & 0xFFFFFF, now)
        if drop is None and nak:
            self.enter_error(*failure(last >> 24), now)
        return drop

    def answer_due(self, psn: int, flow: Flow, stamp: int) -> None:
        """The datapath in C has placed packet `psn`, and that makes a SACK due; a mark does, too."""
        assert self._responder is not None
        if flow.ce:
            self.marked(self.nic.now)
        self._responder.acks.due(psn, flow, stamp)

    def remote_gone(self, number: int, stamp: int, now: int) -> None:
        """The peer reports that it does not have the other end."""
        requester = self._requester
        if self.running and requester is not None and requester.is_in_flight(number, stamp):
            self.enter_error(CompletionStatus.REMOTE_OPERATION_ERROR, _GONE, now)

    def answer_waits(self) -> bool:
        """Whether an acknowledgement is due."""
        return self._responder is not None and self._responder.acks.pending()

    def next_answer(self, port: int, now: int) -> bytes | None:
        """The acknowledgement that is due."""
        return None if self._responder is None else self._responder.acks.transmit(port, now)
