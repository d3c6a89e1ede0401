"""Keeps the planes of one queue pair equal: none may be more than a burst of packets ahead of another.

Each plane has a credit of so many packets. One without credit waits for the others, and when none of those that could
send has any left, all are refilled. Retransmissions use credit too, but wait for no plane.
"""

from __future__ import annotations

from typing import Final

_FULL: Final = 4096  # payload of the packets that a burst counts


class PlaneBalance:
    """Credit of each plane; `mask` are the planes that have some."""

    __slots__ = ("_burst", "_credit", "mask")

    def __init__(self, burst: int, mtu: int, planes: int, mask: int) -> None:
        """`burst` is in packets of 4096 bytes, `planes` how many there are, `mask` those that are in use."""
        # In bytes as for full packets: a shorter burst than the scheduler's turns would cut those off.
        self._burst = burst * max(1, _FULL // mtu)
        self._credit = [self._burst] * planes
        self.mask = mask

    def refill(self, mask: int) -> None:
        """Count afresh, with the planes of `mask` in use."""
        self._credit = [self._burst] * len(self._credit)
        self.mask = mask

    def spend(self, plane: int) -> None:
        """A packet leaves on a plane with credit."""
        self._credit[plane] -= 1
        if not self._credit[plane]:
            self.mask &= ~(1 << plane)
