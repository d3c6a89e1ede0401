"""A token bucket: so many events a second, after a burst. Time is an argument (ns)."""

from __future__ import annotations

SECOND = 10**9


class Allowance:
    """`rate` events a second (0 = no limit), and at most `burst` at once."""

    def __init__(self, rate: int, burst: int) -> None:
        self.rate = rate
        self._burst = burst
        self._paid = 0  # time up to which everything is paid for

    def wait(self, now: int) -> int:
        """Nanoseconds until `take` may be called; 0 = now."""
        if not self.rate:
            return 0
        return max(0, self._paid - now - (self._burst - 1) * SECOND // self.rate)

    def take(self, now: int) -> None:
        """An event happens."""
        if self.rate:
            self._paid = max(self._paid, now) + SECOND // self.rate
