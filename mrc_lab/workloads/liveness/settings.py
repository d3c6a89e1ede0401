"""Settings of the liveness of a group's ranks."""

from __future__ import annotations

from dataclasses import dataclass

CONNECT_S = 10.0  # within which a rank that has come connects: a loss in this time is not noticed otherwise
_MS = 1_000_000
_INTERVAL = 60 * _MS
_SPACING = 20 * _MS  # between two heartbeats of one rank: more peers get them less often, not a NIC more of them


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    """How ranks watch each other; all ranks of a group need the same. Times are nanoseconds.

    `timeout` (10 ms to a day) is how long a peer's NIC may leave a heartbeat unanswered before its rank is lost.
    `interval` (1 ms or more, at most half the timeout) is the time between two heartbeats to a peer; with more than
    `interval` / 20 ms peers, 20 ms for each, but never more than half the timeout. The default timeout leaves a dead
    host less than a second, and a heartbeat time for many retransmissions on other paths.
    """

    timeout: int = 800 * _MS
    interval: int = _INTERVAL

    def __post_init__(self) -> None:
        if not 10 * _MS <= self.timeout <= 86_400_000 * _MS:
            raise ValueError("the timeout of peers is 10 ms to a day")
        if not _MS <= self.interval <= self.timeout // 2:
            raise ValueError("the interval of heartbeats is 1 ms to half the timeout of peers")

    @classmethod
    def with_timeout(cls, timeout: int) -> LivenessSettings:
        """These settings with another timeout, and if that is short a shorter interval. ValueError out of range."""
        return cls(timeout, max(_MS, min(_INTERVAL, timeout // 5)))

    def period(self, peers: int) -> int:
        """Nanoseconds between two heartbeats to each of so many peers."""
        return min(max(self.interval, peers * _SPACING), self.timeout // 2)
