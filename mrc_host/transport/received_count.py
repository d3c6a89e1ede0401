"""The peer's count of received bytes, and the number of duplicates that it reveals (docs/protocol.md §10.1).

Each SACK carries rcvd_bytes, which counts every data packet that arrived, including duplicates. When a SACK covers
everything in flight, the count exceeds what was acknowledged by exactly the duplicates, provided that the peer counts a
packet as we do: its nominal size (UDP length + 40) rounded up to 256 bytes. A peer may count otherwise, and a network
may duplicate frames. So an increase of the excess between two comparisons is accepted only if it can consist of
duplicates: no more than was retransmitted and, when all retransmissions had the same size, a multiple of that size. Any
other increase is subtracted from all later counts, and the peer is not trusted until its count agrees with ours again
over packets that arrived once.
"""

from __future__ import annotations

from typing import Final

_MIXED: Final = -1


class ReceivedCount:
    """Compares the peer's count with ours, for one requester. All sizes are in units of 256 bytes."""

    __slots__ = (
        "_alike",
        "_offset",
        "_packet_size",
        "_seen",
        "acked",
        "calibrated",
        "duplicates",
        "retransmissions",
        "total",
    )

    def __init__(self) -> None:
        self.acked = 0  # all packets acknowledged, each counted once
        self.retransmissions = 0  # all retransmissions
        self.total = 0  # the peer's count
        self.duplicates = 0  # found so far
        self.calibrated = False  # both counts have agreed at least once
        self._alike = True  # they agreed at the last comparison that could tell
        self._offset = 0  # increase that was not accepted
        self._seen = 0  # `acked` at the last comparison
        self._packet_size = 0  # size of each retransmission; 0 when there was none, _MIXED when sizes differ

    def retransmitted(self, units: int) -> None:
        """A packet of `units` units is retransmitted."""
        self.retransmissions += units
        if self._packet_size != units:
            self._packet_size = _MIXED if self._packet_size else units

    def compare(self) -> bool:
        """A SACK covers everything in flight: compare the counts; False when the peer's is not trusted."""
        grown = self.total - self.acked - self._offset - self.duplicates
        if not 0 <= grown <= self.retransmissions - self.duplicates or (
            self._packet_size > 0 and grown % self._packet_size
        ):
            self._alike = False
        elif not grown and self.acked != self._seen:
            self._alike = self.calibrated = True
        self._seen = self.acked
        if self._alike:
            self.duplicates += grown
        else:
            self._offset += grown
        return self._alike
