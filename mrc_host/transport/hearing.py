"""What an MRC requester learns from the peer's answers: what arrived, what is lost, which paths work, what is done.

A SACK frees packets, feeds the round-trip time and the congestion controller, and lets ``Flight`` judge the lanes it
touched. A loss retires the path at once. A NACK marks one packet lost without blame, but when nothing else comes for
long it costs retries. A transport ACK completes requests. The answer to a reliability probe shows the holes in what was
sent before it on its plane.

A SACK that was overtaken by a newer one still acknowledges, and tells the congestion controller the round trip and the
mark of the packet that it answers, but nothing of what is missing, what arrived, or how slow the receiver is. PSNs and
message numbers are plain growing integers here (see ``wire.psn``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrc_host.config import ProbeMark
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.flight import Flight
from mrc_host.transport.loss import FREE, OUT
from mrc_host.transport.paths import PathSet
from mrc_host.transport.peer import Peer
from mrc_host.transport.receiver_limit import UNLIMITED, ReceiverLimit
from mrc_host.transport.silence import Silence
from mrc_host.values import CompletionStatus, PathReason
from mrc_host.wire import control
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Drop
from mrc_host.wire.headers import timestamp
from mrc_host.wire.psn import HALF, MASK, expand

if TYPE_CHECKING:
    from mrc_host.transport.mrc import MrcQueuePair

_OTHER_LIFE: Final = (
    CompletionStatus.REMOTE_OPERATION_ERROR,
    "The peer's queue pair expects other PSNs: it was reset, or connected to another endpoint than this one. "
    "Reset both ends and exchange endpoints anew.",
)
_UNEXPECTED: Final = (
    CompletionStatus.REMOTE_OPERATION_ERROR,
    "The peer met an unexpected event on this queue pair (NACK 0x19).",
)


class Hearing(Flight):
    """A flight of packets that follows the peer's answers."""

    __slots__ = (
        "_first",
        "_host",
        "_mpr_cap",
        "_obedient",
        "_probes",
        "_qp",
        "_rcvd_units",
        "_sends",
        "_una_since",
        "_wimm_done",
        "_window",
        "allowed",
        "completed_msn",
        "silence",
    )

    def __init__(
        self, qp: MrcQueuePair, peer: Peer, paths: PathSet, cc: CongestionControl, obedient: bool, first_psn: int
    ) -> None:
        attributes, settings = qp.attributes, qp.host.transport
        super().__init__(peer, paths, cc, qp.stats, qp.host.settings, first_psn)
        self._qp = qp
        self._host = qp.host
        self._first = first_psn  # of this life
        self._una_since = 0  # when una last moved
        self._sends = qp.sends
        self._window = attributes.mpr_dest * 128 - 1
        self._mpr_cap = attributes.dynamic_mpr
        self.allowed = ReceiverLimit(attributes.path_mtu)
        self._obedient = obedient  # the congestion control lets a slow receiver ask for less
        self._rcvd_units = 0  # by the newest SACK
        self._probes: dict[int, tuple[int, int, int]] = {}  # on the way: id -> plane, path, time sent
        self.completed_msn = 0
        self._wimm_done = 0
        self.silence = Silence(
            self.round_trips,
            attributes.timeout,
            attributes.retry_count,
            settings.linear_retries,
            settings.max_backoff,
            settings.tail_probe_min,
        )

    def psns_used(self) -> int:
        """How many PSNs were sent."""
        return self._next - self._first

    def on_sack(self, sack: Sack, now: int) -> Drop | None:
        """Take a SACK, unless it speaks of PSNs that this life never sent."""
        una = self._una
        ahead = (sack.cack_psn - una + 1) & MASK
        cack = una - 1 + (ahead if ahead < HALF else ahead - MASK - 1)
        if cack >= self._next:
            return Drop.MALFORMED
        if cack < self._first - 1:
            return Drop.OTHER_LIFE
        stats = self._stats
        stats.acks_received += 1
        stats.sacks_received += 1
        if sack.mark != control.MARK_NONE:
            stats.marks_heard += 1
        ring, ring_mask = self._ring, self._ring_mask
        self.silence.broken(now)
        rtt = 0
        answered = False  # a mark, by the choice of paths
        asked = 0  # when that was sent which this answers
        received = (sack.rcvd_units - self._rcvd_units) & 0xFFFFFF
        newest = received < HALF  # not overtaken by a newer SACK
        if not sack.probe:
            psn = cack + sack.ack_offset
            if self._repeats and psn in self._repeats:
                self._answered(psn, sack.timestamp, newest, now)
            if psn < self._next:
                # A SACK made with others often answers what the first of them has freed: its record is still there.
                record = ring[psn & ring_mask]
                if record.psn == psn and record.stamp == sack.timestamp and record.attempts and not record.timed:
                    record.timed = True
                    asked = record.sent
                    rtt = now - asked
                    stats.round_trip(rtt)
                    self.paths.round_trip[record.index] = rtt
                    trip = self.round_trips[record.plane]
                    if not trip.smoothed or trip.doubtful:
                        self._host.scheduler.arm(self._qp, now + 2 * rtt + self.silence.tail_min)
                    trip.sample(rtt, self.silence.outlasted(asked, now), now)
                    if sack.mark == control.MARK_SKIP_ONCE:
                        answered = self.paths.stands_out(record.index, trip.least, now)
                    if self.paths.weights.slow:
                        self.paths.weights.ease(trip.least, now)
            self._path_word(sack.entropy, sack.mark, now)
        elif (probe := self._probes.get(sack.ack_offset & 0xFFFF)) is not None:
            plane, _index, asked = probe
            if cack < una - 1 and asked > self._una_since:
                self._qp.enter_error(*_OTHER_LIFE, now)
                return None
            if not self.round_trips[plane].smoothed:
                self._measured(plane, asked, now)
        acked = 0
        touched = 0
        for psn in range(una, cack + 1):
            record = ring[psn & ring_mask]
            if record.state != FREE:
                if not acked and record.attempts == 1:
                    self.silence.waited(now - record.sent)
                acked += record.weight
                touched |= 1 << record.lane
                self._free(record, now)
        if cack >= una:
            self._sacked >>= cack + 1 - una
            self._una = una = cack + 1
            self._una_since = now
        new = self._new_bits(cack + sack.bitmap_offset, sack.bitmap)
        self._sacked |= new
        while new:
            low = new & -new
            new ^= low
            record = ring[(una + low.bit_length() - 1) & ring_mask]
            if record.state != FREE:
                if not acked and record.attempts == 1:
                    self.silence.waited(now - record.sent)
                acked += record.weight
                touched |= 1 << record.lane
                self._free(record, now)
        if newest:
            self._rcvd_units = sack.rcvd_units
            if sack.mpr and self._mpr_cap:
                self._window = min(sack.mpr, self._mpr_cap) * 128 - 1
            self._count.total += received
            if (
                (self._repeats or not self._count.calibrated)
                and sack.bitmap_offset <= 1
                and self._next - cack <= sack.bitmap_offset + control.SACK_BITS
            ):
                self._compare_counts(now)
        if self._suspects and (patience := self.silence.patience()):
            shown = self._suspects.shown(cack + 1, cack + sack.bitmap_offset, sack.bitmap, asked - patience)
            self._blame(shown, now)
        if sack.probe:
            touched |= self._probe_answer(sack.ack_offset & 0xFFFF, sack.mark, now)
        self._alive(now, acked > 0)
        if sack.probe and not self.flying and not self._lost:
            self.silence.waits()
        marked = sack.mark != control.MARK_NONE  # of either kind: congestion control knows no paths
        if answered:
            rtt = 0
        if newest:
            self._judge(touched, cack + 1, cack + sack.bitmap_offset, now)
            if asked and self._una < self._next:
                self._judge_silent(ring[self._una & ring_mask], asked, self.silence.timeout, now)
            got = received * control.RCVD_UNIT
            allowed = self.allowed
            if self._obedient and (sack.cwnd_penalty or allowed.limit != UNLIMITED):
                allowed.on_sack(sack.cwnd_penalty, sack.restore_cwnd, got, self.flying + acked, self.cc.cwnd)
            self.cc.on_ack(acked, got, rtt, marked, now, sack.cwnd_penalty, sack.restore_cwnd)
        elif rtt:
            self.cc.on_ack(acked, 0, rtt, marked, now)
        return None

    def _measured(self, plane: int, sent: int, now: int) -> None:
        self.round_trips[plane].sample(now - sent, self.silence.outlasted(sent, now), now)

    def _path_word(self, entropy: int, mark: int, now: int) -> None:
        """What a SACK says about the path of the packet that caused it."""
        index = self._peer.index_of.get(entropy, -1)
        if index < 0:
            return
        if mark == control.MARK_NONE:
            self._peer.works(index, now)
        elif mark == control.MARK_SKIP_ONCE:
            self.paths.skip(index)
        elif mark == control.MARK_ALWAYS_SKIP:
            self.paths.retire(index, PathReason.PEER_SKIP, None, now, True)

    def _probe_answer(self, probe_id: int, mark: int, now: int) -> int:
        """A reliability probe came back: everything sent before it on its plane should have arrived."""
        probe = self._probes.pop(probe_id, None)
        if probe is None:
            return 0
        plane, index, sent = probe
        self._peer.works(index, now)
        if mark == control.MARK_SKIP_ONCE and self._host.settings.probe_mark is ProbeMark.SKIP:
            self.paths.skip(index)
        for lane in (self.lanes[2 * plane], self.lanes[2 * plane + 1]):
            lane.acked = max(lane.acked, sent)
        return 3 << 2 * plane

    def _alive(self, now: int, progress: bool) -> None:
        if progress:
            self._silent.clear()
        if self.silence.heard(now, progress):
            self._host.scheduler.arm(self._qp, now + self.silence.quiet_time())

    def on_nack(self, nack: Nack, now: int) -> tuple[CompletionStatus, str] | None:
        """Take a NACK. Returns status and reason when that is the end of the queue pair."""
        if nack.reason == control.NACK_UNEXP_EVENT and self._asked_with(nack.psn, nack.timestamp):
            return _UNEXPECTED
        psn = expand(nack.psn, self._una)
        if not self._una <= psn < self._next:
            return None
        stats = self._stats
        stats.acks_received += 1
        stats.nack_received(nack.reason)
        stats.sequence_errors += 1
        record = self._ring[psn & self._ring_mask]
        if record.state != OUT or record.stamp != nack.timestamp:
            return None
        if nack.reason == control.NACK_UNEXP_EVENT:
            return _UNEXPECTED
        again = record.attempts > 1 and record.sent > self._una_since
        if again and psn == self._una and nack.reason == control.NACK_PSN_OOR_WINDOW:
            return _OTHER_LIFE  # in this life it is the very one that the peer expects
        self._alive(now, False)
        name = control.NACK_NAMES.get(nack.reason, "nack")
        if not self.silence.refused(now):
            retries = self.silence.retries - 1
            return (
                CompletionStatus.RETRY_EXCEEDED,
                f"Nothing was acknowledged after {retries} retries; the peer refuses packets (NACK {name}).",
            )
        self._mark_lost(record, name)
        if nack.reason == control.NACK_TRIMMED:
            self.paths.skip(record.index, PathReason.TRIMMED)
        if nack.reason <= control.NACK_TRIMMED_LASTHOP:
            self.cc.on_trim(record.weight, now, now - record.sent)
        elif nack.reason != control.NACK_PSN_OOR_WINDOW:
            self.cc.on_loss(record.weight, now)  # the receiver has no room for it
        return None

    def sent_just(self, number: int, stamp: int) -> bool:
        """Whether something with this timestamp is on the way: a PSN that ends in `number` (16 bit), or a probe."""
        psn = self._una + ((number - self._una) & 0xFFFF)
        record = self._ring[psn & self._ring_mask]
        data = psn < self._next and record.psn == psn and record.state == OUT and record.stamp == stamp
        return data or self._asked_with(number, stamp)

    def _asked_with(self, number: int, stamp: int) -> bool:
        """Whether a reliability probe with this number and timestamp is on the way."""
        probe = self._probes.get(number)
        return probe is not None and timestamp(probe[2]) == stamp

    def on_ack(self, psn: int, nak: bool, msn: int, now: int) -> Drop | None:
        """Complete every request up to message count `msn` (24 bit).

        `psn` (24 bit) is the cumulative one, in a NAK the one after it. It is dropped when the peer cannot have
        completed so many messages of this life with these PSNs.
        """
        behind = expand(psn, self._una) + (not nak)
        if behind > self._next:
            return Drop.MALFORMED
        if behind < self._first:
            return Drop.OTHER_LIFE
        count = (msn - self.completed_msn) & MASK
        outstanding = self._sends.outstanding
        if count >= HALF or count == 0:
            return None
        if count > len(outstanding) or not 0 <= outstanding[count - 1].last_psn < behind:
            return Drop.MALFORMED
        self._stats.acks_received += 1
        last = outstanding[count - 1].last_psn
        self._wimm_done += sum(1 for i in range(count) if outstanding[i].with_imm)
        for psn in range(self._una, last + 1):
            record = self._ring[psn & self._ring_mask]
            if record.state != FREE:
                self._free(record, now)
        if last >= self._una:
            self._sacked >>= last + 1 - self._una
            self._una = last + 1
            self._una_since = now
        self.completed_msn += count
        self._sends.complete(count)
        self._alive(now, True)
        return None
