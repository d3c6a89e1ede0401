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
from typing import Final

from mrc_host.config import OutOfWindow
from mrc_host.transport.interfaces import AnswerPaths, Connection, ResponderOwner
from mrc_host.transport.peer import CONTROL
from mrc_host.transport.received_packets import ReceivedPackets
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.psn import HALF, MASK

_MAX_SACKS: Final = 64  # waiting to be sent
_RESTORES: Final = 4  # SACKs that ask to restore the window, as some may be lost
_MAX_NACKS: Final = 256
_MAX_MARKED: Final = 4096  # paths whose marks are counted
_MIN_RANGE: Final = 8  # units of 128 PSNs; no responder may offer less
_NO_ENTROPY: Final = 0xFFFFFFFF  # a SACK that answers no packet in particular
_ALL: Final = (1 << control.SACK_BITS) - 1
_MAX_CREDIT: Final = 512  # SACKs of a sweep: they show 32,768 PSNs, the widest window there is
_PENALTY: Final = 64  # of 127: halves the sender's window in a round trip
_SACK_NOW: Final = headers.ACK_REQUEST | headers.RTX


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


class _Sweep:
    """Further SACKs that show what one bitmap does not reach. Each packet that came pays for one of them."""

    __slots__ = ("active", "credit", "doubted", "everything", "next_psn", "paid")

    def __init__(self, first_psn: int) -> None:
        self.active = False
        self.everything = False  # show all bitmaps, and not only where something is missing
        self.next_psn = first_psn  # the next one begins here or later
        self.credit = 0  # how many of them the peer's packets have paid for,
        self.paid = 0  # when so many had come
        self.doubted = -1  # expected PSN when the reverse paths were last put in doubt because of a hole

    def pay(self, arrived: int) -> None:
        """So many packets have come in all."""
        self.credit = min(self.credit + arrived - self.paid, _MAX_CREDIT)
        self.paid = arrived

    def begin(self, received: ReceivedPackets, base: int, everything: bool) -> None:
        """Sweep on, or from the expected PSN; a SACK that shows what follows `base` is about to leave."""
        if not self.active and not received.next_psn < self.next_psn <= received.max_psn:
            self.next_psn = received.next_psn
        if base == self.next_psn:
            self.next_psn += control.SACK_BITS
        self.everything = self.everything or everything
        self.active = True

    def next_base(self, received: ReceivedPackets) -> int:
        """First PSN of the next bitmap: where the next hole is, or just the next one; -1 at the end."""
        if not self.active:
            return -1
        base = max(self.next_psn, received.next_psn)
        if not self.everything and base <= received.max_psn:
            base = received.next_hole(base)
        return base if base <= received.max_psn and self.credit else -1

    def end(self) -> None:
        """All is shown."""
        self.active = self.everything = False

    def shown(self, base: int) -> None:
        """A SACK of the sweep shows what follows `base`."""
        self.credit -= 1
        self.next_psn = base + control.SACK_BITS


class AckGenerator:
    """The answers that are due on one connection."""

    __slots__ = (
        "_ack_requested",
        "_bytes",
        "_cap",
        "_connection",
        "_high",
        "_low",
        "_marked",
        "_nacks",
        "_offer",
        "_owner",
        "_paths",
        "_received",
        "_remote_qpn",
        "_restores",
        "_sacks",
        "_silent",
        "_skip_after",
        "_slow",
        "_stats",
        "_sweep",
        "_threshold",
        "_trim_nack",
        "_window",
        "ack_due",
        "completed_msn",
        "nak",
    )

    def __init__(
        self,
        owner: ResponderOwner,
        connection: Connection,
        paths: AnswerPaths,
        planes: int,
        received: ReceivedPackets,
    ) -> None:
        attributes, nic = connection.attributes, connection.nic
        self._owner = owner
        self._connection = connection
        self._paths = paths
        self._received = received
        self._stats = connection.stats
        self._remote_qpn = connection.remote_qpn
        self._cap = attributes.dynamic_mpr
        self._offer = min(attributes.mpr, self._cap)  # units of 128 PSNs that SACKs offer, 0 when fixed
        self._window = max(attributes.mpr, self._cap) * 128 - 1
        self._trim_nack = attributes.trim_nack
        self._silent = nic.settings.out_of_window is OutOfWindow.DROP
        self._threshold = nic.transport.sack_threshold
        self._skip_after = nic.transport.always_skip_marks
        self._marked: dict[int, int] = {}  # marks in a row by entropy value; empty unless they are counted
        self._low = [-1] * planes  # by plane: oldest PSN that arrived and was not shown in a SACK, -1 none
        self._high = [-1] * planes
        self.completed_msn = 0  # messages complete
        self._slow = False  # the receive CQ is full
        self._restores = 0
        # answers due
        self._bytes = 0  # since the last SACK
        self._ack_requested = -1  # PSN of the newest packet with the A bit that came ahead of others; -1 for none
        self._sacks: deque[_Trigger] = deque()
        self._sweep = _Sweep(received.next_psn)
        self._nacks: deque[Nack] = deque()
        self.ack_due = False
        self.nak = 0  # syndrome of the NAK that ended this queue pair

    # ---- packets that came --------------------------------------------------------------------------------------

    def arrived(self, psn: int, word: int, size: int, plane: int, stamp: int, flow: Flow) -> None:
        """A data packet of `size` bytes was placed, and its message completed if that was due."""
        received, due = self._received, word & _SACK_NOW
        if not word & headers.RTX or len(self._sacks) >= _MAX_SACKS:  # the SACK of a retransmission shows it
            low = self._low[plane]
            if low < 0 or psn < low:
                self._low[plane] = psn
            if psn > self._high[plane]:
                self._high[plane] = psn
        if psn >= received.next_psn:
            if due & headers.ACK_REQUEST and psn > self._ack_requested:
                self._ack_requested = psn
        elif 0 <= self._ack_requested < received.next_psn:
            self._ack_requested = -1
            due = 1
        self._bytes += size if size > 1024 else 1024
        if self._marked and not flow.ce:
            self._marked.pop(flow.ev, None)
        if self._bytes >= self._threshold or flow.ce or due:
            self._sack(psn, flow, stamp, bool(word & headers.RTX))

    def trimmed(self, word: int, stamp: int, flow: Flow, lasthop: bool) -> Drop | None:
        """A packet came without its payload: ask for it again if it is missing and the peer may expect that.

        A SACK tells who repeats what arrived, as it does when the repetition comes whole.
        """
        if lasthop:
            self._stats.lasthop_trims_received += 1
        else:
            self._stats.trims_received += 1
        received = self._received
        offset = ((word & MASK) - received.next_psn) & MASK
        psn = received.next_psn + offset
        if offset >= HALF:
            return self.behind(psn - MASK - 1, stamp, flow)
        if received.bitmap >> offset & 1:
            self.duplicate(psn, word, stamp, flow)
        elif self._trim_nack and offset < self._window:
            reason = control.NACK_TRIMMED_LASTHOP if lasthop else control.NACK_TRIMMED
            self.send_nack(reason, psn, flow, stamp)
        return None

    def duplicate(self, psn: int, word: int, stamp: int, flow: Flow) -> None:
        """What has arrived beyond a gap came once more."""
        self._stats.duplicates_received += 1
        if word & headers.RTX:
            self._paths.doubt_reverse_paths()
        self._sack(psn, flow, stamp, True)

    def behind(self, psn: int, stamp: int, flow: Flow) -> Drop | None:
        """A packet with a PSN that has been passed: acknowledged already, or never of this life."""
        if psn < self._received.first_psn:
            return Drop.OTHER_LIFE
        self._stats.duplicates_received += 1
        if not self._silent:
            self.ack_due = True
            self._paths.doubt_reverse_paths()
            self._sack(psn, flow, stamp, True)
        return None

    def out_of_window(self, offset: int, stamp: int, flow: Flow) -> Drop | None:
        """Already acknowledged, or beyond what was promised (docs/protocol.md §10: far future NACK, ancient SACK).

        `offset` is the distance from the expected PSN. What was promised may reach further than the bitmap.
        """
        received = self._received
        psn = received.next_psn + offset
        if offset < self._window:
            self.send_nack(control.NACK_NO_BITMAP, psn, flow, stamp)
        elif offset >= HALF:
            psn -= MASK + 1
            if psn >= received.first_psn and not self._silent:
                received.units += flow.units
            return self.behind(psn, stamp, flow)
        elif not self._silent:
            self.send_nack(control.NACK_PSN_OOR_WINDOW, psn, flow, stamp)
        return None

    def probe(self, probe_id: int, stamp: int, flow: Flow) -> None:
        """Answer a reliability probe; the transport ACK may have been lost too, so it is repeated.

        Who asks although everything was acknowledged has not heard of it: the answer takes another reverse path.
        """
        self._stats.probes_received += 1
        if not self._bytes:
            self._paths.doubt_reverse_paths(asked=True)
        self.ack_due = self.ack_due or self.completed_msn > 0
        self._bytes = 0
        mark = control.MARK_SKIP_ONCE if flow.ce else control.MARK_NONE
        self._sweep.credit += 1
        self._queue_sack(_Trigger(self._received.max_psn, flow.ev, stamp, mark, probe_id))

    def message_completed(self) -> None:
        """The next message is complete."""
        self.completed_msn += 1
        self.ack_due = True

    def receive_queue_full(self) -> None:
        """The receive CQ has no room: ask for less until it has."""
        self._slow = True

    def receive_queue_has_room(self) -> None:
        """The receive CQ takes completions again."""
        self._slow = False
        self._restores = _RESTORES

    # ---- answers ------------------------------------------------------------------------------------------------

    def send_nack(self, reason: int, psn: int, flow: Flow, stamp: int) -> None:
        """Queue a NACK of packet `psn`."""
        if len(self._nacks) < _MAX_NACKS:
            source, destination = self._connection.qpn & 0xFFFF, self._remote_qpn & 0xFFFF
            self._nacks.append(Nack(reason, flow.ev, source, destination, psn & MASK, stamp))
            self._owner.offer_control()

    def _sack(self, psn: int, flow: Flow, stamp: int, again: bool = False) -> None:
        self._bytes = 0
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
        elif len(sacks) < _MAX_SACKS:
            sacks.append(trigger)
        self._owner.offer_control()

    def pending(self) -> bool:
        """Whether an answer is due."""
        return self._sweep.active or not self.sweeping()

    def sweeping(self) -> bool:
        """Whether there is no answer but those of a sweep."""
        return not (self._nacks or self._sacks or self.ack_due)

    def transmit(self, plane: int, now: int) -> bytes | None:
        """Next answer, to leave on `plane`."""
        paths = self._paths
        if self.sweeping():
            return self._transmit_sweep(plane)
        index = paths.reverse_path(plane, now)
        if index < 0:
            return None
        if self._nacks:
            nack = self._nacks.popleft()
            self._stats.nack_sent(nack.reason)
            body = control.pack_nack(self._remote_qpn, nack)
        elif self._sacks:
            self._stats.sacks_sent += 1
            body = self._build_sack(self._sacks.popleft())
            paths.acknowledging(now)
        else:
            self.ack_due = False
            psn = (self._received.next_psn - 1) & MASK
            body = self._pack_ack(psn, headers.SYNDROME_ACK)
        self._stats.acks_sent += 1
        return paths.frame(index, CONTROL, body)

    def build_nak(self, plane: int, now: int) -> bytes | None:
        """The NAK that tells why this queue pair ended."""
        index = self._paths.reverse_path(plane, now)
        if index < 0:
            return None
        self._stats.acks_sent += 1
        return self._paths.frame(index, CONTROL, self._pack_ack(self._received.next_psn & MASK, self.nak))

    def _pack_ack(self, psn: int, syndrome: int) -> bytes:
        return headers.pack_aeth(opcodes.TRANSPORT_ACK, self._remote_qpn, psn, syndrome, self.completed_msn)

    def _build_sack(self, trigger: _Trigger) -> bytes:
        base = self._choose_base(trigger.probe_id >= 0, trigger.psn if trigger.again else -1)
        if self._received.max_psn - self._received.next_psn >= control.SACK_BITS:
            self._begin_sweep(trigger, base)
        return self._pack(trigger, base)

    # ---- the sweep ----------------------------------------------------------------------------------------------

    def _begin_sweep(self, trigger: _Trigger, base: int) -> None:
        """One bitmap, which begins at `base`, does not reach the newest PSN: show the rest in further ones if need be.

        That is so after a probe, and where more has come ahead of a hole than one bitmap shows. Each packet that came
        pays for one of them, so that nobody gets many for few.
        """
        sweep, received = self._sweep, self._received
        sweep.pay(self._stats.data_received + self._stats.duplicates_received)
        probed = trigger.probe_id >= 0
        if sweep.credit and (probed or received.bitmap.bit_count() >= control.SACK_BITS):
            if not probed and sweep.doubted != received.next_psn:
                sweep.doubted = received.next_psn
                self._paths.doubt_reverse_paths()
            sweep.begin(received, base, probed)

    def _transmit_sweep(self, plane: int) -> bytes | None:
        """The next SACK of the sweep, on any path: what broke those of the peer may have broken ours too."""
        base = self._sweep.next_base(self._received)
        if base < 0:
            self._sweep.end()
            return None
        index = self._paths.random_path(plane)
        if index < 0:
            return None
        self._sweep.shown(base)
        self._stats.acks_sent += 1
        self._stats.sacks_sent += 1
        return self._paths.frame(index, CONTROL, self._pack(self._nothing_new(), base))

    def _nothing_new(self) -> _Trigger:
        """What a SACK answers that answers no packet in particular."""
        return _Trigger(self._received.next_psn - 1, _NO_ENTROPY, 0, control.MARK_NONE, -1)

    def _pack(self, trigger: _Trigger, base: int) -> bytes:
        received = self._received
        cack = received.next_psn - 1
        if trigger.probe_id >= 0:
            offset = trigger.probe_id - 0x10000 if trigger.probe_id & 0x8000 else trigger.probe_id
        else:
            offset = max(-0x8000, min(0x7FFF, trigger.psn - cack))
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
                source_id=self._connection.qpn & 0xFFFF,
                destination_id=self._remote_qpn & 0xFFFF,
                cack_psn=cack & MASK,
                mpr=self._offered_range(),
                bitmap_offset=base - cack,
                bitmap=received.bitmap >> (base - received.next_psn) & _ALL,
                timestamp=trigger.stamp,
                ooo_count=received.out_of_order,
                restore_cwnd=restore,
                cwnd_penalty=_PENALTY if self._slow else 0,
                rcvd_units=received.units,
            ),
        )

    def _offered_range(self) -> int:
        """Range of PSNs to offer (docs/protocol.md §2): halved while the receive CQ is full, then slowly up to the cap.

        What is accepted stays the whole cap: packets sent on an earlier offer may still be on their way.
        """
        if self._cap:
            if self._slow:
                self._offer = max(self._offer // 2, min(_MIN_RANGE, self._cap))
            elif self._offer < self._cap:
                self._offer += 1
        return self._offer

    def _choose_base(self, oldest: bool, psn: int) -> int:
        """Lowest PSN of the bitmap: next_psn if that reaches the newest PSN or if `oldest`.

        Otherwise it shows `psn`, the retransmission that it answers, or what follows the cumulative PSN when that has
        passed it. Without one it ends with the lowest group of arrivals not shown yet, so that it also repeats what
        came before them. What it cannot show stays noted, and another SACK is queued for it.
        """
        expected = self._received.next_psn
        base = expected
        if not oldest and self._received.max_psn - expected >= control.SACK_BITS:
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
            self._sacks.append(self._nothing_new())
        return base

    def _oldest_unshown(self, expected: int) -> int:
        waiting = [
            (max(low, expected), high)
            for low, high in zip(self._low, self._high, strict=True)
            if low >= 0 and high >= expected
        ]
        if not waiting:
            return self._received.max_psn - control.SACK_BITS + 1
        end = min(waiting)[0] + control.SACK_BITS
        top = max(min(high, end - 1) for low, high in waiting if low < end)
        return max(expected, top - control.SACK_BITS + 1)
