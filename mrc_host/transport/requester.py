"""MRC requester: segments writes, sprays the packets, retransmits what is lost, completes what is acknowledged.

**Parts.** ``sent_packets`` holds what was sent; ``ack_processing`` handles the peer's acknowledgements;
``loss_detection`` decides which packets are lost, ``spurious_retransmissions`` which were retransmitted although they
had arrived. ``send_window`` and ``plane_balance`` limit what may leave, ``data_packets`` builds the frames, and
``timeouts`` sees to what is not acknowledged. This module decides which packet leaves next.

**Sending.** A port that is free requests a packet for its plane. Lost packets go first, lowest PSN first, then the next
segment of the oldest request. The packet's path is chosen at that moment: the plane's next. Three limits apply: the
congestion window, the range of PSNs the peer accepts (MPR), and the number of WRITE_WITH_IMM the peer accepts in
flight. Planes are kept balanced: none may be more than ``plane_skew_limit`` packets of 4096 bytes ahead.
Retransmissions count, but do not wait for other planes. When every active path of a plane has timed out, packets that
were lost twice take backup paths, which replace active ones.

PSNs and message numbers are unbounded integers here (see ``wire.psn``).
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.ack_processing import AckProcessing
from mrc_host.transport.data_packets import DataPackets
from mrc_host.transport.loss_detection import LossDetection
from mrc_host.transport.outgoing_messages import OutgoingMessages
from mrc_host.transport.path_policy import PathPolicy
from mrc_host.transport.paths import PathSet
from mrc_host.transport.peer import Peer
from mrc_host.transport.peer_frames import DATA, RETRANSMISSION
from mrc_host.transport.plane_balance import PlaneBalance
from mrc_host.transport.queue_pair_interfaces import Connection, DataToSend, MrcRequesterOwner
from mrc_host.transport.requester_parts import RequesterParts
from mrc_host.transport.retransmission_timer import RetransmissionTimer
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.send_window import SendWindow
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.sent_packets import SentPackets
from mrc_host.transport.spurious_retransmissions import SpuriousRetransmissions
from mrc_host.transport.stall_times import StallTimes
from mrc_host.transport.stats import PATHS, PEER, WINDOW
from mrc_host.transport.timeouts import Timeouts
from mrc_host.transport.work import SendQueue, Wqe
from mrc_host.wire import headers
from mrc_host.wire.psn import MASK

_UNBALANCED: Final = 1 << 60
_RTO_WINDOW: Final = 4  # packets in flight after a timeout, until something is acknowledged


class Requester(DataToSend):
    """Sending half of an MRC queue pair."""

    __slots__ = (
        "_attribution",
        "_balance",
        "_knows_planes",
        "_loss",
        "_messages",
        "_mtu",
        "_nic",
        "_owner",
        "_packets",
        "_paused_until",
        "_peer",
        "_planes",
        "_retransmission_pause",
        "_sends",
        "_stats",
        "_tick",
        "acks",
        "paths",
        "probes",
        "sent",
        "spurious",
        "stalls",
        "timeouts",
        "timer",
        "window",
    )

    def __init__(
        self,
        owner: MrcRequesterOwner,
        connection: Connection,
        peer: Peer,
        paths: PathSet,
        sends: SendQueue,
        first_psn: int,
        policy: PathPolicy,
    ) -> None:
        attributes, nic, stats = connection.attributes, connection.nic, connection.stats
        settings = nic.transport
        planes = len(peer.paths.members)
        self._owner = owner
        self._nic = nic
        self._stats = stats
        self._peer = peer
        self._planes = peer.planes
        self._sends = sends
        self._mtu = attributes.path_mtu
        self._tick = nic.settings.timestamp_tick.value
        # parts
        self.paths = paths
        link = peer.link_parameters(attributes)
        self.window = SendWindow(owner, connection, link, peer.windows)
        self.sent = SentPackets(self.window.cc, first_psn, planes, paths.each, settings.recovery_delay)
        self.spurious = SpuriousRetransmissions(stats)
        self._knows_planes = policy.knows_planes
        burst = settings.plane_skew_limit if policy.knows_planes else _UNBALANCED
        self._balance = PlaneBalance(burst, self._mtu, peer.paths.planes, nic.waited_by_plane, nic.port_stats)
        self._packets = DataPackets(connection, peer.frames)
        self._messages = OutgoingMessages(sends, self._packets, attributes.max_wimm_dest)
        self._loss = LossDetection(
            self.sent, paths, self.window.cc, peer.round_trips, peer.reordering, stats, peer.lost_by_plane,
            settings.reorder_fraction,
        )  # fmt: skip
        least = peer.timers.tail_probe_min
        self.timer = RetransmissionTimer(peer.round_trips, RetryPolicy.of(connection), least, link.base_rtt)
        parts = RequesterParts(
            paths, sends, self._messages, self.window, self.sent, self._loss, self.spurious, self.timer
        )
        self.probes = parts.probes
        self._attribution = parts.attribution
        self.acks = AckProcessing(
            owner, connection, peer.probes, peer.answers, peer.paths.values, peer.round_trips, parts
        )
        self.timeouts = Timeouts(owner, connection, peer, self, parts)
        self.stalls = StallTimes(stats)
        # after a retransmission nothing new leaves until then
        self._retransmission_pause = settings.retransmission_pause
        self._paused_until = 0

    # ---- sending ------------------------------------------------------------------------------------------------

    def ports(self) -> int:
        """Planes on which the next packet may leave; 0 when there is none or a limit is reached."""
        window, sent = self.window, self.sent
        cc = window.cc
        if cc.inflight >= cc.cwnd or (self.timer.unanswered() and window.left_to_others()):
            self._wait()
            return 0
        if sent.in_flight >= window.limit.limit:
            self._stall(PEER, self._nic.now)
            return 0  # until one of this queue pair's packets is acknowledged
        if window.paced and self._too_early(self._nic.now):
            return 0
        mask = self._data_planes()
        if not mask:
            self._stall(PATHS, self._nic.now)
        if sent.lost():
            return mask
        if self._paused_until > self._nic.now:
            return 0
        messages = self._messages
        if (messages.current is None and not messages.may_start()) or sent.next_psn - sent.una >= window.psn_range:
            self._stall(PEER, self._nic.now)
            return 0
        return mask & self._balance.mask or mask

    def _too_early(self, now: int) -> bool:
        """Whether the congestion control's rate lets nothing leave yet; if there is anything, the timer is set."""
        when = self.window.cc.earliest_send(now)
        if when <= now:
            return False
        if self.pending():
            self._owner.arm(when)
        return True

    def _alone(self, size: int, now: int) -> bool:
        """A packet leaves at a rate; whether the next follows so late that this one must request an answer."""
        cc = self.window.cc
        cc.on_send(size, now)
        return cc.earliest_send(now) > now + self.timer.first_pto()

    def open_planes(self) -> int:
        """Planes on which packets may leave; 0 when all are down or denied.

        Those whose paths are all bad are among them if there are no others. After two timeouts so are all where our own
        port is up: every other may be dead, a bad path may work again without the probes that would restore it, and the
        peer could not report that its port is up again.
        """
        paths = self.paths
        if not self._knows_planes or self.timer.hopeless():
            return self._planes.own() & paths.open_planes
        usable = self._planes.usable
        return usable & paths.good_planes or usable & paths.open_planes

    def _data_planes(self) -> int:
        """Planes on which data may leave: without those of slow ports, unless there are no others or all seems lost."""
        planes, retired = self.open_planes(), self._planes.retired if self._knows_planes else 0
        return planes & ~retired or planes if retired and not self.timer.retries else planes

    def transmit(self, plane: int, now: int) -> bytes | None:
        """Next data packet for `plane`, or None."""
        window, sent = self.window, self.sent
        cc = window.cc
        if cc.inflight >= cc.cwnd or (self.timer.unanswered() and window.left_to_others()):
            self._wait()
            return None
        if sent.in_flight >= window.limit.limit:
            self._stall(PEER, now)
            return None
        if window.paced and self._too_early(now):
            return None
        if self.timer.retries and sent.in_flight >= _RTO_WINDOW * self._mtu:
            return None
        planes = self._data_planes()
        if not planes >> plane & 1:
            return None
        if sent.lost():
            frame = self._retransmit(plane, planes, now)
            if frame is not None or sent.lost():
                return frame  # waits for another plane: no new packet may take its place in the window
        if self._paused_until > now:
            return None
        return self._transmit_new(plane, planes, now)

    def _transmit_new(self, plane: int, planes: int, now: int) -> bytes | None:
        """Send the next segment of the oldest request on `plane`, which is one of `planes`."""
        sent, balance, messages = self.sent, self._balance, self._messages
        psn = sent.next_psn
        if psn - sent.una >= self.window.psn_range:
            self._stall(PEER, now)
            return None
        if not balance.mask >> plane & 1:
            if balance.mask & planes:
                if messages.current is not None or messages.may_start():
                    balance.waits(plane, planes, now)
                return None
            self.stalls.settle(now)
            stalled = self._stats.stalled_ns  # short packets may use up the range of PSNs before the window
            late = balance.end_cycle(stalled[WINDOW] + stalled[PEER], now)
            self._planes.cycle_ended(late, balance.stopped, now)
            balance.refill(self._peer.paths.planes)
        if messages.current is None:
            if not messages.may_start():
                self._stall(PEER, now)
                return None
            messages.start(psn)
            balance.resume(now)
        wqe = messages.current
        assert wqe is not None
        value = self.paths.next(plane, -1)
        if value < 0:
            self._stall(PATHS, now)
            return None
        balance.spend(plane)
        record = sent.new_record()
        messages.segment(wqe, record)
        self._stats.data_sent += 1
        return self._emit(record, wqe, plane, value, DATA, now)

    def _retransmit(self, plane: int, planes: int, now: int) -> bytes | None:
        """Send the oldest lost packet again, on another path than the one that lost it.

        From the second loss on, it takes planes that it has not tried yet; otherwise it could alternate between two
        dead planes. Then, and after a timeout, planes where a packet or probe sent later has arrived go first, even if
        they have lost it before: the others may all be dead. On its plane it takes the path on which that arrived: the
        next in turn may be dead, too, where a switch of each plane has failed, and each further loss may take longer to
        be noticed.
        """
        record = self.sent.next_lost()
        if record is None:
            return None
        if not self._knows_planes:
            return self._send_again(record, plane, self.paths.next(plane, -1), now)
        tried = record.tried | 1 << int(record.plane)
        left = planes & ~tried
        if not left:
            tried = 1 << int(record.plane)  # all were tried: start over
            left = planes & ~tried or planes
        if record.attempts > 1 or self.timer.retries or self._loss.silent >> int(record.plane) & 1:
            sent, since, own = self.sent, self._proven_since(record), 1 << int(record.plane)
            left = (
                sent.proven(left, since)
                or sent.proven(planes & ~own, since)
                or sent.proven(planes & own, record.sent)
                or left
            )
            if not left >> plane & 1:
                return None
        record.tried = tried
        return self._send_again(record, plane, self._other_path(plane, record), now)

    def _send_again(self, record: SentPacket, plane: int, value: int, now: int) -> bytes | None:
        """Send a lost packet on `plane` with this entropy value; None if that is -1."""
        wqe = record.wqe
        if value < 0 or wqe is None:
            return None
        self.sent.take_lost()
        self._stats.retransmitted += 1
        self._nic.retransmitted_by_plane[plane] += 1
        if self._balance.mask >> plane & 1:
            self._balance.spend(plane)
        known = self.spurious.remember(record)
        frame = self._emit(record, wqe, plane, value, RETRANSMISSION, now)
        known.again(record)
        if self._retransmission_pause:
            self._paused_until = max(self._paused_until, now) + self._retransmission_pause
            self._owner.arm(self._paused_until)
        return frame

    def _other_path(self, plane: int, record: SentPacket) -> int:
        """An entropy value for a lost packet, not of the path that lost it; -1 when the plane has none.

        When a packet is lost for the second time and all active paths have timed out, a backup takes the place of the
        chosen path: nothing else would ever try one. When all seems lost, all paths take turns; with backups, only for
        packets that are not the oldest.
        """
        paths, attribution = self.paths, self._attribution
        if record.attempts > 1:
            index = self.sent.proven_path(plane, self._proven_since(record))
            if index >= 0 and index != record.index and (value := paths.take(index)) >= 0:
                return value
        if self.timer.hopeless() and (record.psn != self.sent.una or not paths.has_spare(plane)):
            return paths.any_allowed(plane, record.index)
        value = paths.next(plane, record.index)
        if record.attempts > 1 and value >= 0 and attribution.all_timed_out(paths.active(plane)):
            backup = paths.exchange(value)
            if backup >= 0:
                return backup
        return value

    def _proven_since(self, record: SentPacket) -> int:
        """What was sent after this time and has arrived shows that a path or plane may carry `record`, lost before.

        If its plane went silent, others may have gone with it: what they carried before shows nothing.
        """
        sent = self._loss.last_answered if self._loss.silent >> int(record.plane) & 1 else record.sent
        return sent - self.timer.pto()

    def _emit(self, record: SentPacket, wqe: Wqe, plane: int, value: int, kind: int, now: int) -> bytes:
        """Build a packet that leaves with entropy value `value`, as DATA or RETRANSMISSION, and account for it."""
        timer, window, sent = self.timer, self.window, self.sent
        if self.stalls.waiting():
            self.stalls.end(now)
            timer.end_blocked()
        timer.last_sent = now
        sent.transmitted(record, plane, kind, value, now // self._tick & 0xFFFF, now)
        word = record.psn & MASK | headers.TS_PRESENT
        if kind:
            word |= headers.RTX
        if window.used(record.weight):
            word |= headers.ACK_REQUEST
        if window.paced and self._alone(record.size, now):
            word |= headers.ACK_REQUEST
        # Request an acknowledgement with the last packet that may leave for now.
        trip = self._peer.round_trips[plane]
        if now >= trip.fresh_until and self._measures(trip, now):
            word |= headers.ACK_REQUEST
        if window.closing(sent) or (self._messages.current is None and not self._sends.waiting) or timer.retries:
            window.ack_requested()
            word |= headers.ACK_REQUEST
        frame = self._packets.build(record, wqe, word, kind)
        if not self._owner.armed():
            if timer.last_answer < now:
                timer.last_answer = now
            timer.last_progress = now
            self._owner.arm(timer.recheck_at(now + timer.pto(), now))
        elif timer.deferred:
            timer.deferred = False
            self._owner.arm(timer.recheck_at(now + timer.pto(), now))
        return frame

    def _measures(self, trip: RoundTrip, now: int) -> bool:
        """Whether a packet is to request an acknowledgement, so that the round trip of its plane, `trip`, is known.

        Which packets a peer acknowledges without being asked may go in step with the turns of planes or paths: then it
        answers those of one plane only. So each plane asks if nothing measured it, and no packet asked, for a PTO.
        """
        waited, pto, timer = now - trip.asked, trip.fresh_until - trip.asked, self.timer
        if trip.asked and (waited <= pto or (not pto and (waited <= timer.least_pto or waited <= timer.first_pto()))):
            return False
        trip.ask(now)
        return True

    # ---- waiting ------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """The window is full. A window of our own opens when our packets are acknowledged; for a shared one, wait.

        If other queue pairs filled it, or if it shrank, our latest packets may not have requested an acknowledgement;
        and the others may still be backing off although the outage is over.
        """
        if not self.has_work():
            return
        now = self._nic.now
        self._stall(WINDOW, now)
        shared = self.window.shared
        if shared is not None:
            shared.wait(self._owner)
            if self.window.needs_ack_request():
                self._owner.arm(now + self.timer.pto())
            elif shared.timed_out:
                self._owner.arm(now + self.timer.blocked_pto())

    def has_work(self) -> bool:
        """Whether there is anything to send that the peer lets begin."""
        messages = self._messages
        return self.sent.lost() or messages.current is not None or messages.may_start()

    def pending(self) -> bool:
        """Whether there is anything to send, whether or not it may leave."""
        return self.sent.lost() or self._messages.pending()

    def _stall(self, kind: int, now: int) -> None:
        """If data is waiting, it waits because of `kind`: measure the time until a packet leaves."""
        if self.stalls.reason != kind:
            if self.pending():
                self._balance.blocked()
                self.stalls.begin(kind, now)
            else:
                self._balance.idle(now)

    def release_window(self) -> None:
        """Bytes were acknowledged or the window moved: let other queue pairs use the room."""
        if self.stalls.waiting() and not self.pending():
            self.stalls.end(self._nic.now)
        self.window.release(self.sent.in_flight)

    # ---- planes and paths ---------------------------------------------------------------------------------------

    def flush_plane(self, plane: int) -> None:
        """The plane is down: retransmit what is in flight there on other planes, without suspecting any path."""
        self._loss.flush_plane(plane)

    def planes_changed(self, now: int) -> None:
        """The set of usable planes changed: restart the balance. If retrying, probe: the peer may answer now."""
        self._balance.restart()
        self._balance.refill(self._peer.paths.planes)
        self.timeouts.peer_reported(now)

    # ---- due times ----------------------------------------------------------------------------------------------

    def on_window_end(self, now: int) -> bool:
        """If the end of the reorder window is due, find what is lost, or ask for it; whether anything is lost."""
        loss = self._loss
        planes = loss.on_window_end(now) & self.open_planes()
        if planes:
            self.timeouts.request_probes(planes, now)
        if loss.window_ends:
            self._owner.arm(loss.window_ends)
        return self.sent.lost()

    def release_held(self, now: int) -> bool:
        """Let go of what waited for the end of a recovery delay or of a pause, and come back for the next.

        Whether anything may be sent now that had to wait.
        """
        resumed = 0 < self._paused_until <= now
        if resumed:
            self._paused_until = 0
        elif self._paused_until:
            self._owner.arm(self._paused_until)
        sent = self.sent
        if not sent.holds():
            return resumed
        due = sent.release_held(now)
        if due:
            self._owner.arm(due)
        return resumed or sent.lost()
