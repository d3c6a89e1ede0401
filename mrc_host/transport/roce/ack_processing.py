"""ACK processing of an RC requester: what arrived, where to go back to, what ends the connection.

An ACK names the last packet that arrived, a NAK the first that did not; either acknowledges everything before. A
sequence error NAK sends the requester back to the packet it names; so does an RNR NAK, after the time it specifies. Any
other NAK ends the connection.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.naks import failure
from mrc_host.transport.queue_pair_interfaces import RequesterOwner
from mrc_host.transport.roce.go_back_n import GoBackN
from mrc_host.transport.roce.retransmission_timer import RcRetransmissionTimer
from mrc_host.transport.stats import QpStats
from mrc_host.wire import headers
from mrc_host.wire.psn import expand

_KIND: Final = 0xE0  # bits of a syndrome that distinguish ACK, RNR NAK and NAK
_TIMER: Final = 0x1F  # bits of an RNR NAK that specify the time to wait


class RcAckProcessing:
    """Passes the responder's answers on to the other parts of a requester; it owns none of them."""

    __slots__ = ("_cc", "_owner", "_recovery_delay", "_sent", "_stats", "_timer")

    def __init__(
        self,
        owner: RequesterOwner,
        sent: GoBackN,
        timer: RcRetransmissionTimer,
        cc: CongestionControl,
        stats: QpStats,
        recovery_delay: int = 0,
    ) -> None:
        """`recovery_delay` (ns) passes from a sequence error NAK until the requester goes back."""
        self._owner = owner
        self._sent = sent
        self._timer = timer
        self._cc = cc
        self._stats = stats
        self._recovery_delay = recovery_delay

    def on_ack(self, wire_psn: int, syndrome: int, now: int) -> None:
        """Process an ACK or NAK of the responder; everything before the PSN it names has arrived."""
        sent, timer = self._sent, self._timer
        psn = expand(wire_psn, sent.una)
        kind = syndrome & _KIND
        nak = kind != headers.SYNDROME_ACK & _KIND
        arrived = psn if nak else psn + 1
        if arrived < sent.una or arrived > sent.max:
            return
        self._stats.acks_received += 1
        timer.unanswered = False
        if arrived > sent.una:
            acked = sent.acknowledge(arrived)
            self._cc.on_ack(acked, acked, 0, False, now)
            timer.on_progress(now)
        if nak:
            self._on_nak(kind, syndrome, now)

    def _on_nak(self, kind: int, syndrome: int, now: int) -> None:
        if kind == headers.SYNDROME_RNR:
            self._stats.rnr_received += 1
            ready_at = now + headers.RNR_TIMES[syndrome & _TIMER]
            self._timer.on_receiver_not_ready(ready_at)
            self._go_back(ready_at)
            self._owner.arm(ready_at)
        elif syndrome == headers.NAK_SEQUENCE:
            self._stats.sequence_errors += 1
            self._go_back_later(now)
        else:
            self._owner.enter_error(*failure(syndrome), now)

    def _go_back_later(self, now: int) -> None:
        """Go back once the recovery delay is over."""
        when = now + self._recovery_delay
        self._go_back(when)
        if self._recovery_delay:
            self._timer.ready_at = when
            self._owner.arm(when)

    def _go_back(self, when: int) -> None:
        """What is in flight is lost; it is sent again at `when`."""
        if self._sent.go_back():
            self._stats.lost += 1
            self._timer.restart(when)
