"""Packets that were sent and are not acknowledged yet, and how many of their bytes are in flight.

There is one record per PSN (``sent_packet``), from the oldest unacknowledged one on, in a ring that grows with the
window. Every packet in flight is also in a *lane*, in the order of sending. A lane is one class (first transmissions or
retransmissions) on one plane, and a list linked by the records. A record is removed when its packet is acknowledged;
when its packet is marked lost, its PSN waits in a heap, lowest first, to be retransmitted. ``loss_detection`` and
others decide what is lost.

PSNs are unbounded integers (see ``wire.psn``). An *index* is a path, a *serial* numbers the transmissions of the queue
pair, and a *weight* is the nominal size of a packet, rounded up as the peer counts it.
"""

from __future__ import annotations

import heapq
from typing import Final

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.path import Path
from mrc_host.transport.sent_packet import FREE, LOST, OUT, SentPacket

NEVER: Final = (1 << 62) - 1  # no more, or compiled code would need an object for it
_FIRST_RING: Final = 4  # records; small, as most queue pairs are idle


class Lane:
    """Packets in flight of one class on one plane, oldest first."""

    __slots__ = ("acked", "newest", "oldest", "proven")

    def __init__(self) -> None:
        self.oldest: SentPacket | None = None
        self.newest: SentPacket | None = None
        self.acked = 0  # latest send time of a packet or probe that arrived
        self.proven = -1  # its path; -1 for none

    def head(self) -> SentPacket | None:
        """Oldest unanswered transmission."""
        return self.oldest

    def enter(self, record: SentPacket) -> None:
        """A packet leaves."""
        newest = self.newest
        if newest is None:
            self.oldest = record
        else:
            newest.newer = record
            record.older = newest
        self.newest = record

    def leave(self, record: SentPacket) -> None:
        """It is no longer in flight."""
        older, newer = record.older, record.newer
        if older is None:
            self.oldest = newer
        else:
            older.newer = newer
            record.older = None
        if newer is None:
            self.newest = older
        else:
            newer.older = older
            record.newer = None


class SentPackets:
    """Everything from the oldest unacknowledged PSN (`una`) to before the next one to be sent."""

    __slots__ = (
        "_held",
        "_lost",
        "_paths",
        "_recovery_delay",
        "cc",
        "first_answered",
        "first_psn",
        "in_flight",
        "lanes",
        "mask",
        "next_psn",
        "ring",
        "sacked",
        "serial",
        "una",
        "una_since",
    )

    def __init__(
        self, cc: CongestionControl, first_psn: int, planes: int, paths: list[Path], recovery_delay: int = 0
    ) -> None:
        """`cc.inflight` counts the bytes of all who share it; `in_flight` counts ours alone. `paths` are by index."""
        self.cc = cc
        self.in_flight = 0  # weights of packets in flight
        self.first_psn = first_psn  # of this life
        self.una = first_psn  # oldest PSN not acknowledged cumulatively
        self.una_since = 0  # when it last advanced
        self.next_psn = first_psn
        self.sacked = 0  # bit i: PSN una+i acknowledged selectively
        self.ring = [SentPacket() for _ in range(_FIRST_RING)]
        self.mask = _FIRST_RING - 1
        self.serial = 0  # of the latest transmission
        self.lanes = [Lane() for _ in range(2 * planes)]
        self._lost: list[int] = []  # heap of PSNs to retransmit
        self._recovery_delay = recovery_delay
        self._held: list[tuple[int, int, int]] = []  # heap of lost packets that wait: until when, PSN, serial
        self._paths = paths
        self.first_answered = NEVER  # earliest send time of a packet or probe known to have arrived

    def psns_used(self) -> int:
        """How many PSNs were sent."""
        return self.next_psn - self.first_psn

    def lost(self) -> bool:
        """Whether packets wait to be retransmitted."""
        return bool(self._lost) and self.next_lost() is not None

    def record(self, psn: int) -> SentPacket:
        """The record of `psn`, if that is in flight; otherwise, one of another PSN."""
        return self.ring[psn & self.mask]

    def new_record(self) -> SentPacket:
        """Take a record for the next PSN."""
        psn = self.next_psn
        if psn - self.una > self.mask:
            self._grow()
        record = self.ring[psn & self.mask]
        record.psn = psn
        record.attempts = 0
        record.tried = 0
        self.next_psn = psn + 1
        return record

    def _grow(self) -> None:
        old, mask = self.ring, self.mask
        size = 2 * len(old)
        ring = [SentPacket() for _ in range(size)]
        for psn in range(self.una, self.next_psn):
            ring[psn & (size - 1)] = old[psn & mask]
        self.ring = ring
        self.mask = size - 1

    def transmitted(self, record: SentPacket, plane: int, again: int, value: int, stamp: int, now: int) -> None:
        """`record` leaves on `plane` with entropy value `value`; `again` is 1 for a retransmission, 0 otherwise."""
        index = value % len(self._paths)
        self.serial = serial = self.serial + 1
        lane = plane * 2 + again
        record.state = OUT
        record.plane = plane
        record.lane = lane
        record.index = index
        record.value = value
        record.serial = serial
        record.sent = now
        record.attempts += 1
        record.timed = False
        record.stamp = stamp
        self.lanes[lane].enter(record)
        if not again:
            path = self._paths[index]
            last = path.last
            if last is not None and last.index == index:  # otherwise it carries another packet by now
                last.followed = now
            path.last = record
            record.followed = 0
        weight = record.weight
        self.cc.inflight += weight
        self.in_flight += weight

    def _end_flight(self, record: SentPacket) -> None:
        """The packet is no longer in flight."""
        self.lanes[record.lane].leave(record)
        weight = record.weight
        self.cc.inflight -= weight
        self.in_flight -= weight

    def answered(self, sent: int) -> None:
        """A packet or probe sent at time `sent` has arrived: later losses do not mean that no peer was there."""
        if sent < self.first_answered:
            self.first_answered = sent

    def acknowledge(self, record: SentPacket) -> None:
        """The packet arrived: free its record, whose content stays until the ring wraps around."""
        if record.state == OUT:
            self._end_flight(record)
        record.state = FREE
        record.wqe = None

    def new_bits(self, base: int, bitmap: int) -> int:
        """Newly acknowledged PSNs of a bitmap, relative to una; without those already acknowledged or never sent."""
        shift = base - self.una
        if shift < 0:
            bitmap >>= -shift
        else:
            bitmap <<= shift
        limit = self.next_psn - self.una
        if bitmap >> limit:
            bitmap &= (1 << limit) - 1
        return bitmap & ~self.sacked

    def advance(self, una: int, now: int) -> None:
        """Everything before `una` is acknowledged."""
        self.sacked >>= una - self.una
        self.una = una
        self.una_since = now

    def mark_lost(self, record: SentPacket, inferred: bool = False) -> None:
        """A packet in flight is to be retransmitted: `inferred` from what arrived later, after the recovery delay."""
        record.state = LOST
        record.by_order = False
        self._end_flight(record)
        if inferred and self._recovery_delay:
            heapq.heappush(self._held, (record.sent + self._recovery_delay, record.psn, record.serial))
        else:
            heapq.heappush(self._lost, record.psn)

    def holds(self) -> bool:
        """Whether lost packets wait for their recovery delay."""
        return bool(self._held)

    def release_held(self, now: int) -> int:
        """Lost packets whose recovery delay is over may be sent again; when the next one may, 0 for none."""
        held = self._held
        while held and held[0][0] <= now:
            _, psn, serial = heapq.heappop(held)
            record = self.ring[psn & self.mask]
            if record.state == LOST and record.psn == psn and record.serial == serial:
                heapq.heappush(self._lost, psn)
        return held[0][0] if held else 0

    def next_lost(self) -> SentPacket | None:
        """The lost packet with the lowest PSN."""
        lost = self._lost
        while lost:
            psn = lost[0]
            record = self.ring[psn & self.mask]
            if psn >= self.una and record.state == LOST and record.psn == psn:
                return record
            heapq.heappop(lost)
        return None

    def take_lost(self) -> None:
        """The packet returned by ``next_lost`` is about to be sent."""
        heapq.heappop(self._lost)

    def oldest(self) -> tuple[int, int]:
        """Send time of the oldest packet in flight (0 without any), and a mask of the planes with packets in flight."""
        oldest = mask = 0
        for number, lane in enumerate(self.lanes):
            record = lane.head()
            if record is not None:
                mask |= 1 << (number >> 1)
                if not oldest or record.sent < oldest:
                    oldest = record.sent
        return oldest, mask

    def oldest_path(self, plane: int) -> int:
        """Path of the oldest unanswered packet on `plane`, which may have caused its loss; -1 when there is none."""
        first, again = self.lanes[2 * plane].head(), self.lanes[2 * plane + 1].head()
        if first is None or (again is not None and again.sent < first.sent):
            first = again
        return -1 if first is None else first.index

    def proven(self, planes: int, since: int) -> int:
        """Those of `planes` (a mask) where something sent after time `since` has arrived."""
        lanes = self.lanes
        proven = 0
        for plane in range(len(lanes) // 2):
            if planes >> plane & 1 and max(lanes[2 * plane].acked, lanes[2 * plane + 1].acked) > max(since, 0):
                proven |= 1 << plane
        return proven

    def proven_path(self, plane: int, since: int) -> int:
        """The path of `plane` on which something sent after time `since` has arrived, the latest; -1 for none."""
        lane, other = self.lanes[2 * plane], self.lanes[2 * plane + 1]
        if other.acked > lane.acked:
            lane = other
        return lane.proven if lane.acked > since else -1

    def release(self) -> None:
        """Sending ends: give back this queue pair's share of the window."""
        for lane in self.lanes:
            record = lane.head()
            while record is not None:
                self.acknowledge(record)
                record = lane.head()
