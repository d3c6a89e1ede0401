"""Timeouts of a requester while nothing is acknowledged: probes, retransmission timeouts, and in the end failure.

After a probe timeout without an acknowledgement, a reliability probe is sent on each plane with packets in flight, and
after the next ones on all planes, since these may have failed; unless data is queued for a port: that brings an
acknowledgement too, since the last packet that may leave requests one. The retransmission timeout marks as lost all
packets older than itself; those sent soon after them time out soon after them, which is no further retry. A timeout
alone does not tell a dead path from a dead peer or a lost acknowledgement, so a path is retired only when later
acknowledgements show that it was at fault (``timeout_attribution``), and never for packets sent before the peer first
answered. After ``retry_count`` timeouts the queue pair fails.

How long to wait is ``retransmission_timer``'s, which probes are in flight ``reliability_probes``'.

**Behind others.** Queue pairs that share a congestion window may fill it and get no answers, when their far ends are
silent. One that timed out waits behind those that did not, until it is answered (``window``). Those that wait have the
timed-out ones probe, in case the outage is over, and probe themselves; each of their own retransmission timeouts
without an answer is a retry, so that all fail within their budgets if nobody answers.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.peer import Peer
from mrc_host.transport.peer_frames import NO_TRIM
from mrc_host.transport.queue_pair_interfaces import Connection, DataToSend, MrcRequesterOwner
from mrc_host.transport.requester_parts import RequesterParts
from mrc_host.transport.sent_packet import LOST
from mrc_host.verbs_types import CompletionStatus
from mrc_host.wire import control, headers
from mrc_host.wire.control import Probe

_PARTS: Final = 16  # of an RTO: as often at most, more packets of one flight time out
_MANY_ATTEMPTS: Final = 3  # of the oldest packet: if nothing is acknowledged meanwhile, this counts as a timeout


class Timeouts:
    """Those of one requester."""

    __slots__ = (
        "_attribution",
        "_data",
        "_loss",
        "_owner",
        "_paths",
        "_peer",
        "_probes",
        "_qpn",
        "_remote_qpn",
        "_sends",
        "_sent",
        "_spurious",
        "_stats",
        "_timer",
        "_window",
    )

    def __init__(
        self,
        owner: MrcRequesterOwner,
        connection: Connection,
        peer: Peer,
        data: DataToSend,
        parts: RequesterParts,
    ) -> None:
        """`data` is the requester, `parts` are its."""
        self._owner = owner
        self._peer = peer
        self._data = data
        self._paths = parts.paths
        self._sends = parts.sends
        self._window = parts.window
        self._sent = parts.sent
        self._loss = parts.loss
        self._spurious = parts.spurious
        self._attribution = parts.attribution
        self._probes = parts.probes
        self._timer = parts.timer
        self._qpn = connection.qpn
        self._remote_qpn = connection.remote_qpn
        self._stats = connection.stats

    # ---- what others report -------------------------------------------------------------------------------------

    def starving(self, now: int) -> None:
        """Data waits, but every plane is down or denied: start the timer, so that the requests fail eventually."""
        if not self._owner.armed() and self._starved():
            self._timer.last_answer = max(self._timer.last_answer, now)
            self._owner.arm(now + self._timer.rto())

    def peer_reported(self, now: int) -> None:
        """The peer reported its ports. If retrying, probe: it may answer now."""
        if self._timer.retries:
            self.request_probes(self._data.open_planes(), now)

    def path_opened(self, index: int, now: int) -> None:
        """A path works or is allowed again. If retrying, probe it: the peer may answer there."""
        plane = self._peer.paths.plane_of[index]
        if self._timer.retries and self._data.open_planes() >> plane & 1:
            self._probes.prefer(plane, index)
            self.request_probes(1 << plane, now)

    def probe_for_others(self, interval: int, now: int) -> bool:
        """Others wait for our bytes: probe, unless done within `interval` ns; False once acknowledged again."""
        if not self._timer.unanswered():
            return False
        planes = self._data.open_planes()
        if self._sent.in_flight and planes and now >= self._timer.last_probe + interval:
            self.request_probes(planes, now)
        return True

    # ---- the timer ------------------------------------------------------------------------------------------------

    def on_timer(self, now: int) -> int:
        """Send probes or time out, if due; the next time, 0 when all is acknowledged and nothing waits for a plane."""
        timer, sent = self._timer, self._sent
        planes = self._data.open_planes()
        if not sent.in_flight and planes and self._data.has_work():
            queued = self._owner.queued_ports() & planes
            if self._window.waiting() or (queued and timer.probing_since and self._window.shared is not None):
                return self._wait_for_others(planes, now)
            if queued:
                return 0  # other queue pairs go first; a probe now would only delay all of them
            if self._window.paced:
                return 0  # data leaves as soon as the congestion control's rate lets it
        if sent.una == sent.next_psn and not self._sends.outstanding and not self._starved():
            return 0
        oldest, mask = sent.oldest()
        rto = timer.rto()
        since = self._rto_since(oldest)
        due = since + (timer.rto_of(oldest) if oldest and timer.unanswered() else rto) if since else 0
        if oldest and now >= due and timer.left_before(oldest):
            self._expire_more(now)
            return timer.recheck_at(self._after_timeout(now), now)
        if (due and now >= due) or (self._stuck(now) and now >= max(timer.last_progress, timer.last_timeout) + rto):
            self._on_timeout(now, rto)
            return timer.recheck_at(self._after_timeout(now), now)
        # max of two each, here and in the timer: with more, compiled code takes a tuple and a call
        last = max(max(timer.last_answer, oldest), max(timer.last_probe, timer.last_sent))
        quiet = last + timer.pto()
        if now >= quiet:
            if self._queued():
                timer.deferred = True
                quiet = now + max(timer.pto(), now - last)  # again after as long as the turn has taken so far
                return timer.recheck_at(min(due or quiet, quiet), now)
            if not sent.lost() or self._window.waiting():
                self.request_probes(planes if timer.probing_since and sent.in_flight else mask, now)
                timer.back_off_pto()
                due = due or now + rto
            quiet = now + timer.pto()
        return timer.recheck_at(min(due or quiet, quiet), now)

    def _stuck(self, now: int) -> bool:
        """Whether the oldest packet was sent many times, and the last time long enough ago to be answered."""
        sent = self._sent
        record = sent.record(sent.una)
        if sent.una == sent.next_psn or record.attempts <= _MANY_ATTEMPTS:
            return False
        return record.state == LOST or now >= record.sent + self._timer.first_pto()

    def _wait_for_others(self, planes: int, now: int) -> int:
        """Other queue pairs fill the window, or room is left to them. Returns when to come back here.

        0: once one of them has timed out. Those that timed out are made to probe, and this one probes, too. While that
        is not answered, each RTO is a retry: otherwise those that wait for a peer that is gone would fail one after
        another. Once it has timed out itself it probes as one with data in flight does, on all `planes`.
        """
        timer, shared = self._timer, self._window.shared
        assert shared is not None
        again = timer.retries > 0
        asked = planes if again else 0
        silent = timer.probing_since > 0
        if shared.timed_out and now >= timer.blocked_until:
            shared.probe_timed_out(timer.blocked_pto(), now)
            timer.back_off_blocked_pto(now)
            if shared.timed_out and not silent:
                self.request_probes(asked, now)
        if silent and now >= timer.silent_until():
            self.request_probes(asked, now)
            if not self._count_timeout(timer.on_silence(now), now):
                return 0
            shared.time_out(self._owner, now)
        elif silent and again and now >= timer.last_probe + timer.pto():
            self.request_probes(asked, now)
            timer.back_off_pto()
        due = 0
        if timer.probing_since:
            due = timer.silent_until()
            if again:
                due = min(due, timer.last_probe + timer.pto())
        if shared.timed_out and timer.blocked_until > now:
            return min(due, timer.blocked_until) if due else timer.blocked_until
        return due

    def _rto_since(self, oldest: int) -> int:
        """When the RTO started: at the oldest packet in flight or oldest unanswered probe; 0: it is not running."""
        timer = self._timer
        if not oldest and (self._sent.lost() or self._starved()):  # nothing in flight, so no probe was sent
            return max(timer.last_answer, timer.last_timeout) or timer.probing_since
        return oldest or timer.probing_since

    def _starved(self) -> bool:
        return self._data.pending() and not self._data.open_planes()

    # ---- probes and retries --------------------------------------------------------------------------------------

    def _queued(self) -> bool:
        """Whether data is queued for a port and only waits for its turn: like a probe, it brings an acknowledgement.

        With many queue pairs a turn may take longer than two round trips, and so may the packets that the responder
        collects before it acknowledges.
        """
        return not self._timer.retries and self._owner.queued_ports() & self._data.ports() != 0

    def request_probes(self, mask: int, now: int) -> None:
        """Send reliability probes on the planes in `mask`; on one plane after another when nothing is in flight."""
        again = self._timer.probing_since > 0
        self._timer.on_probe(now)
        self._probes.request(mask, self._data.open_planes(), again)
        self._owner.offer_control()

    def _on_timeout(self, now: int, rto: int) -> None:
        """The retransmission timeout, `rto`, has passed."""
        if not self._count_timeout(self._timer.on_timeout(now, rto), now):
            return
        shared = self._window.shared
        if shared is not None:
            shared.time_out(self._owner, now)
        expired = self._expire(now - rto, now)
        if expired:  # otherwise only probes were not answered
            self._window.cc.on_timeout(now, expired)
        self.request_probes(self._data.open_planes(), now)  # on all planes: it is not known which have failed
        self._offer_data()

    def _expire_more(self, now: int) -> None:
        """More of what had left before the last timeout has timed out, too."""
        self._window.cc.on_timeout(now, self._expire(self._timer.timed_out_before(now), now))
        self._offer_data()

    def _after_timeout(self, now: int) -> int:
        """When to come back: for the next probe, or as soon as more of what left before the timeout times out."""
        timer = self._timer
        quiet = now + min(timer.rto(), timer.pto())
        oldest, _ = self._sent.oldest()
        if not oldest or not timer.left_before(oldest):
            return quiet
        rto = timer.rto_of(oldest)
        return min(quiet, max(oldest + rto, now + rto // _PARTS))

    def _offer_data(self) -> None:
        shared = self._window.shared
        if shared is None or not (shared.crowded() or shared.leaves_room()):
            self._owner.offer_data()
        else:
            shared.wait(self._owner)

    def _count_timeout(self, left: bool, now: int) -> bool:
        """An RTO has passed. If no retry is `left`, the queue pair fails, and the result is False."""
        timer = self._timer
        self._stats.timeouts += 1
        if left:
            if timer.hopeless():
                self._probes.forget_proven_path()
            return True
        silence = (now - timer.last_answer) // 1_000_000
        why = (
            f"the peer last answered {silence} ms ago"
            if self._data.open_planes()
            else "its paths are all down or denied"
        )
        text = f"Nothing was acknowledged after {timer.retries + timer.silences - 1} retries; {why}."
        self._owner.enter_error(CompletionStatus.RETRY_EXCEEDED, text, now)
        return False

    def _expire(self, before: int, now: int) -> int:
        """Mark as lost what was sent at or before `before` and not acknowledged; returns how many bytes.

        Later acknowledgements show whether the path, the peer or the reverse path failed.
        """
        size = 0
        for lane in self._sent.lanes:
            record = lane.head()
            while record is not None and record.sent <= before:
                size += record.weight
                self._loss.mark_lost(record, "timeout")
                self._attribution.suspect(record.psn, record.index, record.sent, self._spurious.excess, now)
                record = lane.head()
        return size

    def _path_of_probe(self, plane: int) -> int:
        """For a probe on `plane`: the path on which something arrived last, unless it may be dead, too; else the next.

        One that the oldest unanswered packet took may be, or an unanswered probe since.
        """
        oldest = self._sent.oldest_path(plane)
        proven = self._sent.proven_path(plane, self._probes.unanswered_since(plane))
        if proven >= 0 and proven != oldest and self._paths.take(proven) >= 0:
            return proven
        return self._path_of(self._paths.next(plane, oldest))

    def probe(self, plane: int, now: int) -> bytes | None:
        """Build the reliability probe due on `plane`."""
        index = self._probes.take(plane)
        if self._timer.hopeless():
            if index < 0 or self._paths.denied(index):
                index = self._path_of(self._paths.any_allowed(plane, self._sent.oldest_path(plane)))
        elif index < 0 or self._paths.bad(index):
            index = self._path_of_probe(plane)
        if index < 0:
            return None
        number = self._probes.sent(plane, index, now)
        self._stats.probes_sent += 1
        probe = Probe(number, self._qpn & 0xFFFF, self._remote_qpn & 0xFFFF, headers.timestamp(now))
        return self._peer.frames.frame(index, NO_TRIM, control.pack_probe(self._remote_qpn, probe))

    def _path_of(self, value: int) -> int:
        return self._paths.path(value) if value >= 0 else -1
