"""MRC responder: places packets as they arrive, tells the requester what arrived, completes messages in order.

**Placement.** Every packet carries the address of its own bytes, the rkey and the length of its message, so it is
written at once, in any order, as soon as its own range lies inside the region. Where the message begins is told by its
First, Only or Last packet, or by the message before; until then its packets are held together by the difference of
address and PSN, which is the same in all of them. As soon as the beginning is known the whole message is checked, and
at once where every possible beginning is wrong. So a message that is not allowed changes nothing outside the region it
names, and nothing at all when it is known to be wrong before its first packet is placed (docs/protocol.md §10).

**Refusal.** From a message with a wrong rkey, bounds or rights on, nothing more is placed. Once all messages before
it are complete the peer gets a NAK and this queue pair goes to ERROR; later packets get the same NAK again.

**Completion.** The cumulative PSN passes a message only when everything before it is there, so messages complete in
order. A WRITE_WITH_IMM then gets an entry in the receive CQ; while that is full, completion and transport ACK wait.

**Acknowledgement.** When and what the peer is told is in ``acknowledger``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrc_host.transport.acknowledger import MAX_SACKS, RESTORES, Acknowledger
from mrc_host.transport.message import Message
from mrc_host.transport.peer import Peer
from mrc_host.values import Completion, CompletionOpcode, CompletionStatus
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.psn import HALF, MASK

if TYPE_CHECKING:
    from mrc_host.transport.mrc import MrcQueuePair

_MSN_RANGE: Final = 1 << 15  # how far apart 16-bit message numbers can be told
_SACK_NOW: Final = headers.ACK_REQUEST | headers.RTX
_MISFIT: Final = "A packet does not fit its message."


class Responder(Acknowledger):
    """Receiving half of an MRC queue pair."""

    __slots__ = (
        "_asked",
        "_max_wimm",
        "_memory",
        "_messages",
        "_most_open",
        "_mtu",
        "_reach",
        "_refused",
        "_starts",
        "_threshold",
        "_wimm_done",
    )

    def __init__(self, qp: MrcQueuePair, peer: Peer, first_psn: int) -> None:
        super().__init__(qp, peer, first_psn)
        attributes = qp.attributes
        self._memory = qp.host.memory
        self._mtu = attributes.path_mtu
        self._max_wimm = attributes.max_wimm
        settings = qp.host.transport
        self._threshold = settings.sack_threshold
        self._reach = min(self._window, settings.bitmap_range * 128)  # PSNs ahead that are accepted
        self._most_open = settings.open_messages
        self._asked = -1  # PSN of the newest packet with the A bit that came ahead of others; -1 for none
        self._messages: dict[int, Message] = {}
        self._starts: dict[int, int] = {0: first_psn}  # first PSN of messages, where known
        self._wimm_done = 0
        self._refused = -1  # first message that must not be placed

    # ---- data ---------------------------------------------------------------------------------------------------

    def receive(
        self, kind: int, word: int, rqmsn: int, msn16: int, stamp: int, address: int, rkey: int, length: int, imm: int,
        payload: memoryview, flow: Flow, plane: int, solicited: bool,
    ) -> Drop | None:  # fmt: skip
        """Take one data packet. `kind` is the segment kind, `word` the BTH's control word, `solicited` its SE bit."""
        expected = self.next_psn
        offset = ((word & MASK) - expected) & MASK
        size = len(payload)
        if offset >= self._reach:
            return self._out_of_window(offset, stamp, flow)
        bitmap = self._bitmap
        psn = expected + offset
        if bitmap >> offset & 1:
            self._units += flow.units
            self._duplicate(psn, word, stamp, flow)
            return None
        msn = self._next_msn + ((msn16 - self._next_msn) & 0xFFFF)
        message = self._messages.get(msn)
        if message is None:
            message = self._open(kind, psn, msn, address, rkey, length, size, flow, stamp)
            if message is None:
                return None
        mtu = self._mtu
        at = psn * mtu
        if address != message.origin + at or rkey != message.rkey or length != message.length:
            self._protocol_error(_MISFIT, psn, flow, stamp)
            return None
        if message.first < 0 and not self._place_unlocated(kind, psn, msn, size, message, flow, stamp):
            return None
        last = psn == message.last
        if message.first >= 0 and (
            psn < message.first
            or psn > message.last
            or size != (message.tail if last else mtu)
            or (kind >= opcodes.LAST) != last
            or (kind == 0 or kind >= opcodes.ONLY) != (psn == message.first)
        ):
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
        if psn > self._max:
            self._max = psn
        if not word & headers.RTX or len(self._sacks) >= MAX_SACKS:  # the SACK of a retransmission shows it
            low = self._low[plane]
            if low < 0 or psn < low:
                self._low[plane] = psn
            if psn > self._high[plane]:
                self._high[plane] = psn
        stats = self._stats
        stats.data_received += 1
        self._units += flow.units
        due = word & _SACK_NOW
        if offset:
            self._bitmap = bitmap | 1 << offset
            if due & headers.ACK_REQUEST and psn > self._asked:
                self._asked = psn
            stats.out_of_order_received += 1
            self._ooo += 1
        else:
            if bitmap:
                rest = bitmap >> 1
                ones = (~rest & (rest + 1)).bit_length() - 1
                self._bitmap = rest >> ones
                self.next_psn = psn + 1 + ones
            else:
                self.next_psn = psn + 1
            if message.last < self.next_psn:
                self._complete()
            if 0 <= self._asked < self.next_psn:
                self._asked = -1
                due = 1
        self._count += size if size > 1024 else 1024
        if self._marked and not flow.ce:
            self._marked.pop(flow.ev, None)
        if self._count >= self._threshold or flow.ce or due:
            self._sack(psn, flow, stamp, bool(word & headers.RTX))
        return None

    def _open(
        self, kind: int, psn: int, msn: int, address: int, rkey: int, length: int, size: int, flow: Flow, stamp: int
    ) -> Message | None:  # fmt: skip
        """First packet of a message to arrive; None when it must not be placed."""
        if self._refused >= 0 and msn >= self._refused:
            return None
        ahead = msn - self._next_msn
        if ahead >= _MSN_RANGE or not length:
            self._protocol_error("A message number or length is out of range.", psn, flow, stamp)
            return None
        if ahead >= self._most_open:
            self._nack(control.NACK_NO_RESOURCE, psn, flow, stamp)
            return None
        region = self._memory.remote(self._qp.pd, rkey, address, size)
        if region is None:
            self._refuse(msn, headers.NAK_REMOTE_ACCESS)
            return None
        mtu = self._mtu
        count = -(-length // mtu)
        message = Message(address - psn * mtu, count, length, length - (count - 1) * mtu, rkey, region)
        first = self._beginning(kind, psn, msn, count)
        if first >= 0:
            return message if self._locate(msn, message, first, psn, flow, stamp) else None
        lowest = max(psn - count + 2, self._starts[self._next_msn] + msn - self._next_msn)
        if lowest >= psn:
            self._protocol_error("Messages overlap.", psn, flow, stamp)
            return None
        if not message.fits(lowest, psn - 1, mtu):
            self._refuse(msn, headers.NAK_REMOTE_ACCESS)
            return None
        self._messages[msn] = message
        return message

    def _beginning(self, kind: int, psn: int, msn: int, count: int) -> int:
        """First PSN of a message, as one of its packets tells or the message before; -1 when neither does."""
        if kind == 0 or kind >= opcodes.ONLY:
            return psn
        if kind >= opcodes.LAST:
            return max(psn - count + 1, 0)
        return self._starts.get(msn, -1)

    def _place_unlocated(
        self, kind: int, psn: int, msn: int, size: int, message: Message, flow: Flow, stamp: int
    ) -> bool:
        """Whether a packet may be placed whose message's beginning was not known before it came."""
        if kind != opcodes.MIDDLE:
            return self._locate(msn, message, self._beginning(kind, psn, msn, message.count), psn, flow, stamp)
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
        """The beginning of a message is known: check all of it, and go on to the next one. False if it is not allowed.

        What is known of `message` may also settle messages after it; if one of those is wrong, this one still counts.
        """
        messages, starts = self._messages, self._starts
        asked = msn
        while True:
            behind = first + message.count
            if (
                starts.get(msn, first) != first
                or first < starts[self._next_msn] + msn - self._next_msn
                or message.lowest <= first
                or message.highest >= behind - 1
                or starts.get(msn + 1, behind) != behind
            ):
                self._protocol_error("Messages overlap.", psn, flow, stamp)
                return False
            if not message.fits(first, first, self._mtu):
                self._refuse(msn, headers.NAK_REMOTE_ACCESS)
                return msn != asked and self._qp.running
            message.first = first
            message.last = behind - 1
            messages[msn] = message
            starts[msn + 1] = behind
            later = messages.get(msn + 1)
            if later is None or later.first >= 0:
                return True
            msn, message, first = msn + 1, later, behind

    def _out_of_window(self, offset: int, stamp: int, flow: Flow) -> Drop | None:
        """Already acknowledged, or beyond what was promised (docs/protocol.md §10: far future NACK, ancient SACK).

        What was promised may reach further than the bitmap.
        """
        psn = self.next_psn + offset
        if offset < self._window:
            self._nack(control.NACK_NO_BITMAP, psn, flow, stamp)
        elif offset >= HALF:
            psn -= MASK + 1
            if psn >= self._first and not self._silent:
                self._units += flow.units
            return self._behind(psn, stamp, flow)
        elif not self._silent:
            self._nack(control.NACK_PSN_OOR_WINDOW, psn, flow, stamp)
        return None

    def _complete(self) -> None:
        """Complete messages that the cumulative PSN has passed, in order, as far as the receive CQ has room."""
        messages = self._messages
        message = messages.get(self._next_msn)
        while message is not None and message.last < self.next_psn:
            if message.with_imm:
                qp = self._qp
                if not qp.recv_cq.room(qp):
                    if not self._slow:
                        self._slow = True
                        self._slow_since = qp.host.now
                        self._stats.cq_full_events += 1
                    return
                if self._slow:
                    self.settle_stats(qp.host.now)
                    self._slow = False
                    self._restores = RESTORES
                self._wimm_done += 1
                qp.recv_cq.push(
                    Completion(
                        0,
                        qp.qpn,
                        CompletionOpcode.RECV_WRITE_WITH_IMM,
                        CompletionStatus.SUCCESS,
                        message.length,
                        message.imm,
                        solicited=message.solicited,
                    )
                )
            self._stats.write_requests += 1
            del messages[self._next_msn]
            self._starts.pop(self._next_msn, None)
            self._next_msn += 1
            self.ack_due = True
            message = messages.get(self._next_msn)
        if self.ack_due:
            self._qp.offer_control()
        if self._refused == self._next_msn:
            self._qp.refuse(self.nak)

    def settle_stats(self, now: int) -> None:
        """Count the time up to `now` in which the receive CQ was full."""
        if self._slow:
            self._stats.cq_full_ns += max(now - self._slow_since, 0)
            self._slow_since = now

    def room_again(self) -> None:
        """The receive CQ was polled."""
        self._complete()

    def _refuse(self, msn: int, syndrome: int) -> None:
        """Place nothing from message `msn` on; say so once everything before it is complete."""
        if self._refused < 0 or msn < self._refused:
            self._refused = msn
            self.nak = syndrome
            for later in [m for m in self._messages if m >= msn]:
                del self._messages[later]
        self._complete()

    def _protocol_error(self, reason: str, psn: int, flow: Flow, stamp: int) -> None:
        self._nack(control.NACK_UNEXP_EVENT, psn, flow, stamp)
        self._qp.fail_responder(reason)
