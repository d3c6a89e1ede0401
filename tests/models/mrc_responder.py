"""Model of the receiving half of an MRC queue pair: what each packet changes, and what it is answered with.

The oracle of ``mrc_host/transport/responder.py`` and ``ack_generator.py`` with the receive state in C, written from
docs/protocol.md §1.7, §1.8, §2 and §10.1. It knows what arrived as a set of PSNs, which are unbounded integers here.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from mrc_host.wire import control, headers
from mrc_host.wire.psn import HALF, MASK

LEAST_COUNTED = 1024


class Segment(NamedTuple):
    """A packet as its sender made it; `offset` is that of its own bytes in the region, all of which are `fill`.

    `length`, `imm` and `last`, the PSN of its last packet, are those of the message.
    """

    kind: int
    psn: int
    msn: int
    rqmsn: int
    offset: int
    size: int
    fill: int
    length: int
    imm: int | None
    last: int


class Answer(NamedTuple):
    """The SACK, or with a reason the NACK, for the packet `psn`."""

    psn: int
    reason: int = 0


class MrcResponder:
    """One life of a queue pair that takes writes to `memory`."""

    def __init__(
        self, memory: bytearray, first_psn: int, reach: int, window: int, most_open: int, threshold: int, room: int
    ) -> None:
        """It accepts `reach` PSNs of a `window` that was offered; `room` is how much the receive CQ holds."""
        self.memory = memory
        self.first_psn = self.next_psn = first_psn
        self.ahead = set[int]()  # PSNs that arrived ahead of the expected one
        self.hidden = set[int]()  # those of all arrivals that no SACK has shown
        self.units = 0
        self.counts = Counter[str]()
        self.complete = 0  # messages
        self.receives: list[tuple[int, int]] = []  # not polled yet: length and immediate data
        self.ack_due = False
        self.sack_due = False  # one that answers no packet
        self._reach = reach
        self._window = window
        self._most_open = most_open
        self._threshold = threshold
        self._room = room
        self._pending = 0
        self._asked = -1
        self._asked_trimmed = -1
        self._started: dict[int, Segment] = {}  # a packet of each message of which one was placed, by MSN

    def arrive(
        self, segment: Segment, wire_psn: int, flags: int, marked: bool, trimmed: bool, units: int
    ) -> Answer | None:
        """A packet came with this PSN, perhaps without its payload; the answer that is due, None for none."""
        counts, ahead = self.counts, (wire_psn - self.next_psn) & MASK
        psn = self.next_psn + ahead - (MASK + 1 if ahead >= HALF else 0)
        counts["trims_received"] += trimmed
        if psn < self.first_psn:
            counts["drop_other_life"] += 1
        elif psn < self.next_psn or psn in self.ahead:
            counts["duplicates_received"] += 1
            counts["marks_received"] += marked
            self.ack_due |= psn < self.next_psn
            self.units += 0 if trimmed else units
            self._pending = 0
            return Answer(psn)
        elif trimmed:
            return self._refuse_trimmed(psn, flags) if ahead < self._window else None
        elif ahead >= self._reach:
            return Answer(psn, control.NACK_NO_BITMAP if ahead < self._window else control.NACK_PSN_OOR_WINDOW)
        elif segment.msn - self.complete >= self._most_open and segment.msn not in self._started:
            return Answer(psn, control.NACK_NO_RESOURCE)
        elif self._take(segment, psn, flags, marked, units):
            counts["marks_received"] += marked
            return Answer(psn)
        return None

    def _refuse_trimmed(self, psn: int, flags: int) -> Answer:
        if flags & headers.ACK_REQUEST:
            self._asked_trimmed = max(self._asked_trimmed, psn)
            self.sack_due |= self._pending > 0
            self._pending = 0
        return Answer(psn, control.NACK_TRIMMED)

    def _take(self, segment: Segment, psn: int, flags: int, marked: bool, units: int) -> bool:
        """A packet arrived for the first time; whether a SACK is due."""
        at, size = segment.offset, segment.size
        self._started[segment.msn] = segment
        self.memory[at : at + size] = bytes([segment.fill]) * size
        self.counts["data_received"] += 1
        self.counts["out_of_order_received"] += psn > self.next_psn
        self.units += units
        self.hidden.add(psn)
        self.ahead.add(psn)
        while self.next_psn in self.ahead:
            self.ahead.remove(self.next_psn)
            self.next_psn += 1
        self._pending += max(size, LEAST_COUNTED)
        due = bool(flags) or marked or self._pending >= self._threshold
        due = due or max(self.ahead, default=self.next_psn - 1) < self._asked_trimmed
        if flags & headers.ACK_REQUEST and psn >= self.next_psn:
            self._asked = max(self._asked, psn)
        if 0 <= self._asked < self.next_psn:
            due, self._asked = True, -1
        if due:
            self._pending = 0
        return due

    def finish(self) -> None:
        """Complete messages in order, as far as the receive CQ takes them."""
        while (message := self._started.get(self.complete)) is not None and message.last < self.next_psn:
            if message.imm is not None:
                if len(self.receives) >= self._room:
                    return
                self.receives.append((message.length, message.imm))
            self.counts["write_requests"] += 1
            self.complete += 1
            self.ack_due = True

    def probed(self) -> None:
        """A probe came: it is answered, and what is complete is acknowledged again."""
        self._pending = 0
        self.ack_due |= self.complete > 0
