"""Packets that were sent and not acknowledged yet, and how many bytes of them are in flight.

One record per PSN, from the oldest unacknowledged one on, in a ring that grows with the window. Every transmission also
enters a *lane*, in sending order. A lane is one class (first transmissions or retransmissions) on one plane. A record
is removed when it is acknowledged, or is marked lost and waits in a heap, lowest PSN first, to be retransmitted. What
is lost is decided elsewhere.

PSNs are plain growing integers (see ``wire.psn``). An *index* is a path, a *serial* numbers the transmissions of the
queue pair, and a *weight* is the nominal size of a packet, rounded up as the peer counts it.
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from typing import Final

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.work import Wqe

FREE: Final = 0
OUT: Final = 1
LOST: Final = 2
NEVER: Final = 1 << 62

_FIRST_RING: Final = 4  # records; most queue pairs are idle


class SentPacket:
    """One PSN on its way. Objects are reused: a lane entry is stale when its serial differs from `serial`."""

    __slots__ = (
        "attempts",
        "by_order",
        "followed",
        "index",
        "kind",
        "lane",
        "offset",
        "plane",
        "psn",
        "sent",
        "serial",
        "size",
        "stamp",
        "state",
        "timed",
        "tried",
        "weight",
        "wqe",
    )

    def __init__(self) -> None:
        self.state = FREE
        self.wqe: Wqe | None = None
        self.psn = 0
        self.offset = 0  # in the message
        self.size = 0  # payload
        self.weight = 0
        self.kind = 0  # segment kind
        self.plane = 0
        self.tried = 0  # planes that have lost it since all had
        self.lane = 0
        self.index = 0  # path
        self.serial = 0
        self.sent = 0  # time of the latest transmission
        self.stamp = 0  # its 16-bit timestamp
        self.attempts = 0
        self.timed = False  # a SACK has told the round-trip time of the latest transmission
        self.followed = 0  # when the next first transmission on its path was sent, 0 for not yet
        self.by_order = False  # judged lost by the order on its path


class Lane:
    """Transmissions of one class on one plane, oldest first."""

    __slots__ = ("acked", "queue")

    def __init__(self) -> None:
        self.queue: deque[tuple[SentPacket, int]] = deque()
        self.acked = 0  # latest sending time of a packet that arrived

    def head(self) -> SentPacket | None:
        """Oldest transmission still unanswered."""
        queue = self.queue
        while queue:
            record, serial = queue[0]
            if record.state == OUT and record.serial == serial:
                return record
            queue.popleft()
        return None


class SentPackets:
    """Everything between the oldest unacknowledged PSN (`una`) and the next one to be sent."""

    __slots__ = (
        "_lost",
        "arrived_serial",
        "cc",
        "first_arrived",
        "first_psn",
        "in_flight",
        "lanes",
        "last_on_path",
        "mask",
        "next_psn",
        "ring",
        "sacked",
        "serial",
        "una",
        "una_since",
    )

    def __init__(self, cc: CongestionControl, first_psn: int, planes: int, paths: int) -> None:
        """`cc` counts the bytes of all who share it in its `inflight`; ours are in `in_flight` as well."""
        self.cc = cc
        self.in_flight = 0  # weights of packets on the way
        self.first_psn = first_psn  # of this life
        self.una = first_psn  # oldest PSN not acknowledged cumulatively
        self.una_since = 0  # when it last moved
        self.next_psn = first_psn
        self.sacked = 0  # bit i: PSN una+i acknowledged selectively
        self.ring = [SentPacket() for _ in range(_FIRST_RING)]
        self.mask = _FIRST_RING - 1
        self.serial = 0  # of the latest transmission
        self.lanes = [Lane() for _ in range(2 * planes)]
        self._lost: list[int] = []  # heap of PSNs to retransmit
        # by path, of first transmissions only: the latest one sent, and the serial of the latest that arrived
        self.last_on_path = [SentPacket()] * paths
        self.arrived_serial = array("q", bytes(8 * paths))
        self.first_arrived = NEVER  # sending time of the first packet known to have arrived

    def psns_used(self) -> int:
        """How many PSNs were sent."""
        return self.next_psn - self.first_psn

    def lost(self) -> bool:
        """Whether packets wait to be sent again."""
        return bool(self._lost)

    def record(self, psn: int) -> SentPacket:
        """What is remembered of `psn`; what is on the way has that PSN in its record."""
        return self.ring[psn & self.mask]

    def new_record(self) -> SentPacket:
        """A record for the next PSN, which is taken with that."""
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

    def transmitted(self, record: SentPacket, plane: int, again: int, index: int, stamp: int, now: int) -> None:
        """`record` leaves on path `index` of `plane`; `again` is 1 for a retransmission, 0 otherwise."""
        self.serial = serial = self.serial + 1
        lane = plane * 2 + again
        record.state = OUT
        record.plane = plane
        record.lane = lane
        record.index = index
        record.serial = serial
        record.sent = now
        record.attempts += 1
        record.timed = False
        record.stamp = stamp
        self.lanes[lane].queue.append((record, serial))
        if not again:
            last = self.last_on_path[index]
            if last.index == index:
                last.followed = now
            self.last_on_path[index] = record
            record.followed = 0
        weight = record.weight
        self.cc.inflight += weight
        self.in_flight += weight

    def _land(self, record: SentPacket) -> None:
        """It is no longer in flight."""
        weight = record.weight
        self.cc.inflight -= weight
        self.in_flight -= weight

    def acknowledge(self, record: SentPacket) -> None:
        """A record leaves; what it says stays until the ring comes round."""
        if record.state == OUT:
            self._land(record)
        record.state = FREE
        record.wqe = None

    def new_bits(self, base: int, bitmap: int) -> int:
        """Bits of a bitmap not known yet, aligned to una, without PSNs already acknowledged or never sent."""
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
        """All before `una` is acknowledged."""
        self.sacked >>= una - self.una
        self.una = una
        self.una_since = now

    def mark_lost(self, record: SentPacket) -> None:
        """A packet on the way is to be sent again."""
        record.state = LOST
        record.by_order = False
        self._land(record)
        heapq.heappush(self._lost, record.psn)

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
        """The packet that ``next_lost`` returned is about to be sent."""
        heapq.heappop(self._lost)

    def oldest(self) -> tuple[int, int]:
        """When the oldest packet on the way was sent, 0 without any; and a mask of the planes that have some."""
        oldest = mask = 0
        for number, lane in enumerate(self.lanes):
            record = lane.head()
            if record is not None:
                mask |= 1 << (number >> 1)
                if not oldest or record.sent < oldest:
                    oldest = record.sent
        return oldest, mask

    def oldest_path(self, plane: int) -> int:
        """Path of the oldest unanswered packet on `plane`, which may be why it is unanswered; -1 when there is none."""
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

    def release(self) -> None:
        """Nothing more is sent: give back the share of a window that others may use."""
        for lane in self.lanes:
            record = lane.head()
            while record is not None:
                self.acknowledge(record)
                record = lane.head()
