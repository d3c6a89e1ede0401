"""ACK processing of an MRC requester: what arrived, what is lost, which paths work, which requests are complete.

A SACK frees packets, gives samples to the round-trip time and the congestion controller, and starts ``loss_detection``
on the lanes it touched. A NACK marks one packet as lost without suspecting its path, but counts as a retry when nothing
but NACKs arrive for an RTO. A transport ACK completes requests. The answer to a reliability probe shows which of the
packets sent before it on its plane are missing.

A SACK that was overtaken by a newer one still acknowledges packets, and gives the congestion controller the round trip
and the mark of the packet that it answers. Everything else it says (missing packets, received bytes, the receiver's
limit) is out of date and ignored.

When a packet that was sent more than once is acknowledged, any of its transmissions may have arrived, so this says
nothing about its lanes; a SACK that answers the latest transmission does. PSNs and message numbers are unbounded
integers here (see ``wire.psn``).
"""

from __future__ import annotations

from typing import Final

from mrc_host.config import ProbeMark
from mrc_host.transport.congestion import measures_delay
from mrc_host.transport.cumulative_psn import cumulative, outside_life
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.queue_pair_interfaces import AnswerPaths, Connection, PathMonitor, RequesterOwner
from mrc_host.transport.requester_parts import RequesterParts
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.sent_packet import FREE, LOST, OUT, SentPacket
from mrc_host.transport.sent_packets import NEVER
from mrc_host.transport.timeout_attribution import SuspectedPath
from mrc_host.verbs_types import CompletionStatus, PathReason
from mrc_host.wire import control
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Drop
from mrc_host.wire.psn import HALF, expand

_OTHER_LIFE: Final = (
    CompletionStatus.REMOTE_OPERATION_ERROR,
    "The peer's queue pair expects other PSNs: it was reset, or connected to another endpoint than this one. "
    "Reset both ends and exchange endpoints again.",
)
_UNEXPECTED: Final = (
    CompletionStatus.REMOTE_OPERATION_ERROR,
    "The peer met an unexpected event on this queue pair (NACK 0x19).",
)


class AckProcessing:
    """Passes the peer's answers on to the other parts of a requester; it owns none of them."""

    __slots__ = (
        "_answers",
        "_attribution",
        "_loss",
        "_measures_delay",
        "_messages",
        "_monitor",
        "_owner",
        "_paths",
        "_probe_mark",
        "_probes",
        "_rcvd_units",
        "_round_trips",
        "_sends",
        "_sent",
        "_spurious",
        "_stamp_wrap",
        "_stats",
        "_timer",
        "_values",
        "_window",
    )

    def __init__(
        self,
        owner: RequesterOwner,
        connection: Connection,
        monitor: PathMonitor,
        answers: AnswerPaths,
        values: EntropyValues,
        round_trips: list[RoundTrip],
        parts: RequesterParts,
    ) -> None:
        """`values` are the peer's entropy values; `round_trips` are by plane."""
        settings = connection.nic.settings
        self._owner = owner
        self._stats = connection.stats
        self._monitor = monitor
        self._answers = answers
        self._values = values
        self._round_trips = round_trips
        self._paths = parts.paths
        self._sends = parts.sends
        self._messages = parts.messages
        self._window = parts.window
        self._measures_delay = measures_delay(parts.window.cc)
        self._sent = parts.sent
        self._loss = parts.loss
        self._spurious = parts.spurious
        self._attribution = parts.attribution
        self._probes = parts.probes
        self._timer = parts.timer
        self._probe_mark = settings.probe_mark is ProbeMark.SKIP
        self._stamp_wrap = settings.timestamp_tick.value << 16  # ns after which a timestamp repeats
        self._rcvd_units = 0  # in the newest SACK

    # ---- SACK ---------------------------------------------------------------------------------------------------

    def on_sack(self, sack: Sack, port: int, now: int) -> Drop | None:
        """Process a SACK that arrived at `port`, unless its PSNs were never sent in this life of the queue pair."""
        sent, stats, timer = self._sent, self._stats, self._timer
        cack = cumulative(sack.cack_psn, sent.una)
        drop = outside_life(cack, sent.first_psn, sent.next_psn)
        if drop is not None:
            return drop
        stats.acks_received += 1
        stats.sacks_received += 1
        if sack.mark != control.MARK_NONE:
            stats.marks_reported += 1
        timer.end_silence(now)
        received = (sack.rcvd_units - self._rcvd_units) & 0xFFFFFF
        newest = received < HALF  # not overtaken by a newer SACK
        answered_at = rtt = 0  # send time of what this SACK answers, and its round trip
        if not sack.probe:
            if sack.entropy != control.NO_ENTROPY:
                answered_at, rtt = self._packet_answered(sack, cack + sack.ack_offset, port, newest, now)
                self._path_reported(sack.entropy, sack.mark, now)
        elif (probe := self._probes.find(sack.ack_offset & 0xFFFF, sack.timestamp)) is not None:
            answered_at = probe.sent
            if cack < sent.una - 1 and answered_at > sent.una_since:
                self._owner.enter_error(*_OTHER_LIFE, now)
                return None
            if not self._round_trips[probe.plane].smoothed:
                self._measured(probe.plane, answered_at, now)
        acked, touched = self._acknowledge(cack, cack + sack.bitmap_offset, sack.bitmap, now)
        if newest:
            self._rcvd_units = sack.rcvd_units
            self._window.offered(sack.mpr)
            self._count_received(sack, cack, received, now)
        if self._attribution.waiting() and (bound := timer.base_pto()):
            self._retire_confirmed(
                self._attribution.shown(cack + 1, cack + sack.bitmap_offset, sack.bitmap, answered_at - bound), now
            )
        if sack.probe:
            touched |= self._probe_answered(sack, now)
        self._on_answer(now, acked > 0)
        if sack.probe and not sent.in_flight and not sent.lost():
            timer.reset_retries()
        marked = sack.mark != control.MARK_NONE  # any mark: congestion control does not distinguish paths
        if newest:
            self._loss.detect(touched, cack + 1, cack + sack.bitmap_offset, now)
            if self._loss.window_ends:
                self._owner.arm(self._loss.window_ends)
            if sent.una < sent.next_psn:
                self._loss.detect_silent_planes(answered_at, timer.unmeasured_pto(), cack + sack.bitmap_offset, now)
            got = received * control.RCVD_UNIT
            self._window.limit_by(sack, got, sent.in_flight + acked)
            self._window.cc.on_ack(acked, got, rtt, marked, now, sack.cwnd_penalty, sack.restore_cwnd)
        elif rtt:
            self._window.cc.on_ack(acked, 0, rtt, marked, now)
        return None

    def _packet_answered(self, sack: Sack, psn: int, port: int, newest: bool, now: int) -> tuple[int, int]:
        """A SACK answers packet `psn`: its send time, and its round trip for congestion control; each 0 if not known.

        Congestion control does not get the round trip of a marked packet when weighted spraying already reacts to the
        mark.
        """
        sent = self._sent
        if self._spurious.packets and psn in self._spurious.packets:
            self._retransmission_answered(psn, sack.timestamp, newest, now)
        if psn >= sent.next_psn:
            return 0, 0
        # One of several SACKs sent together often answers a packet that the first has freed; its record is intact.
        record = sent.ring[psn & sent.mask]
        if record.psn != psn or record.stamp != sack.timestamp or not record.attempts or record.timed:
            return 0, 0
        record.timed = True
        answered_at = record.sent
        rtt = now - answered_at
        paths, timer, trip = self._paths, self._timer, self._round_trips[record.plane]
        self._stats.round_trip(rtt)
        paths.measured(record.index, rtt)
        paths.answered(record.value, rtt, sack.mark != control.MARK_NONE)
        if not trip.smoothed or trip.doubtful:
            self._owner.arm(now + 2 * rtt + timer.min_pto)
        trip.sample(rtt, timer.delayed_by_silence(answered_at, now), now)
        if self._measures_delay:
            base, mean = self._monitor.answered(record.index, port, rtt, record.weight, now)
            self._window.cc.on_base_rtt(base, mean)
        answered = sack.mark == control.MARK_SKIP_ONCE and paths.stands_out(record.index, trip.min_rtt, now)
        if paths.weights.slow:
            paths.weights.ease(trip.min_rtt, now)
        return answered_at, 0 if answered else rtt

    def _measured(self, plane: int, sent: int, now: int) -> None:
        """A packet or probe sent on `plane` at `sent` was answered: sample the round-trip time."""
        self._round_trips[plane].sample(now - sent, self._timer.delayed_by_silence(sent, now), now)

    def _path_reported(self, entropy: int, mark: int, now: int) -> None:
        """Act on what a SACK says about the path of the packet that caused it."""
        value = self._values.index(entropy)
        if value < 0:
            return
        if mark == control.MARK_NONE:
            self._answers.works(self._paths.path(value), now)
        elif mark == control.MARK_SKIP_ONCE:
            self._paths.skip(value)
        elif mark == control.MARK_ALWAYS_SKIP:
            self._paths.retire(self._paths.path(value), PathReason.PEER_SKIP, None, now, True)

    def _count_received(self, sack: Sack, cack: int, received: int, now: int) -> None:
        """Update the peer's count of received bytes; if this SACK covers everything in flight, find duplicates."""
        spurious, attribution = self._spurious, self._attribution
        count = spurious.count
        count.total += received
        if (
            (spurious.packets or not count.calibrated)
            and sack.bitmap_offset <= 1
            and self._sent.next_psn - cack <= sack.bitmap_offset + control.SACK_BITS
        ):
            believed = spurious.compare()
            self._retire_confirmed(attribution.counted(spurious.count.duplicates if believed else NEVER), now)

    def _retire_confirmed(self, confirmed: list[SuspectedPath], now: int) -> None:
        """Retire paths confirmed as the cause of a timeout, except for packets sent before the peer first answered."""
        for index, sent, _ in confirmed:
            if sent >= self._sent.first_answered:
                self._paths.retire(index, PathReason.TIMEOUT, sent, now, self._loss.carries(index, NEVER))

    def _probe_answered(self, sack: Sack, now: int) -> int:
        """A reliability probe was answered: what its plane carried before should have arrived. Returns lanes."""
        number = sack.ack_offset & 0xFFFF
        probe = self._probes.find(number, sack.timestamp)
        if probe is None:
            return 0
        self._probes.answered(number)
        self._answers.works(probe.path, now)
        self._sent.answered(probe.sent)
        if sack.mark == control.MARK_SKIP_ONCE and self._probe_mark:
            self._paths.skip(probe.path)
        for lane in self._sent.lanes[2 * probe.plane : 2 * probe.plane + 2]:
            if probe.sent >= lane.acked:
                lane.acked, lane.proven = probe.sent, probe.path
        return 3 << 2 * probe.plane

    def _on_answer(self, now: int, progress: bool) -> None:
        if progress:
            self._attribution.progress()
        self._window.answered()
        # while data is queued no timer runs; if what was lost arrived after all, nothing leaves that would set it
        if self._timer.on_answer(now, progress) or (self._sends.outstanding and not self._owner.armed()):
            self._owner.arm(now + self._timer.pto())

    # ---- acknowledged packets -----------------------------------------------------------------------------------

    def _acknowledge(self, cack: int, base: int, bitmap: int, now: int) -> tuple[int, int]:
        """Acknowledge all up to `cack` and what `bitmap` shows from `base` on: bytes, and a mask of lanes."""
        sent = self._sent
        ring, mask, una = sent.ring, sent.mask, sent.una
        acked = touched = 0
        for psn in range(una, cack + 1):
            record = ring[psn & mask]
            if record.state != FREE:
                if not acked and record.attempts == 1:
                    self._timer.sample_ack_time(now - record.sent)
                acked += record.weight
                touched |= 1 << int(record.lane)
                self._free(record, now)
        if cack >= una:
            una = cack + 1
            sent.advance(una, now)
        new = sent.new_bits(base, bitmap)
        sent.sacked |= new
        while new:
            low = new & -new
            new ^= low
            record = ring[(una + low.bit_length() - 1) & mask]
            if record.state != FREE:
                if not acked and record.attempts == 1:
                    self._timer.sample_ack_time(now - record.sent)
                acked += record.weight
                touched |= 1 << int(record.lane)
                self._free(record, now)
        return acked, touched

    def _free(self, record: SentPacket, now: int) -> None:
        """A packet is acknowledged."""
        sent, state = self._sent, record.state
        sent.acknowledge(record)
        self._spurious.count.acked += record.weight >> 8
        if state == LOST:
            self._lost_arrived(record, now)
        elif record.attempts > 1 and not self._latest_arrived(record, now):
            return
        sent.answered(record.sent)
        if record.attempts > 1:
            return  # only a SACK that answers it says which transmission arrived, and when
        index, trip = record.index, self._round_trips[record.plane]
        if self._paths.trial:
            self._paths.trial.pop(index, None)
        if not trip.smoothed:
            trip.limit(now - record.sent)
        self._loss.arrived(record.lane, index, record.sent, now)
        if not record.lane & 1:
            path = self._paths.each[index]
            if record.serial > path.arrived_serial:
                path.arrived_serial = record.serial

    def _retransmission_answered(self, psn: int, stamp: int, newest: bool, now: int) -> None:
        """A SACK, perhaps the newest, answers a packet that was sent more than once."""
        known = self._spurious.packets[psn]
        if stamp == known.latest:
            self._loss.arrived(known.latest_lane, known.latest_index, known.latest_sent, now)
            self._attribution.answered(psn)
            record = self._sent.record(psn)
            if record.psn == psn and record.state == LOST:
                self._loss.disproved(record.index, record.lane, record.sent, record.by_order, now)
            return
        number = known.earlier(stamp, now - self._stamp_wrap)
        if number >= 0:  # an earlier transmission arrived: all later ones were spurious
            self._attribution.clear(psn)
            _stamp, sent, index, lane = known.history[number]
            self._measured(lane >> 1, sent, now)
            self._paths.measured(index, now - sent)
            self._spurious.arrived(known, number, newest)
            if number < known.proved:
                known.proved = number
                self._loss.disproved(index, lane, sent, known.by_order and number == 0, now)

    def _latest_arrived(self, record: SentPacket, now: int) -> bool:
        """A packet sent more than once is acknowledged; False when that is too soon for the latest transmission.

        This clears no path: it is not known which transmission arrived, and the minimum round trip may not be measured
        yet.
        """
        least = self._round_trips[record.plane].min_rtt
        latest = not least or now - record.sent >= least * 3 // 4
        if latest:
            self._attribution.acknowledged(record.psn)
        else:
            known = self._spurious.packets.get(record.psn)
            if known is not None:
                self._spurious.arrived(known, len(known.history) - 1, True)
            self._attribution.clear(record.psn)
        return latest

    def _lost_arrived(self, record: SentPacket, now: int) -> None:
        """A packet declared lost had arrived: its path works. After a timeout, its acknowledgement was lost instead."""
        if record.attempts > 1:  # it is not known which transmission arrived
            self._attribution.acknowledged(record.psn)
            return
        self._stats.late += 1
        self._attribution.clear(record.psn)
        self._loss.disproved(record.index, record.lane, record.sent, record.by_order, now)

    # ---- NACK and transport ACK ---------------------------------------------------------------------------------

    def on_nack(self, nack: Nack, now: int) -> tuple[CompletionStatus, str] | None:
        """Process a NACK. Returns status and reason when it ends the queue pair."""
        sent, timer = self._sent, self._timer
        if nack.reason == control.NACK_UNEXP_EVENT and self._probes.in_flight(nack.psn, nack.timestamp):
            return _UNEXPECTED
        psn = expand(nack.psn, sent.una)
        if not sent.una <= psn < sent.next_psn:
            return None
        stats = self._stats
        stats.acks_received += 1
        stats.nack_received(nack.reason)
        stats.sequence_errors += 1
        record = sent.record(psn)
        if nack.reason <= control.NACK_TRIMMED_LASTHOP and nack.timestamp == self._spurious.first_stamp(record):
            self._attribution.clear(psn)  # it got as far as a full queue: its timeout was not its path's fault
        if record.state != OUT or record.stamp != nack.timestamp:
            return None
        if nack.reason == control.NACK_UNEXP_EVENT:
            return _UNEXPECTED
        again = record.attempts > 1 and record.sent > sent.una_since
        if again and psn == sent.una and nack.reason == control.NACK_PSN_OOR_WINDOW:
            return _OTHER_LIFE  # a peer that knew this life would expect exactly this PSN
        self._on_answer(now, False)
        name = control.NACK_NAMES.get(nack.reason, "nack")
        if not timer.on_nack(now):
            retries = timer.retries - 1
            return (
                CompletionStatus.RETRY_EXCEEDED,
                f"Nothing was acknowledged after {retries} retries; the peer refuses packets (NACK {name}).",
            )
        self._loss.mark_lost(record, name)
        if nack.reason == control.NACK_TRIMMED:
            self._paths.skip(record.value, PathReason.TRIMMED)
        if nack.reason <= control.NACK_TRIMMED_LASTHOP:
            if self._measures_delay:
                base, mean = self._monitor.trimmed(record.index, now - record.sent)
                self._window.cc.on_base_rtt(base, mean)
            self._loss.trimmed(record)
            self._window.cc.on_trim(record.weight, now, now - record.sent)
        elif nack.reason != control.NACK_PSN_OOR_WINDOW:
            self._window.cc.on_loss(record.weight, now)  # the receiver had no room for it
        return None

    def is_in_flight(self, number: int, stamp: int) -> bool:
        """Whether a packet or probe with this timestamp is in flight; `number` is a probe's, or 16 bits of a PSN."""
        sent = self._sent
        psn = sent.una + ((number - sent.una) & 0xFFFF)
        record = sent.record(psn)
        data = psn < sent.next_psn and record.psn == psn and record.state == OUT and record.stamp == stamp
        return data or self._probes.in_flight(number, stamp)

    def on_ack(self, psn: int, nak: bool, msn: int, now: int) -> Drop | None:
        """Complete all requests up to message count `msn` (24 bit), and acknowledge what has arrived before them.

        `psn` (24 bit) is the cumulative PSN; in a NAK, the one after it. The ACK is dropped when the peer cannot have
        completed so many messages of this life with these PSNs.
        """
        sent = self._sent
        last = cumulative(psn - nak, sent.una)
        drop = outside_life(last, sent.first_psn, sent.next_psn)
        if drop is not None:
            return drop
        count = self._messages.completed_by(msn, last + 1, sent.una)
        if count < 0:
            return Drop.MALFORMED
        if not count and last < sent.una:
            return None
        self._stats.acks_received += 1
        for acknowledged in range(sent.una, last + 1):
            record = sent.record(acknowledged)
            if record.state != FREE:
                self._free(record, now)
        if last >= sent.una:
            sent.advance(last + 1, now)
        self._messages.complete(count)
        self._on_answer(now, True)
        return None
