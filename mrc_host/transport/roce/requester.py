"""RC requester: sends in order, and after a loss goes back to the first unacknowledged packet.

**Parts.** ``go_back_n`` keeps what was sent and acknowledged; ``ack_processing`` handles the responder's answers;
``retransmission_timer`` says how long to wait for them; ``data_packets`` builds the frames. This module decides whether
a packet may leave, and whether it requests an acknowledgement.

A congestion controller limits the bytes in flight and, if it is rate-based, says when the next packet may leave; the
queue pair is woken at that time.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.queue_pair_interfaces import Connection, RequesterOwner
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.roce.ack_processing import RcAckProcessing
from mrc_host.transport.roce.data_packets import RcDataPackets
from mrc_host.transport.roce.go_back_n import GoBackN
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.roce.rate_control import controller
from mrc_host.transport.roce.retransmission_timer import RcRetransmissionTimer
from mrc_host.transport.roce.single_path_qp import SinglePathRequester
from mrc_host.transport.work import SendQueue, Wqe
from mrc_host.verbs_types import CompletionStatus
from mrc_host.wire import headers
from mrc_host.wire.psn import MASK

_ACK_EVERY: Final = 8  # packets between acknowledgement requests
_SLOW: Final = 4 * _ACK_EVERY  # if fewer packets fit into the ACK timeout, each requests an acknowledgement


class RcRequester(SinglePathRequester):
    """Sending half of an RC queue pair."""

    __slots__ = ("_mtu", "_owner", "_packets", "_path", "_stats", "_timer", "acks", "sent")

    def __init__(
        self, owner: RequesterOwner, connection: Connection, path: RcPath, sends: SendQueue, first_psn: int
    ) -> None:
        super().__init__(controller(connection, path))
        self._owner = owner
        self._stats = connection.stats
        self._path = path
        self._mtu = connection.attributes.path_mtu
        # parts
        self.sent = GoBackN(sends, self.cc, self._mtu, first_psn)
        self._timer = RcRetransmissionTimer(RetryPolicy.of(connection))
        self._packets = RcDataPackets(path, connection.remote_qpn, connection.nic.datapath)
        self.acks = RcAckProcessing(
            owner, self.sent, self._timer, self.cc, connection.stats, connection.nic.transport.recovery_delay
        )

    def psns_used(self) -> int:
        """How many PSNs were sent in this life."""
        return self.sent.psns_used()

    def ready(self, now: int) -> bool:
        """Whether a packet may be sent at `now`; if only the rate prevents it, the queue pair is woken in time."""
        cc, timer = self.cc, self._timer
        if cc.inflight and (cc.inflight + self._mtu > cc.cwnd or timer.unanswered):
            return False
        if not self.sent.pending():
            return False
        when = max(cc.earliest_send(now), timer.ready_at)
        if when > now:
            self._owner.arm(when)
            return False
        return True

    def starving(self, now: int) -> None:
        """If data waits while the port is down, start the timer, so that the requests fail eventually."""
        if not self._path.up() and not self._owner.armed() and self.sent.pending():
            self._timer.restart(now)
            self._owner.arm(self._timer.due())

    def transmit(self, now: int) -> bytes | None:
        """Next packet, or None."""
        if not self.ready(now):
            return None
        sent, timer = self.sent, self._timer
        self.last_sent = now
        psn = sent.send
        if psn < sent.max:
            self._stats.retransmitted += 1
        else:
            self._stats.data_sent += 1
        wqe = sent.request()
        offset = (psn - wqe.first_psn) * self._mtu
        size = min(self._mtu, wqe.length - offset)
        sent.transmitted(size)
        if psn == sent.una:
            timer.restart(now)
        self._owner.arm(timer.due())
        self.cc.on_send(size, now)
        word = psn & MASK
        if self._requests_ack(wqe, psn):
            word |= headers.ACK_REQUEST
        return self._packets.build(wqe, psn, offset, size, word)

    def _requests_ack(self, wqe: Wqe, psn: int) -> bool:
        """Whether packet `psn`, which leaves now, requests an acknowledgement."""
        cc, timer, now = self.cc, self._timer, self.last_sent
        if psn == wqe.last_psn or cc.inflight + self._mtu > cc.cwnd or timer.unanswered or not psn % _ACK_EVERY:
            return True
        # at a very low rate the timeout could pass before a packet that requests an acknowledgement leaves
        return (cc.earliest_send(now) - now) * _SLOW > timer.ack_timeout

    def on_timer(self, now: int) -> int:
        """Send if the rate allows it now; go back if the oldest packet was not acknowledged in time.

        Returns the next time, 0 when everything is acknowledged.
        """
        sent, timer = self.sent, self._timer
        starved = sent.pending() and not self._path.up()
        if sent.una == sent.next and not starved:
            self._owner.offer_data()
            return 0
        due = timer.due()
        if now < due:
            self._owner.offer_data()
            return due
        if sent.send > sent.una or starved:
            self._stats.timeouts += 1
            if not timer.on_timeout():
                self._owner.enter_error(
                    CompletionStatus.RETRY_EXCEEDED, f"Nothing was acknowledged after {timer.retries - 1} retries.", now
                )
                return 0
        timer.unanswered = True
        self.cc.on_timeout(now, self.cc.inflight)
        if sent.go_back():
            self._stats.lost += 1
        timer.restart(now)
        self._owner.offer_data()
        return timer.due()
