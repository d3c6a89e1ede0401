"""Model of an MRC connection's receive state: what arrived, and which of that SACKs have shown.

The oracle of ``mrc_host/datapath/receive_state.h``. Bit i of its bitmap is for the PSN i above the expected one.
"""

from __future__ import annotations

from mrc_host.wire import headers
from mrc_host.wire.control import SACK_BITS

_LEAST_COUNTED = 1024


class ReceiveState:
    """The receive state of one connection."""

    def __init__(self, first_psn: int, threshold: int, planes: int) -> None:
        self.first_psn = first_psn
        self.next_psn = first_psn
        self.bitmap = 0
        self.max_psn = first_psn - 1
        self.units = 0
        self.arrived = 0
        self.out_of_order = 0
        self.held_up = 0
        self.pending_bytes = 0
        self.trimmed_request = -1
        self._threshold = threshold
        self._ack_requested = -1  # PSN of the newest packet with the A bit that arrived ahead of others; -1 for none
        self._low = [-1] * planes  # by plane: oldest PSN that arrived and was in no bitmap yet; -1 for none
        self._high = [-1] * planes

    @property
    def unshown(self) -> bool:
        """Whether there are arrivals that no bitmap has shown."""
        return max(self._high) >= 0

    def has(self, psn: int) -> bool:
        """Whether packet `psn` arrived ahead of the expected one."""
        return psn >= self.next_psn and bool(self.bitmap >> psn - self.next_psn & 1)

    def add(self, psn: int, plane: int, size: int, units: int, word: int, marked: bool) -> bool:
        """A packet has arrived; whether a SACK is due."""
        again, asks = bool(word & headers.RTX), bool(word & headers.ACK_REQUEST)
        self.arrived += 1
        self.units += units
        self.max_psn = max(self.max_psn, psn)
        self.bitmap |= 1 << psn - self.next_psn
        if psn > self.next_psn:
            self.out_of_order += 1
            self.held_up += 1
        else:
            while self.bitmap & 1:
                self.bitmap >>= 1
                self.next_psn += 1
            self.held_up = min(self.held_up, self.bitmap.bit_count()) if again else 0
        if plane >= 0:
            self._low[plane] = psn if self._low[plane] < 0 else min(self._low[plane], psn)
            self._high[plane] = max(self._high[plane], psn)
        due = asks or again or marked
        if psn >= self.next_psn:
            if asks:
                self._ack_requested = max(self._ack_requested, psn)
        elif 0 <= self._ack_requested < self.next_psn:
            self._ack_requested = -1
            due = True
        self.pending_bytes += max(size, _LEAST_COUNTED)
        due = due or self.pending_bytes >= self._threshold or self.max_psn < self.trimmed_request
        if due:
            self.pending_bytes = 0
        return due

    def show(self, again: int, oldest: bool) -> int:
        """Where the bitmap of the next SACK begins; what it does not show stays unshown."""
        base = self.next_psn
        if not oldest and self.max_psn - base >= SACK_BITS:
            base = self._oldest_unshown() if again < 0 else max(base, again - SACK_BITS + 1)
        end = base + SACK_BITS
        for plane, high in enumerate(self._high):
            if max(self._low[plane], self.next_psn) < base and self.next_psn <= high:
                self._high[plane] = min(high, base - 1) if high < end else high
            elif high < end:
                self._low[plane] = self._high[plane] = -1
            else:
                self._low[plane] = max(self._low[plane], end)
        return base

    def _oldest_unshown(self) -> int:
        waiting = [
            (max(low, self.next_psn), high)
            for low, high in zip(self._low, self._high, strict=True)
            if low >= 0 and high >= self.next_psn
        ]
        if not waiting:
            return self.max_psn - SACK_BITS + 1
        end = min(waiting)[0] + SACK_BITS
        top = max(min(high, end - 1) for low, high in waiting if low < end)
        return max(self.next_psn, top - SACK_BITS + 1)

    def bitmap_from(self, base: int) -> int:
        """The 64 bits of a bitmap that begins at `base`."""
        return self.bitmap >> base - self.next_psn & (1 << SACK_BITS) - 1

    def next_base(self, psn: int, everything: bool) -> int:
        """Where the next bitmap of a sweep begins; -1 at its end."""
        base = max(psn, self.next_psn)
        while not everything and self.has(base):
            base += 1
        return base if base <= self.max_psn else -1
