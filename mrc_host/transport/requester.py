"""MRC requester: segments writes, sprays the packets, recovers what is lost, completes what is acknowledged.

**Sending.** A port that is free asks for a packet on its plane. Lost packets go first, oldest gap first, then the next
segment of the oldest request. The packet gets the plane's next path at that moment. Three limits hold: the congestion
window, the range of PSNs the peer accepts (MPR), and the number of WRITE_WITH_IMM the peer accepts in flight. Planes
are kept equal: none may be more than ``plane_burst`` packets ahead; retransmissions are free of that.

**Hearing.** A SACK frees packets, feeds the round-trip time and the congestion controller, and lets ``loss`` judge
the lanes it touched. A loss retires the path at once. A NACK marks one packet lost without blame. A transport ACK
completes requests.

**Silence.** After about two round-trip times without a word a reliability probe goes out on each plane that has packets
on the way; its answer shows the holes. The ACK timeout (1.024 us * 2**timeout, repeated, then doubling) marks what is
older than it as lost. A timeout does not tell a dead path from a dead peer or a lost answer, so the path is blamed
only when the peer's answers tell (``suspects``), and never for what was sent before the peer was first heard. But when
all active paths of a plane have been silent, packets that were lost twice go on backups, which take the place of
active ones. After ``retry_count`` timeouts, a whole retry interval apart, the queue pair fails.

PSNs and message numbers are plain growing integers here (see ``wire.psn``).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final
from zlib import crc32

from mrc_host.config import ProbeMark
from mrc_host.transport import algorithms
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.flight import Flight
from mrc_host.transport.loss import FREE, LOST, OUT, Sent
from mrc_host.transport.paths import PathSet
from mrc_host.transport.peer import DATA, PROBE, RETRANSMISSION, Peer
from mrc_host.transport.window import SharedWindow
from mrc_host.transport.work import Wqe
from mrc_host.values import CompletionStatus, PathReason
from mrc_host.wire import control, headers, icrc, opcodes
from mrc_host.wire.control import Nack, Probe, Sack
from mrc_host.wire.psn import HALF, MASK, expand

if TYPE_CHECKING:
    from mrc_host.transport.mrc import MrcQueuePair

_PADS: Final = (b"", b"\0\0\0", b"\0\0", b"\0")
_MASK_PLAIN: Final = icrc.mask_constant(headers.data_ts.size)
_MASK_IMM: Final = icrc.mask_constant(headers.data_ts_imm.size)
_MAX_PROBES: Final = 32
_RTO_WINDOW: Final = 4  # packets in flight while nothing is heard after a timeout
_pack = headers.data_ts.pack
_pack_imm = headers.data_ts_imm.pack
_pack_trailer = icrc.pack_trailer


def _controller(qp: MrcQueuePair, peer: Peer) -> tuple[CongestionControl, SharedWindow | None]:
    """The controller of a queue pair, and the window it belongs to if others share it."""
    attributes, host = qp.attributes, qp.host
    name = algorithms.choose(attributes, host.transport, True)
    algorithm = algorithms.find(host.algorithms, name, True)
    window = attributes.congestion_window
    line = peer.line(attributes.path_mtu, host.transport.default_window if window is None else window)
    if not algorithm.shared:
        return algorithm.make(line), None
    shared = peer.window(qp, name, algorithm, line)
    return shared.cc, shared


class Requester(Flight):
    """Sending half of an MRC queue pair."""

    __slots__ = (
        "_active",
        "_asked",
        "_burst",
        "_counted_at",
        "_credit",
        "_credit_mask",
        "_current",
        "_host",
        "_last_heard",
        "_last_timeout",
        "_linear",
        "_max_backoff",
        "_max_wimm",
        "_mpr_cap",
        "_msn",
        "_mtu",
        "_probe_backoff",
        "_probe_id",
        "_probes",
        "_qp",
        "_rcvd_units",
        "_remote_qpn",
        "_sends",
        "_shared",
        "_solicited",
        "_tail_min",
        "_timeout",
        "_timeouts",
        "_unasked",
        "_wimm_done",
        "_wimm_sent",
        "_window",
        "completed_msn",
        "probe_mask",
    )

    def __init__(self, qp: MrcQueuePair, peer: Peer, paths: PathSet, first_psn: int) -> None:
        attributes, settings = qp.attributes, qp.host.transport
        cc, self._shared = _controller(qp, peer)
        self._active = False  # counted among those that have bytes on the way
        self._unasked = 0  # bytes sent since an acknowledgement was last asked for
        super().__init__(peer, paths, cc, qp.stats, settings.reorder_fraction, first_psn)
        self._qp = qp
        self._host = qp.host
        self._sends = qp.sends
        self._remote_qpn = qp.remote_qpn
        self._mtu = attributes.path_mtu
        self._window = attributes.mpr_dest * 128 - 1
        self._mpr_cap = attributes.dynamic_mpr
        self._max_wimm = attributes.max_wimm_dest
        self._solicited = headers.solicited_bit(qp.host.settings.bth_order)
        # messages
        self._current: Wqe | None = None
        self._msn = 0
        self.completed_msn = 0
        self._wimm_sent = 0
        self._wimm_done = 0
        # balance
        self._burst = settings.plane_burst
        self._credit = [self._burst] * len(peer.members)
        self._credit_mask = peer.planes
        # silence
        self._timeout = 1024 << attributes.timeout
        self._timeouts = 0  # retry intervals without progress
        self._counted_at = 0  # when the last one was counted
        self._linear = settings.linear_retries
        self._max_backoff = settings.max_backoff
        self._tail_min = settings.tail_probe_min
        self._last_heard = 0
        self._last_timeout = 0
        self._asked = 0  # when reliability probes were last sent
        self._probe_backoff = 0
        self._probe_id = 0
        self._probes: dict[int, tuple[int, int, int]] = {}  # id -> plane, path, time sent
        self.probe_mask = 0
        self._rcvd_units = 0

    # ---- sending ------------------------------------------------------------------------------------------------

    def ports(self) -> int:
        """Planes on which the next packet may leave; 0 when there is none or a window is shut."""
        cc = self.cc
        if cc.inflight >= cc.cwnd:
            self._wait()
            return 0
        mask = self._planes()
        if self._lost:
            return mask
        if self._current is None and not self._may_start():
            return 0
        if self._next - self._una >= self._window:
            return 0
        return mask & self._credit_mask or mask

    def _planes(self) -> int:
        usable = self._peer.usable
        return usable & self.paths.good_planes or usable

    def _may_start(self) -> bool:
        waiting = self._sends.waiting
        if not waiting:
            return False
        head = waiting[0]
        if head.view is None:
            return False
        return not head.with_imm or self._wimm_sent - self._wimm_done < self._max_wimm

    def planes_changed(self) -> None:
        """Other planes are usable now: count the balance afresh."""
        self._refill()

    def _refill(self) -> None:
        self._credit = [self._burst] * len(self._credit)
        self._credit_mask = self._peer.planes

    def transmit(self, plane: int, now: int) -> bytes | None:
        """Next data packet for `plane`, or None."""
        cc = self.cc
        if cc.inflight >= cc.cwnd:
            self._wait()
            return None
        if self._timeouts and self.flying >= _RTO_WINDOW * self._mtu:
            return None
        usable = self._peer.usable
        planes = usable & self.paths.good_planes or usable
        bit = 1 << plane
        if not planes & bit:
            return None
        if self._lost:
            frame = self._retransmit(plane, planes, now)
            if frame is not None:
                return frame
        psn = self._next
        if psn - self._una >= self._window:
            return None
        if not self._credit_mask & bit:
            if self._credit_mask & planes:
                return None
            self._refill()
        wqe = self._current
        if wqe is None:
            if not self._may_start():
                return None
            wqe = self._start(psn)
        index = self.paths.next(plane, -1)
        if index < 0:
            return None
        self._credit[plane] -= 1
        if not self._credit[plane]:
            self._credit_mask &= ~bit
        if psn - self._una > self._ring_mask:
            self._grow()
        record = self._ring[psn & self._ring_mask]
        offset = wqe.offset
        size = wqe.length - offset
        mtu = self._mtu
        if size > mtu:
            size = mtu
            record.kind = opcodes.MIDDLE if offset else 0
        else:
            record.kind = opcodes.segment_kind(offset == 0, True, wqe.with_imm)
            wqe.last_psn = psn
            self._current = None
        wqe.offset = offset + size
        record.wqe = wqe
        record.psn = psn
        record.offset = offset
        record.size = size
        record.attempts = 0
        self._next = psn + 1
        self._stats.data_sent += 1
        return self._emit(record, wqe, plane, index, DATA, now)

    def _wait(self) -> None:
        """The window is shut. One of our own opens when we hear of our packets; a shared one is waited for.

        When others shut it, or it shrank, nobody may have asked for an acknowledgement of our latest packets.
        """
        shared = self._shared
        if shared is not None and self._work():
            shared.waiting[self._qp] = None
            if self._unasked:
                self._host.scheduler.arm(self._qp, self._host.now + self._quiet_time())

    def _work(self) -> bool:
        return bool(self._lost) or self._current is not None or self._may_start()

    def settle(self) -> None:
        """Bytes were given back or the window moved: let others use what there is room for."""
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
        wqe.first_psn = psn
        if wqe.with_imm:
            self._wimm_sent += 1
        return wqe

    def _retransmit(self, plane: int, planes: int, now: int) -> bytes | None:
        """The oldest lost packet, on a path other than the one that lost it."""
        lost = self._lost
        while lost:
            psn = lost[0]
            record = self._ring[psn & self._ring_mask]
            if psn < self._una or record.state != LOST or record.psn != psn:
                heapq.heappop(lost)
                continue
            if record.attempts > 1 and record.plane == plane and planes != 1 << plane:
                return None  # lost twice here: leave it to another plane
            index = self._other_path(plane, record, now)
            wqe = record.wqe
            if index < 0 or wqe is None:
                return None
            heapq.heappop(lost)
            self._stats.retransmitted += 1
            repeat = self._repeat(record)
            frame = self._emit(record, wqe, plane, index, RETRANSMISSION, now)
            repeat.again(record)
            return frame
        return None

    def _other_path(self, plane: int, record: Sent, now: int) -> int:
        """A path for a lost packet, not the one that lost it; -1 when the plane has none.

        When a second loss finds that all active paths are silent, a backup takes the place of the one chosen: nothing
        else would ever blame any of them.
        """
        paths = self.paths
        index = paths.next(plane, record.index)
        if record.attempts > 1 and self._silent and self._all_silent(plane):
            backup = paths.exchange(index, PathReason.TIMEOUT, self._silent[index][2], now)
            if backup >= 0:
                return backup
        return index

    def _emit(self, record: Sent, wqe: Wqe, plane: int, index: int, kind: int, now: int) -> bytes:
        size = record.size
        self._serial = serial = self._serial + 1
        lane = plane * 2 + kind
        record.state = OUT
        record.plane = plane
        record.lane = lane
        record.index = index
        record.serial = serial
        record.sent = now
        record.attempts += 1
        record.stamp = stamp = now // 1000 & 0xFFFF
        self.lanes[lane].queue.append((record, serial))
        if not kind:
            self._path_sent[index] = serial
        cc = self.cc
        cc.inflight += size
        self.flying += size
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
            self._unasked += size
            if 4 * self._unasked * shared.active >= cc.cwnd:
                self._unasked = 0
                word |= headers.ACK_REQUEST
        if (
            cc.inflight + self._mtu > cc.cwnd
            or (self._current is None and not self._sends.waiting)
            or self._next - self._una >= self._window
            or self._timeouts
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
                wqe.rqmsn & 0xFFFF, wqe.msn & 0xFFFF, stamp, headers.TS_TICK_1US, address & 0xFFFFFFFFFFFFFFFF,
                wqe.rkey, wqe.length, wqe.imm,
            )  # fmt: skip
            mask = _MASK_IMM
        else:
            head = _pack(
                opcode, pad << 4, 0xFFFF, self._remote_qpn, word, wqe.rqmsn & 0xFFFF, wqe.msn & 0xFFFF, stamp,
                headers.TS_TICK_1US, address & 0xFFFFFFFFFFFFFFFF, wqe.rkey, wqe.length,
            )  # fmt: skip
            mask = _MASK_PLAIN
        view = wqe.view
        assert view is not None
        payload = view[offset : offset + size]
        prefix, seed, _ = self._peer.prefix(index, kind, len(head) + size + pad)
        crc = crc32(payload, crc32(head, seed) ^ mask)
        if not self._qp.timer_at:
            if self._last_heard < now:
                self._last_heard = now
            self._host.scheduler.arm(self._qp, now + self._quiet_time())
        if pad:
            tail = _PADS[size & 3]
            return b"".join((prefix, head, payload, tail, _pack_trailer(crc32(tail, crc))))
        return b"".join((prefix, head, payload, _pack_trailer(crc)))

    # ---- hearing ------------------------------------------------------------------------------------------------

    def on_sack(self, sack: Sack, now: int) -> bool:
        """Take a SACK; False when it speaks of PSNs never sent."""
        una = self._una
        ahead = (sack.cack_psn - una + 1) & MASK
        cack = una - 1 + (ahead if ahead < HALF else ahead - MASK - 1)
        if cack >= self._next:
            return False
        self._stats.acks_received += 1
        ring, ring_mask = self._ring, self._ring_mask
        rtt = 0
        asked = 0  # when that was sent which this answers
        received = (sack.rcvd_units - self._rcvd_units) & 0xFFFFFF
        newest = received < HALF  # not overtaken by a newer SACK
        if not sack.probe:
            psn = cack + sack.ack_offset
            if psn in self._repeats:
                self._answered(psn, sack.timestamp, newest, now)
            if una <= psn < self._next:
                record = ring[psn & ring_mask]
                if record.state == OUT and record.stamp == sack.timestamp:
                    asked = record.sent
                    rtt = now - asked
                    self.paths.round_trip[record.index] = rtt
                    trip = self.round_trips[record.plane]
                    if not trip.smoothed:
                        self._host.scheduler.arm(self._qp, now + 2 * rtt + self._tail_min)
                    trip.sample(rtt)
            self._path_word(sack.entropy, sack.mark, now)
        elif (probe := self._probes.get(sack.ack_offset & 0xFFFF)) is not None:
            plane, _index, asked = probe
            if not self.round_trips[plane].smoothed:
                self.round_trips[plane].sample(now - asked)
        acked = 0
        touched = 0
        for psn in range(una, cack + 1):
            record = ring[psn & ring_mask]
            if record.state != FREE:
                acked += record.size
                touched |= 1 << record.lane
                self._free(record, now)
        if cack >= una:
            self._sacked >>= cack + 1 - una
            self._una = una = cack + 1
        new = self._new_bits(cack + sack.bitmap_offset, sack.bitmap)
        self._sacked |= new
        while new:
            low = new & -new
            new ^= low
            record = ring[(una + low.bit_length() - 1) & ring_mask]
            if record.state != FREE:
                acked += record.size
                touched |= 1 << record.lane
                self._free(record, now)
        if newest:
            self._rcvd_units = sack.rcvd_units
            if sack.mpr and self._mpr_cap:
                self._window = min(sack.mpr, self._mpr_cap) * 128 - 1
            self._rcvd_total += received
            if (
                self._repeats
                and sack.bitmap_offset <= 1
                and self._next - cack <= sack.bitmap_offset + control.SACK_BITS
            ):
                self._compare_counts(now)
        if self._suspects and (patience := self._patience()):
            shown = self._suspects.shown(cack + 1, cack + sack.bitmap_offset, sack.bitmap, asked - patience)
            self._blame(shown, now)
        if sack.probe:
            touched |= self._probe_answer(sack.ack_offset & 0xFFFF, sack.mark, now)
        self._alive(now, acked > 0 or sack.probe)
        if newest:
            self._judge(touched, cack + 1, cack + sack.bitmap_offset, now)
            marked = sack.mark == control.MARK_SKIP_ONCE
            got = received * control.RCVD_UNIT
            self.cc.on_ack(acked, got, rtt, marked, now, sack.cwnd_penalty, sack.restore_cwnd)
        return True

    def _path_word(self, entropy: int, mark: int, now: int) -> None:
        """What a SACK says about the path of the packet that caused it."""
        index = self._peer.index_of.get(entropy, -1)
        if index < 0:
            return
        if mark == control.MARK_NONE:
            self._peer.works(index, now)
        elif mark == control.MARK_SKIP_ONCE:
            self.paths.skip(index)
        elif mark == control.MARK_ALWAYS_SKIP:
            self.paths.retire(index, PathReason.PEER_SKIP, None, now)

    def _probe_answer(self, probe_id: int, mark: int, now: int) -> int:
        """A reliability probe came back: everything sent before it on its plane should have arrived."""
        probe = self._probes.pop(probe_id, None)
        if probe is None:
            return 0
        plane, index, sent = probe
        self._peer.works(index, now)
        if mark == control.MARK_SKIP_ONCE and self._host.settings.probe_mark is ProbeMark.SKIP:
            self.paths.skip(index)
        for lane in (self.lanes[2 * plane], self.lanes[2 * plane + 1]):
            lane.acked = max(lane.acked, sent)
        return 3 << 2 * plane

    def _alive(self, now: int, progress: bool) -> None:
        self._last_heard = now
        if progress:
            self._probe_backoff = 0
            self._silent.clear()
            if self._timeouts:
                self._timeouts = 0
                self._host.scheduler.arm(self._qp, now + self._quiet_time())

    def on_nack(self, nack: Nack, now: int) -> str:
        """Take a NACK. Returns a reason when it is fatal, else an empty string."""
        psn = expand(nack.psn, self._una)
        if not self._una <= psn < self._next:
            return ""
        self._stats.acks_received += 1
        record = self._ring[psn & self._ring_mask]
        if record.state != OUT or record.stamp != nack.timestamp:
            return ""
        if nack.reason == control.NACK_UNEXP_EVENT:
            return "The peer met an unexpected event on this queue pair (NACK 0x19)."
        self._alive(now, False)
        self._mark_lost(record, control.NACK_NAMES.get(nack.reason, "nack"))
        if nack.reason == control.NACK_TRIMMED:
            self.paths.skip(record.index, PathReason.TRIMMED)
        if nack.reason <= control.NACK_TRIMMED_LASTHOP:
            self.cc.on_trim(record.size, now, now - record.sent)
        elif nack.reason != control.NACK_PSN_OOR_WINDOW:
            self.cc.on_loss(record.size, now)  # the receiver has no room for it
        return ""

    def on_ack(self, msn: int, now: int) -> bool:
        """Complete every request up to message count `msn` (24 bit); False when that many were never sent."""
        count = (msn - self.completed_msn) & MASK
        outstanding = self._sends.outstanding
        if count >= HALF or count == 0:
            return True
        if count > len(outstanding) or outstanding[count - 1].last_psn < 0:
            return False
        self._stats.acks_received += 1
        last = outstanding[count - 1].last_psn
        self._wimm_done += sum(1 for i in range(count) if outstanding[i].with_imm)
        for psn in range(self._una, last + 1):
            record = self._ring[psn & self._ring_mask]
            if record.state != FREE:
                self._free(record, now)
        if last >= self._una:
            self._sacked >>= last + 1 - self._una
            self._una = last + 1
        self.completed_msn += count
        self._sends.complete(count)
        self._alive(now, True)
        return True

    # ---- silence ------------------------------------------------------------------------------------------------

    def _patience(self) -> int:
        """Twice the longest round-trip time, or four deviations above it; 0 before the first measurement."""
        return max(r.smoothed + max(r.smoothed, 4 * r.variation) for r in self.round_trips)

    def _quiet_time(self) -> int:
        """How long to wait for a word before probing."""
        quiet = self._patience()
        if not quiet:
            return self._timeout // 4 << self._probe_backoff
        return max(quiet, self._tail_min) << self._probe_backoff

    def _retry_time(self) -> int:
        """The ACK timeout now: the attribute's, but never less than round-trip times call for, doubled by retries."""
        doublings = min(max(self._timeouts - self._linear, 0), self._max_backoff)
        return max(self._timeout, self._patience()) << doublings

    def starving(self, now: int) -> None:
        """There is work and no plane to send it on: see to it that this does not last for ever."""
        if not self._qp.timer_at and self._starved():
            self._last_heard = max(self._last_heard, now)
            self._host.scheduler.arm(self._qp, now + self._retry_time())

    def _starved(self) -> bool:
        waiting = self._sends.waiting
        work = bool(self._lost) or self._current is not None or (bool(waiting) and waiting[0].view is not None)
        return work and not self._planes()

    def on_timer(self, now: int) -> int:
        """Probe or time out where due; next time, 0 when all is acknowledged and nothing waits for a plane."""
        if self._una == self._next and not self._sends.outstanding and not self._starved():
            return 0
        shared = self._shared
        if not self.flying and self._planes() and self._work():
            if self._qp.data_mask:
                return 0  # others go first; to ask now, about nothing, would only keep them and us waiting longer
            if shared is not None and self._qp in shared.waiting:
                return 0  # others fill the window: it wakes us
        oldest = 0
        mask = 0
        for number, lane in enumerate(self.lanes):
            record = lane.head()
            if record is not None:
                mask |= 1 << (number >> 1)
                if not oldest or record.sent < oldest:
                    oldest = record.sent
        retry = self._retry_time()
        since = oldest or max(self._last_heard, self._last_timeout)
        if now >= since + retry:
            self._time_out(now, retry, mask)
            return now + min(self._retry_time(), self._quiet_time())
        quiet = max(self._last_heard, oldest, self._asked) + self._quiet_time()
        if now >= quiet:
            if not self._lost or (shared is not None and self._qp in shared.waiting):
                self._asked = now
                self._ask(mask)
                if self._quiet_time() < retry:
                    self._probe_backoff += 1
            quiet = now + self._quiet_time()
        return min(since + retry, quiet)

    def _ask(self, mask: int) -> None:
        """Send reliability probes on the planes in `mask`, or on any when nothing is on the way but a transport ACK."""
        usable = self._planes()
        mask &= usable
        self.probe_mask |= mask or usable & -usable
        self._qp.offer_control()

    def _time_out(self, now: int, retry: int, mask: int) -> None:
        self._last_timeout = now
        self._stats.timeouts += 1
        if (not self._timeouts or now >= self._counted_at + retry) and not self._may_go_on(now):
            silence = (now - self._last_heard) // 1_000_000
            self._qp.enter_error(
                CompletionStatus.RETRY_EXCEEDED,
                f"Nothing was acknowledged after {self._timeouts - 1} retries; "
                f"the peer was last heard {silence} ms ago.",
                now,
            )
            return
        self.cc.on_timeout(now, self.expire(now - retry, now))
        if not self._lost:
            self._asked = now
            self._ask(mask)
        self._qp.offer_data()

    def _may_go_on(self, now: int) -> bool:
        """Count a retry; False when there were too many.

        Packets sent at different times time out at different times: that is one retry as long as less than a whole
        interval has passed.
        """
        self._timeouts += 1
        self._counted_at = now
        limit = self._qp.attributes.retry_count
        return limit == 255 or self._timeouts <= limit

    def probe(self, plane: int, now: int) -> bytes | None:
        """The reliability probe due on `plane`."""
        self.probe_mask &= ~(1 << plane)
        index = self.paths.next(plane, -1)
        if index < 0:
            return None
        self._probe_id = probe_id = (self._probe_id + 1) & 0xFFFF
        if len(self._probes) >= _MAX_PROBES:
            del self._probes[next(iter(self._probes))]
        self._probes[probe_id] = (plane, index, now)
        self._stats.probes_sent += 1
        qp = self._qp
        probe = Probe(probe_id, qp.qpn & 0xFFFF, self._remote_qpn & 0xFFFF, headers.timestamp(now))
        return self._peer.frame(index, PROBE, control.pack_probe(self._remote_qpn, probe))
