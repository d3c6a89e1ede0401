"""Loss detection: when a packet in flight is declared lost (docs/protocol.md §2), and what that says about its path.

Packets keep their order only within one path and class: paths of a plane differ in queueing, planes differ in delay,
and retransmissions overtake first transmissions in switches. So the oldest packet of a lane (one class on one plane) is
lost when

* a first transmission sent later on the same path has arrived; or
* a packet sent at least the *reorder window* (``reordering``) later in the lane has arrived. A path with later packets
  of its own gets the wider window, because those packets will reveal a single loss; the window is needed for dead
  paths. For a slow path the limit is its last round trip, up to two round trips of the plane, or its last two, up to
  sixteen.

Arrivals on other planes count as evidence of loss only where a plane has been silent for more than two of its own round
trips, and the oldest packet of all is as overdue, or was lost already.

**The end of the window.** Where nothing is sent a reorder window later, as at the end of a message, time takes its
place: RACK's reordering timer (RFC 8985, section 6.2). It runs once the answers to all that was sent later are there,
from the newest SACK on, and treats what has arrived as if it had been sent that much later. Only a packet overtaken in
its lane is lost by time, and only if no other is missing: else late arrivals may not have been reported, and a probe
asks for them.

A loss that a SACK shows retires the path at once: the receiver says that the packet has not arrived, whichever answers
are lost on their way. Without that, silence retires nothing. Nor does the loss of a packet that was sent before the
first packet or probe that the peer answered, or whose NACK may have been lost (``LostNacks``) on a path that still
carries others.
When the first packet on a path found dead is lost, so are the packets that followed it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.consecutive_losses import ConsecutiveLosses
from mrc_host.transport.lost_nacks import LostNacks
from mrc_host.transport.paths import PathSet
from mrc_host.transport.reordering import MAX_ROUND_TRIPS, ReorderWindow
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.sent_packet import OUT, SentPacket
from mrc_host.transport.sent_packets import NEVER, SentPackets
from mrc_host.transport.stats import QpStats
from mrc_host.verbs_types import PathReason
from mrc_host.wire.control import SACK_BITS

_INFERRED: Final = "sack"  # why a packet is lost: what arrived later shows it
_DISORDER: Final = 1_000_000_000  # how long arrival order on a path is not trusted after it was found wrong


class LossDetection:
    """Declares packets of one queue pair lost."""

    __slots__ = (
        "_base",
        "_cc",
        "_consecutive",
        "_data_lanes",
        "_dead",
        "_fraction",
        "_hole",
        "_lost_by_plane",
        "_lost_nacks",
        "_ordered_from",
        "_overtaken_in",
        "_paths",
        "_postponed",
        "_reordering",
        "_round_trips",
        "_sent",
        "_shown_at",
        "_silent_since",
        "_stats",
        "_unshown",
        "last_answered",
        "silent",
        "window_ends",
    )

    def __init__(
        self,
        sent: SentPackets,
        paths: PathSet,
        cc: CongestionControl,
        round_trips: list[RoundTrip],
        reordering: list[ReorderWindow],
        stats: QpStats,
        lost_by_plane: list[int],
        reorder_fraction: int,
    ) -> None:
        """`round_trips` and `lost_by_plane` are by plane, `reordering` is by lane; `reorder_fraction` is in percent."""
        self._sent = sent
        self._paths = paths
        self._cc = cc
        self._round_trips = round_trips
        self._reordering = reordering
        self._stats = stats
        self._lost_by_plane = lost_by_plane
        self._fraction = reorder_fraction
        self._data_lanes = sum(1 << 2 * plane for plane in range(len(round_trips)))
        self.last_answered = 0  # latest send time of a packet or probe that a SACK has answered
        self._ordered_from = 0  # arrival order on a path is trusted from this time on
        self.silent = 0  # mask of planes; see `detect_silent_planes`
        self._silent_since = [0] * len(round_trips)
        self._unshown = 0  # lanes whose oldest packet was overtaken, but not shown as missing
        # the newest SACK: what it showed as missing, and when it came
        self._hole = self._base = -1
        self._shown_at = 0
        self._postponed = False  # the timer was called late, and is called once more
        self._overtaken_in = 0  # lanes whose oldest packet it shows as missing and overtaken, though not as lost yet
        self.window_ends = 0  # when time may show that they are lost (``on_window_end``); 0: no timer is needed
        self._consecutive = ConsecutiveLosses()
        self._lost_nacks = LostNacks(round_trips)
        self._dead: dict[int, int] = {}  # paths found dead -> serial of the packet whose loss showed it

    # ---- what arrived -------------------------------------------------------------------------------------------

    def arrived(self, number: int, path: int, sent: int, now: int) -> None:
        """A packet sent in lane `number` on path `path` at time `sent` has arrived."""
        lane = self._sent.lanes[number]
        if sent >= lane.acked:
            lane.acked = sent
            lane.proven = path
        else:
            self._reordering[number].observe(lane.acked - sent, now)
            self._was_late(number, sent, now)

    def disproved(self, index: int, lane: int, sent: int, by_order: bool, now: int) -> None:
        """A transmission declared lost has arrived: learn from it, and restore the path retired for it."""
        late = self._acked(lane) - sent
        if late > 0:
            self._reordering[lane].observe(late, now)
        self._was_late(lane, sent, now)
        if by_order:
            self._ordered_from = now + _DISORDER
        if self._paths.disprove(index, sent, now):
            self._dead.pop(index, None)

    def _was_late(self, number: int, sent: int, now: int) -> None:
        """A packet arrived after one sent later, or after it was declared lost."""
        smoothed = self._round_trips[number >> 1].smoothed
        if smoothed and now - sent > smoothed:
            self._reordering[number].observe_late(now - sent - smoothed, now)

    # ---- what is lost -------------------------------------------------------------------------------------------

    def detect(self, touched: int, hole: int, base: int, now: int) -> None:
        """Look for losses in the lanes of mask `touched`.

        Only a packet that the newest SACK shows as missing can be declared lost: the one at `hole`, or one in the
        bitmap that starts at `base`. The SACK says nothing about other packets, and an earlier SACK may still be in
        flight. Where it does not show the oldest packet of a lane, the packets that it does show are checked one by
        one, and the lane is checked again with the next SACK, whatever that acknowledges. Packets on paths found dead
        need not be shown: the bitmaps of new SACKs may have moved past them.
        """
        self._hole, self._base, self._shown_at, self._postponed = hole, base, now, False
        touched |= self._unshown | (touched & self._data_lanes) << 1
        self._overtaken_in &= ~touched
        hidden = 0
        while touched:
            low = touched & -touched
            touched ^= low
            if self._lose_oldest(low.bit_length() - 1, now):
                hidden |= low
        self._unshown = hidden
        if hidden:
            self._detect_shown(hidden, base, base + SACK_BITS, now)
        self.window_ends = self._next_window_end(now) if self._overtaken_in else 0

    def _lose_oldest(self, number: int, now: int) -> bool:
        """Declare lost what is lost of a lane, oldest first. Whether it ended at a packet not shown as missing."""
        lane = self._sent.lanes[number]
        record = lane.head()
        if record is None:
            return False
        acked, windows = self._acked(number), self._windows(number, now)
        in_order = not number & 1 and now >= self._ordered_from
        while record is not None and self._overtaken(record, acked, windows, in_order, now, True):
            if not (self._shown(record) or self._went_dead(record)):
                return True
            self._lose_overtaken(record, acked - windows[0], now)
            record = lane.head()
        if record is not None and record.sent <= acked and self._shown(record):
            self._overtaken_in |= 1 << number
        return False

    def _shown(self, record: SentPacket) -> bool:
        """Whether the newest SACK shows a packet in flight as missing."""
        return self._base <= record.psn < self._base + SACK_BITS or record.psn == self._hole

    def _detect_shown(self, lanes: int, base: int, end: int, now: int) -> None:
        """Check the packets in `lanes` (a mask) that a SACK shows as missing, from PSN `base` to before `end`."""
        for record in self._shown_missing(lanes, base, end):
            number = record.lane
            acked, windows = self._acked(number), self._windows(number, now)
            in_order = not number & 1 and now >= self._ordered_from
            if self._overtaken(record, acked, windows, in_order, now, True):
                self._lose_overtaken(record, acked - windows[0], now)

    def _shown_missing(self, lanes: int, base: int, end: int) -> Iterator[SentPacket]:
        """Packets in flight in the lanes of mask `lanes`, with PSNs from `base` to before `end`."""
        sent = self._sent
        first, end = max(base, sent.una), min(end, sent.next_psn)
        missing = (1 << max(end - first, 0)) - 1 & ~(sent.sacked >> first - sent.una)
        while missing:
            low = missing & -missing
            missing ^= low
            record = sent.record(first + low.bit_length() - 1)
            if record.state == OUT and lanes >> int(record.lane) & 1:
                yield record

    def detect_silent_planes(self, answered_at: int, unknown: int, base: int, now: int) -> None:
        """Declare lost what silent planes carried; this SACK or an earlier one answers what was sent at `answered_at`.

        A plane becomes silent when nothing has arrived of what was sent there in the last two of its round trips before
        `answered_at`, and a packet sent there before that is missing; provided that this holds for the oldest packet of
        all, too, or that was lost already. Where the plane's round trip was never measured, the time `unknown` replaces
        the two round trips. It stays silent until something arrives. Lost is what was sent there before that and what
        the SACK, whose bitmap starts at PSN `base`, shows as missing. Packets beyond the bitmap may have arrived, and
        the next SACKs of a sweep will show them: these are lost after twice that time, and no sooner than a round trip
        after the silence was noticed. Otherwise those of one silent plane could fill the window, so that nothing lost
        on another is sent again.
        """
        self.last_answered = max(self.last_answered, answered_at)
        oldest = self._sent.record(self._sent.una)
        first = oldest.state == OUT and oldest.attempts == 1
        if not first or oldest.sent <= self._silent_before(oldest.plane, unknown):
            for record in self._missing(self._overdue_lanes(unknown), base):
                plane = int(record.plane)
                if not self.silent >> plane & 1:
                    self.silent |= 1 << plane
                    self._silent_since[plane] = now
        if not self.silent:
            return
        planes, lanes = self.silent, 0
        while planes:
            low = planes & -planes
            planes ^= low
            plane = low.bit_length() - 1
            if self._silent_before(plane, unknown):
                lanes |= 3 << 2 * plane
            else:
                self.silent ^= low
        if lanes:
            for record in self._missing(lanes, base):
                if record.sent <= self._silent_before(record.plane, unknown):
                    self._lose_silent(record, now)
            self._lose_unshown(lanes, unknown, now)

    def _missing(self, lanes: int, base: int) -> Iterator[SentPacket]:
        """Packets in flight in `lanes` that a SACK shows as missing: the oldest, and those in its bitmap at `base`."""
        oldest = self._sent.record(self._sent.una)
        if base > oldest.psn and oldest.state == OUT and lanes >> int(oldest.lane) & 1:
            yield oldest
        yield from self._shown_missing(lanes, base, base + SACK_BITS)

    def _overdue_lanes(self, unknown: int) -> int:
        """Lanes (a mask) whose oldest packet should have arrived by now, as should what was sent later on its plane."""
        lanes = 0
        for number, lane in enumerate(self._sent.lanes):
            record = lane.head()
            if record is not None and record.sent <= self._silent_before(number >> 1, unknown):
                lanes |= 1 << number
        return lanes

    def _lose_unshown(self, lanes: int, unknown: int, now: int) -> None:
        """What silent planes carried more than twice as long ago is lost, shown or not; unshown it blames no path."""
        while lanes:
            low = lanes & -lanes
            lanes ^= low
            number = low.bit_length() - 1
            trip = self._round_trips[number >> 1]
            # The answer that shows the silence may be the first for long, and others that disprove it just behind it.
            if now - self._silent_since[number >> 1] < trip.smoothed:
                continue
            lane = self._sent.lanes[number]
            before = self.last_answered - 2 * (trip.pto() or unknown)
            record = lane.head()
            while record is not None and lane.acked < record.sent <= before:
                record.by_order = False
                self._mark_inferred(record, now)
                record = lane.head()

    def _silent_before(self, plane: int, unknown: int) -> int:
        """What was sent on `plane` up to this time should have arrived by now; 0 when something sent later has."""
        before = self.last_answered - (self._round_trips[plane].pto() or unknown)
        lanes = self._sent.lanes
        return before if max(lanes[2 * plane].acked, lanes[2 * plane + 1].acked) <= before else 0

    def _lose_silent(self, record: SentPacket, now: int) -> None:
        """The plane of `record` is silent: declare it lost."""
        record.by_order = False
        arrived = max(lane.acked for lane in self._sent.lanes[2 * record.plane : 2 * record.plane + 2])
        if self._lose(record, now) and arrived < record.sent:
            self._dead[record.index] = record.serial

    def mark_lost(self, record: SentPacket, why: str) -> None:
        """A packet in flight is lost, whatever the reason; this alone does not retire its path."""
        self._paths.trial.pop(record.index, None)
        self._sent.mark_lost(record, why == _INFERRED)
        self._paths.count_lost(record.value, record.psn, record.sent, why)
        self._stats.lost += 1
        self._lost_by_plane[record.plane] += 1

    def trimmed(self, record: SentPacket) -> None:
        """The peer reported that a packet arrived without its payload."""
        self._lost_nacks.trimmed(record.plane, record.index, record.serial, record.sent)

    def flush_plane(self, plane: int) -> None:
        """The plane is down: retransmit what is in flight there on other planes, without retiring any path."""
        for lane in self._sent.lanes[2 * plane : 2 * plane + 2]:
            record = lane.head()
            while record is not None:
                self.mark_lost(record, "port_down")
                record = lane.head()

    def carries(self, index: int, serial: int) -> bool:
        """Whether a path that lost transmission `serial` still carries other packets, be they trimmed."""
        arrived = max(self._paths.each[index].arrived_serial, self._lost_nacks.carried(index))
        return self._consecutive.carries(index, serial, arrived, self._sent.serial)

    # ---- overtaken ----------------------------------------------------------------------------------------------

    def _acked(self, number: int) -> int:
        """Latest send time of what has arrived and cannot have overtaken a packet of lane `number` in a switch."""
        lanes = self._sent.lanes
        acked = lanes[number].acked
        return max(acked, lanes[number - 1].acked) if number & 1 else acked

    def _windows(self, number: int, now: int) -> tuple[int, int]:
        """Reorder windows of lane `number`; see `ReorderWindow.windows`."""
        trip = self._round_trips[number >> 1]
        windows = self._reordering[number].windows(trip, self._fraction, now)
        if not number & 1:
            return windows
        data = self._reordering[number - 1].windows(trip, self._fraction, now)
        return max(windows[0], data[0]), max(windows[1], data[1])

    def _time_windows(self, number: int, now: int) -> tuple[int, int]:
        """The same when only time can show a loss: at least as long as late arrivals were seen to take."""
        narrow, wide = self._windows(number, now)
        wait = self._reordering[number].wait(self._round_trips[number >> 1], now)
        return max(narrow, wait), max(wide, wait)

    def _overtaken(
        self, record: SentPacket, acked: int, windows: tuple[int, int], in_order: bool, now: int, varies: bool
    ) -> bool:
        """Whether a packet sent long enough after `record`, or later on its path, has arrived.

        The narrow window applies where the path has no later packets, or where the next one is overdue too and nothing
        sent since has arrived; unless the path may just be slow. `varies`: and more so than it was.
        """
        index, serial = record.index, record.serial
        late = acked - record.sent
        narrow, wide = windows
        arrived = self._paths.each[index].arrived_serial
        if late < narrow:
            record.by_order = True
        elif record.lane & 1 or self._paths.bad(index):
            record.by_order = False
        else:
            followed, measured = record.followed, self._paths.each[index].round_trip > 0
            record.by_order = now - record.sent <= self._patience(record, varies) or (
                followed > 0 and late < wide and (followed > acked - narrow or arrived > serial or not measured)
            )
        return not record.by_order or (in_order and arrived > serial)

    def _patience(self, record: SentPacket, varies: bool) -> int:
        """How long a packet may be on a path that may just be slow: up to two round trips of its plane are no loss yet.

        The path may if its last round trip was as long; or if it was never measured and carries later packets, which
        will reveal a loss. If its last two round trips were as long, the path is known to be slow, and the reorder
        window's maximum is the limit.

        While more arrives, which will show a loss a little later, a round trip that `varies` may be longer by four
        variations of the plane's (RFC 6298): queues grow in the first round trips of NICs that start together, and not
        all alike. Then a path that was never measured may be as slow as its plane.
        """
        paths, index, trip = self._paths, record.index, self._round_trips[record.plane]
        last, spread = paths.each[index].round_trip, 4 * trip.variation if varies else 0
        if not last:
            return trip.pto() if record.followed else trip.smoothed + spread if varies else -1
        before = min(paths.each[index].round_trip_before, MAX_ROUND_TRIPS * trip.smoothed)
        return min(last + spread, max(trip.pto(), before))

    # ---- the end of the window ----------------------------------------------------------------------------------

    def on_window_end(self, now: int) -> int:
        """Time has passed. Once ``window_ends`` has, a packet that alone is missing is lost.

        Where others are missing too, a responder need not have reported late arrivals before these: then the result is
        a mask of planes on which a probe should ask. A timer called much too late tells of a NIC that stood still, and
        may not have seen the latest answers yet: it is called once more, when these have been read.
        """
        ends, wait = self.window_ends, self.window_ends - self._shown_at
        if not ends or now < ends:
            return 0
        if now > ends + wait and not self._postponed:
            self._postponed = True
            self._shown_at, self.window_ends = now, now + wait
            return 0
        self.window_ends = 0
        sent, lanes, planes = self._sent, self._overtaken_in, 0
        if sent.next_psn - sent.una - sent.sacked.bit_count() == 1:
            self._lose_only(sent.record(sent.una), now)
            return 0
        while lanes:
            low = lanes & -lanes
            lanes ^= low
            planes |= 1 << (low.bit_length() - 1 >> 1)
        return planes

    def _lose_only(self, record: SentPacket, now: int) -> None:
        """Only `record` is missing: declare it lost, if it is overdue by now."""
        if record.state != OUT:
            return
        acked, windows = self._acked(record.lane), self._time_windows(record.lane, now)
        if record.sent > acked:
            return
        acked += now - self._shown_at
        answered = now - windows[0]  # its answer may be later than itself
        if self._overtaken(record, acked, windows, False, answered, False):
            if self._lose(record, now):
                self._dead[record.index] = record.serial
        else:
            self.window_ends = self._next_window_end(now)

    def _next_window_end(self, now: int) -> int:
        """When an overtaken packet is overdue; 0 while anything sent later may yet be answered, which will tell more.

        If that is lost too, a probe has to find it, and finds the rest.
        """
        lanes = self._sent.lanes
        for number, lane in enumerate(lanes):
            newest = lane.newest
            if newest is not None and newest.sent > self._acked(number):
                return 0
        ends, waiting = NEVER, self._overtaken_in
        while waiting:
            low = waiting & -waiting
            waiting ^= low
            record = lanes[low.bit_length() - 1].head()
            if record is not None and (overdue := self._overdue_at(record, now)) > now:
                ends = min(ends, overdue)
        return 0 if ends == NEVER else ends

    def _overdue_at(self, record: SentPacket, now: int) -> int:
        """When ``_overtaken`` becomes true if nothing but time passes."""
        number, index = record.lane, record.index
        newest, (narrow, wide) = self._acked(number), self._time_windows(number, now)
        if narrow == NEVER:
            return NEVER
        begun = self._shown_at + record.sent - newest
        overdue = begun + narrow
        if number & 1 or self._paths.bad(index):
            return overdue
        overdue = max(overdue, record.sent + self._patience(record, False) + 1 + narrow)
        if record.followed:
            revealed = begun + wide
            if self._paths.each[index].round_trip and self._paths.each[index].arrived_serial <= record.serial:
                revealed = min(revealed, self._shown_at + record.followed - newest + narrow)
            overdue = max(overdue, revealed)
        return overdue

    # ---- dead paths ---------------------------------------------------------------------------------------------

    def _lose_overtaken(self, record: SentPacket, before: int, now: int) -> None:
        """`record` is lost. If its path is found dead by that, so is what followed it there until `before`."""
        if self._lose(record, now) and not record.by_order:
            self._dead[record.index] = record.serial
            self._lose_followers(record, before, now)

    def _lose_followers(self, first: SentPacket, before: int, now: int) -> None:
        """The path of `first` is dead: what else was sent on it until `before` is lost too."""
        record = self._sent.lanes[first.lane].head()
        while record is not None and record.sent <= before:
            newer = record.newer
            if record.index == first.index and self._went_dead(record):
                record.by_order = False
                self._lose(record, now)
            record = newer

    def _on_dead_path(self, record: SentPacket) -> bool:
        """Whether the path of `record` was found dead, and nothing sent as late has arrived on it."""
        index = record.index
        return index in self._dead and self._paths.each[index].arrived_serial < record.serial and self._paths.bad(index)

    def _went_dead(self, record: SentPacket) -> bool:
        """The same, if `record` also was sent after what showed that: one sent before may have arrived."""
        after = self._dead.get(record.index, NEVER) < record.serial
        return after and not record.lane & 1 and self._on_dead_path(record)

    def _mark_inferred(self, record: SentPacket, now: int) -> None:
        """Mark `record` lost, and let congestion control know."""
        by_order = record.by_order
        self.mark_lost(record, _INFERRED)
        record.by_order = by_order
        if not self._on_dead_path(record):  # beyond its first loss, a dead path says nothing about congestion
            self._cc.on_loss(record.weight, now)

    def _lose(self, record: SentPacket, now: int) -> bool:
        """A packet was overtaken: mark it lost and retire its path. Returns whether the path was not known as bad."""
        self._mark_inferred(record, now)
        if record.sent < self._sent.first_answered:
            return False
        alive = self.carries(record.index, record.serial)
        may_carry = alive or self._consecutive.may_carry(record.index)
        if may_carry and self._lost_nacks.explain(record.plane, record.index, record.serial, record.sent):
            return False
        return self._paths.retire(record.index, PathReason.LOSS, record.sent, now, alive)
