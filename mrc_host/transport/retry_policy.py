"""When a retransmission timeout doubles, and how many there may be: what queue pairs of both transports share.

The ACK timeout of the queue pair (docs/protocol.md §2) is repeated ``linear_retries`` times, then doubled up to
``max_backoff`` times, until ``retry_count`` retries brought no progress. Who counts the retries, and what counts as
one, differs between the transports.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.interfaces import Connection

_UNLIMITED: Final = 255  # retry count


class RetryPolicy:
    """The attributes and settings of one queue pair that retries go by."""

    __slots__ = ("_limit", "_linear", "_max_backoff", "ack_timeout")

    def __init__(self, timeout: int, retry_count: int, linear: int, max_backoff: int) -> None:
        """`timeout` (0..31) and `retry_count` (0..255) are the attributes of the queue pair.

        The first `linear` retries do not double the ACK timeout; then it doubles `max_backoff` times at most.
        """
        self.ack_timeout = 1024 << timeout  # ns, before any doubling
        self._limit = retry_count
        self._linear = linear
        self._max_backoff = max_backoff

    @staticmethod
    def of(connection: Connection) -> RetryPolicy:
        """That of a queue pair."""
        attributes, settings = connection.attributes, connection.nic.transport
        return RetryPolicy(attributes.timeout, attributes.retry_count, settings.linear_retries, settings.max_backoff)

    def doublings(self, retries: int) -> int:
        """How often the timeout is doubled after so many retries without progress."""
        return min(max(retries - self._linear, 0), self._max_backoff)

    def longest(self) -> int:
        """The ACK timeout after all doublings, in ns."""
        return self.ack_timeout << self._max_backoff

    def allows(self, retries: int) -> bool:
        """Whether there may be so many."""
        return self._limit == _UNLIMITED or retries <= self._limit
