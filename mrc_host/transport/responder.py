"""MRC responder: places packets as they arrive, acknowledges them, completes messages in order.

**Placement.** Every packet carries the address of its own bytes, and the rkey and length of its message, so it is
placed at once, in any order, if its own range lies inside the region. The First, Only or Last packet says where the
message starts, or the message before it does; until then, packets of one message are recognised by the difference of
address and PSN, which is the same in all of them. Once the start is known the whole message is checked; and at any time
if every possible start would be wrong. So a message that is not allowed changes nothing outside the region that it
names, and nothing at all if it is known to be wrong before its first packet is placed (docs/protocol.md §10).

**Refusal.** From the first message with a wrong rkey, bounds or rights on, nothing more is placed, nor from the first
that begins while the queue pair takes no writes. Once all messages before it are complete, the peer gets a NAK and this
queue pair goes to ERROR; later packets get the same NAK again.

**Completion.** The cumulative PSN passes a message only when everything before it has arrived, so messages complete in
order. A WRITE_WITH_IMM then adds an entry to the receive CQ; while that is full, completion and transport ACK wait.

**Carried packets.** The datapath in C (``datapath/placement.h``) places those that need none of this: they belong to a
message whose start is known, and do not complete it.

**Parts.** ``datapath/receive_state.h`` holds what arrived, in C alone, ``incoming_messages`` the incomplete messages;
``ack_generator`` produces acknowledgements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrc_host.transport.ack_generator import AckGenerator
from mrc_host.transport.incoming_messages import LOCATED, OVERLAP, IncomingMessages
from mrc_host.transport.memory import empty_region
from mrc_host.transport.message import Message
from mrc_host.transport.naks import refusal
from mrc_host.transport.queue_pair_interfaces import AnswerPaths, Connection, ReceivingHalf, ResponderOwner
from mrc_host.transport.stats import ArrivalCounts
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.psn import MASK

if TYPE_CHECKING:
    from mrc_host.datapath import native

_MSN_RANGE: Final = 1 << 15  # distance up to which 16-bit message numbers are unambiguous
_MISFIT: Final = "A packet does not fit its message."
_OVERLAP: Final = "Messages overlap."


class Responder(ReceivingHalf):
    """Receiving half of an MRC queue pair."""

    __slots__ = (
        "_cq_full",
        "_cq_full_since",
        "_max_open",
        "_max_wimm",
        "_mtu",
        "_nic",
        "_owner",
        "_pd",
        "_reach",
        "_refused",
        "_stats",
        "_wimm_done",
        "acks",
        "messages",
        "received",
    )

    def __init__(
        self,
        owner: ResponderOwner,
        connection: Connection,
        paths: AnswerPaths,
        source: bytes,
        planes: int,
        first_psn: int,
        sack_threshold: int,
        each: bool = False,
    ) -> None:
        """`source` is the peer's address.

        A SACK is due after `sack_threshold` bytes; with `each`, one that has not left gives way to no newer one.
        """
        attributes, settings = connection.attributes, connection.nic.transport
        self._owner = owner
        self._nic = connection.nic
        self._stats = connection.stats
        self._pd = connection.pd
        self._mtu = attributes.path_mtu
        self._max_wimm = attributes.max_wimm
        window = max(attributes.mpr, attributes.dynamic_mpr) * 128 - 1
        self._reach = min(window, settings.bitmap_range * 128)  # PSNs ahead of the cumulative one that are accepted
        self._max_open = settings.max_inflight_messages
        self.received: native.ReceiveState = connection.nic.datapath.receive_state(
            connection.qpn, source, first_psn, self._mtu, self._reach, sack_threshold, planes
        )
        super().__init__(ArrivalCounts(connection.stats, self.received))
        self.received.carries = not settings.always_skip_marks  # these count what each packet of a path says
        self.messages = IncomingMessages(first_psn, self._mtu)
        self.acks = AckGenerator(owner, connection, paths, self.received, each)
        self._wimm_done = 0
        self._refused = -1  # first message that must not be placed, -1 for none
        self._cq_full = False  # a completion waits for room in the receive CQ
        self._cq_full_since = 0

    # ---- data ---------------------------------------------------------------------------------------------------

    def receive(
        self, kind: int, word: int, rqmsn: int, msn16: int, stamp: int, address: int, rkey: int, length: int, imm: int,
        payload: memoryview, flow: Flow, plane: int, solicited: bool,
    ) -> Drop | None:  # fmt: skip
        """Handle a data packet. `kind` is the segment kind, `word` the BTH's control word, `solicited` its SE bit."""
        received, messages, mtu = self.received, self.messages, self._mtu
        expected = received.next_psn
        offset = ((word & MASK) - expected) & MASK
        if offset >= self._reach:
            return self.acks.out_of_window(offset, stamp, flow)
        psn = expected + offset
        if received.has(psn):
            received.units += flow.units
            self.acks.duplicate(psn, word, stamp, flow)
            return None
        size = len(payload)
        msn = messages.next_msn + ((msn16 - messages.next_msn) & 0xFFFF)
        message = messages.open.get(msn)
        if message is None:
            message = self._open(kind, psn, msn, address, rkey, length, size, flow, stamp)
            if message is None:
                return None
        at = psn * mtu
        if address != message.origin + at or rkey != message.rkey or length != message.length:
            self._protocol_error(_MISFIT, psn, flow, stamp)
            return None
        if message.first < 0 and not self._place_unlocated(kind, psn, msn, size, message, flow, stamp):
            return None
        if message.first >= 0 and not message.has_place_for(kind, psn, size, mtu):
            self._protocol_error(_MISFIT, psn, flow, stamp)
            return None
        view = message.region.view
        if view is None:
            self._refuse(msn, headers.NAK_REMOTE_ACCESS)
            return None
        if kind == opcodes.LAST_IMM or kind == opcodes.ONLY_IMM:
            if self._max_wimm <= (rqmsn - self._wimm_done) & 0xFFFF < 0x8000:
                self._refuse(msn, headers.NAK_REMOTE_OPERATION)
                return None
            message.with_imm = True
            message.imm = imm
            message.solicited = solicited
        at += message.offset
        view[at : at + size] = payload
        due = self.acks.arrived(psn, word, size, plane, flow)
        if not offset and message.last < received.next_psn:
            self._complete()
        elif message.count > 1 and message.first >= 0 and not message.included:
            self._include(msn, message)
        if due:
            self.acks.due(psn, flow, stamp, bool(word & headers.RTX))
        return None

    def _include(self, msn: int, message: Message) -> None:
        """The start of a message is known: the datapath in C may place its packets."""
        message.included = True
        start = message.first * self._mtu
        self.received.include(
            msn, message.first, message.last, self._nic.datapath.placed(message.region), message.offset + start,
            message.origin + start, message.rkey, message.length,
        )  # fmt: skip

    def psns_used(self) -> int:
        """How many PSNs there are up to the highest one accepted."""
        return self.received.max_psn + 1 - self.received.first_psn

    def stop_placing(self) -> None:
        """The queue pair is in ERROR: the datapath in C places nothing more."""
        self.received.carries = False

    def close(self) -> None:
        """The queue pair leaves this connection."""
        self.counts.collect()
        self.received.close()

    def repeat_nak(self) -> bool:
        """The peer still sends after the queue pair ended: have the NAK sent again; False if none ended it."""
        if not self.acks.nak:
            return False
        self.acks.nak_due = True
        self._owner.offer_control()
        return True

    def _open(
        self, kind: int, psn: int, msn: int, address: int, rkey: int, length: int, size: int, flow: Flow, stamp: int
    ) -> Message | None:  # fmt: skip
        """The first packet of a message arrived, in any order; None when the message must not be placed."""
        if self._refused >= 0 and msn >= self._refused:
            return None
        messages = self.messages
        ahead = msn - messages.next_msn
        if ahead >= _MSN_RANGE:
            self._protocol_error("A message number is out of range.", psn, flow, stamp)
            return None
        if ahead >= self._max_open:
            self.acks.send_nack(control.NACK_NO_RESOURCE, psn, flow, stamp)
            return None
        if not self._owner.accepts_writes():
            self._refuse(msn, headers.NAK_INVALID_REQUEST)
            return None
        memory = self._nic.memory
        region = memory.remote(self._pd, rkey, address, size) if length else empty_region(address)
        if region is None:
            self._refuse(msn, headers.NAK_REMOTE_ACCESS)
            return None
        mtu = self._mtu
        count = -(-length // mtu) or 1
        message = Message(address - psn * mtu, count, length, length - (count - 1) * mtu, rkey, region)
        first = messages.beginning(kind, psn, msn, count)
        if first >= 0:
            return message if self._locate(msn, message, first, psn, flow, stamp) else None
        lowest = max(psn - count + 2, messages.lowest_start(msn))
        if lowest >= psn:
            self._protocol_error(_OVERLAP, psn, flow, stamp)
            return None
        if not message.fits(lowest, psn - 1, mtu):
            self._refuse(msn, headers.NAK_REMOTE_ACCESS)
            return None
        messages.open[msn] = message
        return message

    def _place_unlocated(
        self, kind: int, psn: int, msn: int, size: int, message: Message, flow: Flow, stamp: int
    ) -> bool:
        """Whether to place a packet of a message whose start was not known before it arrived."""
        if kind != opcodes.MIDDLE:
            first = self.messages.beginning(kind, psn, msn, message.count)
            return self._locate(msn, message, first, psn, flow, stamp)
        at = message.offset + psn * self._mtu
        if size != self._mtu:
            self._protocol_error(_MISFIT, psn, flow, stamp)
            return False
        if at < 0 or at + size > message.region.length:
            self._refuse(msn, headers.NAK_REMOTE_ACCESS)
            return False
        message.lowest = min(message.lowest, psn)
        message.highest = max(message.highest, psn)
        return True

    def _locate(self, msn: int, message: Message, first: int, psn: int, flow: Flow, stamp: int) -> bool:
        """The start of a message is known: False if it must not be placed. A message after it may turn out so too."""
        found = self.messages.locate(msn, message, first)
        if found == LOCATED:
            return True
        if found == OVERLAP:
            self._protocol_error(_OVERLAP, psn, flow, stamp)
            return False
        self._refuse(found, headers.NAK_REMOTE_ACCESS)
        return found != msn and self._refused > self.messages.next_msn

    def _complete(self) -> None:
        """Complete messages that the cumulative PSN has passed, in order, while the receive CQ has room."""
        messages, next_psn = self.messages, self.received.next_psn
        message = messages.open.get(messages.next_msn)
        while message is not None and message.last < next_psn:
            if message.with_imm:
                if not self._owner.has_cq_room():
                    self._wait_for_room()
                    break
                if self._cq_full:
                    self.settle_stats(self._nic.now)
                    self._cq_full = False
                    self.acks.receive_queue_has_room()
                self._wimm_done += 1
                self._owner.complete_receive(message.length, message.imm, message.solicited)
            self._stats.write_requests += 1
            if message.included:
                self.received.forget(messages.next_msn)
            messages.complete()
            self.acks.message_completed()
            message = messages.open.get(messages.next_msn)
        if self.acks.ack_due:
            self._owner.offer_control()
        if self._refused == messages.next_msn:
            self.acks.nak_due = True
            self._owner.refuse(self.acks.nak, refusal(self.acks.nak))

    def _wait_for_room(self) -> None:
        """The receive CQ is full."""
        if not self._cq_full:
            self._cq_full = True
            self._cq_full_since = self._nic.now
            self._stats.cq_full_events += 1
            self.acks.receive_queue_full()

    def settle_stats(self, now: int) -> None:
        """Add the time up to `now` for which the receive CQ was full."""
        if self._cq_full:
            self._stats.cq_full_ns += max(now - self._cq_full_since, 0)
            self._cq_full_since = now

    def on_cq_room(self) -> None:
        """The receive CQ was polled."""
        self._complete()

    def _refuse(self, msn: int, syndrome: int) -> None:
        """Place nothing from message `msn` on; send the NAK once everything before it is complete."""
        if self._refused < 0 or msn < self._refused:
            self._refused = msn
            self.received.carries = False
            self.acks.nak = syndrome
            self.messages.drop_from(msn)
        self._complete()

    def _protocol_error(self, reason: str, psn: int, flow: Flow, stamp: int) -> None:
        self.acks.send_nack(control.NACK_UNEXP_EVENT, psn, flow, stamp)
        self._owner.fail_responder(reason)
