"""Acknowledgements of an MRC responder: which packets arrived, which are missing, which messages are complete.

A SACK is due (docs/protocol.md §2) after ``sack_threshold`` bytes, on the A bit, on an ECN mark, on a retransmission,
and on a probe. If a packet with the A bit arrives ahead of others, another SACK is sent once these have arrived:
nothing else would report the last arrivals to the sender, nor the number of duplicates. If it arrives trimmed, a SACK
is due for what is here, and for each packet that comes before a newer one (§10.1). A newer SACK replaces an older one
not sent yet, unless that carries something of its own: a mark, the answer to a probe, or which transmission of a
repeated packet arrived.

The bitmap of a SACK covers 64 PSNs. Since planes progress at different rates, arrivals not yet covered by a bitmap are
remembered by plane, and when one bitmap cannot cover them all, another SACK follows. The count of received bytes
includes duplicates. While the receive CQ is full, SACKs ask the sender to reduce its window, and to restore it
afterwards.

What has arrived, what no bitmap has shown, and whether an arrival makes a SACK due is in the receive state
(``datapath/receive_state.h``), since most packets are placed without Python.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mrc_host.config import OutOfWindow
from mrc_host.transport.peer_frames import CONTROL
from mrc_host.transport.queue_pair_interfaces import AnswerPaths, Connection, ResponderOwner
from mrc_host.transport.sack_sweep import Sweep
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import Nack
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.psn import HALF, MASK

if TYPE_CHECKING:
    from mrc_host.datapath import native

_MAX_SACKS: Final = 64  # queued
_RESTORES: Final = 4  # SACKs that ask to restore the window; several, as some may be lost
_MAX_NACKS: Final = 256
_MAX_MARKED: Final = 4096  # paths whose marks are counted
_MIN_RANGE: Final = 8  # units of 128 PSNs; the minimum a responder may offer
_PENALTY: Final = 64  # out of 127: halves the sender's window in a round trip


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


_NO_PACKET: Final = _Trigger(-1, control.NO_ENTROPY, 0, control.MARK_NONE, -1)  # a further SACK, which answers none


class AckGenerator:
    """The acknowledgements due on one connection."""

    __slots__ = (
        "_cap",
        "_connection",
        "_each",
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
        "_trim_nack",
        "_window",
        "ack_due",
        "completed_msn",
        "nak",
        "nak_due",
    )

    def __init__(
        self,
        owner: ResponderOwner,
        connection: Connection,
        paths: AnswerPaths,
        received: native.ReceiveState,
        each: bool = False,
    ) -> None:
        """With `each`, no SACK takes the place of another: the peer wants to hear of each packet."""
        attributes, nic = connection.attributes, connection.nic
        self._owner = owner
        self._connection = connection
        self._each = each
        self._paths = paths
        self._received = received
        self._stats = connection.stats
        self._remote_qpn = connection.remote_qpn
        self._cap = attributes.dynamic_mpr
        self._offer = min(attributes.mpr, self._cap)  # units of 128 PSNs offered in SACKs; 0 when the range is fixed
        self._window = max(attributes.mpr, self._cap) * 128 - 1
        self._trim_nack = attributes.trim_nack
        self._silent = nic.settings.out_of_window is OutOfWindow.DROP
        self._skip_after = nic.transport.always_skip_marks
        self._marked: dict[int, int] = {}  # consecutive marks by entropy value; empty unless they are counted
        self.completed_msn = 0  # number of completed messages
        self._slow = False  # the receive CQ is full
        self._restores = 0
        # due
        self._sacks: deque[_Trigger] = deque()
        self._sweep = Sweep(received.next_psn, self._stats.duplicates_received)
        self._nacks: deque[Nack] = deque()
        self._probed: _Trigger | None = None  # the latest probe, until it has been answered again
        self.ack_due = False
        self.nak = 0  # syndrome of the NAK that ends this queue pair
        self.nak_due = False

    # ---- packets that arrived -----------------------------------------------------------------------------------

    def arrived(self, psn: int, word: int, size: int, plane: int, flow: Flow) -> bool:
        """A data packet of `size` bytes was placed here: add it to what has arrived; whether a SACK is due."""
        if word & headers.RTX and len(self._sacks) < _MAX_SACKS:
            plane = -1  # its own SACK shows it
        if self._marked and not flow.ce:
            self._marked.pop(flow.ev, None)
        return self._received.add(psn, plane, size, flow.units, word, flow.ce)

    def due(self, psn: int, flow: Flow, stamp: int, again: bool = False) -> None:
        """Packet `psn`, which may have been sent `again`, makes a SACK due."""
        self._queue_sack(_Trigger(psn, flow.ev, stamp, self._mark_of(flow), -1, again))

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
        if received.has(psn):
            self.duplicate(psn, word, stamp, flow)
        elif self._trim_nack and offset < self._window:
            reason = control.NACK_TRIMMED_LASTHOP if lasthop else control.NACK_TRIMMED
            self.send_nack(reason, psn, flow, stamp)
            if word & headers.ACK_REQUEST:
                received.trimmed_request = max(received.trimmed_request, psn)
                if received.pending_bytes:
                    received.pending_bytes = 0
                    self._queue_sack(_NO_PACKET)
        return None

    def duplicate(self, psn: int, word: int, stamp: int, flow: Flow) -> None:
        """A packet beyond a gap arrived again."""
        self._stats.duplicates_received += 1
        if word & headers.RTX:
            self._paths.doubt_reverse_paths()
        self._sack_again(psn, flow, stamp)

    def behind(self, psn: int, stamp: int, flow: Flow) -> Drop | None:
        """A packet before the expected PSN arrived: acknowledged already, or not of this life."""
        if psn < self._received.first_psn:
            return Drop.OTHER_LIFE
        self._stats.duplicates_received += 1
        if not self._silent:
            self.ack_due = True
            self._paths.doubt_reverse_paths()
            self._sack_again(psn, flow, stamp)
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
        if not self._received.pending_bytes:
            self._paths.doubt_reverse_paths(probed=True)
        self.repeat_ack()
        self._received.pending_bytes = 0
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

    def _sack_again(self, psn: int, flow: Flow, stamp: int) -> None:
        """Packet `psn` had arrived before."""
        self._received.pending_bytes = 0
        self.due(psn, flow, stamp, True)

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
        if sacks and not sacks[-1].keep and not self._each:
            sacks[-1] = trigger
        elif len(sacks) < _MAX_SACKS:
            sacks.append(trigger)
        self._owner.offer_control()

    def pending(self) -> bool:
        """Whether an acknowledgement is due."""
        return self._sweep.active or not self.sweeping()

    def sweeping(self) -> bool:
        """Whether only SACKs of a sweep are left to send."""
        return not (self._nacks or self._sacks or self.ack_due or self.nak_due)

    def transmit(self, plane: int, now: int) -> bytes | None:
        """Next acknowledgement to send on `plane`."""
        paths = self._paths
        if self.sweeping():
            return self._transmit_sweep(plane)
        index = paths.reverse_path(plane, now)
        if index < 0:
            return None
        if self.nak_due:
            self.nak_due = False
            body = self._pack_ack(self._received.next_psn & MASK, self.nak)
        elif self._nacks:
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

    def _pack_ack(self, psn: int, syndrome: int) -> bytes:
        return headers.pack_aeth(opcodes.TRANSPORT_ACK, self._remote_qpn, psn, syndrome, self.completed_msn)

    def _build_sack(self, trigger: _Trigger) -> bytes:
        received, probed = self._received, trigger.probe_id >= 0
        base = received.show(trigger.psn if trigger.again else -1, probed)
        if received.max_psn - received.next_psn >= control.SACK_BITS:
            if received.unshown and not self._sacks:
                self._sacks.append(_NO_PACKET)
            self._begin_sweep(base, probed)
        return self._pack(trigger, base)

    # ---- the sweep ----------------------------------------------------------------------------------------------

    def _begin_sweep(self, base: int, probed: bool) -> None:
        """One bitmap, from `base` on, does not reach the newest PSN: cover the rest in a sweep, if needed.

        It is needed after a probe, and when a hole holds up as many packets as one bitmap covers. Where planes or
        paths differ by as much there always is a hole, but what comes next on the slower one fills it. Each packet that
        arrived gives credit for one SACK, so that a peer cannot trigger many with few packets.
        """
        sweep, received = self._sweep, self._received
        sweep.pay(received.arrived + self._stats.duplicates_received)
        if sweep.credit and (probed or received.held_up >= control.SACK_BITS):
            expected = received.next_psn
            if not probed and sweep.doubted != expected:
                sweep.doubted = expected
                self._paths.doubt_reverse_paths()
            sweep.begin(expected, received.max_psn, base, probed)

    def _transmit_sweep(self, plane: int) -> bytes | None:
        """The next SACK of the sweep, on any path: the failure that lost the peer's packets may affect ours too."""
        sweep, received = self._sweep, self._received
        if not sweep.credit:
            sweep.active = False  # until more packets have arrived
        if not sweep.active:
            return None
        base = received.next_base(sweep.next_psn, sweep.everything)
        if base < 0:
            sweep.end()
            return None
        index = self._paths.random_path(plane)
        if index < 0:
            return None
        sweep.shown(base)
        self._stats.acks_sent += 1
        self._stats.sacks_sent += 1
        return self._paths.frame(index, CONTROL, self._pack(_NO_PACKET, base))

    def _pack(self, trigger: _Trigger, base: int) -> bytes:
        """A SACK whose bitmap begins at `base`. The receive state adds what has arrived."""
        restore = self._restores > 0 and not self._slow
        if restore:
            self._restores -= 1
        psn = self._received.next_psn - 1 if trigger is _NO_PACKET else trigger.psn
        return self._received.sack(
            base, self._remote_qpn, psn, trigger.probe_id, trigger.mark, trigger.entropy, trigger.stamp,
            self._offered_range(), restore, _PENALTY if self._slow else 0,
        )  # fmt: skip

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
