"""Waiting times of an RC requester: for an acknowledgement, and for a receiver that is not ready.

The ACK timeout runs from when the oldest unacknowledged packet was sent, or from the last progress. It is repeated and
doubled by ``retry_policy``. After a timeout a single packet is sent to find out whether the peer responds; the rest
follows once it does. Progress ends retries, and so does an RNR NAK: it specifies a time to wait, any number of times
(rnr_retry 7 in verbs). Unlike MRC's timer (``transport.retransmission_timer``) this one measures nothing, since RoCE
NICs use the attribute alone.
"""

from __future__ import annotations

from mrc_host.transport.retry_policy import RetryPolicy


class RcRetransmissionTimer:
    """Times of one RC requester, in ns."""

    __slots__ = ("_policy", "_since", "ack_timeout", "ready_at", "retries", "unanswered")

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._since = 0
        self.ack_timeout = policy.ack_timeout  # before any doubling
        self.ready_at = 0  # when the receiver may be ready again
        self.retries = 0  # timeouts without progress
        self.unanswered = False  # an ACK timeout has passed, and the peer has not answered since

    def restart(self, now: int) -> None:
        """The ACK timeout starts at `now`."""
        self._since = now

    def due(self) -> int:
        """When the ACK timeout passes."""
        return self._since + self._policy.timeout_after(self.retries)

    def on_progress(self, now: int) -> None:
        """Packets were acknowledged."""
        self._since = now
        self.retries = 0

    def on_receiver_not_ready(self, ready_at: int) -> None:
        """The receiver asks to wait, which costs no retry."""
        self.ready_at = ready_at
        self.retries = 0

    def on_timeout(self) -> bool:
        """Nothing arrived within the ACK timeout: count a retry; False when none is left."""
        self.retries += 1
        return self._policy.allows(self.retries)
