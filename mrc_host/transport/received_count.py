"""What the peer's count of received bytes tells: how many duplicates it got (docs/protocol.md §10.1).

Each SACK carries rcvd_bytes, which counts every data packet that arrived, duplicates included. Whenever a SACK shows
all that is on the way, the count exceeds what was acknowledged by exactly the duplicates, provided that the peer counts
a packet as we do: its nominal size (UDP length + 40) rounded up to 256 bytes. Not every peer need do so, and a network
may duplicate frames. So what the excess grew by between two comparisons is believed only when it can be duplicates: no
more than was sent again, and a multiple of the size of a packet when all that was sent again had one size. Growth that
contradicts this is taken off all later counts, and the peer is not believed until its count agrees with ours again over
packets that arrived once.
"""

from __future__ import annotations

from typing import Final

_MIXED: Final = -1


class ReceivedCount:
    """The peer's count against ours, for one requester. All sizes are units of 256 bytes."""

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
        self.acked = 0  # all packets acknowledged, each once
        self.retransmissions = 0  # all retransmissions
        self.total = 0  # what the peer says
        self.duplicates = 0  # found so far
        self.calibrated = False  # both counts have agreed once
        self._alike = True  # they agreed when this could last be told
        self._offset = 0  # growth that was not believed
        self._seen = 0  # `acked` at the last comparison
        self._packet_size = 0  # size of each retransmission; 0 when there was none, _MIXED when sizes differ

    def retransmitted(self, units: int) -> None:
        """A packet of so many units is sent again."""
        self.retransmissions += units
        if self._packet_size != units:
            self._packet_size = _MIXED if self._packet_size else units

    def compare(self) -> bool:
        """A SACK shows all that is on the way: take its count; False when the peer is not believed."""
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
