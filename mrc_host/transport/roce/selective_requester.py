"""Requester with selective repeat: what leaves next, what the peer's answers mean, and what is sent again.

Packets have MRC's format, since each must carry the address of its bytes to be placed in any order; RoCE's has none for
that, and IRN proposes the same addition (SIGCOMM 2018, section 5.3). Their path is RoCE's, and the peer answers with
SACKs there. A window of one bandwidth-delay product bounds what is in flight (BDP-FC in IRN), beside the congestion
control's, unless the application gives one.

Whether a path keeps packets in order decides how losses are found (``selective_repeat``). After a timeout only a few
packets are sent until the peer answers. When everything has arrived but its transport ACK, the last packet of the
oldest request is sent again to ask for that.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.congestion import CongestionControl, LinkParameters
from mrc_host.transport.data_packets import DataPackets
from mrc_host.transport.naks import failure
from mrc_host.transport.peer_frames import DATA, FrameTemplates
from mrc_host.transport.queue_pair_interfaces import Connection, RequesterOwner
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.roce.selective_repeat import SelectiveRepeat
from mrc_host.transport.roce.selective_timer import SelectiveTimer
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.work import SendQueue, Wqe
from mrc_host.verbs_types import CompletionStatus
from mrc_host.wire import control, headers
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Drop
from mrc_host.wire.psn import HALF, MASK, expand

_ACK_EVERY: Final = 8  # packets between acknowledgement requests
_WHILE_UNANSWERED: Final = 4  # packets in flight after a timeout, until the peer answers
_UNLIMITED: Final = 1 << 60
_UNEXPECTED: Final = "The peer met an unexpected event on this queue pair (NACK 0x19)."


def bandwidth_delay(link: LinkParameters) -> int:
    """Bytes that BDP-FC lets be in flight: those of the longest path, one MTU at least; unlimited if not known."""
    if not link.base_rtt:
        return _UNLIMITED
    return max(link.rate_bps * link.base_rtt // 8_000_000_000, link.mtu)


class SelectiveRequester:
    """Sending half of a queue pair with selective repeat."""

    __slots__ = (
        "_asking",
        "_completed_msn",
        "_completed_wimm",
        "_current",
        "_in_order",
        "_max_wimm",
        "_most",
        "_msn",
        "_mtu",
        "_owner",
        "_packets",
        "_path",
        "_psn_range",
        "_sends",
        "_stats",
        "_tick",
        "_wimm_sent",
        "cc",
        "last_sent",
        "sent",
        "timer",
    )

    def __init__(
        self,
        owner: RequesterOwner,
        connection: Connection,
        path: RcPath,
        frames: FrameTemplates,
        cc: CongestionControl,
        sends: SendQueue,
        first_psn: int,
        most: int,
        in_order: bool,
    ) -> None:
        """At most `most` bytes are in flight; `in_order` says whether the path keeps packets in order."""
        attributes, settings = connection.attributes, connection.nic.transport
        self._owner = owner
        self._stats = connection.stats
        self._path = path
        self._sends = sends
        self._mtu = attributes.path_mtu
        self._psn_range = attributes.mpr_dest * 128 - 1
        self._max_wimm = attributes.max_wimm_dest
        self._tick = connection.nic.settings.timestamp_tick.value
        self._most = most
        self._in_order = in_order
        self.last_sent = 0
        # parts
        self.cc = cc
        self.sent = SelectiveRepeat(cc, first_psn)
        few = settings.rto_low if in_order else settings.rto_high
        self.timer = SelectiveTimer(RetryPolicy.of(connection), few, settings.rto_high)
        self._packets = DataPackets(connection, frames)
        # messages: the one being segmented, and counts of those started and completed
        self._current: Wqe | None = None
        self._asking: SentPacket | None = None  # a packet that has arrived, and is sent again for the sake of an answer
        self._msn = 0
        self._wimm_sent = 0
        self._completed_msn = 0
        self._completed_wimm = 0

    def psns_used(self) -> int:
        """How many PSNs were sent in this life."""
        return self.sent.next_psn - self.sent.first_psn

    # ---- sending ------------------------------------------------------------------------------------------------

    def ready(self, now: int) -> bool:
        """Whether a packet may be sent at `now`; if only the rate prevents it, the queue pair is woken in time."""
        cc, sent = self.cc, self.sent
        if self._asking is not None:
            return True
        if sent.in_flight and (
            cc.inflight + self._mtu > min(cc.cwnd, self._most)
            or (self.timer.unanswered and sent.in_flight >= _WHILE_UNANSWERED)
        ):
            return False
        if sent.next_lost() is None and not self._may_send_new():
            return False
        when = cc.earliest_send(now)
        if when > now:
            self._owner.arm(when)
            return False
        return True

    def _may_send_new(self) -> bool:
        sent = self.sent
        if sent.next_psn - sent.una >= self._psn_range:
            return False
        return self._current is not None or self._may_start()

    def _may_start(self) -> bool:
        waiting = self._sends.waiting
        if not waiting:
            return False
        head = waiting[0]
        if head.view is None:
            return False
        return not head.with_imm or self._wimm_sent - self._completed_wimm < self._max_wimm

    def _pending(self) -> bool:
        """Whether there is anything to send, whether or not it may leave."""
        waiting = self._sends.waiting
        more = self._current is not None or (bool(waiting) and waiting[0].view is not None)
        return more or self.sent.next_lost() is not None

    def starving(self, now: int) -> None:
        """If data waits while the port is down, start the timer, so that the requests fail eventually."""
        if not self._path.up() and not self._owner.armed() and self._pending():
            self.timer.begin(now)
            self._owner.arm(now + self.timer.ack_timeout)

    def transmit(self, now: int) -> bytes | None:
        """Next packet, or None."""
        if not self.ready(now):
            return None
        sent = self.sent
        if self._asking is not None:
            return self._ask(now)
        record = sent.next_lost()
        if record is not None:
            sent.take_lost()
            self._stats.retransmitted += 1
            return self._emit(record, headers.RTX, now)
        wqe = self._current
        if wqe is None:
            wqe = self._start()
        record = sent.new_record()
        if self._packets.segment(wqe, record):
            self._current = None
        self._stats.data_sent += 1
        return self._emit(record, 0, now)

    def _start(self) -> Wqe:
        wqe = self._sends.start()
        self._current = wqe
        wqe.msn = self._msn
        self._msn += 1
        wqe.rqmsn = self._wimm_sent
        wqe.first_psn = self.sent.next_psn
        self._packets.begin(wqe)
        if wqe.with_imm:
            self._wimm_sent += 1
        return wqe

    def _emit(self, record: SentPacket, flags: int, now: int) -> bytes:
        sent, timer, wqe = self.sent, self.timer, record.wqe
        assert wqe is not None
        if record.psn == sent.una and not record.attempts:
            timer.begin(now)  # nothing was waited for
        self.last_sent = now
        sent.transmitted(record, now // self._tick & 0xFFFF, now)
        self.cc.on_send(record.size, now)
        self._owner.arm(now + timer.timeout(sent.in_flight))
        psn: int = record.psn
        word = psn & MASK | headers.TS_PRESENT | flags
        if flags or self._requests_ack(psn):
            word |= headers.ACK_REQUEST
        return self._packets.build(record, wqe, word, DATA)

    def _ask(self, now: int) -> bytes | None:
        record, self._asking = self._asking, None
        if record is None or record.wqe is None or record.wqe.message is None:
            return None  # the answer has come meanwhile
        self.last_sent = now
        self._stats.retransmitted += 1
        psn: int = record.psn
        word = psn & MASK | headers.TS_PRESENT | headers.RTX | headers.ACK_REQUEST
        return self._packets.build(record, record.wqe, word, DATA)

    def _requests_ack(self, psn: int) -> bool:
        """Whether packet `psn`, which leaves now, requests an acknowledgement: none may follow soon, or it is due."""
        cc = self.cc
        if not psn % _ACK_EVERY or self.timer.unanswered or cc.inflight + self._mtu > min(cc.cwnd, self._most):
            return True
        if not self._may_send_new():
            return True
        return cc.earliest_send(self.last_sent) - self.last_sent > self.timer.timeout(self.sent.in_flight) // 4

    # ---- the peer's answers -------------------------------------------------------------------------------------

    def on_sack(self, sack: Sack, now: int) -> Drop | None:
        """Process a SACK, unless its PSNs were never sent in this life of the queue pair."""
        sent, stats = self.sent, self._stats
        ahead = (sack.cack_psn - sent.una + 1) & MASK
        cumulative = sent.una - 1 + (ahead if ahead < HALF else ahead - MASK - 1)
        if cumulative >= sent.next_psn:
            return Drop.MALFORMED
        if cumulative < sent.first_psn - 1:
            return Drop.OTHER_LIFE
        stats.acks_received += 1
        stats.sacks_received += 1
        marked = sack.mark != control.MARK_NONE
        stats.marks_reported += marked
        rtt = 0
        if sack.entropy != control.NO_ENTROPY:
            rtt = self._measure(cumulative + sack.ack_offset, sack.timestamp, now)
        acked = sent.acknowledge(cumulative, cumulative + sack.bitmap_offset, sack.bitmap)
        self._answered(acked > 0, now)
        if self._in_order:
            self._lost(sent.lose_overtaken(), now)
        self.cc.on_ack(acked, acked, rtt, marked, now)
        return None

    def _answered(self, progress: bool, now: int) -> None:
        sent = self.sent
        self.timer.on_answer(now, progress, sent.in_flight > 0 or sent.next_lost() is not None)
        # while lost packets are queued no timer runs; if they arrived after all, nothing leaves that would set it
        if not self._owner.armed() and (due := self._due()):
            self._owner.arm(due)

    def _measure(self, psn: int, stamp: int, now: int) -> int:
        """A SACK answers packet `psn`: its round trip, 0 if it is not known."""
        record = self.sent.record(psn)
        if record is None or record.stamp != stamp or record.timed:
            return 0
        record.timed = True
        self.sent.answered(record)
        rtt = now - record.sent
        self._stats.round_trip(rtt)
        self.timer.round_trip.sample(rtt, False, now)
        return rtt

    def _lost(self, count: int, now: int) -> None:
        """`count` packets were found lost."""
        if count:
            self._stats.lost += count
            self.cc.on_loss(count * self._mtu, now)

    def on_nack(self, nack: Nack, now: int) -> None:
        """Process a NACK. What the peer had no room for is sent again after a timeout."""
        psn = expand(nack.psn, self.sent.una)
        record = self.sent.record(psn)
        if record is None or psn < self.sent.una or record.stamp != nack.timestamp:
            return
        self._stats.acks_received += 1
        self._stats.nack_received(nack.reason)
        if nack.reason == control.NACK_UNEXP_EVENT:
            self._owner.enter_error(CompletionStatus.REMOTE_OPERATION_ERROR, _UNEXPECTED, now)

    def on_ack(self, wire_psn: int, syndrome: int, msn: int, now: int) -> Drop | None:
        """Complete all requests up to message count `msn` (24 bit); a NAK fails the next.

        `wire_psn` is the cumulative PSN; in a NAK, the one after it. The ACK is dropped when the peer cannot have
        completed so many messages of this life with these PSNs.
        """
        sent, nak = self.sent, syndrome & 0xE0 == headers.SYNDROME_NAK
        behind = expand(wire_psn, sent.una) + (not nak)
        if behind > sent.next_psn:
            return Drop.MALFORMED
        if behind < sent.first_psn:
            return Drop.OTHER_LIFE
        count = (msn - self._completed_msn) & MASK
        outstanding = self._sends.outstanding
        if count < HALF and (count or behind > sent.una):
            if count and (count > len(outstanding) or not 0 <= outstanding[count - 1].last_psn < behind):
                return Drop.MALFORMED
            self._stats.acks_received += 1
            self._completed_wimm += sum([1 for i in range(count) if outstanding[i].with_imm])
            acked = sent.acknowledge(behind - 1, behind, 0)
            self._completed_msn += count
            self._sends.complete(count)
            self._answered(True, now)
            self.cc.on_ack(acked, acked, 0, False, now)
        if nak:
            self._owner.enter_error(*failure(syndrome), now)
        return None

    def is_in_flight(self, number: int, stamp: int) -> bool:
        """Whether a packet with this timestamp and these low 16 bits of its PSN is in flight."""
        sent = self.sent
        psn = sent.una + ((number - sent.una) & 0xFFFF)
        record = sent.record(psn)
        return psn < sent.next_psn and record is not None and record.stamp == stamp

    # ---- time ---------------------------------------------------------------------------------------------------

    def on_timer(self, now: int) -> int:
        """Send if the rate allows it now; what is overdue is lost. Returns the next time, 0 for none."""
        due = self._due()
        if not due or now < due:
            self._owner.offer_data()
            return due
        sent, timer = self.sent, self.timer
        overdue = now - timer.round_trip.pto()  # sent with what timed out, or long enough after it
        self._stats.timeouts += 1
        if not timer.on_timeout(now):
            reason = f"Nothing was acknowledged after {timer.retries - 1} retries."
            self._owner.enter_error(CompletionStatus.RETRY_EXCEEDED, reason, now)
            return 0
        inflight = self.cc.inflight
        lost = sent.lose_older(overdue)
        self._stats.lost += lost
        if lost:
            self.cc.on_timeout(now, inflight - self.cc.inflight)
        elif not sent.in_flight and self._path.up():
            self._ask_again()
        self._owner.offer_data()
        return self._due()

    def _due(self) -> int:
        """When something is overdue; 0: nothing is waited for."""
        sent, timer = self.sent, self.timer
        oldest = sent.oldest_sent()
        if oldest:
            return oldest + timer.timeout(sent.in_flight)
        if self._pending() and not self._path.up():
            return timer.since + timer.ack_timeout
        if self._sends.outstanding and sent.next_lost() is None and self._current is None:
            return max(timer.since, self.last_sent) + timer.timeout(0)
        return 0

    def _ask_again(self) -> None:
        """Everything has arrived, but the transport ACK of the oldest request has not come: repeat its last packet."""
        wqe = self._sends.outstanding[0]
        self._asking = self._packets.last_segment(wqe)
