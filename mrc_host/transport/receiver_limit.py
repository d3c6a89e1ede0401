"""How much one queue pair may have on the way because its receiver is slow (docs/congestion.md).

A SACK's rcv_cwnd_pen and restore_cwnd speak of the queue pair that it answers: its receive CQ is full, while its
neighbours' are not. So they move a limit of this queue pair's own bytes on the way, below the window that all queue
pairs towards the destination share. A penalty takes its share of what is acknowledged off the limit. `restore` removes
the limit: what holds again is the window, whatever became of it meanwhile. A penalty that ends without `restore`, which
may have been lost, lets the limit grow by what arrives, so that it doubles each round trip until it no longer binds.
"""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = 1 << 62


class ReceiverLimit:
    """Bound of the bytes that one queue pair has on the way: `limit`, never below one packet."""

    __slots__ = ("_mtu", "limit")

    def __init__(self, mtu: int) -> None:
        self._mtu = mtu
        self.limit = UNLIMITED

    def on_sack(self, penalty: int, restore: bool, received: int, in_flight: int, window: int) -> None:
        """A SACK with `penalty` (0..127) and `restore`, which reports `received` bytes as newly arrived.

        `in_flight` is what this queue pair had on the way before it, and `window` the window that bounds everybody, in
        bytes.
        """
        if penalty:
            # A limit that is not used is not worth keeping; one packet more than what was on the way is in use.
            limit = min(self.limit, window, in_flight + self._mtu)
            self.limit = max(limit - (penalty * received >> 7), self._mtu)
        elif restore:
            self.limit = UNLIMITED
        elif self.limit != UNLIMITED:
            self.limit += received
            if self.limit >= window:
                self.limit = UNLIMITED
