"""MRC requester: segments writes, sprays the packets, recovers what is lost, completes what is acknowledged.

**Sending.** A port that is free asks for a packet on its plane. Lost packets go first, oldest gap first, then the next
segment of the oldest request. The packet gets the plane's next path at that moment. Three limits hold: the congestion
window, the range of PSNs the peer accepts (MPR), and the number of WRITE_WITH_IMM the peer accepts in flight. Planes
are kept equal: none may be more than ``plane_burst`` packets of 4096 bytes ahead; retransmissions count, but wait for
no plane.

**Hearing.** What the peer's answers change is in ``hearing``.

**Silence.** After a while without a word (``silence``) a reliability probe goes out on each plane that has packets on
the way, unless more data stands in a port's line: that brings an acknowledgement too, and the last packet that can go
for now asks for one. The ACK timeout marks what is older than it as lost. A timeout does not tell a dead path from a
dead peer or a lost answer, so the path is blamed only when the peer's answers tell (``suspects``), and never for what
was sent before the peer was first heard. But when all active paths of a plane have been silent, packets that were lost
twice go on backups, which take the place of active ones. After ``retry_count`` timeouts the queue pair fails.

PSNs and message numbers are plain growing integers here (see ``wire.psn``).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from mrc_host.checksum import crc32
from mrc_host.transport import algorithms
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.hearing import Hearing
from mrc_host.transport.loss import LOST, OUT, Sent
from mrc_host.transport.paths import PathSet
from mrc_host.transport.peer import DATA, NO_TRIM, RETRANSMISSION, Peer
from mrc_host.transport.rotation import next_plane
from mrc_host.transport.stats import PATHS, PEER, WINDOW
from mrc_host.transport.window import SharedWindow
from mrc_host.transport.work import Wqe
from mrc_host.values import CompletionStatus, PathReason
from mrc_host.wire import control, headers, icrc, opcodes
from mrc_host.wire.control import Probe
from mrc_host.wire.psn import MASK

if TYPE_CHECKING:
    from mrc_host.transport.mrc import MrcQueuePair

_PADS: Final = (b"", b"\0\0\0", b"\0\0", b"\0")
_MASK_PLAIN: Final = icrc.mask_constant(headers.data_ts.size)
_MASK_IMM: Final = icrc.mask_constant(headers.data_ts_imm.size)
_DATA_SIZE: Final = headers.data_ts.size
_IMM_SIZE: Final = headers.data_ts_imm.size
_NO_STALL: Final = -1
_FULL: Final = 4096  # payload of the packets that `plane_burst` counts
_MAX_PROBES: Final = 32
_MANY_ATTEMPTS: Final = 3  # of the oldest packet: if nothing is acknowledged meanwhile, it is a timeout all the same
_RTO_WINDOW: Final = 4  # packets in flight while nothing is heard after a timeout
_pack: Final = headers.data_ts.pack
_pack_parts: Final = headers.data_ts_parts.pack
_pack_imm: Final = headers.data_ts_imm.pack
_pack_trailer: Final = icrc.pack_trailer
_crc32: Final = crc32


def _controller(qp: MrcQueuePair, peer: Peer) -> tuple[CongestionControl, SharedWindow | None, bool]:
    """The controller of a queue pair, the window it shares with others if any, and whether it obeys the receiver."""
    attributes, host = qp.attributes, qp.host
    name = algorithms.choose(attributes, host.transport, True)
    algorithm = algorithms.find(host.algorithms, name, True)
    line = peer.line(attributes)
    if not algorithm.shared:
        return algorithm.make(line), None, algorithm.receiver_limit
    shared = peer.window(qp, name, algorithm, line)
    return shared.cc, shared, algorithm.receiver_limit


class Requester(Hearing):
    """Sending half of an MRC queue pair."""

    __slots__ = (
        "_active",
        "_asked_plane",
        "_burst",
        "_credit",
        "_credit_mask",
        "_current",
        "_full_weight",
        "_max_wimm",
        "_middle",
        "_msn",
        "_mtu",
        "_probe_id",
        "_probe_paths",
        "_remote_qpn",
        "_shared",
        "_solicited",
        "_stalled",
        "_stalled_at",
        "_tick",
        "_tick_flags",
        "_trimmable",
        "_unasked",
        "_wimm_sent",
        "probe_mask",
    )

    def __init__(self, qp: MrcQueuePair, peer: Peer, paths: PathSet, first_psn: int) -> None:
        attributes = qp.attributes
        cc, self._shared, obedient = _controller(qp, peer)
        self._active = False  # counted among those that have bytes on the way
        self._unasked = 0  # bytes sent since an acknowledgement was last asked for
        super().__init__(qp, peer, paths, cc, obedient, first_psn)
        self._remote_qpn = qp.remote_qpn
        self._mtu = attributes.path_mtu
        self._full_weight = control.nominal_size(_DATA_SIZE + self._mtu)  # of a packet that is not the last
        # of packets that are neither the first nor the last of a message
        self._middle = headers.data_start.pack(opcodes.WRITE_MIDDLE, 0, headers.PKEY, self._remote_qpn)
        self._max_wimm = attributes.max_wimm_dest
        self._solicited = headers.solicited_bit(qp.host.settings.bth_order)
        self._trimmable = attributes.trim_nack_dest
        self._tick = qp.host.settings.timestamp_tick.value
        self._tick_flags = headers.tick_flags(qp.host.settings.timestamp_tick)
        # messages
        self._current: Wqe | None = None
        self._msn = 0
        self._wimm_sent = 0
        # balance
        # In bytes as for full packets: a shorter burst than the scheduler's turns would cut those off.
        self._burst = qp.host.transport.plane_burst * max(1, _FULL // self._mtu)
        self._credit = [self._burst] * len(peer.members)
        self._credit_mask = peer.planes
        # what keeps data from leaving, and since when
        self._stalled = _NO_STALL
        self._stalled_at = 0
        # reliability probes
        self._probe_id = 0
        self._probe_paths: dict[int, int] = {}  # by plane: on which path the next probe goes, where that matters
        self._asked_plane = 0  # the last one asked on while nothing was on the way, as a mask
        self.probe_mask = 0

    # ---- sending ------------------------------------------------------------------------------------------------

    def ports(self) -> int:
        """Planes on which the next packet may leave; 0 when there is none or a window is shut."""
        cc = self.cc
        if cc.inflight >= cc.cwnd:
            self._wait()
            return 0
        if self.flying >= self.allowed.limit:
            self._stall(PEER, self._host.now)
            return 0  # an acknowledgement of our own opens it
        mask = self._planes()
        if not mask:
            self._stall(PATHS, self._host.now)
        if self._lost:
            return mask
        if (self._current is None and not self._may_start()) or self._next - self._una >= self._window:
            self._stall(PEER, self._host.now)
            return 0
        return mask & self._credit_mask or mask

    def _planes(self) -> int:
        usable = self._peer.usable
        return usable & self.paths.good_planes or usable & self.paths.open_planes

    def _may_start(self) -> bool:
        waiting = self._sends.waiting
        if not waiting:
            return False
        head = waiting[0]
        if head.view is None:
            return False
        return not head.with_imm or self._wimm_sent - self._wimm_done < self._max_wimm

    def planes_changed(self, now: int) -> None:
        """Other planes are usable now: count the balance afresh. What was not answered may be answered there: ask."""
        self._refill()
        if self.silence.retries:
            self._ask(self._planes(), now)

    def path_opened(self, index: int, now: int) -> None:
        """A path works or is allowed again. What was not answered for long may be answered there: ask."""
        plane = self._peer.plane_of[index]
        if self.silence.retries and self._planes() >> plane & 1:
            self._probe_paths[plane] = index
            self._ask(1 << plane, now)

    def ask_for_others(self, patience: int, now: int) -> bool:
        """Others wait for our bytes: ask, unless we did within `patience` ns; False when acknowledged again."""
        if not self.silence.retries:
            return False
        planes = self._planes()
        if self.flying and planes and now >= self.silence.asked + patience:
            self._ask(planes, now)
        return True

    def _refill(self) -> None:
        self._credit = [self._burst] * len(self._credit)
        self._credit_mask = self._peer.planes

    def _spend(self, plane: int) -> None:
        self._credit[plane] -= 1
        if not self._credit[plane]:
            self._credit_mask &= ~(1 << plane)

    def transmit(self, plane: int, now: int) -> bytes | None:
        """Next data packet for `plane`, or None."""
        cc = self.cc
        if cc.inflight >= cc.cwnd:
            self._wait()
            return None
        if self.flying >= self.allowed.limit:
            self._stall(PEER, now)
            return None
        if self.silence.retries and self.flying >= _RTO_WINDOW * self._mtu:
            return None
        planes = self._planes()
        bit = 1 << plane
        if not planes & bit:
            return None
        if self._lost:
            frame = self._retransmit(plane, planes, now)
            if frame is not None:
                return frame
            if self._lost:
                return None  # it waits for another plane: nothing new may take its place in the window
        psn = self._next
        if psn - self._una >= self._window:
            self._stall(PEER, now)
            return None
        if not self._credit_mask & bit:
            if self._credit_mask & planes:
                return None
            self._refill()
        wqe = self._current
        if wqe is None:
            if not self._may_start():
                self._stall(PEER, now)
                return None
            wqe = self._start(psn)
        index = self.paths.next(plane, -1)
        if index < 0:
            self._stall(PATHS, now)
            return None
        self._spend(plane)
        if psn - self._una > self._ring_mask:
            self._grow()
        record = self._ring[psn & self._ring_mask]
        offset = wqe.offset
        size = wqe.length - offset
        mtu = self._mtu
        if size > mtu:
            size = mtu
            weight = self._full_weight
            record.kind = opcodes.MIDDLE if offset else 0
        else:
            record.kind = opcodes.segment_kind(offset == 0, True, wqe.with_imm)
            weight = control.nominal_size((_IMM_SIZE if wqe.with_imm else _DATA_SIZE) + (size + 3 & ~3))
            wqe.last_psn = psn
            self._current = None
        wqe.offset = offset + size
        record.wqe = wqe
        record.psn = psn
        record.offset = offset
        record.size = size
        record.weight = weight
        record.attempts = 0
        record.tried = 0
        self._next = psn + 1
        self._stats.data_sent += 1
        return self._emit(record, wqe, plane, index, DATA, now)

    def _wait(self) -> None:
        """The window is shut. One of our own opens when we hear of our packets; a shared one is waited for.

        When others shut it, or it shrank, nobody may have asked for an acknowledgement of our latest packets; and those
        others may have grown patient in trouble that is over.
        """
        if not self._work():
            return
        self._stall(WINDOW, self._host.now)
        shared = self._shared
        if shared is not None:
            shared.waiting[self._qp] = None
            if self._unasked:
                self._host.scheduler.arm(self._qp, self._host.now + self.silence.quiet_time())
            elif shared.silent:
                self._host.scheduler.arm(self._qp, self._host.now + self.silence.hurry_time())

    def _work(self) -> bool:
        return bool(self._lost) or self._current is not None or self._may_start()

    def _stall(self, kind: int, now: int) -> None:
        """Data waits, if there is any, because of `kind`: count the time until a packet leaves."""
        if self._stalled != kind and self._pending():
            self.settle_stats(now)
            self._stalled = kind
            self._stalled_at = now

    def _pending(self) -> bool:
        """Whether there is anything to send, allowed or not."""
        waiting = self._sends.waiting
        return bool(self._lost) or self._current is not None or (bool(waiting) and waiting[0].view is not None)

    def settle_stats(self, now: int) -> None:
        """Count the time that data has waited up to `now`."""
        if self._stalled != _NO_STALL:
            self._stats.stalled_ns[self._stalled] += max(now - self._stalled_at, 0)
            self._stalled_at = now

    def settle(self) -> None:
        """Bytes were given back or the window moved: let others use what there is room for."""
        if self._stalled != _NO_STALL and not self._pending():
            self.settle_stats(self._host.now)
            self._stalled = _NO_STALL
        shared = self._shared
        if shared is None:
            return
        if self._active and not self.flying:
            self._active = False
            self._unasked = 0
            shared.active -= 1
        if shared.waiting:
            shared.open(self._mtu)

    def _start(self, psn: int) -> Wqe:
        wqe = self._sends.start()
        self._current = wqe
        wqe.msn = self._msn
        self._msn += 1
        wqe.rqmsn = self._wimm_sent
        wqe.numbers = headers.data_numbers.pack(wqe.rqmsn & 0xFFFF, wqe.msn & 0xFFFF)
        wqe.range = headers.data_range.pack(wqe.rkey, wqe.length)
        wqe.first_psn = psn
        if wqe.with_imm:
            self._wimm_sent += 1
        return wqe

    def _retransmit(self, plane: int, planes: int, now: int) -> bytes | None:
        """The oldest lost packet, on a path other than the one that lost it.

        From the second loss on it goes to planes that have not had it yet: else two dead ones could pass it to and fro.
        First to those where something sent with it has come through, a probe say: the others may all be dead.
        """
        lost = self._lost
        while lost:
            psn = lost[0]
            record = self._ring[psn & self._ring_mask]
            if psn < self._una or record.state != LOST or record.psn != psn:
                heapq.heappop(lost)
                continue
            tried = record.tried | 1 << record.plane
            left = planes & ~tried
            if not left:
                tried = 1 << record.plane  # all had it: another round
                left = planes & ~tried or planes
            if record.attempts > 1:
                left = self._proven(left, record.sent - self.silence.quiet_time()) or left
                if not left >> plane & 1:
                    return None
            record.tried = tried
            index = self._other_path(plane, record, now)
            wqe = record.wqe
            if index < 0 or wqe is None:
                return None
            heapq.heappop(lost)
            self._stats.retransmitted += 1
            self._host.retransmitted_by_plane[plane] += 1
            if self._credit_mask >> plane & 1:
                self._spend(plane)
            repeat = self._repeat(record)
            frame = self._emit(record, wqe, plane, index, RETRANSMISSION, now)
            repeat.again(record)
            return frame
        return None

    def _proven(self, planes: int, since: int) -> int:
        """Those of `planes` (a mask) where something sent after time `since` has arrived."""
        lanes = self.lanes
        proven = 0
        for plane in range(len(lanes) // 2):
            if planes >> plane & 1 and max(lanes[2 * plane].acked, lanes[2 * plane + 1].acked) > max(since, 0):
                proven |= 1 << plane
        return proven

    def _other_path(self, plane: int, record: Sent, now: int) -> int:
        """A path for a lost packet, not the one that lost it; -1 when the plane has none.

        When a second loss finds that all active paths are silent, a backup takes the place of the one chosen: nothing
        else would ever blame any of them.
        """
        paths = self.paths
        index = paths.next(plane, record.index)
        if record.attempts > 1 and index in self._silent and self._all_silent(plane):
            backup = paths.exchange(index, PathReason.TIMEOUT, self._silent[index][2], now)
            if backup >= 0:
                return backup
        return index

    def _emit(self, record: Sent, wqe: Wqe, plane: int, index: int, kind: int, now: int) -> bytes:
        if self._stalled != _NO_STALL:
            self.settle_stats(now)
            self._stalled = _NO_STALL
            self.silence.hurries = 0
        size = record.size
        self._serial = serial = self._serial + 1
        lane = plane * 2 + kind
        record.state = OUT
        record.plane = plane
        record.lane = lane
        record.index = index
        record.serial = serial
        record.sent = self.silence.last_sent = now
        record.attempts += 1
        record.timed = False
        record.stamp = stamp = now // self._tick & 0xFFFF
        self.lanes[lane].queue.append((record, serial))
        if not kind:
            last = self._path_last[index]
            if last.index == index:
                last.followed = now
            self._path_last[index] = record
            record.followed = 0
        cc = self.cc
        weight = record.weight
        cc.inflight += weight
        self.flying += weight
        word = record.psn & MASK | headers.TS_PRESENT
        if kind:
            word |= headers.RTX
        # Ask for an acknowledgement when this is the last packet that can go for now. In a shared window others may
        # shut it without asking for ours, so each asks for its share of it.
        shared = self._shared
        if shared is not None:
            if not self._active:
                self._active = True
                shared.active += 1
            self._unasked += weight
            if 4 * self._unasked * shared.active >= cc.cwnd:
                self._unasked = 0
                word |= headers.ACK_REQUEST
        if (
            cc.inflight + self._mtu > cc.cwnd
            or self.flying + self._mtu > self.allowed.limit
            or (self._current is None and not self._sends.waiting)
            or self._next - self._una >= self._window
            or self.silence.retries
        ):
            self._unasked = 0
            word |= headers.ACK_REQUEST
        pad = -size & 3
        segment = record.kind
        opcode = opcodes.WRITE_FIRST + segment
        offset = record.offset
        address = wqe.address + offset
        if segment == opcodes.LAST_IMM or segment == opcodes.ONLY_IMM:
            head = _pack_imm(
                opcode, pad << 4 | (self._solicited if wqe.solicited else 0), 0xFFFF, self._remote_qpn, word,
                wqe.rqmsn & 0xFFFF, wqe.msn & 0xFFFF, stamp, self._tick_flags, address & 0xFFFFFFFFFFFFFFFF,
                wqe.rkey, wqe.length, wqe.imm,
            )  # fmt: skip
            mask = _MASK_IMM
        elif segment == opcodes.MIDDLE:  # most packets: what is the same in all of them was packed before
            head = _pack_parts(
                self._middle, word, wqe.numbers, stamp << 16 | self._tick_flags, address & 0xFFFFFFFFFFFFFFFF, wqe.range
            )
            mask = _MASK_PLAIN
        else:
            head = _pack(
                opcode, pad << 4, 0xFFFF, self._remote_qpn, word, wqe.rqmsn & 0xFFFF, wqe.msn & 0xFFFF, stamp,
                self._tick_flags, address & 0xFFFFFFFFFFFFFFFF, wqe.rkey, wqe.length,
            )  # fmt: skip
            mask = _MASK_PLAIN
        view = wqe.view
        assert view is not None
        payload = view[offset : offset + size]
        role = kind if self._trimmable else NO_TRIM
        prefix, seed, _ = self._peer.prefix(index, role, len(head) + size + pad)
        crc = _crc32(payload, _crc32(head, seed) ^ mask)
        if not self._qp.timer_at:
            silence = self.silence
            if silence.last_heard < now:
                silence.last_heard = now
            silence.progressed = now
            self._host.scheduler.arm(self._qp, silence.look_again(now + silence.quiet_time(), now))
        if pad:
            tail = _PADS[size & 3]
            return b"".join((prefix, head, payload, tail, _pack_trailer(_crc32(tail, crc))))
        return b"".join((prefix, head, payload, _pack_trailer(crc)))

    # ---- silence ------------------------------------------------------------------------------------------------

    def starving(self, now: int) -> None:
        """There is work, but every plane is down or denied: see to it that this does not last for ever."""
        if not self._qp.timer_at and self._starved():
            self.silence.last_heard = max(self.silence.last_heard, now)
            self._host.scheduler.arm(self._qp, now + self.silence.retry_time())

    def _starved(self) -> bool:
        return self._pending() and not self._planes()

    def on_timer(self, now: int) -> int:
        """Probe or time out where due; next time, 0 when all is acknowledged and nothing waits for a plane."""
        shared, silence = self._shared, self.silence
        if not self.flying and self._planes() and self._work():
            if self._qp.data_mask:
                return 0  # others go first; to ask now, about nothing, would only keep them and us waiting longer
            if shared is not None and self._qp in shared.waiting:  # others fill the window: it wakes us
                if not shared.silent or not shared.hurry(silence.hurry_time(), now):
                    return 0
                silence.hurry_less()
                return now + silence.hurry_time()
        if self._una == self._next and not self._sends.outstanding and not self._starved():
            return 0
        oldest = 0
        mask = 0
        for number, lane in enumerate(self.lanes):
            record = lane.head()
            if record is not None:
                mask |= 1 << (number >> 1)
                if not oldest or record.sent < oldest:
                    oldest = record.sent
        retry = silence.retry_time()
        since = self._waiting_since(oldest)
        due = since + retry if since else 0
        stalled = self._una < self._next and self._ring[self._una & self._ring_mask].attempts > _MANY_ATTEMPTS
        if (due and now >= due) or (stalled and now >= max(silence.progressed, silence.last_timeout) + retry):
            self._time_out(now, retry)
            return silence.look_again(now + min(silence.retry_time(), silence.quiet_time()), now)
        quiet = max(silence.last_heard, oldest, silence.asked, silence.last_sent) + silence.quiet_time()
        if now >= quiet:
            if not self._in_line() and (not self._lost or (shared is not None and self._qp in shared.waiting)):
                self._ask(mask, now)
                silence.ask_less()
                due = due or now + retry
            quiet = now + silence.quiet_time()
        return silence.look_again(min(due or quiet, quiet), now)

    def _waiting_since(self, oldest: int) -> int:
        """Since when the ACK timeout runs, 0 for not at all: that of the oldest packet on the way, or of a question."""
        silence = self.silence
        if not oldest and (self._lost or self._starved()):  # nobody is asked about what cannot leave
            return max(silence.last_heard, silence.last_timeout)
        return oldest or silence.unanswered

    def _in_line(self) -> bool:
        """Whether data waits only for a port's turn: what it brings about answers a probe's question, or asks it.

        Many queue pairs may take longer for a turn each than two round trips, and longer for as many packets as the
        responder lets arrive before it answers.
        """
        return not self.silence.retries and self._qp.data_mask & self.ports() != 0

    def _ask(self, mask: int, now: int) -> None:
        """Send reliability probes on the planes in `mask`; on one plane after the other when nothing is on the way.

        Then a question that was not answered is repeated on two: each may meet a dead path, there or back.
        """
        again = self.silence.unanswered
        self.silence.ask(now)
        usable = self._planes()
        mask &= usable
        if not mask:
            mask = self._asked_plane = next_plane(usable, self._asked_plane)
            if again:
                self._asked_plane = next_plane(usable, mask)
                mask |= self._asked_plane
        self.probe_mask |= mask
        self._qp.offer_control()

    def _time_out(self, now: int, retry: int) -> None:
        silence = self.silence
        self._stats.timeouts += 1
        if not silence.may_go_on(now, retry):
            heard = (now - silence.last_heard) // 1_000_000
            why = f"the peer was last heard {heard} ms ago" if self._planes() else "its paths are all down or denied"
            self._qp.enter_error(
                CompletionStatus.RETRY_EXCEEDED,
                f"Nothing was acknowledged after {silence.retries - 1} retries; {why}.",
                now,
            )
            return
        if self._shared is not None:
            self._shared.silent[self._qp] = None
        self.cc.on_timeout(now, self.expire(now - retry, now))
        self._ask(self._planes(), now)  # on all: which of them are dead nobody knows
        self._qp.offer_data()

    def probe(self, plane: int, now: int) -> bytes | None:
        """The reliability probe due on `plane`."""
        self.probe_mask &= ~(1 << plane)
        index = self._probe_paths.pop(plane, -1)
        if index < 0 or self.paths.bad(index):
            index = self.paths.next(plane, self._oldest_path(plane))
        if index < 0:
            return None
        self._probe_id = probe_id = (self._probe_id + 1) & 0xFFFF
        if len(self._probes) >= _MAX_PROBES:
            del self._probes[next(iter(self._probes))]
        self._probes[probe_id] = (plane, index, now)
        self._stats.probes_sent += 1
        qp = self._qp
        probe = Probe(probe_id, qp.qpn & 0xFFFF, self._remote_qpn & 0xFFFF, headers.timestamp(now))
        return self._peer.frame(index, NO_TRIM, control.pack_probe(self._remote_qpn, probe))

    def _oldest_path(self, plane: int) -> int:
        """Path of the oldest unanswered packet on `plane`, which may be why it is unanswered; -1 when there is none."""
        first, again = self.lanes[2 * plane].head(), self.lanes[2 * plane + 1].head()
        if first is None or (again is not None and again.sent < first.sent):
            first = again
        return -1 if first is None else first.index
