"""Acknowledgements of an MRC responder: which packets arrived, which are missing, which messages are complete.

A SACK is due (docs/protocol.md §2) after ``sack_threshold`` bytes, on the A bit, on an ECN mark, on a retransmission,
and on a probe. If a packet with the A bit arrives ahead of others, another SACK is sent once these have arrived:
nothing else would report the last arrivals to the sender, nor the number of duplicates. A newer SACK replaces an older
one not sent yet, unless that carries something of its own: a mark, the answer to a probe, or which transmission of a
repeated packet arrived.

The bitmap of a SACK covers 64 PSNs. Since planes progress at different rates, arrivals not yet covered by a bitmap are
remembered by plane, and when one bitmap cannot cover them all, another SACK follows. The count of received bytes
includes duplicates. While the receive CQ is full, SACKs ask the sender to reduce its window, and to restore it
afterwards.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mrc_host.config import OutOfWindow
from mrc_host.transport.peer_frames import CONTROL
from mrc_host.transport.queue_pair_interfaces import AnswerPaths, Connection, GrantedArrivals, ResponderOwner, WideSack
from mrc_host.transport.received_packets import ReceivedPackets
from mrc_host.transport.sack_sweep import Sweep
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.psn import HALF, MASK

_MAX_SACKS: Final = 64  # queued
_RESTORES: Final = 4  # SACKs that ask to restore the window; several, as some may be lost
_MAX_NACKS: Final = 256
_MAX_MARKED: Final = 4096  # paths whose marks are counted
_MIN_RANGE: Final = 8  # units of 128 PSNs; the minimum a responder may offer
_ALL: Final = (1 << control.SACK_BITS) - 1
_PENALTY: Final = 64  # out of 127: halves the sender's window in a round trip
_SACK_NOW: Final = headers.ACK_REQUEST | headers.RTX


class _Trigger:
    """Why a SACK is due: the packet it answers."""

    __slots__ = ("again", "entropy", "keep", "mark", "probe_id", "psn", "stamp")

    def __init__(self, psn: int, entropy: int, stamp: int, mark: int, probe_id: int, again: bool = False) -> None:
        self.again = again  # the packet was sent more than once
        self.keep = again or bool(mark) or probe_id >= 0  # a newer SACK would not carry the same information
        self.psn = psn
        self.entropy = entropy
        self.stamp = stamp
        self.mark = mark
        self.probe_id = probe_id  # -1: not a probe


class AckGenerator:
    """The acknowledgements due on one connection."""

    __slots__ = (
        "_cap",
        "_connection",
        "_marked",
        "_nacks",
        "_offer",
        "_owner",
        "_paths",
        "_probed",
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
        "ack_requested",
        "completed_msn",
        "grant",
        "high",
        "low",
        "nak",
        "pending_bytes",
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
        self._offer = min(attributes.mpr, self._cap)  # units of 128 PSNs offered in SACKs; 0 when the range is fixed
        self._window = max(attributes.mpr, self._cap) * 128 - 1
        self._trim_nack = attributes.trim_nack
        self._silent = nic.settings.out_of_window is OutOfWindow.DROP
        self._threshold = nic.transport.sack_threshold
        self._skip_after = nic.transport.always_skip_marks
        self._marked: dict[int, int] = {}  # consecutive marks by entropy value; empty unless they are counted
        self.low = [-1] * planes  # by plane: oldest PSN that arrived and was in no bitmap yet; -1 for none
        self.high = [-1] * planes
        self.completed_msn = 0  # number of completed messages
        self._slow = False  # the receive CQ is full
        self._restores = 0
        # due
        self.pending_bytes = 0  # since the last SACK
        self.ack_requested = -1  # PSN of the newest packet with the A bit that arrived ahead of others; -1 for none
        self._sacks: deque[_Trigger] = deque()
        earlier = self._stats.data_received + self._stats.duplicates_received
        self._sweep = Sweep(received.next_psn, earlier)
        self._nacks: deque[Nack] = deque()
        self._probed: _Trigger | None = None  # the latest probe, until it has been answered again
        self.ack_due = False
        self.nak = 0  # syndrome of the NAK that ended this queue pair
        self.grant: GrantedArrivals | None = None  # what the datapath in C has; the responder sets it

    # ---- packets that arrived -----------------------------------------------------------------------------------

    def arrived(self, psn: int, word: int, size: int, plane: int, stamp: int, flow: Flow) -> None:
        """A data packet of `size` bytes was placed, and its message completed if possible."""
        received, due = self._received, word & _SACK_NOW
        if not word & headers.RTX or len(self._sacks) >= _MAX_SACKS:  # a retransmission's own SACK covers it
            low = self.low[plane]
            if low < 0 or psn < low:
                self.low[plane] = psn
            if psn > self.high[plane]:
                self.high[plane] = psn
        if psn >= received.next_psn:
            if due & headers.ACK_REQUEST and psn > self.ack_requested:
                self.ack_requested = psn
        elif 0 <= self.ack_requested < received.next_psn:
            self.ack_requested = -1
            due = 1
        self.pending_bytes += size if size > 1024 else 1024
        if self._marked and not flow.ce:
            self._marked.pop(flow.ev, None)
        if self.pending_bytes >= self._threshold or flow.ce or due:
            self._sack(psn, flow, stamp, bool(word & headers.RTX))

    def due(self, psn: int, flow: Flow, stamp: int) -> None:
        """The datapath in C has placed packet `psn`, and that makes a SACK due."""
        self._queue_sack(_Trigger(psn, flow.ev, stamp, self._mark_of(flow), -1))

    def trimmed(self, word: int, stamp: int, flow: Flow, lasthop: bool) -> Drop | None:
        """A packet arrived without its payload: send a NACK if it is missing and the peer understands such NACKs.

        If the packet had already arrived, a SACK reports it as a duplicate, as if it had come whole.
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
        """A packet beyond a gap arrived again."""
        self._stats.duplicates_received += 1
        if word & headers.RTX:
            self._paths.doubt_reverse_paths()
        self._sack(psn, flow, stamp, True)

    def behind(self, psn: int, stamp: int, flow: Flow) -> Drop | None:
        """A packet before the expected PSN arrived: acknowledged already, or not of this life."""
        if psn < self._received.first_psn:
            return Drop.OTHER_LIFE
        self._stats.duplicates_received += 1
        if not self._silent:
            self.ack_due = True
            self._paths.doubt_reverse_paths()
            self._sack(psn, flow, stamp, True)
        return None

    def out_of_window(self, offset: int, stamp: int, flow: Flow) -> Drop | None:
        """A packet outside the window: acknowledged already, or too far ahead (docs/protocol.md §10: SACK or NACK).

        `offset` is the distance from the expected PSN. The range that was offered may exceed what the bitmap can hold.
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
        """Answer a reliability probe, and repeat the transport ACK, which may have been lost too.

        A peer that probes although everything was acknowledged has not received that: the answer takes another reverse
        path.
        """
        self._stats.probes_received += 1
        if not self.pending_bytes:
            self._paths.doubt_reverse_paths(probed=True)
        self.repeat_ack()
        self.pending_bytes = 0
        mark = control.MARK_SKIP_ONCE if flow.ce else control.MARK_NONE
        self._sweep.credit += 1
        self._probed = _Trigger(self._received.max_psn, flow.ev, stamp, mark, probe_id)
        self._queue_sack(self._probed)

    def answer_probe_again(self) -> None:
        """Answer the latest probe once more, as its first answer may be lost, if a SACK of a sweep is paid for."""
        probed, self._probed = self._probed, None
        if probed is not None and self._sweep.credit > 0:
            self._sweep.credit -= 1
            self.repeat_ack()
            self._queue_sack(probed)

    def repeat_ack(self) -> bool:
        """Send the transport ACK once more, if anything was completed; whether one is due."""
        self.ack_due = self.ack_due or self.completed_msn > 0
        return self.ack_due

    def message_completed(self) -> None:
        """The next message is complete."""
        self.completed_msn += 1
        self.ack_due = True

    def receive_queue_full(self) -> None:
        """The receive CQ is full: ask the peer to reduce its window."""
        self._slow = True

    def receive_queue_has_room(self) -> None:
        """The receive CQ has room again."""
        self._slow = False
        self._restores = _RESTORES

    # ---- acknowledgements ---------------------------------------------------------------------------------------

    def send_nack(self, reason: int, psn: int, flow: Flow, stamp: int) -> None:
        """Queue a NACK for packet `psn`."""
        if len(self._nacks) < _MAX_NACKS:
            source, destination = self._connection.qpn & 0xFFFF, self._remote_qpn & 0xFFFF
            self._nacks.append(Nack(reason, flow.ev, source, destination, psn & MASK, stamp))
            self._owner.offer_control()

    def _sack(self, psn: int, flow: Flow, stamp: int, again: bool = False) -> None:
        self.pending_bytes = 0
        self._queue_sack(_Trigger(psn, flow.ev, stamp, self._mark_of(flow), -1, again))

    def _mark_of(self, flow: Flow) -> int:
        """The mark to report for the path of a packet, which may have arrived with an ECN mark."""
        if not flow.ce:
            return control.MARK_NONE
        self._stats.marks_received += 1
        return self._mark_for(flow.ev)

    def _mark_for(self, entropy: int) -> int:
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
        """Queue a SACK; it replaces the one queued before, unless that must be kept."""
        sacks = self._sacks
        if sacks and not sacks[-1].keep:
            sacks[-1] = trigger
        elif len(sacks) < _MAX_SACKS:
            sacks.append(trigger)
        self._owner.offer_control()

    def pending(self) -> bool:
        """Whether an acknowledgement is due."""
        return self._sweep.active or not self.sweeping()

    def sweeping(self) -> bool:
        """Whether only SACKs of a sweep are left to send."""
        return not (self._nacks or self._sacks or self.ack_due)

    def transmit(self, plane: int, now: int) -> bytes | None:
        """Next acknowledgement to send on `plane`."""
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
            self._settle()
            psn = (self._received.next_psn - 1) & MASK
            body = self._pack_ack(psn, headers.SYNDROME_ACK)
        self._stats.acks_sent += 1
        return paths.frame(index, CONTROL, body)

    def build_nak(self, plane: int, now: int) -> bytes | None:
        """The NAK that reports why this queue pair ended."""
        index = self._paths.reverse_path(plane, now)
        if index < 0:
            return None
        self._stats.acks_sent += 1
        self._settle()
        return self._paths.frame(index, CONTROL, self._pack_ack(self._received.next_psn & MASK, self.nak))

    def _pack_ack(self, psn: int, syndrome: int) -> bytes:
        return headers.pack_aeth(opcodes.TRANSPORT_ACK, self._remote_qpn, psn, syndrome, self.completed_msn)

    def _settle(self) -> None:
        """What has arrived is about to be read."""
        if self.grant is not None:
            self.grant.settle()

    def _build_sack(self, trigger: _Trigger) -> bytes:
        grant = self.grant
        if grant is not None:
            if not self._offer_changes():
                built = grant.sack(
                    self._remote_qpn, _flags(trigger), trigger.psn, trigger.probe_id, trigger.entropy, trigger.stamp,
                    self._offer, trigger.psn if trigger.again else -1,
                )  # fmt: skip
                if built is not None:
                    return built if isinstance(built, bytes) else self._built(built)
            grant.settle()
        received, probed = self._received, trigger.probe_id >= 0
        base = self._choose_base(probed, trigger.psn if trigger.again else -1)
        if received.max_psn - received.next_psn >= control.SACK_BITS:
            arrived, held_up = self._stats.data_received, received.held_up
            self._begin_sweep(received.next_psn, received.max_psn, base, probed, held_up, arrived)
        return self._pack(trigger, base)

    def _built(self, built: WideSack) -> bytes:
        """The datapath in C has built a SACK whose bitmap does not show everything."""
        body, base, expected, newest, held_up, more, arrived = built
        if more and not self._sacks:
            self._sacks.append(_sweep_trigger(expected))
        self._begin_sweep(expected, newest, base, False, held_up, self._stats.data_received + arrived)
        return body

    # ---- the sweep ----------------------------------------------------------------------------------------------

    def _begin_sweep(self, expected: int, newest: int, base: int, probed: bool, held_up: int, arrived: int) -> None:
        """One bitmap, from `base` on, does not reach the newest PSN: cover the rest in a sweep, if needed.

        It is needed after a probe, and when a hole has `held_up` as many packets as one bitmap covers. Where planes or
        paths differ by as much there always is a hole, but what comes next on the slower one fills it. Each packet that
        `arrived` gives credit for one SACK, so that a peer cannot trigger many with few packets.
        """
        sweep = self._sweep
        sweep.pay(arrived + self._stats.duplicates_received)
        if sweep.credit and (probed or held_up >= control.SACK_BITS):
            if not probed and sweep.doubted != expected:
                sweep.doubted = expected
                self._paths.doubt_reverse_paths()
            sweep.begin(expected, newest, base, probed)

    def _transmit_sweep(self, plane: int) -> bytes | None:
        """The next SACK of the sweep, on any path: the failure that lost the peer's packets may affect ours too."""
        sweep, received = self._sweep, self._received
        grant = None if self._offer_changes() else self.grant
        base = -1
        if sweep.active and sweep.credit:
            granted = None if grant is None else grant.next_base(sweep.next_psn, sweep.everything)
            if granted is None:
                grant = None
                self._settle()
                granted = received.next_base(sweep.next_psn, sweep.everything)
            base = granted
        if base < 0:
            sweep.end()
            return None
        index = self._paths.random_path(plane)
        if index < 0:
            return None
        sweep.shown(base)
        self._stats.acks_sent += 1
        self._stats.sacks_sent += 1
        if grant is not None:
            body = grant.sweep_sack(base, self._remote_qpn, self._offer)
        else:
            body = self._pack(_sweep_trigger(received.next_psn), base)
        return self._paths.frame(index, CONTROL, body)

    def _offer_changes(self) -> bool:
        """Whether a SACK asks for another window, or the next one may, so that it is built here."""
        return self._cap > 0 or self._slow or self._restores > 0

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

        The whole cap is always accepted, since packets sent on an earlier offer may still be in flight.
        """
        if self._cap:
            if self._slow:
                self._offer = max(self._offer // 2, min(_MIN_RANGE, self._cap))
            elif self._offer < self._cap:
                self._offer += 1
        return self._offer

    def _choose_base(self, oldest: bool, psn: int) -> int:
        """First PSN of the bitmap: next_psn if that reaches the newest PSN, or if `oldest`.

        Otherwise the bitmap covers `psn`, the retransmission that the SACK answers, or what follows the cumulative PSN
        when that is beyond it. Without one, the bitmap ends with the lowest group of arrivals not covered yet, so that
        it also repeats what came before them. Arrivals it does not cover stay recorded, and another SACK is queued for
        them.
        """
        expected = self._received.next_psn
        base = expected
        if not oldest and self._received.max_psn - expected >= control.SACK_BITS:
            base = self._oldest_unshown(expected) if psn < 0 else max(expected, psn - control.SACK_BITS + 1)
        end = base + control.SACK_BITS
        more = False
        for plane, high in enumerate(self.high):
            if high < end:
                self.low[plane] = self.high[plane] = -1
            else:
                self.low[plane] = max(self.low[plane], end)
                more = True
        if more and not self._sacks:
            self._sacks.append(_sweep_trigger(expected))
        return base

    def _oldest_unshown(self, expected: int) -> int:
        waiting = [
            (max(low, expected), high)
            for low, high in zip(self.low, self.high, strict=True)
            if low >= 0 and high >= expected
        ]
        if not waiting:
            return self._received.max_psn - control.SACK_BITS + 1
        end = min(waiting)[0] + control.SACK_BITS
        top = max(min(high, end - 1) for low, high in waiting if low < end)
        return max(expected, top - control.SACK_BITS + 1)


def _flags(trigger: _Trigger) -> int:
    """Mark and probe of a SACK, as in its first word."""
    return trigger.mark << 5 | (trigger.probe_id >= 0) << 1


def _sweep_trigger(expected: int) -> _Trigger:
    """The trigger of a SACK that answers no packet in particular."""
    return _Trigger(expected - 1, control.NO_ENTROPY, 0, control.MARK_NONE, -1)
