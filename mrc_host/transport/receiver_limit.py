"""Limit on the bytes that one queue pair has in flight, because its receiver is slow (docs/congestion.md).

A SACK's rcv_cwnd_pen and restore_cwnd apply to the queue pair that it acknowledges: its receive CQ is full, while those
of other queue pairs are not. So they move a limit on this queue pair's own bytes in flight, below the window that all
queue pairs to the destination share. A penalty reduces the limit by its share of what is acknowledged. `restore`
removes the limit, so that the window, whatever its size is by then, applies again. A penalty that ends without
`restore`, which may have been lost, lets the limit grow by what arrives, so that it doubles each round trip until it no
longer matters.
"""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = (1 << 62) - 1  # no more, or compiled code would need an object for it


class ReceiverLimit:
    """Limit on the bytes that one queue pair has in flight: `limit`, at least one packet."""

    __slots__ = ("_mtu", "limit")

    def __init__(self, mtu: int) -> None:
        self._mtu = mtu
        self.limit = UNLIMITED

    def on_sack(self, penalty: int, restore: bool, received: int, in_flight: int, window: int) -> None:
        """Apply a SACK with `penalty` (0..127) and `restore`, which reports `received` bytes as newly arrived.

        `in_flight` is what this queue pair had in flight before it, and `window` the congestion window, both in bytes.
        """
        if penalty:
            # A limit above what is in use is pointless: keep at most one packet more than was in flight.
            limit = min(self.limit, window, in_flight + self._mtu)
            self.limit = max(limit - (penalty * received >> 7), self._mtu)
        elif restore:
            self.limit = UNLIMITED
        elif self.limit != UNLIMITED:
            self.limit += received
            if self.limit >= window:
                self.limit = UNLIMITED
