"""RC responder: accepts packets in order only, acknowledges on request, reports the first gap once.

A message's address range, and whether the queue pair takes writes, is checked when its First or Only packet arrives,
before anything is written. A packet beyond
the expected one is dropped and answered with a sequence error NAK, one per gap; a duplicate is acknowledged again.
While the receive CQ is full, the last packet of a WRITE_WITH_IMM is dropped and answered with an RNR NAK, as RoCE NICs
do when no receive is posted; the requester sends it again after the time that the NAK specifies.

The datapath in C places packets in the middle of a message and drops those behind a gap that was reported
(``datapath/rc_receive_state.h``). The expected PSN, and where the message under way goes, are there alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrc_host.transport.memory import Region, empty_region
from mrc_host.transport.queue_pair_interfaces import Connection, ReceivingHalf, ResponderOwner
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.stats import ArrivalCounts
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import Drop
from mrc_host.wire.psn import HALF, MASK

if TYPE_CHECKING:
    from mrc_host.datapath import native

RNR_TIMER: Final = 12  # 0.64 ms, as in the examples of rdma-core
_RNR: Final = headers.SYNDROME_RNR | RNR_TIMER


class RcResponder(ReceivingHalf):
    """Receiving half of an RC queue pair."""

    __slots__ = (
        "_datapath",
        "_fatal",
        "_first",
        "_length",
        "_memory",
        "_msn",
        "_mtu",
        "_owner",
        "_path",
        "_pd",
        "_region",
        "_remote_qpn",
        "_stats",
        "_syndrome",
        "due",
        "received",
    )

    def __init__(
        self, owner: ResponderOwner, connection: Connection, path: RcPath, source: bytes, first_psn: int
    ) -> None:
        """`source` is the peer's address."""
        self._owner = owner
        self._memory = connection.nic.memory
        self._pd = connection.pd
        self._remote_qpn = connection.remote_qpn
        self._stats = connection.stats
        self._path = path
        self._mtu = connection.attributes.path_mtu
        self._first = first_psn  # of this life
        self._datapath = connection.nic.datapath
        self.received: native.RcReceiveState = self._datapath.rc_receive_state(
            connection.qpn, source, first_psn, self._mtu
        )
        super().__init__(ArrivalCounts(connection.stats, self.received))
        self._region: Region | None = None  # of the message being received
        self._length = 0
        self._msn = 0
        self._syndrome = headers.SYNDROME_ACK
        self.due = False  # an acknowledgement is to be sent
        self._fatal = 0  # syndrome of the NAK that ended the queue pair

    def psns_used(self) -> int:
        """How many PSNs arrived."""
        return self.received.next_psn - self._first

    def receive(
        self, kind: int, word: int, address: int, rkey: int, length: int, imm: int, payload: memoryview
    ) -> Drop | None:
        """Handle a data packet."""
        received = self.received
        offset = ((word & MASK) - received.next_psn) & MASK
        if offset:
            return self._not_expected(offset)
        starts = kind == 0 or kind >= opcodes.ONLY
        ends = kind >= opcodes.LAST
        remaining = received.remaining
        if starts != (remaining == 0):
            self._end(headers.NAK_INVALID_REQUEST, "The peer's packets do not form whole messages.")
            return None
        size = len(payload)
        if starts and not self._owner.accepts_writes():
            self._end(headers.NAK_INVALID_REQUEST, "This NIC refused the peer's write: the queue pair takes none.")
            return None
        if starts:
            region = self._memory.remote(self._pd, rkey, address, length) if length else empty_region(address)
            at, remaining = (0, length) if region is None else (address - region.address, length)
        else:
            region, at, length = self._region, received.at, self._length
        if region is None or region.view is None:
            self._end(headers.NAK_REMOTE_ACCESS, "This NIC refused the peer's remote range.")
            return None
        if not (size == remaining <= self._mtu if ends else size == self._mtu < remaining):
            self._end(headers.NAK_INVALID_REQUEST, "A packet does not fit its message.")
            return None
        with_imm = kind == opcodes.LAST_IMM or kind == opcodes.ONLY_IMM
        if with_imm and not self._owner.has_cq_room():
            received.gap = True  # which needs no other report: the packets that follow are ahead of this one
            self._stats.cq_full_events += 1
            self._answer(_RNR)
            return None
        region.view[at : at + size] = payload
        self._region, self._length = region, length
        remaining -= size
        received.add(self._datapath.placed(region) if remaining else None, at + size, remaining)
        if ends:
            self._complete(with_imm, imm)
        if word & headers.ACK_REQUEST:
            self.answer_due()
        return None

    def stop_placing(self) -> None:
        """The queue pair is in ERROR: the datapath in C places nothing more."""
        self.received.carries = False

    def close(self) -> None:
        """The queue pair leaves this connection."""
        self.counts.collect()
        self.received.close()

    def answer_due(self) -> None:
        """A packet that requests an acknowledgement has arrived."""
        self._answer(headers.SYNDROME_ACK)

    def on_cq_room(self) -> None:
        """Does nothing: the peer sends the dropped packet again by itself."""

    def settle_stats(self, now: int) -> None:
        """Does nothing: no duration is measured here."""

    def _not_expected(self, offset: int) -> Drop | None:
        """A packet arrived `offset` PSNs ahead of the expected one: a duplicate, or after a gap."""
        stats = self._stats
        if offset >= HALF:
            if self.received.next_psn + offset - MASK - 1 < self._first:
                return Drop.OTHER_LIFE
            stats.duplicates_received += 1
            if not self.due:  # a NAK acknowledges, too, what is here
                self._answer(headers.SYNDROME_ACK)
            return None
        if self.received.drop_ahead():
            self._answer(headers.NAK_SEQUENCE)
        return None

    def _complete(self, with_imm: bool, imm: int) -> None:
        """The last packet of a message was placed."""
        self._region = None
        self._msn += 1
        self._stats.write_requests += 1
        if with_imm:
            self._owner.complete_receive(self._length, imm, False)
            if self._syndrome == _RNR:  # which may not have left yet
                self._syndrome = headers.SYNDROME_ACK

    def _answer(self, syndrome: int) -> None:
        self._syndrome = syndrome
        self.due = True
        self._owner.offer_control()

    def _end(self, syndrome: int, reason: str) -> None:
        self._fatal = self._syndrome = syndrome
        self.due = True
        self._owner.refuse(syndrome, reason)

    def repeat_nak(self) -> bool:
        """The peer still sends after the queue pair ended: have the NAK sent again; False if none ended it."""
        if self._fatal:
            self._answer(self._fatal)
        return self._fatal != 0

    def transmit(self) -> bytes | None:
        """The acknowledgement that is due."""
        if not self.due:
            return None
        self.due = False
        self._stats.acks_sent += 1
        psn = self.received.next_psn
        if self._syndrome == headers.SYNDROME_ACK:
            psn -= 1
        body = headers.pack_aeth(opcodes.RC_ACK, self._remote_qpn, psn & MASK, self._syndrome, self._msn)
        return self._path.control_frame(body)
