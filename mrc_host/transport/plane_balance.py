"""Keeps the planes of one queue pair balanced: none may be more than a burst of packets ahead of another.

Each plane has a credit of that many packets. A plane without credit waits for the others; when no plane that could send
has any left, all are refilled. Retransmissions use credit too, but do not wait for other planes.
"""

from __future__ import annotations

from typing import Final

_FULL: Final = 4096  # payload of the packets that a burst consists of


class PlaneBalance:
    """Credit of each plane; `mask` has the planes with credit left."""

    __slots__ = ("_burst", "_credit", "mask")

    def __init__(self, burst: int, mtu: int, planes: int, mask: int) -> None:
        """`burst` is in packets of 4096 bytes, `planes` the number of planes, `mask` those in use."""
        # In bytes, as for full packets: a burst shorter than a turn of the scheduler would cut that turn off.
        self._burst = burst * max(1, _FULL // mtu)
        self._credit = [self._burst] * planes
        self.mask = mask

    def refill(self, mask: int) -> None:
        """Give every plane of `mask` full credit; these are in use."""
        self._credit = [self._burst] * len(self._credit)
        self.mask = mask

    def spend(self, plane: int) -> None:
        """A packet leaves on a plane with credit."""
        self._credit[plane] -= 1
        if not self._credit[plane]:
            self.mask &= ~(1 << plane)
