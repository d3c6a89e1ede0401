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

**Acknowledgement.** A SACK is due (docs/protocol.md §2) after ``sack_threshold`` bytes, on the A bit, on an ECN mark,
on a retransmission, and on a probe. The A bit of a packet that came ahead of others is honoured once more when these
have come: nothing else would tell the sender of the last arrivals, and how many were duplicates. Newer SACKs replace
older ones not sent yet, except where these say something of their own: a mark, a probe's answer, which transmission
of a repeated packet arrived. A SACK shows 64 PSNs. Since planes advance at different PSNs, what arrived on each plane
and was not shown yet is remembered, and when one bitmap cannot show it all, another SACK follows. Its count of received
bytes includes duplicates. While the receive CQ is full, SACKs ask the sender to shrink its window, and to restore it
afterwards.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mrc_host.config import OutOfWindow
from mrc_host.transport.memory import Region
from mrc_host.transport.peer import CONTROL, Peer
from mrc_host.values import Completion, CompletionOpcode, CompletionStatus
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Flow
from mrc_host.wire.psn import HALF, MASK

if TYPE_CHECKING:
    from mrc_host.transport.mrc import MrcQueuePair

_MAX_NACKS: Final = 256
_MAX_SACKS: Final = 64
_LEAST_RANGE: Final = 8  # units of 128 PSNs; no responder may offer less
_MAX_MESSAGES: Final = 1 << 14  # incomplete messages at once; the 16-bit MSN tells no more than 2**15 apart
_SACK_NOW: Final = headers.ACK_REQUEST | headers.RTX
_NO_ENTROPY: Final = 0xFFFFFFFF  # a SACK that answers no packet in particular
_ALL: Final = (1 << control.SACK_BITS) - 1
_UNKNOWN: Final = 1 << 62  # last PSN of a message whose beginning is not known
_MISFIT: Final = "A packet does not fit its message."
_PENALTY: Final = 64  # of 127: halves the sender's window in a round trip
_RESTORES: Final = 4  # SACKs that ask to restore the window, as some may be lost


class _Message:
    """A message of which something arrived. `first` is -1 and `last` far away until its beginning is known."""

    __slots__ = (
        "count",
        "first",
        "highest",
        "imm",
        "last",
        "length",
        "lowest",
        "offset",
        "origin",
        "region",
        "rkey",
        "tail",
        "with_imm",
    )

    def __init__(self, origin: int, count: int, length: int, tail: int, rkey: int, region: Region) -> None:
        self.first = -1  # PSN
        self.last = _UNKNOWN
        self.origin = origin  # address of a packet less its PSN times the path MTU: the same in all of them
        self.offset = origin - region.address
        self.count = count  # packets
        self.length = length
        self.tail = tail  # bytes in the last packet
        self.rkey = rkey
        self.region = region
        self.lowest = _UNKNOWN  # PSNs placed before the beginning was known
        self.highest = -1
        self.with_imm = False
        self.imm = 0

    def fits(self, lowest: int, highest: int, mtu: int) -> bool:
        """Whether the message lies in its region for some beginning between two PSNs."""
        region = self.region
        least = -(self.offset // mtu)  # the first PSN at or after the region's first byte
        most = (region.length - self.length - self.offset) // mtu
        return max(lowest, least) <= min(highest, most)


class _Trigger:
    """Why a SACK is due: the packet it answers."""

    __slots__ = ("again", "entropy", "keep", "mark", "probe_id", "psn", "stamp")

    def __init__(self, psn: int, entropy: int, stamp: int, mark: int, probe_id: int, again: bool = False) -> None:
        self.again = again  # a packet that was sent more than once
        self.keep = again or bool(mark) or probe_id >= 0  # no newer SACK says the same
        self.psn = psn
        self.entropy = entropy
        self.stamp = stamp
        self.mark = mark
        self.probe_id = probe_id  # -1: not a probe


class Responder:
    """Receiving half of an MRC queue pair."""

    __slots__ = (
        "_asked",
        "_bitmap",
        "_cap",
        "_count",
        "_first_psn",
        "_high",
        "_low",
        "_max",
        "_max_wimm",
        "_memory",
        "_messages",
        "_mtu",
        "_nacks",
        "_next_msn",
        "_offer",
        "_ooo",
        "_peer",
        "_qp",
        "_refused",
        "_remote_qpn",
        "_restores",
        "_sacks",
        "_silent",
        "_slow",
        "_starts",
        "_stats",
        "_threshold",
        "_units",
        "_wimm_done",
        "_window",
        "ack_due",
        "nak",
        "next_psn",
    )

    def __init__(self, qp: MrcQueuePair, peer: Peer, first_psn: int) -> None:
        attributes = qp.attributes
        self._qp = qp
        self._peer = peer
        self._memory = qp.host.memory
        self._stats = qp.stats
        self._remote_qpn = qp.remote_qpn
        self._mtu = attributes.path_mtu
        self._cap = attributes.dynamic_mpr
        self._offer = min(attributes.mpr, self._cap)  # units of 128 PSNs that SACKs offer, 0 when fixed
        self._window = max(attributes.mpr, self._cap) * 128 - 1
        self._silent = qp.host.settings.out_of_window is OutOfWindow.DROP
        self._max_wimm = attributes.max_wimm
        self._threshold = qp.host.transport.sack_threshold
        # packets
        self.next_psn = first_psn  # cack + 1
        self._bitmap = 0  # bit i: next_psn + i arrived; bit 0 is never set
        self._max = first_psn - 1
        self._low = [-1] * len(peer.members)  # by plane: oldest PSN that arrived and was not shown in a SACK, -1 none
        self._high = [-1] * len(peer.members)
        self._units = 0  # received bytes in units of 256
        self._ooo = 0
        # messages
        self._messages: dict[int, _Message] = {}
        self._starts: dict[int, int] = {0: first_psn}  # first PSN of messages, where known
        self._next_msn = 0  # first incomplete message
        self._wimm_done = 0
        self._refused = -1  # first message that must not be placed
        self._slow = False  # a completion waits for room in the receive CQ
        self._restores = 0
        # answers due
        self._count = 0
        self._asked = -1  # PSN of the newest packet with the A bit that came ahead of others; -1 for none
        self._sacks: deque[_Trigger] = deque()
        self._nacks: deque[Nack] = deque()
        self.ack_due = False
        self.nak = 0  # syndrome of the NAK that ended this queue pair

    # ---- data ---------------------------------------------------------------------------------------------------

    def receive(
        self, kind: int, word: int, rqmsn: int, msn16: int, stamp: int, address: int, rkey: int, length: int, imm: int,
        payload: memoryview, flow: Flow, plane: int,
    ) -> None:  # fmt: skip
        """Take one data packet. `kind` is the segment kind, `word` the BTH's control word."""
        expected = self.next_psn
        offset = ((word & MASK) - expected) & MASK
        size = len(payload)
        if offset >= self._window:
            self._out_of_window(offset, word, size, stamp, flow)
            return
        bitmap = self._bitmap
        psn = expected + offset
        if bitmap >> offset & 1:
            self._stats.duplicates_received += 1
            self._units += (size + 255) >> 8
            if word & headers.RTX:
                self._peer.distrust_reverse()
            self._sack(psn, flow, stamp, True)
            return
        msn = self._next_msn + ((msn16 - self._next_msn) & 0xFFFF)
        message = self._messages.get(msn)
        if message is None:
            message = self._open(kind, psn, msn, address, rkey, length, size, flow, stamp)
            if message is None:
                return
        mtu = self._mtu
        at = psn * mtu
        if address != message.origin + at or rkey != message.rkey or length != message.length:
            self._protocol_error(_MISFIT, psn, flow, stamp)
            return
        if message.first < 0 and not self._place_unlocated(kind, psn, msn, size, message, flow, stamp):
            return
        last = psn == message.last
        if message.first >= 0 and (
            psn < message.first
            or psn > message.last
            or size != (message.tail if last else mtu)
            or (kind >= opcodes.LAST) != last
            or (kind == 0 or kind >= opcodes.ONLY) != (psn == message.first)
        ):
            self._protocol_error(_MISFIT, psn, flow, stamp)
            return
        view = message.region.view
        if view is None:
            self._refuse(msn, headers.NAK_REMOTE_ACCESS)
            return
        if kind == opcodes.LAST_IMM or kind == opcodes.ONLY_IMM:
            if self._max_wimm <= (rqmsn - self._wimm_done) & 0xFFFF < 0x8000:
                self._refuse(msn, headers.NAK_REMOTE_OPERATION)
                return
            message.with_imm = True
            message.imm = imm
        at += message.offset
        view[at : at + size] = payload
        if psn > self._max:
            self._max = psn
        if not word & headers.RTX or len(self._sacks) >= _MAX_SACKS:  # the SACK of a retransmission shows it
            low = self._low[plane]
            if low < 0 or psn < low:
                self._low[plane] = psn
            if psn > self._high[plane]:
                self._high[plane] = psn
        stats = self._stats
        stats.data_received += 1
        self._units += (size + 255) >> 8
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
        if self._count >= self._threshold or flow.ce or due:
            self._sack(psn, flow, stamp, bool(word & headers.RTX))

    def _open(
        self, kind: int, psn: int, msn: int, address: int, rkey: int, length: int, size: int, flow: Flow, stamp: int
    ) -> _Message | None:  # fmt: skip
        """First packet of a message to arrive; None when it must not be placed."""
        if self._refused >= 0 and msn >= self._refused:
            return None
        if msn - self._next_msn >= _MAX_MESSAGES or not length:
            self._protocol_error("A message number or length is out of range.", psn, flow, stamp)
            return None
        region = self._memory.remote(self._qp.pd, rkey, address, size)
        if region is None:
            self._refuse(msn, headers.NAK_REMOTE_ACCESS)
            return None
        mtu = self._mtu
        count = -(-length // mtu)
        message = _Message(address - psn * mtu, count, length, length - (count - 1) * mtu, rkey, region)
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
        self, kind: int, psn: int, msn: int, size: int, message: _Message, flow: Flow, stamp: int
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

    def _locate(self, msn: int, message: _Message, first: int, psn: int, flow: Flow, stamp: int) -> bool:
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

    def _out_of_window(self, offset: int, word: int, size: int, stamp: int, flow: Flow) -> None:
        """Already acknowledged, or beyond what was promised (docs/protocol.md §10: far future NACK, ancient SACK)."""
        psn = self.next_psn + offset
        if self._silent:
            self._stats.duplicates_received += offset >= HALF
            return
        if offset < HALF:
            self._nack(control.NACK_PSN_OOR_WINDOW, psn, flow, stamp)
            return
        self._stats.duplicates_received += 1
        self._units += (size + 255) >> 8
        self.ack_due = True
        self._peer.distrust_reverse()
        self._sack(psn - MASK - 1, flow, stamp, True)

    def _complete(self) -> None:
        """Complete messages that the cumulative PSN has passed, in order, as far as the receive CQ has room."""
        messages = self._messages
        message = messages.get(self._next_msn)
        while message is not None and message.last < self.next_psn:
            if message.with_imm:
                qp = self._qp
                if not qp.recv_cq.room(qp):
                    self._slow = True
                    return
                if self._slow:
                    self._slow = False
                    self._restores = _RESTORES
                self._wimm_done += 1
                qp.recv_cq.push(
                    Completion(
                        0,
                        qp.qpn,
                        CompletionOpcode.RECV_WRITE_WITH_IMM,
                        CompletionStatus.SUCCESS,
                        message.length,
                        message.imm,
                    )
                )
            del messages[self._next_msn]
            self._starts.pop(self._next_msn, None)
            self._next_msn += 1
            self.ack_due = True
            message = messages.get(self._next_msn)
        if self.ack_due:
            self._qp.offer_control()
        if self._refused == self._next_msn:
            self._qp.refuse(self.nak)

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

    # ---- what needs no placement --------------------------------------------------------------------------------

    def trimmed(self, word: int, stamp: int, flow: Flow, lasthop: bool) -> None:
        """A packet came without its payload: ask for it again if it is missing."""
        offset = ((word & MASK) - self.next_psn) & MASK
        if offset < self._window and not self._bitmap >> offset & 1:
            reason = control.NACK_TRIMMED_LASTHOP if lasthop else control.NACK_TRIMMED
            self._nack(reason, self.next_psn + offset, flow, stamp)

    def probe(self, probe_id: int, stamp: int, flow: Flow) -> None:
        """Answer a reliability probe; the transport ACK may have been lost too, so it is repeated.

        Who asks although everything was acknowledged has not heard of it: the answer takes another way back.
        """
        if not self._count:
            self._peer.distrust_reverse()
        self.ack_due = self.ack_due or self._next_msn > 0
        self._count = 0
        mark = control.MARK_SKIP_ONCE if flow.ce else control.MARK_NONE
        self._queue_sack(_Trigger(self._max, flow.ev, stamp, mark, probe_id))

    # ---- answers ------------------------------------------------------------------------------------------------

    def _nack(self, reason: int, psn: int, flow: Flow, stamp: int) -> None:
        if len(self._nacks) < _MAX_NACKS:
            qp = self._qp
            self._nacks.append(Nack(reason, flow.ev, qp.qpn & 0xFFFF, self._remote_qpn & 0xFFFF, psn & MASK, stamp))
            qp.offer_control()

    def _sack(self, psn: int, flow: Flow, stamp: int, again: bool = False) -> None:
        self._count = 0
        mark = control.MARK_SKIP_ONCE if flow.ce else control.MARK_NONE
        self._queue_sack(_Trigger(psn, flow.ev, stamp, mark, -1, again))

    def _queue_sack(self, trigger: _Trigger) -> None:
        """A newer SACK says all that an older one would, except what is kept."""
        sacks = self._sacks
        if sacks and not sacks[-1].keep:
            sacks[-1] = trigger
        elif len(sacks) < _MAX_SACKS:
            sacks.append(trigger)
        self._qp.offer_control()

    def pending(self) -> bool:
        """Whether an answer is due."""
        return bool(self._sacks or self._nacks or self.ack_due)

    def transmit(self, plane: int, now: int) -> bytes | None:
        """Next answer, to leave on `plane`."""
        peer = self._peer
        index = peer.way_back(plane, now) if self._nacks or self._sacks or self.ack_due else -1
        if index < 0:
            return None
        if self._nacks:
            body = control.pack_nack(self._remote_qpn, self._nacks.popleft())
        elif self._sacks:
            body = self._build_sack(self._sacks.popleft())
            peer.acknowledging(now)
        else:
            self.ack_due = False
            psn = (self.next_psn - 1) & MASK
            body = headers.pack_aeth(opcodes.TRANSPORT_ACK, self._remote_qpn, psn, headers.SYNDROME_ACK, self._next_msn)
        self._stats.acks_sent += 1
        return peer.frame(index, CONTROL, body)

    def build_nak(self, plane: int, now: int) -> bytes | None:
        """The NAK that tells why this queue pair ended."""
        index = self._peer.way_back(plane, now)
        if index < 0:
            return None
        self._stats.acks_sent += 1
        psn = (self.next_psn) & MASK
        body = headers.pack_aeth(opcodes.TRANSPORT_ACK, self._remote_qpn, psn, self.nak, self._next_msn)
        return self._peer.frame(index, CONTROL, body)

    def _build_sack(self, trigger: _Trigger) -> bytes:
        base = self._choose_base(trigger.probe_id >= 0, trigger.psn if trigger.again else -1)
        cack = self.next_psn - 1
        if trigger.probe_id >= 0:
            offset = trigger.probe_id - 0x10000 if trigger.probe_id & 0x8000 else trigger.probe_id
        else:
            offset = max(-0x8000, min(0x7FFF, trigger.psn - cack))
        qp = self._qp
        restore = self._restores > 0 and not self._slow
        if restore:
            self._restores -= 1
        return control.pack_sack(
            self._remote_qpn,
            Sack(
                mark=trigger.mark,
                probe=trigger.probe_id >= 0,
                ack_offset=offset,
                entropy=trigger.entropy,
                source_id=qp.qpn & 0xFFFF,
                destination_id=self._remote_qpn & 0xFFFF,
                cack_psn=cack & MASK,
                mpr=self._offered_range(),
                bitmap_offset=base - cack,
                bitmap=self._bitmap >> (base - self.next_psn) & _ALL,
                timestamp=trigger.stamp,
                ooo_count=self._ooo,
                restore_cwnd=restore,
                cwnd_penalty=_PENALTY if self._slow else 0,
                rcvd_units=self._units,
            ),
        )

    def _offered_range(self) -> int:
        """Range of PSNs to offer (docs/protocol.md §2): halved while the receive CQ is full, then slowly up to the cap.

        What is accepted stays the whole cap: packets sent on an earlier offer may still be on their way.
        """
        if self._cap:
            head = self._messages.get(self._next_msn)
            if head is not None and head.last < self.next_psn:
                self._offer = max(self._offer // 2, min(_LEAST_RANGE, self._cap))
            elif self._offer < self._cap:
                self._offer += 1
        return self._offer

    def _choose_base(self, oldest: bool, psn: int) -> int:
        """Lowest PSN of the bitmap: next_psn if that reaches the newest PSN or if `oldest`.

        Otherwise it shows `psn`, the retransmission that it answers, or what follows the cumulative PSN when that has
        passed it. Without one it ends with the lowest group of arrivals not shown yet, so that it also repeats what
        came before them. What it cannot show stays noted, and another SACK is queued for it.
        """
        expected = self.next_psn
        base = expected
        if not oldest and self._max - expected >= control.SACK_BITS:
            base = self._oldest_unshown(expected) if psn < 0 else max(expected, psn - control.SACK_BITS + 1)
        end = base + control.SACK_BITS
        more = False
        for plane, high in enumerate(self._high):
            if high < end:
                self._low[plane] = self._high[plane] = -1
            else:
                self._low[plane] = max(self._low[plane], end)
                more = True
        if more and not self._sacks:
            self._sacks.append(_Trigger(expected - 1, _NO_ENTROPY, 0, control.MARK_NONE, -1))
        return base

    def _oldest_unshown(self, expected: int) -> int:
        waiting = [
            (max(low, expected), high)
            for low, high in zip(self._low, self._high, strict=True)
            if low >= 0 and high >= expected
        ]
        if not waiting:
            return self._max - control.SACK_BITS + 1
        end = min(waiting)[0] + control.SACK_BITS
        top = max(min(high, end - 1) for low, high in waiting if low < end)
        return max(expected, top - control.SACK_BITS + 1)
