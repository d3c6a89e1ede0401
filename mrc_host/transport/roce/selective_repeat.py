"""Selective repeat: the packets of a queue pair on one path that are in flight, have arrived, or are to be sent again.

The receiver places packets in any order and says in SACKs which have arrived (Mittal et al., "Revisiting Network
Support for RDMA", SIGCOMM 2018, IRN). Only what is lost is sent again. There are two ways to find it:

* *by order*: a path on which nothing overtakes has lost a packet once one sent later has arrived. IRN says so of first
  transmissions, and waits for a timeout where what it sent again is lost, too; here the rule is for both, as in RACK
  (RFC 8985), since vendors say no more than "selective repeat" and a baseline should not be worse than it has to be;
* *by time*: what was sent that long ago is lost, whatever has arrived. It is all that is left where packets take
  different paths and one that is missing may just be slow.

PSNs are unbounded integers here (see ``wire.psn``). A *serial* numbers transmissions.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.sent_packet import FREE, LOST, OUT, SentPacket

_FIRST_RING: Final = 4  # records; small, as most queue pairs are idle


class SelectiveRepeat:
    """Everything from the oldest unacknowledged PSN (`una`) to before the next one to be sent."""

    __slots__ = (
        "_again",
        "_cc",
        "_mask",
        "_newest",
        "_order",
        "_ring",
        "_serial",
        "first_psn",
        "in_flight",
        "next_psn",
        "sacked",
        "una",
    )

    def __init__(self, cc: CongestionControl, first_psn: int) -> None:
        """`cc.inflight` counts the bytes in flight."""
        self._cc = cc
        self.first_psn = first_psn  # of this life
        self.una = first_psn
        self.next_psn = first_psn
        self.sacked = 0  # bit i: PSN una+i has arrived
        self.in_flight = 0  # packets
        self._ring = [SentPacket() for _ in range(_FIRST_RING)]
        self._mask = _FIRST_RING - 1
        self._serial = 0  # of the latest transmission
        self._newest = 0  # of those that arrived
        self._order: deque[tuple[int, int]] = deque()  # serial and PSN, as they were sent
        self._again: list[int] = []  # heap of PSNs to send again

    def record(self, psn: int) -> SentPacket | None:
        """The record of `psn`, if that was sent and may be in use still."""
        record = self._ring[psn & self._mask]
        return record if record.psn == psn and record.attempts else None

    # ---- sending ------------------------------------------------------------------------------------------------

    def new_record(self) -> SentPacket:
        """Take a record for the next PSN."""
        psn = self.next_psn
        if psn - self.una > self._mask:
            self._grow()
        record = self._ring[psn & self._mask]
        record.psn = psn
        record.attempts = 0
        self.next_psn = psn + 1
        return record

    def _grow(self) -> None:
        old, mask = self._ring, self._mask
        size = 2 * len(old)
        ring = [SentPacket() for _ in range(size)]
        for psn in range(self.una, self.next_psn):
            ring[psn & (size - 1)] = old[psn & mask]
        self._ring = ring
        self._mask = size - 1

    def transmitted(self, record: SentPacket, stamp: int, now: int) -> None:
        """`record` leaves, with this timestamp in its header."""
        self._serial += 1
        record.state = OUT
        record.serial = self._serial
        record.sent = now
        record.attempts += 1
        record.timed = False
        record.stamp = stamp
        self._order.append((self._serial, record.psn))
        self._cc.inflight += record.weight
        self.in_flight += 1

    def oldest_sent(self) -> int:
        """When the oldest packet in flight was sent; -1 without any."""
        order = self._order
        while order:
            serial, psn = order[0]
            record = self._ring[psn & self._mask]
            if self._flies(record, serial, psn):
                sent: int = record.sent
                return sent
            order.popleft()
        return -1

    @staticmethod
    def _flies(record: SentPacket, serial: int, psn: int) -> bool:
        return record.psn == psn and record.serial == serial and record.state == OUT

    # ---- what arrived -------------------------------------------------------------------------------------------

    def acknowledge(self, cumulative: int, base: int, bitmap: int) -> int:
        """All up to `cumulative`, and what `bitmap` shows from `base` on, has arrived; bytes that count as new."""
        una, acked = self.una, 0
        for psn in range(una, cumulative + 1):
            acked += self._arrived(psn)
        if cumulative >= una:
            self.sacked >>= cumulative + 1 - una
            self.una = una = cumulative + 1
        new = self._new_bits(base, bitmap)
        self.sacked |= new
        while new:
            low = new & -new
            new ^= low
            acked += self._arrived(una + low.bit_length() - 1)
        return acked

    def _new_bits(self, base: int, bitmap: int) -> int:
        """Bits of a bitmap, relative to `una`, without those acknowledged already or never sent."""
        shift, limit = base - self.una, self.next_psn - self.una
        bitmap = bitmap >> -shift if shift < 0 else bitmap << shift
        return bitmap & (1 << limit) - 1 & ~self.sacked

    def _arrived(self, psn: int) -> int:
        record = self._ring[psn & self._mask]
        if record.state == FREE:
            return 0
        if record.state == OUT:
            self._end_flight(record)
        record.state = FREE
        record.wqe = None
        if record.attempts == 1:  # otherwise any of its transmissions may have arrived
            self.answered(record)
        weight: int = record.weight
        return weight

    def answered(self, record: SentPacket) -> None:
        """The latest transmission of `record` has arrived."""
        serial: int = record.serial
        if serial > self._newest:
            self._newest = serial

    def _end_flight(self, record: SentPacket) -> None:
        self._cc.inflight -= record.weight
        self.in_flight -= 1

    # ---- what is lost -------------------------------------------------------------------------------------------

    def lose_overtaken(self) -> int:
        """What was sent before the latest packet that arrived, and did not arrive itself, is lost: how many packets."""
        order, count = self._order, 0
        while order and order[0][0] < self._newest:
            count += self._lose(*order.popleft())
        return count

    def lose_older(self, before: int) -> int:
        """What was sent up to time `before` is lost: how many packets."""
        order, count = self._order, 0
        while order:
            serial, psn = order[0]
            record = self._ring[psn & self._mask]
            if self._flies(record, serial, psn) and record.sent > before:
                break
            order.popleft()
            count += self._lose(serial, psn)
        return count

    def _lose(self, serial: int, psn: int) -> int:
        record = self._ring[psn & self._mask]
        if not self._flies(record, serial, psn):
            return 0
        self._end_flight(record)
        record.state = LOST
        heapq.heappush(self._again, psn)
        return 1

    def next_lost(self) -> SentPacket | None:
        """The lost packet with the lowest PSN."""
        again = self._again
        while again:
            record = self._ring[again[0] & self._mask]
            if record.psn == again[0] and record.state == LOST:
                return record
            heapq.heappop(again)
        return None

    def take_lost(self) -> None:
        """The packet that ``next_lost`` returned is about to leave."""
        heapq.heappop(self._again)
