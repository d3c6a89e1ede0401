"""Packets that a responder has received: cumulative PSN, a bitmap of what arrived ahead of it, and SETH's two counts.

PSNs are unbounded integers here (see ``wire.psn``). Received bytes are counted as the sender counts bytes in flight: in
units, every packet rounded up, duplicates included.
"""

from __future__ import annotations


class ReceivedPackets:
    """PSNs that arrived on one connection."""

    __slots__ = ("bitmap", "first_psn", "held_up", "max_psn", "next_psn", "out_of_order", "units")

    def __init__(self, first_psn: int) -> None:
        self.first_psn = first_psn  # of this life
        self.next_psn = first_psn  # cumulative PSN + 1
        self.bitmap = 0  # bit i: next_psn + i arrived; bit 0 is never set
        self.max_psn = first_psn - 1  # the newest PSN that arrived
        self.units = 0  # received bytes in units of 256
        self.out_of_order = 0  # packets that arrived ahead of others
        self.held_up = 0  # those still ahead that came after the last one that was expected, retransmissions apart

    def psns_used(self) -> int:
        """How many PSNs there are up to the newest that arrived."""
        return max(self.next_psn, self.max_psn + 1) - self.first_psn

    def add(self, psn: int, offset: int, again: bool = False) -> None:
        """Packet `psn`, `offset` above the expected one, arrived for the first time; maybe it was sent `again`.

        What is missing behind a hole that a retransmission fills has been missing for as long.
        """
        if psn > self.max_psn:
            self.max_psn = psn
        bitmap = self.bitmap
        if offset:
            self.bitmap = bitmap | 1 << offset
            self.out_of_order += 1
            self.held_up += 1
            return
        if bitmap:
            rest = bitmap >> 1
            ones = (~rest & (rest + 1)).bit_length() - 1
            bitmap = self.bitmap = rest >> ones
            self.next_psn = psn + 1 + ones
        else:
            self.next_psn = psn + 1
        self.held_up = min(self.held_up, bitmap.bit_count()) if again else 0

    def next_base(self, psn: int, everything: bool) -> int:
        """Where the next bitmap of a sweep begins: `psn` or later, and unless `everything` is to be shown, at a hole.

        -1 when there is none before the newest PSN.
        """
        base = max(psn, self.next_psn)
        if not everything and base <= self.max_psn:
            base = self.next_hole(base)
        return base if base <= self.max_psn else -1

    def next_hole(self, psn: int) -> int:
        """The first PSN from `psn` on that is missing."""
        holes = ~(self.bitmap >> psn - self.next_psn)
        return psn + (holes & -holes).bit_length() - 1
