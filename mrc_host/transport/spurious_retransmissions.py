"""Packets that were sent more than once, and how many of those transmissions were spurious.

Three signs reveal a *spurious retransmission*: a SACK answers an earlier transmission of a packet that was sent again
(its timestamp says which); a packet is acknowledged sooner than its latest transmission could have been; and, whenever
a SACK covers everything in flight, the peer's count of received bytes exceeds what was sent once. The excess counts all
duplicates, including those already found by the other signs (docs/protocol.md §10). Only the first sign says which
transmission arrived, and so how far packets overtake each other, and which path was suspected wrongly.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.received_count import ReceivedCount
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.stats import QpStats

_MAX_REMEMBERED: Final = 512  # packets sent more than once
_MAX_TRANSMISSIONS: Final = 8  # of one packet that are remembered


class Retransmission:
    """The last few transmissions of one packet before its latest: timestamp, time, path and lane of each."""

    __slots__ = ("by_order", "counted", "history", "latest", "latest_index", "latest_lane", "latest_sent", "proved")

    def __init__(self, by_order: bool) -> None:
        self.history: list[tuple[int, int, int, int]] = []
        self.latest = -1  # timestamp, time, path and lane of the latest one
        self.latest_sent = 0
        self.latest_index = self.latest_lane = 0
        self.by_order = by_order
        self.counted = 0  # how many are known to have been spurious
        self.proved = _MAX_TRANSMISSIONS  # the earliest transmission that a SACK has shown to have arrived

    def add(self, stamp: int, sent: int, index: int, lane: int) -> None:
        """It is about to be sent again; the arguments describe the transmission before."""
        self.history.append((stamp, sent, index, lane))
        if len(self.history) > _MAX_TRANSMISSIONS:
            del self.history[0]
            self.by_order = False

    def again(self, record: SentPacket) -> None:
        """It was sent again, as `record` says."""
        self.latest, self.latest_sent = record.stamp, record.sent
        self.latest_index, self.latest_lane = record.index, record.lane

    def earlier(self, stamp: int, since: int) -> int:
        """Which transmission sent after time `since` has this timestamp; -1 for none."""
        for number in range(len(self.history) - 1, -1, -1):
            if self.history[number][0] == stamp and self.history[number][1] > since:
                return number
        return -1


class SpuriousRetransmissions:
    """Retransmissions in one life of a queue pair; those found spurious count in ``spurious_retransmitted``."""

    __slots__ = (
        "_estimated",
        "_found",
        "_proved",
        "_since_count",
        "_stats",
        "_transmissions",
        "count",
        "excess",
        "packets",
    )

    def __init__(self, stats: QpStats) -> None:
        self._stats = stats
        self.packets: dict[int, Retransmission] = {}  # by PSN
        self.count = ReceivedCount()
        self.excess = 0  # units known to be duplicates
        self._transmissions = 0  # retransmissions in all
        self._found = 0  # how many of them were counted as spurious
        self._proved = 0  # retransmissions found spurious one by one
        self._estimated = 0  # retransmissions found spurious by the peer's count
        self._since_count = 0  # found one by one since that count

    def remember(self, record: SentPacket) -> Retransmission:
        """`record` is about to be sent again: remember its previous transmission."""
        known = self.packets.get(record.psn)
        if known is None:
            if len(self.packets) >= _MAX_REMEMBERED:
                del self.packets[next(iter(self.packets))]
            known = self.packets[record.psn] = Retransmission(record.by_order)
        known.add(record.stamp, record.sent, record.index, record.lane)
        self._transmissions += 1
        self.count.retransmitted(record.weight >> 8)
        return known

    def first_stamp(self, record: SentPacket) -> int:
        """The timestamp of the first transmission of a packet, as far as remembered."""
        known = self.packets.get(record.psn)
        return record.stamp if known is None or not known.history else known.history[0][0]

    def arrived(self, known: Retransmission, number: int, newest: bool) -> None:
        """Transmission `number` of a packet, or an earlier one, has arrived, so later ones were spurious.

        Without `newest` an overtaken SACK showed this; the peer's count in a newer SACK may already include it.
        """
        spurious = len(known.history) - number
        if spurious <= known.counted:
            return
        self._proved += spurious - known.counted
        if newest:
            self._since_count += spurious - known.counted
        known.counted = spurious
        self._update()

    def compare(self) -> bool:
        """A SACK covers everything in flight: count what the peer received beyond that as duplicates.

        False when the peer's count is not trusted.
        """
        believed = self.count.compare()
        excess = self.count.duplicates
        if excess > self.excess:
            self.excess = excess
            # The count is in bytes: convert by the mean size of retransmitted packets.
            self._since_count = 0
            self._estimated = -(-excess * self._transmissions // max(self.count.retransmissions, 1))
            self._update()
        return believed

    def _update(self) -> None:
        found = min(max(self._proved, self._estimated + self._since_count), self._transmissions)
        if found > self._found:
            self._stats.spurious_retransmitted += found - self._found
            self._found = found
