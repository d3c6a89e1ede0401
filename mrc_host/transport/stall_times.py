"""For how long data has waited to leave, and for what: the window, the peer, or paths (``stats.stalled_ns``)."""

from __future__ import annotations

from typing import Final

from mrc_host.transport.stats import QpStats

_NOTHING: Final = -1


class StallTimes:
    """Measures it for one queue pair. Times are in ns."""

    __slots__ = ("_since", "_stats", "reason")

    def __init__(self, stats: QpStats) -> None:
        self._stats = stats
        self.reason = _NOTHING  # WINDOW, PEER or PATHS of ``stats`` while data waits
        self._since = 0

    def waiting(self) -> bool:
        """Whether data waits."""
        return self.reason != _NOTHING

    def begin(self, reason: int, now: int) -> None:
        """From now on data waits for `reason`, whatever it waited for before."""
        self.settle(now)
        self.reason = reason
        self._since = now

    def settle(self, now: int) -> None:
        """Add the time up to `now`."""
        if self.reason != _NOTHING:
            self._stats.stalled_ns[self.reason] += max(now - self._since, 0)
            self._since = now

    def end(self, now: int) -> None:
        """Data leaves, or there is none any more."""
        self.settle(now)
        self.reason = _NOTHING
