"""Packets on their way: what was sent, what arrived, what is lost, and whose fault it was.

``Flight`` keeps one record a PSN from the oldest unacknowledged one on, in a ring that grows with the window. Records
enter the lanes of ``loss`` when they are sent, and leave by acknowledgement (``_free``) or are marked lost and wait
in a heap, lowest PSN first, to be sent again. The requester builds on this and decides what to send and when to give
up.

**Needless retransmissions** are found by three signs: a SACK answers an earlier transmission of a packet that was sent
again (its timestamp tells which); a packet is acknowledged sooner than its latest transmission could have been; and,
whenever a SACK shows everything that is on the way, the peer's count of received bytes exceeds what was to be received,
which counts duplicates, those that were proved one by one before among them (docs/protocol.md §10). Only the first
tells which transmission arrived, and so how far packets overtake each other, and which path was blamed wrongly.

An acknowledged packet that was sent more than once tells nothing about its lanes, since any of its transmissions may be
the one that arrived; the SACK that answers the latest one does.
"""

from __future__ import annotations

import heapq
from array import array
from typing import Final

from mrc_host.config import ProtocolSettings
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.consecutive_losses import ConsecutiveLosses
from mrc_host.transport.loss import FREE, LOST, OUT, Lane, Repeat, Sent
from mrc_host.transport.paths import PathSet
from mrc_host.transport.peer import Peer
from mrc_host.transport.received_count import ReceivedCount
from mrc_host.transport.stats import QpStats
from mrc_host.transport.suspects import Suspect, Suspects
from mrc_host.values import PathReason
from mrc_host.wire import control

_FIRST_RING: Final = 4  # records; most queue pairs are idle
_MAX_REPEATS: Final = 512  # packets sent more than once that are remembered
_DISORDER: Final = 1_000_000_000  # how long order on a path is not believed after it was found wrong
_NEVER: Final = 1 << 62


class Flight:
    """Everything between the oldest unacknowledged PSN and the next one to be sent."""

    __slots__ = (
        "_consecutive",
        "_count",
        "_data_lanes",
        "_dead",
        "_estimated",
        "_excess",
        "_first_arrived",
        "_fraction",
        "_lost",
        "_needless",
        "_next",
        "_ordered_from",
        "_path_last",
        "_path_serial",
        "_peer",
        "_reordering",
        "_repeats",
        "_ring",
        "_ring_mask",
        "_sacked",
        "_serial",
        "_silent",
        "_since_count",
        "_stamp_wrap",
        "_stats",
        "_suspects",
        "_una",
        "_unshown",
        "cc",
        "flying",
        "lanes",
        "paths",
        "round_trips",
    )

    def __init__(
        self,
        peer: Peer,
        paths: PathSet,
        cc: CongestionControl,
        stats: QpStats,
        settings: ProtocolSettings,
        first_psn: int,
    ) -> None:
        self._peer = peer
        self.paths = paths
        self.cc = cc
        self.flying = 0  # nominal bytes on the way: our share of what the controller counts
        self._stats = stats
        self._una = first_psn  # oldest PSN not acknowledged cumulatively
        self._next = first_psn
        self._sacked = 0  # bit i: PSN una+i acknowledged selectively
        self._ring = [Sent() for _ in range(_FIRST_RING)]
        self._ring_mask = _FIRST_RING - 1
        self._lost: list[int] = []  # heap of PSNs to retransmit
        self._serial = 0
        # by path, of first transmissions only: the latest one sent, and the serial of the latest that arrived
        self._path_last = [Sent()] * len(peer.evs)
        self._path_serial = array("q", bytes(8 * len(peer.evs)))
        self.lanes = [Lane() for _ in range(2 * len(peer.members))]
        self._data_lanes = sum(1 << 2 * plane for plane in range(len(peer.members)))
        self.round_trips = peer.round_trips
        self._reordering = peer.reordering
        self._ordered_from = 0  # order on a path is believed from this time on
        self._fraction = settings.transport.reorder_fraction
        self._stamp_wrap = settings.timestamp_tick.value << 16  # ns after which a timestamp repeats
        self._repeats: dict[int, Repeat] = {}
        self._count = ReceivedCount()
        self._excess = 0  # units known to be duplicates
        self._needless = 0  # retransmissions proved needless one by one
        self._estimated = 0  # the same, by the peer's count
        self._since_count = 0  # proved one by one since that count
        self._first_arrived = _NEVER  # sending time of the first packet known to have arrived
        self._suspects = Suspects()
        self._unshown = 0  # lanes whose oldest packet was overtaken, but was not shown as missing
        self._consecutive = ConsecutiveLosses()
        self._dead: dict[int, int] = {}  # paths found dead -> serial of the packet that told
        # Paths with timeouts since anything was acknowledged -> how many times, when last, when that packet was sent
        self._silent: dict[int, tuple[int, int, int]] = {}

    def _grow(self) -> None:
        old, mask = self._ring, self._ring_mask
        size = 2 * len(old)
        ring = [Sent() for _ in range(size)]
        for psn in range(self._una, self._next):
            ring[psn & (size - 1)] = old[psn & mask]
        self._ring = ring
        self._ring_mask = size - 1

    def _new_bits(self, base: int, bitmap: int) -> int:
        """Bits of a bitmap not known yet, aligned to una, without PSNs already acknowledged or never sent."""
        shift = base - self._una
        if shift < 0:
            bitmap >>= -shift
        else:
            bitmap <<= shift
        limit = self._next - self._una
        if bitmap >> limit:
            bitmap &= (1 << limit) - 1
        return bitmap & ~self._sacked

    def _free(self, record: Sent, now: int) -> None:
        """A packet is acknowledged."""
        sent = record.sent
        self._count.acked += record.weight >> 8
        if record.state == OUT:
            self.cc.inflight -= record.weight
            self.flying -= record.weight
            if record.attempts > 1 and not self._after_retransmission(record, now):
                record.state = FREE
                record.wqe = None
                return
        elif record.state == LOST:
            self._needless_loss(record, now)
        record.state = FREE
        record.wqe = None
        if self._first_arrived == _NEVER:
            self._first_arrived = sent
        if record.attempts > 1:
            return  # which transmission arrived, and when, only a SACK of its own tells
        number = record.lane
        trip = self.round_trips[record.plane]
        if self.paths.trial:
            self.paths.trial.pop(record.index, None)
        if not trip.smoothed:
            trip.limit(now - sent)
        self._heard(number, sent, now)
        if not number & 1 and record.serial > self._path_serial[record.index]:
            self._path_serial[record.index] = record.serial

    def _heard(self, number: int, sent: int, now: int) -> None:
        """What was sent in lane `number` at time `sent` has arrived."""
        lane = self.lanes[number]
        if sent >= lane.acked:
            lane.acked = sent
        else:
            self._reordering[number].saw(lane.acked - sent, now)

    # ---- needless retransmissions -------------------------------------------------------------------------------

    def _repeat(self, record: Sent) -> Repeat:
        """`record` is about to be sent again: remember the transmission before."""
        repeat = self._repeats.get(record.psn)
        if repeat is None:
            if len(self._repeats) >= _MAX_REPEATS:
                del self._repeats[next(iter(self._repeats))]
            repeat = self._repeats[record.psn] = Repeat(record.by_order)
        repeat.add(record.stamp, record.sent, record.index, record.lane)
        self._count.repeat(record.weight >> 8)
        return repeat

    def _measured(self, plane: int, sent: int, now: int) -> None:
        """What was sent on `plane` at `sent` is answered: take the round-trip time."""
        self.round_trips[plane].sample(now - sent)

    def _answered(self, psn: int, stamp: int, newest: bool, now: int) -> None:
        """A SACK, perhaps the newest, answers a packet that was sent more than once."""
        repeat = self._repeats[psn]
        if stamp == repeat.latest:
            self._heard(repeat.latest_lane, repeat.latest_sent, now)
            self._suspects.answered(psn)
            record = self._ring[psn & self._ring_mask]
            if record.psn == psn and record.state == LOST:
                self._arrived_after_all(record.index, record.lane, record.sent, record.by_order, now)
            return
        number = repeat.earlier(stamp, now - self._stamp_wrap)
        if number >= 0:  # an earlier one: all that came after it were needless
            self._suspects.acquit(psn)
            _stamp, sent, index, lane = repeat.history[number]
            self._measured(lane >> 1, sent, now)
            self._counted(repeat, number, newest)
            if number < repeat.proved:
                repeat.proved = number
                self._arrived_after_all(index, lane, sent, repeat.by_order and number == 0, now)

    def _counted(self, repeat: Repeat, number: int, newest: bool) -> None:
        """Transmission `number` of a repeated packet, or one before it, has arrived, so those after it were needless.

        What an overtaken SACK proves, the peer's count in a newer one may have included already.
        """
        needless = len(repeat.history) - number
        if needless <= repeat.counted:
            return
        self._needless += needless - repeat.counted
        if newest:
            self._since_count += needless - repeat.counted
        repeat.counted = needless
        self._count_needless()

    def _arrived_after_all(self, index: int, lane: int, sent: int, by_order: bool, now: int) -> None:
        """A transmission judged lost was not: learn from it, and clear its path."""
        late = self._acked(lane) - sent
        if late > 0:
            self._reordering[lane].saw(late, now)
        if by_order:
            self._ordered_from = now + _DISORDER
        self._dead.pop(index, None)
        self.paths.restore(index, PathReason.PROBE, now)

    def _count_needless(self) -> None:
        stats = self._stats
        found = min(max(self._needless, self._estimated + self._since_count), stats.retransmitted)
        stats.spurious_retransmitted = max(found, stats.spurious_retransmitted)

    def _after_retransmission(self, record: Sent, now: int) -> bool:
        """A packet sent more than once is acknowledged; False when that is too soon for the latest transmission.

        That clears no path: it is not known which transmission arrived, and few round trips may not tell the least.
        """
        least = self.round_trips[record.plane].least
        latest = not least or now - record.sent >= least * 3 // 4
        if not latest:
            repeat = self._repeats.get(record.psn)
            if repeat is not None:
                self._counted(repeat, len(repeat.history) - 1, True)
            self._suspects.acquit(record.psn)
        else:
            self._suspects.acknowledged(record.psn)
        return latest

    def _needless_loss(self, record: Sent, now: int) -> None:
        """Judged lost, but it arrived: the path works after all. After a timeout, the answers were what was lost."""
        if record.attempts > 1:  # but which transmission arrived?
            self._suspects.acknowledged(record.psn)
            return
        self._suspects.acquit(record.psn)
        self._arrived_after_all(record.index, record.lane, record.sent, record.by_order, now)

    def _compare_counts(self, now: int) -> None:
        """A SACK shows all that is on the way: what the peer received beyond that were duplicates."""
        believed = self._count.compare()
        excess = self._count.duplicates
        self._blame(self._suspects.counted(excess if believed else _NEVER), now)
        if excess <= self._excess:
            return
        self._excess = excess
        # In packets, when those that were sent again are of one size, or by their mean.
        self._since_count = 0
        self._estimated = -(-excess * self._stats.retransmitted // max(self._count.repeated, 1))
        self._count_needless()

    # ---- loss ---------------------------------------------------------------------------------------------------

    def _blame(self, convicted: list[Suspect], now: int) -> None:
        """Retire paths to blame for a timeout; what was sent before the peer was first heard tells nothing of them."""
        for index, sent, _ in convicted:
            if sent >= self._first_arrived:
                self.paths.retire(index, PathReason.TIMEOUT, sent, now, self._carries(index, _NEVER))

    def _judge(self, touched: int, hole: int, base: int, now: int) -> None:
        """Look for losses in the lanes of mask `touched`.

        Only a packet that the newest SACK shows as missing can be lost: the one at `hole`, or one in the bitmap that
        starts at `base`. About others this SACK says nothing, and an earlier one may still be on its way. Where it does
        not show the oldest packet of a lane, those that it does show are looked at one by one, and the lane is looked
        at again with the next SACK, whatever that acknowledges. Nothing need be shown of paths found dead: the bitmaps
        of new SACKs may have passed what was sent on them.
        """
        end = base + control.SACK_BITS
        touched |= self._unshown | (touched & self._data_lanes) << 1
        hidden = 0
        while touched:
            low = touched & -touched
            touched ^= low
            number = low.bit_length() - 1
            lane = self.lanes[number]
            record = lane.head()
            if record is None:
                continue
            acked, windows = self._acked(number), self._windows(number, now)
            in_order = not number & 1 and now >= self._ordered_from
            while record is not None and self._overtaken(record, acked, windows, in_order, now):
                if not (base <= record.psn < end or record.psn == hole or self._went_dead(record)):
                    hidden |= low
                    break
                if self._lose(record, now) and not record.by_order:
                    self._dead[record.index] = record.serial
                    self._lose_followers(record, lane, acked - windows[0], now)
                record = lane.head()
        self._unshown = hidden
        if hidden:
            self._judge_shown(hidden, max(base, self._una), min(end, self._next), now)

    def _judge_shown(self, lanes: int, first: int, end: int, now: int) -> None:
        """Look at what a SACK shows as missing from PSN `first` to before `end`, of the lanes in mask `lanes`."""
        missing = (1 << max(end - first, 0)) - 1 & ~(self._sacked >> first - self._una)
        while missing:
            low = missing & -missing
            missing ^= low
            record = self._ring[first + low.bit_length() - 1 & self._ring_mask]
            number = record.lane
            if record.state == OUT and lanes >> number & 1:
                in_order = not number & 1 and now >= self._ordered_from
                if self._overtaken(record, self._acked(number), self._windows(number, now), in_order, now):
                    self._lose(record, now)

    def _judge_silent(self, oldest: Sent, asked: int, unknown: int, now: int) -> None:
        """Lose what a silent plane carries. A SACK answers what was sent at time `asked` and shows `oldest` as missing.

        It is silent when nothing sent there since has arrived, two of its round trips before what did on another plane;
        where its round trip was never measured, the time `unknown` before.
        """
        before = asked - (self.round_trips[oldest.plane].patience() or unknown)
        if oldest.state != OUT or oldest.sent > before:
            return
        lanes = self.lanes[2 * oldest.plane : 2 * oldest.plane + 2]
        if max(lane.acked for lane in lanes) >= oldest.sent:
            return
        for lane in lanes:
            record = lane.head()
            while record is not None and record.sent <= before:
                record.by_order = False
                if self._lose(record, now):
                    self._dead[record.index] = record.serial
                record = lane.head()

    def _acked(self, number: int) -> int:
        """Latest sending time of what has arrived and cannot have overtaken a packet of lane `number` in a switch."""
        acked = self.lanes[number].acked
        return max(acked, self.lanes[number - 1].acked) if number & 1 else acked

    def _windows(self, number: int, now: int) -> tuple[int, int]:
        """Reorder windows of lane `number`; see `Reordering.windows`."""
        trip = self.round_trips[number >> 1]
        windows = self._reordering[number].windows(trip, self._fraction, now)
        if not number & 1:
            return windows
        data = self._reordering[number - 1].windows(trip, self._fraction, now)
        return max(windows[0], data[0]), max(windows[1], data[1])

    def _overtaken(self, record: Sent, acked: int, windows: tuple[int, int], in_order: bool, now: int) -> bool:
        """Whether something has arrived that was sent so much later than `record`, or later on its path.

        The narrow window does where the path has no later packets, or where the next one is as late and nothing sent
        since has come through; unless the path may just be slow.
        """
        index, serial = record.index, record.serial
        late = acked - record.sent
        narrow, wide = windows
        arrived = self._path_serial[index]
        if late < narrow:
            record.by_order = True
        elif record.lane & 1 or self.paths.bad(index):
            record.by_order = False
        else:
            followed, measured = record.followed, self.paths.round_trip[index] > 0
            record.by_order = self._slow(record, now - record.sent) or (
                followed > 0 and late < wide and (followed > acked - narrow or arrived > serial or not measured)
            )
        return not record.by_order or (in_order and arrived > serial)

    def _slow(self, record: Sent, waited: int) -> bool:
        """Whether the path of `record` may just take as long as this, which is two round trips of its plane at most.

        It may when it did the last time; or when nobody knows and it carries later packets, which will tell.
        """
        last = self.paths.round_trip[record.index]
        usual = waited <= last if last else record.followed > 0
        return usual and waited <= self.round_trips[record.plane].patience()

    def _lose_followers(self, first: Sent, lane: Lane, before: int, now: int) -> None:
        """The path of `first` is dead: what else was sent on it until `before` is lost too."""
        for record, serial in list(lane.queue):
            if record.sent > before:
                break
            unanswered = record.state == OUT and record.serial == serial
            if unanswered and record.index == first.index and self._went_dead(record):
                record.by_order = False
                self._lose(record, now)

    def _went_dead(self, record: Sent) -> bool:
        """Whether `record` went on a path found dead before, and nothing sent as late has come through on it."""
        index, serial = record.index, record.serial
        convicted = self._dead.get(index, _NEVER) < serial and not record.lane & 1
        return convicted and self._path_serial[index] < serial and self.paths.bad(index)

    def _lose(self, record: Sent, now: int) -> bool:
        """A packet was overtaken: send it again, and blame its path; whether that was not known as bad."""
        by_order = record.by_order
        self._mark_lost(record, "sack")
        record.by_order = by_order
        if not self._went_dead(record):  # a dead path tells nothing of congestion, beyond its first packet
            self.cc.on_loss(record.weight, now)
        if record.sent < self._first_arrived:
            return False
        alive = self._carries(record.index, record.serial)
        return self.paths.retire(record.index, PathReason.LOSS, record.sent, now, alive)

    def _carries(self, index: int, serial: int) -> bool:
        """Whether a path that lost transmission `serial` carries others."""
        return self._consecutive.carries(index, serial, self._path_serial[index], self._serial)

    def _mark_lost(self, record: Sent, why: str) -> None:
        self.paths.trial.pop(record.index, None)
        record.state = LOST
        record.by_order = False
        self.paths.count_lost(record.index, record.psn, record.sent, why)
        self.cc.inflight -= record.weight
        self.flying -= record.weight
        self._stats.lost += 1
        self._peer.lost_by_plane[record.plane] += 1
        heapq.heappush(self._lost, record.psn)

    def flush_plane(self, plane: int) -> None:
        """The plane is gone: what is still on the way there is sent again on others, and no path is blamed."""
        for lane in (self.lanes[2 * plane], self.lanes[2 * plane + 1]):
            record = lane.head()
            while record is not None:
                self._mark_lost(record, "port_down")
                record = lane.head()

    def release(self) -> None:
        """Nothing more is sent: give back the share of a window that others may use."""
        for lane in self.lanes:
            record = lane.head()
            while record is not None:
                record.state = FREE
                record.wqe = None
                self.cc.inflight -= record.weight
                self.flying -= record.weight
                record = lane.head()

    def _note_silence(self, index: int, sent: int, now: int) -> None:
        """Path `index` lost a packet to a timeout; of those sent before the last timeout was noticed one counts."""
        times, noticed, _ = self._silent.get(index, (0, 0, 0))
        self._silent[index] = (times + 1, now, sent) if sent >= noticed else (times, noticed, sent)

    def _all_silent(self, plane: int) -> bool:
        """Whether each active path of `plane` lost packets to two timeouts since anything was acknowledged."""
        silent = self._silent
        return all(index in silent and silent[index][0] > 1 for index in self.paths.active(plane))

    def expire(self, before: int, now: int) -> int:
        """An ACK timeout: what was sent at or before time `before` and not acknowledged is lost.

        Whether the path, the peer or the way back is to blame shows later (``suspects``). Returns how many bytes it is.
        """
        size = 0
        for lane in self.lanes:
            record = lane.head()
            while record is not None and record.sent <= before:
                size += record.weight
                self._mark_lost(record, "timeout")
                self._note_silence(record.index, record.sent, now)
                self._suspects.accuse(record.psn, record.index, record.sent, self._excess)
                record = lane.head()
        return size
