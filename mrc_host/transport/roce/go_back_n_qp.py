"""An RC queue pair: go-back-N on one path."""

from __future__ import annotations

from typing import Final

from mrc_host.transport.qp import QueuePairCreation
from mrc_host.transport.roce.requester import RcRequester
from mrc_host.transport.roce.responder import RcResponder
from mrc_host.transport.roce.single_path_qp import SinglePathQueuePair
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import Drop, Flow

_bth: Final = headers.bth.unpack_from


class RcQueuePair(SinglePathQueuePair):
    """Queue pair of type RC."""

    __slots__ = ("_requester", "_responder")

    def __init__(self, creation: QueuePairCreation) -> None:
        super().__init__(creation)
        self._requester: RcRequester | None = None
        self._responder: RcResponder | None = None

    def start_receiving(self, first_psn: int, now: int) -> None:
        """INIT to RTR: create the receiving half."""
        path = self.open_path()
        self._responder = RcResponder(self, self.connection(), path, self.connected_peer().address, first_psn)

    def start_sending(self, first_psn: int, now: int) -> None:
        """RTR to RTS: create the sending half."""
        assert self.path is not None
        self._requester = RcRequester(self, self.connection(), self.path, self.sends, first_psn)

    def receiving_half(self) -> RcResponder | None:
        """The responder."""
        return self._responder

    def sending_half(self) -> RcRequester | None:
        """The requester."""
        return self._requester

    def stop(self) -> None:
        """Drop both halves; queue entries and timers that still refer to this queue pair find nothing to do."""
        super().stop()
        self._requester = None
        self._responder = None

    def carries_data(self, opcode: int) -> bool:
        """Whether a packet of this type is one of data."""
        return opcode != opcodes.RC_ACK

    def receive_answer(self, opcode: int, frame: memoryview, start: int, now: int) -> Drop | None:
        """Handle an ACK or NAK."""
        assert self._requester is not None
        *_, word, last = headers.aeth.unpack_from(frame, start)
        self._requester.acks.on_ack(word & 0xFFFFFF, last >> 24, now)
        return None

    def answer_due(self, psn: int, flow: Flow, stamp: int) -> None:
        """The datapath in C has carried a packet that is marked, or requests an acknowledgement: then `psn` is 1."""
        assert self._responder is not None
        if flow.ce:
            self.marked(self.nic.now)
        if psn:
            self._responder.answer_due()

    def marked(self, now: int) -> None:
        """A packet with an ECN mark arrived."""
        self.stats.marks_received += 1
        super().marked(now)

    def remote_gone(self, number: int, stamp: int, now: int) -> None:
        """Does nothing: RC uses up its retries."""

    def receive_data(self, opcode: int, frame: memoryview, flow: Flow, port: int) -> Drop | None:
        """Take a packet apart for the responder."""
        assert self._responder is not None
        kind, start = opcode - opcodes.RC_WRITE_FIRST, flow.start
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
        return self._responder.receive(kind, word, address, rkey, length, imm, frame[body:end])

    def answer_waits(self) -> bool:
        """Whether an acknowledgement is due."""
        return self._responder is not None and self._responder.due

    def next_answer(self, port: int, now: int) -> bytes | None:
        """The acknowledgement that is due."""
        return None if self._responder is None else self._responder.transmit()
