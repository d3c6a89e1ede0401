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
from mrc_host.transport.cumulative_psn import cumulative, outside_life
from mrc_host.transport.data_packets import DataPackets
from mrc_host.transport.outgoing_messages import OutgoingMessages
from mrc_host.transport.peer_frames import DATA, FrameTemplates
from mrc_host.transport.queue_pair_interfaces import Connection, RequesterOwner
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.roce.selective_repeat import SelectiveRepeat
from mrc_host.transport.roce.selective_timer import SelectiveTimer
from mrc_host.transport.roce.single_path_qp import SinglePathRequester
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.work import SendQueue
from mrc_host.verbs_types import CompletionStatus
from mrc_host.wire import control, headers
from mrc_host.wire.control import Nack, Sack
from mrc_host.wire.encap import Drop
from mrc_host.wire.psn import MASK, expand

_ACK_EVERY: Final = 8  # packets between acknowledgement requests
_WHILE_UNANSWERED: Final = 4  # packets in flight after a timeout, until the peer answers
_UNLIMITED: Final = 1 << 60
_UNEXPECTED: Final = "The peer met an unexpected event on this queue pair (NACK 0x19)."


def bandwidth_delay(link: LinkParameters) -> int:
    """Bytes that BDP-FC lets be in flight: those of the longest path, one MTU at least; unlimited if not known."""
    if not link.base_rtt:
        return _UNLIMITED
    return max(link.rate_bps * link.base_rtt // 8_000_000_000, link.mtu)


class SelectiveRequester(SinglePathRequester):
    """Sending half of a queue pair with selective repeat."""

    __slots__ = (
        "_asking",
        "_in_order",
        "_messages",
        "_most",
        "_mtu",
        "_owner",
        "_packets",
        "_path",
        "_psn_range",
        "_sends",
        "_stats",
        "_tick",
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
        super().__init__(cc)
        self._owner = owner
        self._stats = connection.stats
        self._path = path
        self._sends = sends
        self._mtu = attributes.path_mtu
        self._psn_range = attributes.mpr_dest * 128 - 1
        self._tick = connection.nic.settings.timestamp_tick.value
        self._most = most
        self._in_order = in_order
        self._asking: SentPacket | None = None  # a packet that has arrived, and is sent again for the sake of an answer
        # parts
        self.sent = SelectiveRepeat(cc, first_psn)
        few = settings.rto_low if in_order else settings.rto_high
        self.timer = SelectiveTimer(RetryPolicy.of(connection), few, settings.rto_high, settings.base_rtt)
        self._packets = DataPackets(connection, frames)
        self._messages = OutgoingMessages(sends, self._packets, attributes.max_wimm_dest)

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
        sent, messages = self.sent, self._messages
        if sent.next_psn - sent.una >= self._psn_range:
            return False
        return messages.current is not None or messages.may_start()

    def _pending(self) -> bool:
        """Whether there is anything to send, whether or not it may leave."""
        return self._messages.pending() or self.sent.next_lost() is not None

    def starving(self, now: int) -> None:
        """If data waits while the port is down, start the timer, so that the requests fail eventually."""
        if not self._path.up() and not self._owner.armed() and self._pending():
            self.timer.begin(now)
            self._owner.arm(now + self.timer.ack_timeout)

    def transmit(self, now: int) -> bytes | None:
        """Next packet, or None."""
        if not self.ready(now):
            return None
        sent, messages = self.sent, self._messages
        if self._asking is not None:
            return self._ask(now)
        record = sent.next_lost()
        if record is not None:
            sent.take_lost()
            self._stats.retransmitted += 1
            return self._emit(record, headers.RTX, now)
        if messages.current is None:
            messages.start(sent.next_psn)
        wqe = messages.current
        assert wqe is not None
        record = sent.new_record()
        messages.segment(wqe, record)
        self._stats.data_sent += 1
        return self._emit(record, 0, now)

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
        cack = cumulative(sack.cack_psn, sent.una)
        drop = outside_life(cack, sent.first_psn, sent.next_psn)
        if drop is not None:
            return drop
        stats.acks_received += 1
        stats.sacks_received += 1
        marked = sack.mark != control.MARK_NONE
        stats.marks_reported += marked
        rtt = 0
        if sack.entropy != control.NO_ENTROPY:
            rtt = self._measure(cack + sack.ack_offset, sack.timestamp, now)
        acked = sent.acknowledge(cack, cack + sack.bitmap_offset, sack.bitmap)
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
        self.timer.measured(rtt, now)
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

    def on_ack(self, psn: int, nak: bool, msn: int, now: int) -> Drop | None:
        """Complete all requests up to message count `msn` (24 bit), and acknowledge what has arrived before them.

        `psn` (24 bit) is the cumulative PSN; in a NAK, the one after it. The ACK is dropped when the peer cannot have
        completed so many messages of this life with these PSNs.
        """
        sent = self.sent
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
        acked = sent.acknowledge(last, last + 1, 0)
        self._messages.complete(count)
        self._answered(True, now)
        self.cc.on_ack(acked, acked, 0, False, now)
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
        if oldest >= 0:
            return oldest + timer.timeout(sent.in_flight)
        if self._pending() and not self._path.up():
            return timer.since + timer.ack_timeout
        if self._sends.outstanding and sent.next_lost() is None and self._messages.current is None:
            return max(timer.since, self.last_sent) + timer.timeout(0)
        return 0

    def _ask_again(self) -> None:
        """Everything has arrived, but the transport ACK of the oldest request has not come: repeat its last packet."""
        wqe = self._sends.outstanding[0]
        self._asking = self._packets.last_segment(wqe)
