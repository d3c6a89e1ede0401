"""Retry policy of both transports: when the retransmission timeout doubles, and how many retries there may be.

The ACK timeout of the queue pair (docs/protocol.md §2) is repeated ``linear_retries`` times, then doubled up to
``max_backoff`` times, until ``retry_count`` retries have made no progress. What counts as a retry differs between the
transports.
"""

from __future__ import annotations

from typing import Final

from mrc_host.config import TransportSettings
from mrc_host.transport.queue_pair_interfaces import Connection
from mrc_host.verbs_types import QpAttributes

_UNLIMITED: Final = 255  # retry count


class RetryPolicy:
    """The retry attributes and settings of one queue pair."""

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
        """The policy of a queue pair."""
        return RetryPolicy.with_attributes(connection.attributes, connection.nic.transport)

    @staticmethod
    def with_attributes(attributes: QpAttributes, settings: TransportSettings) -> RetryPolicy:
        """The policy of queue pairs with these attributes, on NICs with these settings."""
        linear = settings.linear_retries if attributes.linear_retries is None else attributes.linear_retries
        return RetryPolicy(attributes.timeout, attributes.retry_count, linear, settings.max_backoff)

    def doublings(self, retries: int) -> int:
        """How often the timeout is doubled after this many retries without progress."""
        return min(max(retries - self._linear, 0), self._max_backoff)

    def timeout_after(self, retries: int) -> int:
        """The ACK timeout after this many retries without progress, in ns."""
        return self.ack_timeout << self.doublings(retries)

    def longest(self) -> int:
        """The ACK timeout after all doublings, in ns."""
        return self.ack_timeout << self._max_backoff

    def allows(self, retries: int) -> bool:
        """Whether this many retries are allowed."""
        return self._limit == _UNLIMITED or retries <= self._limit
