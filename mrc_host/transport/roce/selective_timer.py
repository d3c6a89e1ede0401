"""Timeouts of a requester with selective repeat.

What was sent a timeout ago and not acknowledged is lost. IRN has a short timeout while few packets are in flight, when
nothing sent later can show the loss, and a long one otherwise (SIGCOMM 2018, sections 3.1 and 4.1). Neither is shorter
than round trips require (RFC 6298), neither those that were measured nor that of the idle fabric. Both double with each
timeout, up to the ACK timeout of the queue pair, until a round trip is measured again (Karn's algorithm): while
timeouts are too short, packets arrive, but all are sent twice, so that nothing can be measured. Retries are counted as
with go-back-N: one an ACK timeout in which nothing new was acknowledged (``retry_policy``).
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.round_trip import RoundTrip

_FEW: Final = 3  # packets in flight, with which the short timeout is used: N in IRN
_MAX_BACKOFF: Final = 16


class SelectiveTimer:
    """Times of one requester, in ns."""

    __slots__ = (
        "_backoff", "_few", "_many", "_policy", "_retry_since", "ack_timeout", "retries", "round_trip", "since",
        "unanswered",
    )  # fmt: skip

    def __init__(self, policy: RetryPolicy, few: int, many: int, base_rtt: int) -> None:
        """`few` and `many` are the timeouts with few and many packets in flight, at the shortest.

        `base_rtt` is the unloaded round trip; 0: not known.
        """
        idle = RoundTrip()
        if base_rtt:
            idle.sample(base_rtt)
        self._policy = policy
        self._few = max(few, idle.pto())
        self._many = max(many, idle.pto())
        self.ack_timeout = policy.ack_timeout
        self.round_trip = RoundTrip()  # of this path
        self.since = 0  # when the peer last answered, or data was sent after a pause
        self.unanswered = False  # a timeout has passed, and the peer has not answered since
        self.retries = 0
        self._backoff = 0
        self._retry_since = 0

    def timeout(self, in_flight: int) -> int:
        """The timeout with this many packets in flight."""
        least = max(self._few if in_flight <= _FEW else self._many, self.round_trip.pto())
        return min(least << self._backoff, max(self.ack_timeout, least))

    def begin(self, now: int) -> None:
        """There was nothing to wait for, and is now."""
        self.since = self._retry_since = now

    def measured(self, rtt: int, now: int) -> None:
        """A round trip was measured, so timeouts are as long as they have to be."""
        self.round_trip.sample(rtt, False, now)
        self._backoff = 0

    def on_answer(self, now: int, progress: bool, missing: bool) -> None:
        """The peer answered; with `progress` something new has arrived, and `missing` says whether anything has not."""
        self.since = now
        self.unanswered = False
        if progress or not missing:
            self.retries = 0
            self._retry_since = now

    def on_timeout(self, now: int) -> bool:
        """A timeout has passed; False when no retry is left."""
        self.unanswered = True
        self.since = now
        self._backoff = min(self._backoff + 1, _MAX_BACKOFF)
        if now - self._retry_since < self.ack_timeout << self._policy.doublings(self.retries):
            return True
        self._retry_since = now
        self.retries += 1
        return self._policy.allows(self.retries)
