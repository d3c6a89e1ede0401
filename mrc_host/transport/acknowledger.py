"""What an MRC responder tells its peer: which packets arrived, which it must send again, which messages are complete.

A SACK is due (docs/protocol.md §2) after ``sack_threshold`` bytes, on the A bit, on an ECN mark, on a retransmission,
and on a probe. The A bit of a packet that came ahead of others is honoured once more when these have come: nothing else
would tell the sender of the last arrivals, and how many were duplicates. Newer SACKs replace older ones not sent yet,
except where these say something of their own: a mark, a probe's answer, which transmission of a repeated packet
arrived.

A SACK shows 64 PSNs. Since planes advance at different PSNs, what arrived on each plane and was not shown yet is
remembered, and when one bitmap cannot show it all, another SACK follows. Its count of received bytes includes
duplicates. While the receive CQ is full, SACKs ask the sender to shrink its window, and to restore it afterwards.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mrc_host.config import OutOfWindow
from mrc_host.transport.peer import CONTROL, Peer
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.psn import HALF, MASK

if TYPE_CHECKING:
    from mrc_host.transport.mrc import MrcQueuePair

MAX_SACKS: Final = 64  # waiting to be sent
RESTORES: Final = 4  # SACKs that ask to restore the window, as some may be lost
_MAX_NACKS: Final = 256
_MAX_MARKED: Final = 4096  # paths whose marks are counted
_LEAST_RANGE: Final = 8  # units of 128 PSNs; no responder may offer less
_NO_ENTROPY: Final = 0xFFFFFFFF  # a SACK that answers no packet in particular
_ALL: Final = (1 << control.SACK_BITS) - 1
_MAX_CREDIT: Final = 512  # SACKs of a sweep: they show 32,768 PSNs, the widest window there is
_PENALTY: Final = 64  # of 127: halves the sender's window in a round trip


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


class Acknowledger:
    """Packets that arrived on a queue pair, and the answers that are due."""

    __slots__ = (
        "_bitmap",
        "_cap",
        "_count",
        "_credit",
        "_doubted",
        "_first",
        "_high",
        "_low",
        "_marked",
        "_max",
        "_nacks",
        "_next_msn",
        "_offer",
        "_ooo",
        "_paid",
        "_peer",
        "_qp",
        "_remote_qpn",
        "_restores",
        "_sacks",
        "_silent",
        "_skip_after",
        "_slow",
        "_slow_since",
        "_stats",
        "_sweep",
        "_sweep_all",
        "_sweeping",
        "_trim_nack",
        "_units",
        "_window",
        "ack_due",
        "nak",
        "next_psn",
    )

    def __init__(self, qp: MrcQueuePair, peer: Peer, first_psn: int) -> None:
        attributes = qp.attributes
        self._qp = qp
        self._peer = peer
        self._stats = qp.stats
        self._remote_qpn = qp.remote_qpn
        self._cap = attributes.dynamic_mpr
        self._offer = min(attributes.mpr, self._cap)  # units of 128 PSNs that SACKs offer, 0 when fixed
        self._window = max(attributes.mpr, self._cap) * 128 - 1
        self._trim_nack = attributes.trim_nack
        self._silent = qp.host.settings.out_of_window is OutOfWindow.DROP
        self._skip_after = qp.host.transport.always_skip_marks
        self._marked: dict[int, int] = {}  # marks in a row by entropy value; empty unless they are counted
        # what arrived
        self._first = first_psn  # of this life
        self.next_psn = first_psn  # cack + 1
        self._bitmap = 0  # bit i: next_psn + i arrived; bit 0 is never set
        self._max = first_psn - 1
        self._low = [-1] * len(peer.members)  # by plane: oldest PSN that arrived and was not shown in a SACK, -1 none
        self._high = [-1] * len(peer.members)
        self._units = 0  # received bytes in units of 256
        self._ooo = 0
        self._next_msn = 0  # first incomplete message
        self._slow_since = 0  # when the receive CQ was found full
        self._slow = False  # a completion waits for room in the receive CQ
        self._restores = 0
        # answers due
        self._count = 0  # bytes since the last SACK
        self._sacks: deque[_Trigger] = deque()
        self._sweeping = False  # further SACKs are due that show what one did not
        self._sweep_all = False  # and not only where something is missing
        self._sweep = first_psn  # the next one begins here or later
        self._credit = 0  # how many of them the peer's packets have paid for,
        self._paid = 0  # when so many had come
        self._doubted = -1  # next_psn when reverse paths were last put in doubt because of a hole
        self._nacks: deque[Nack] = deque()
        self.ack_due = False
        self.nak = 0  # syndrome of the NAK that ended this queue pair

    def psns_used(self) -> int:
        """How many PSNs there are up to the newest that arrived."""
        return max(self.next_psn, self._max + 1) - self._first

    # ---- packets without payload --------------------------------------------------------------------------------

    def trimmed(self, word: int, stamp: int, flow: Flow, lasthop: bool) -> Drop | None:
        """A packet came without its payload: ask for it again if it is missing and the peer may expect that.

        A SACK tells who repeats what arrived, as it does when the repetition comes whole.
        """
        if lasthop:
            self._stats.lasthop_trims_received += 1
        else:
            self._stats.trims_received += 1
        offset = ((word & MASK) - self.next_psn) & MASK
        if offset >= HALF:
            return self._behind(self.next_psn + offset - MASK - 1, stamp, flow)
        if self._bitmap >> offset & 1:
            self._duplicate(self.next_psn + offset, word, stamp, flow)
        elif self._trim_nack and offset < self._window:
            reason = control.NACK_TRIMMED_LASTHOP if lasthop else control.NACK_TRIMMED
            self._nack(reason, self.next_psn + offset, flow, stamp)
        return None

    def _duplicate(self, psn: int, word: int, stamp: int, flow: Flow) -> None:
        """What has arrived beyond a gap came once more."""
        self._stats.duplicates_received += 1
        if word & headers.RTX:
            self._peer.doubt_reverse_paths()
        self._sack(psn, flow, stamp, True)

    def _behind(self, psn: int, stamp: int, flow: Flow) -> Drop | None:
        """A packet with a PSN that has been passed: acknowledged already, or never of this life."""
        if psn < self._first:
            return Drop.OTHER_LIFE
        self._stats.duplicates_received += 1
        if not self._silent:
            self.ack_due = True
            self._peer.doubt_reverse_paths()
            self._sack(psn, flow, stamp, True)
        return None

    def probe(self, probe_id: int, stamp: int, flow: Flow) -> None:
        """Answer a reliability probe; the transport ACK may have been lost too, so it is repeated.

        Who asks although everything was acknowledged has not heard of it: the answer takes another reverse path.
        """
        self._stats.probes_received += 1
        if not self._count:
            self._peer.doubt_reverse_paths(asked=True)
        self.ack_due = self.ack_due or self._next_msn > 0
        self._count = 0
        mark = control.MARK_SKIP_ONCE if flow.ce else control.MARK_NONE
        self._credit += 1
        self._queue_sack(_Trigger(self._max, flow.ev, stamp, mark, probe_id))

    # ---- answers ------------------------------------------------------------------------------------------------
    def _nack(self, reason: int, psn: int, flow: Flow, stamp: int) -> None:
        if len(self._nacks) < _MAX_NACKS:
            qp = self._qp
            self._nacks.append(Nack(reason, flow.ev, qp.qpn & 0xFFFF, self._remote_qpn & 0xFFFF, psn & MASK, stamp))
            qp.offer_control()

    def _sack(self, psn: int, flow: Flow, stamp: int, again: bool = False) -> None:
        self._count = 0
        mark = control.MARK_NONE
        if flow.ce:
            self._stats.marks_received += 1
            mark = self._judge(flow.ev)
        self._queue_sack(_Trigger(psn, flow.ev, stamp, mark, -1, again))

    def _judge(self, entropy: int) -> int:
        """What to say of a path whose packet came with an ECN mark."""
        if not self._skip_after:
            return control.MARK_SKIP_ONCE
        marks = self._marked.pop(entropy, 0) + 1
        if marks >= self._skip_after:
            return control.MARK_ALWAYS_SKIP
        if len(self._marked) >= _MAX_MARKED:
            self._marked.clear()
        self._marked[entropy] = marks
        return control.MARK_SKIP_ONCE

    def _queue_sack(self, trigger: _Trigger) -> None:
        """A newer SACK says all that an older one would, except what is kept."""
        sacks = self._sacks
        if sacks and not sacks[-1].keep:
            sacks[-1] = trigger
        elif len(sacks) < MAX_SACKS:
            sacks.append(trigger)
        self._qp.offer_control()

    def pending(self) -> bool:
        """Whether an answer is due."""
        return bool(self._sacks or self._nacks or self.ack_due or self._sweeping)

    def transmit(self, plane: int, now: int) -> bytes | None:
        """Next answer, to leave on `plane`."""
        peer = self._peer
        if not (self._nacks or self._sacks or self.ack_due):
            return self._transmit_sweep(plane)
        index = peer.reverse_path(plane, now)
        if index < 0:
            return None
        if self._nacks:
            nack = self._nacks.popleft()
            self._stats.nack_sent(nack.reason)
            body = control.pack_nack(self._remote_qpn, nack)
        elif self._sacks:
            self._stats.sacks_sent += 1
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
        index = self._peer.reverse_path(plane, now)
        if index < 0:
            return None
        self._stats.acks_sent += 1
        psn = (self.next_psn) & MASK
        body = headers.pack_aeth(opcodes.TRANSPORT_ACK, self._remote_qpn, psn, self.nak, self._next_msn)
        return self._peer.frame(index, CONTROL, body)

    def _build_sack(self, trigger: _Trigger) -> bytes:
        base = self._choose_base(trigger.probe_id >= 0, trigger.psn if trigger.again else -1)
        if self._max - self.next_psn >= control.SACK_BITS:
            self._begin_sweep(trigger, base)
        return self._pack(trigger, base)

    # ---- the sweep ----------------------------------------------------------------------------------------------

    def _begin_sweep(self, trigger: _Trigger, base: int) -> None:
        """One bitmap, which begins at `base`, does not reach the newest PSN: show the rest in further ones if need be.

        That is so after a probe, and where more has come ahead of a hole than one bitmap shows. Each packet that came
        pays for one of them, so that nobody gets many for few.
        """
        arrived = self._stats.data_received + self._stats.duplicates_received
        self._credit = min(self._credit + arrived - self._paid, _MAX_CREDIT)
        self._paid = arrived
        asked = trigger.probe_id >= 0
        if self._credit and (asked or self._bitmap.bit_count() >= control.SACK_BITS):
            if not self._sweeping and not self.next_psn < self._sweep <= self._max:
                self._sweep = self.next_psn
            if not asked and self._doubted != self.next_psn:
                self._doubted = self.next_psn
                self._peer.doubt_reverse_paths()
            if base == self._sweep:
                self._sweep += control.SACK_BITS
            self._sweep_all = self._sweep_all or asked
            self._sweeping = True

    def _next_part(self) -> int:
        """First PSN of the next bitmap of the sweep: where the next hole is, or just the next one; -1 at the end."""
        at = max(self._sweep, self.next_psn)
        if not self._sweep_all and at <= self._max:
            holes = ~(self._bitmap >> at - self.next_psn)
            at += (holes & -holes).bit_length() - 1
        return at if at <= self._max and self._credit else -1

    def _transmit_sweep(self, plane: int) -> bytes | None:
        """The next SACK of the sweep, on any path: what broke those of the peer may have broken ours too."""
        base = self._next_part() if self._sweeping else -1
        if base < 0:
            self._sweeping = self._sweep_all = False
            return None
        index = self._peer.random_path(plane)
        if index < 0:
            return None
        self._credit -= 1
        self._sweep = base + control.SACK_BITS
        self._stats.acks_sent += 1
        self._stats.sacks_sent += 1
        body = self._pack(_Trigger(self.next_psn - 1, _NO_ENTROPY, 0, control.MARK_NONE, -1), base)
        return self._peer.frame(index, CONTROL, body)

    def _pack(self, trigger: _Trigger, base: int) -> bytes:
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
            if self._slow:
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
