"""RC responder: accepts packets in order only, acknowledges when asked, reports the first gap once.

A message's address range is checked when its First or Only packet arrives, before anything is written. A packet
beyond the expected one is dropped and answered with a sequence error NAK, one a gap; one already seen is acknowledged
again. While the receive CQ is full, the last packet of a WRITE_WITH_IMM is dropped and answered with an RNR NAK, as
RoCE NICs do where no receive is posted; the requester sends it again when the time that the NAK names is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrc_host.transport.memory import Region
from mrc_host.transport.roce.link import Link
from mrc_host.values import Completion, CompletionOpcode, CompletionStatus
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import Drop
from mrc_host.wire.psn import HALF, MASK

if TYPE_CHECKING:
    from mrc_host.transport.roce.qp import RcQueuePair

RNR_TIMER: Final = 12  # 0.64 ms, as in the examples of rdma-core


class RcResponder:
    """Receiving half of an RC queue pair."""

    __slots__ = (
        "_at",
        "_expected",
        "_first",
        "_length",
        "_link",
        "_msn",
        "_mtu",
        "_nak_sent",
        "_qp",
        "_region",
        "_remaining",
        "_syndrome",
        "due",
        "fatal",
    )

    def __init__(self, qp: RcQueuePair, link: Link, first_psn: int) -> None:
        self._qp = qp
        self._link = link
        self._mtu = qp.attributes.path_mtu
        self._first = first_psn  # of this life
        self._expected = first_psn
        self._region: Region | None = None  # of the message being received
        self._at = 0  # offset of its next byte in the region
        self._length = 0
        self._remaining = 0
        self._msn = 0
        self._nak_sent = False
        self._syndrome = headers.SYNDROME_ACK
        self.due = False  # an answer is to be sent
        self.fatal = 0  # syndrome of the NAK that ended the queue pair

    def psns_used(self) -> int:
        """How many PSNs arrived."""
        return self._expected - self._first

    def receive(
        self, kind: int, word: int, address: int, rkey: int, length: int, imm: int, payload: memoryview
    ) -> Drop | None:
        """Take one data packet."""
        offset = ((word & MASK) - self._expected) & MASK
        stats = self._qp.stats
        if offset:
            if offset >= HALF:
                if self._expected + offset - MASK - 1 < self._first:
                    return Drop.OTHER_LIFE
                stats.duplicates_received += 1
                self._answer(headers.SYNDROME_ACK)
            elif not self._nak_sent:
                stats.out_of_order_received += 1
                self._nak_sent = True
                self._answer(headers.NAK_SEQUENCE)
            else:
                stats.out_of_order_received += 1
            return None
        starts = kind == 0 or kind >= opcodes.ONLY
        ends = kind >= opcodes.LAST
        if starts != (self._remaining == 0):
            self._end(headers.NAK_INVALID_REQUEST, "The peer's packets do not form whole messages.")
            return None
        size = len(payload)
        if starts:
            region = self._qp.host.memory.remote(self._qp.pd, rkey, address, length) if length else None
            at, remaining = (0, length) if region is None else (address - region.address, length)
        else:
            region, at, remaining = self._region, self._at, self._remaining
        if region is None or region.view is None:
            self._end(headers.NAK_REMOTE_ACCESS, "This NIC refused the peer's remote range.")
            return None
        if size != (remaining if ends else self._mtu) or (remaining == size) != ends:
            self._end(headers.NAK_INVALID_REQUEST, "A packet does not fit its message.")
            return None
        with_imm = kind == opcodes.LAST_IMM or kind == opcodes.ONLY_IMM
        qp = self._qp
        if with_imm and not qp.recv_cq.room(qp):
            self._nak_sent = True  # what follows is not a gap
            stats.cq_full_events += 1
            self._answer(headers.SYNDROME_RNR | RNR_TIMER)
            return None
        region.view[at : at + size] = payload
        if starts:
            self._length = length
        self._region, self._at, self._remaining = region, at + size, remaining - size
        self._expected += 1
        self._nak_sent = False
        stats.data_received += 1
        if ends:
            self._region = None
            self._msn += 1
            stats.write_requests += 1
            if with_imm:
                qp.recv_cq.push(
                    Completion(
                        0,
                        qp.qpn,
                        CompletionOpcode.RECV_WRITE_WITH_IMM,
                        CompletionStatus.SUCCESS,
                        self._length,
                        imm,
                    )
                )
        if word & headers.ACK_REQUEST:
            self._answer(headers.SYNDROME_ACK)
        return None

    def _answer(self, syndrome: int) -> None:
        self._syndrome = syndrome
        self.due = True
        self._qp.offer_control()

    def _end(self, syndrome: int, reason: str) -> None:
        self.fatal = syndrome
        stats = self._qp.stats
        if syndrome == headers.NAK_REMOTE_ACCESS:
            stats.access_refused += 1
        else:
            stats.operation_refused += 1
        self._answer(syndrome)
        self._qp.fail_responder(reason)

    def repeat(self) -> None:
        """The peer sends on after the fatal NAK: say it again."""
        self._answer(self.fatal)

    def transmit(self) -> bytes | None:
        """The answer that is due."""
        if not self.due:
            return None
        self.due = False
        self._qp.stats.acks_sent += 1
        psn = self._expected - 1 if self._syndrome == headers.SYNDROME_ACK else self._expected
        body = headers.pack_aeth(opcodes.RC_ACK, self._qp.remote_qpn, psn & MASK, self._syndrome, self._msn)
        return self._link.control_frame(body)
