"""An MRC queue pair: a requester, a responder and a set of paths to one peer.

Control packets of both halves (NACK, SACK, transport ACK, probes) leave on the next usable port that is free; data
leaves on the ports whose turn it is. Path changes are reported to the application as events, and the peer probes bad
paths in the background.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.answer_port import AnswerPort
from mrc_host.transport.data_arrival import receive_data
from mrc_host.transport.naks import failure
from mrc_host.transport.nscc import Nscc
from mrc_host.transport.path_policy import PathPolicy
from mrc_host.transport.paths import BAD, STATES, PathListener, PathSet
from mrc_host.transport.peer import Peer
from mrc_host.transport.profiles import in_planes, resolve
from mrc_host.transport.qp import NicQueuePair, QueuePairCreation
from mrc_host.transport.queue_pair_interfaces import AnswerPaths, MrcRequesterOwner
from mrc_host.transport.receiver_limit import UNLIMITED
from mrc_host.transport.refusals import identity
from mrc_host.transport.requester import Requester
from mrc_host.transport.responder import Responder
from mrc_host.verbs_types import (
    ALL_PLANES,
    CompletionStatus,
    PathEvent,
    PathInfo,
    PathReason,
)
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import Nack
from mrc_host.wire.encap import Drop, Flow
from mrc_host.wire.headers import BTH_LENGTH
from mrc_host.wire.psn import MASK

_GONE: Final = "The peer's queue pair is gone: it was destroyed, or its NIC has restarted."
_MIN_PATHS: Final = 4  # per plane, however small the window that the hints imply


class MrcQueuePair(NicQueuePair, PathListener, MrcRequesterOwner):
    """Queue pair of type MRC, or of another type that differs in its `policy` for paths (``uet``)."""

    __slots__ = ("_answer", "_answers", "_policy", "_solicited", "requester", "responder")

    def __init__(self, creation: QueuePairCreation, policy: PathPolicy) -> None:
        super().__init__(creation)
        self.requester: Requester | None = None
        self.responder: Responder | None = None
        self._policy = policy
        self._solicited = headers.solicited_bit(self.nic.settings.bth_order)
        self._answer = AnswerPort()
        self._answers: AnswerPaths | None = None  # from RTR on

    def start_receiving(self, first_psn: int, now: int) -> None:
        """INIT to RTR: create the receiving half."""
        peer, policy = self.connected_peer(), self._policy
        self._answer = AnswerPort(self.attributes.planes)
        self._answers = answers = policy.answers(self.nic, peer)
        self.responder = Responder(
            self, self.connection(), answers, peer.address, len(peer.paths.members), first_psn,
            policy.sack_threshold(self.nic.transport), policy.acknowledges_each,
        )  # fmt: skip
        peer.join(self, self.remote_qpn, now)

    def start_sending(self, first_psn: int, now: int) -> None:
        """RTR to RTS: resolve the EV profile into paths, and start sending on them."""
        attributes, settings, nic, peer = self.attributes, self.nic.transport, self.nic, self.connected_peer()
        policy = self._policy
        profile = nic.ev_profiles.get(attributes.ev_profile)
        universe = None
        if profile is not None:
            universe = resolve(profile, peer.paths, nic.rng)
            peer.planes.refresh()  # there may be paths in planes that had none
        if attributes.planes != ALL_PLANES:
            universe = in_planes(attributes.planes, universe, peer.paths)
        paths = PathSet(
            peer.paths.plane_of,
            active_paths=self._expected_paths(peer),
            backup_share=settings.backup_share,
            ev_min_active=settings.ev_min_active if profile is None else profile.ev_min_active,
            rng=nic.rng,
            listener=self,
            universe=universe,
            oblivious=policy.oblivious(settings),
            selection=policy.selection(nic, peer),
            per_path=peer.paths.values.per_path,
        )
        self.requester = Requester(self, self.connection(), peer, paths, self.sends, first_psn, policy)
        for index in peer.paths.denied:
            paths.deny(index, True, now)

    def psns_sent(self) -> int:
        """How many PSNs were sent in this life."""
        return 0 if self.requester is None else self.requester.sent.psns_used()

    def receiving_half(self) -> Responder | None:
        """The responder."""
        return self.responder

    def _expected_paths(self, peer: Peer) -> int | None:
        """Size of the active set: as given, or two windows of packets by the hints (docs/protocol.md §3), or None."""
        given = self.attributes
        if given.active_paths is not None:
            return given.active_paths
        if not (given.num_qps_per_peer or given.num_send_peers or given.num_remote_recv_peers):
            return None
        planes = (peer.paths.planes & given.planes).bit_count()
        return max(2 * peer.link_parameters(given).packets() // max(given.num_qps_per_peer, 1), _MIN_PATHS * planes)

    def end_requests(self, status: CompletionStatus, reason: str, now: int) -> None:
        """Go to ERROR, and give up this queue pair's share of the shared window."""
        super().end_requests(status, reason, now)
        self._release()

    def _release(self) -> None:
        requester = self.requester
        if requester is None:
            return
        requester.sent.release()
        requester.release_window()
        if self.peer is not None and requester.window.shared is not None:
            self.peer.windows.leave(self, requester.window.shared)

    def stop(self) -> None:
        """Drop both halves; queue entries and timers that still refer to this queue pair find nothing to do."""
        self._release()
        self.requester = None
        self.responder = None

    # ---- receiving ----------------------------------------------------------------------------------------------

    def receive(self, opcode: int, frame: memoryview, flow: Flow, port: int, now: int) -> Drop | None:
        """Handle a packet from the peer."""
        responder = self.responder
        if responder is None:
            return Drop.QP_STATE
        if opcode > opcodes.WRITE_ONLY_IMM:
            return self._receive_control(responder, opcode, frame, flow, port, now)
        if not self.running:
            return self._repeat_nak(opcode, frame, flow, now)
        if flow.trimmed:
            *_, word, _rqmsn, _msn, stamp, _tick = headers.trimmed.unpack_from(frame, flow.start)
            return responder.acks.trimmed(word, stamp, flow, flow.dscp == self.nic.settings.dscp.trimmed_lasthop)
        return receive_data(responder, opcode, frame, flow, port, self._solicited)

    def _receive_control(
        self, responder: Responder, opcode: int, frame: memoryview, flow: Flow, port: int, now: int
    ) -> Drop | None:
        if flow.trimmed:
            return Drop.MALFORMED
        if opcode == opcodes.PROBE:
            if not self.running:
                return self._repeat_nak(opcode, frame, flow, now)
            probe = control.parse_probe(frame, flow.start + BTH_LENGTH)
            self._answer.probed(port, responder.received.max_psn)
            responder.acks.probe(probe.probe_id, probe.timestamp, flow)
            return None
        if not self.running:
            return Drop.QP_STATE
        return self._receive_answer(opcode, frame, flow, port, now)

    def _receive_answer(self, opcode: int, frame: memoryview, flow: Flow, port: int, now: int) -> Drop | None:
        requester = self.requester
        if requester is None:
            return Drop.QP_STATE
        at = flow.start + BTH_LENGTH
        drop: Drop | None = None
        if opcode == opcodes.SACK:
            drop = requester.acks.on_sack(control.parse_sack(frame, at), port, now)
        elif opcode == opcodes.NACK:
            end = requester.acks.on_nack(control.parse_nack(frame, at), now)
            if end is not None:
                self.enter_error(*end, now)
        elif opcode == opcodes.TRANSPORT_ACK:
            *_, word, last = headers.aeth.unpack_from(frame, flow.start)
            nak = last >> 24 & 0xE0 == headers.SYNDROME_NAK
            drop = requester.acks.on_ack(word & MASK, nak, last & 0xFFFFFF, now)
            if drop is None and nak:
                self.enter_error(*failure(last >> 24), now)
        else:
            return Drop.OPCODE
        if drop is not None:
            return drop
        self.check_broken_head(now)
        requester.release_held(now)
        self.offer_data()
        self._release_window()
        return None

    def _release_window(self) -> None:
        """Let other queue pairs use the part of the shared window that this one does not need."""
        if self.requester is not None:
            self.requester.release_window()

    def answer_due(self, psn: int, flow: Flow, stamp: int) -> None:
        """The datapath in C has placed packet `psn`, and that makes a SACK due."""
        assert self.responder is not None
        self.responder.acks.due(psn, flow, stamp)

    def _repeat_nak(self, opcode: int, frame: memoryview, flow: Flow, now: int) -> Drop | None:
        """In ERROR: repeat the NAK for whatever the peer sends, since it may not have received the first one."""
        if self.responder is not None and self.responder.repeat_nak():
            return None
        if not flow.trimmed:
            self._nack_fatally(*identity(opcode, frame, flow.start), self.connected_peer(), self.remote_qpn, flow, now)
        return Drop.QP_STATE

    def receive_late(self, opcode: int, frame: memoryview, flow: Flow, peer: Peer, now: int) -> None:
        """In RESET or INIT: refuse packets of the previous life; others may belong to the next one, and are ignored."""
        latest = self._psns_received.latest()
        if latest is None or latest.peer != peer.address or flow.trimmed or opcode > opcodes.WRITE_ONLY_IMM:
            return
        psn, stamp = identity(opcode, frame, flow.start)
        if latest.contains(psn):
            self._nack_fatally(psn, stamp, peer, latest.remote_qpn, flow, now)

    def _nack_fatally(self, psn: int, stamp: int, peer: Peer, remote_qpn: int, flow: Flow, now: int) -> None:
        nack = Nack(control.NACK_UNEXP_EVENT, flow.ev, self.qpn & 0xFFFF, remote_qpn & 0xFFFF, psn, stamp)
        peer.refuse(control.pack_nack(remote_qpn, nack), now)

    def remote_gone(self, number: int, stamp: int, now: int) -> None:
        """The peer reports that it does not have the other end."""
        requester = self.requester
        if self.running and requester is not None and requester.acks.is_in_flight(number, stamp):
            self.enter_error(CompletionStatus.REMOTE_OPERATION_ERROR, _GONE, now)

    # ---- sending ------------------------------------------------------------------------------------------------

    def kick(self, now: int) -> None:
        """A request was posted."""
        self.offer_data()
        if not self.timer_at and self.requester is not None:
            self.requester.timeouts.starving(now)

    def offer_data(self) -> None:
        """Queue at every port where data may leave."""
        mask = self.data_ports()
        if mask:
            self.nic.scheduler.activate_data(self, mask)

    def offer_control(self) -> None:
        """Queue at every port where an acknowledgement or a probe may leave."""
        peer = self.life.peer
        if peer is None:
            return
        mask = self.requester.probes.mask if self.requester is not None else 0
        responder = self.responder
        if responder is not None and responder.acks.pending():
            if not self._answer.settled(peer):
                answers, sweeping = self._answers, responder.acks.sweeping()
                self._answer.choose(0 if answers is None else answers.port(sweeping, self.attributes.planes))
            mask |= self._answer.mask
        if mask:
            self.nic.scheduler.activate_control(self, mask)

    def queued_ports(self) -> int:
        """Mask of the ports where this queue pair is queued with data."""
        return self.data_mask

    def data_ports(self) -> int:
        """Ports where data may leave now."""
        if not self.running or self.requester is None:
            return 0
        return self.requester.ports()

    def transmit_data(self, port: int, now: int) -> bytes | None:
        """Next data packet for `port`."""
        if not self.running or self.requester is None:
            return None
        frame = self.requester.transmit(port, now)
        if frame is None:
            self._release_window()
        return frame

    def window_opened(self) -> bool:
        """The shared window has room."""
        mask = self.data_ports()
        if mask:
            self.nic.scheduler.activate_data(self, mask)
        return mask != 0

    def others_timed_out(self, now: int) -> None:
        """The shared window is full, and its bytes may be lost."""
        if self.requester is not None:
            self.arm(now + self.requester.timer.blocked_pto())

    def probe_for_others(self, interval: int, now: int) -> bool:
        """Others wait for the shared window, which this queue pair's bytes fill."""
        requester = self.requester
        return self.running and requester is not None and requester.timeouts.probe_for_others(interval, now)

    def transmit_control(self, port: int, now: int) -> bytes | None:
        """Next acknowledgement or probe for `port`."""
        responder, requester = self.responder, self.requester
        if responder is None:
            return None
        if self._answer.mask >> port & 1:
            acks = responder.acks
            frame = acks.transmit(port, now)
            if frame is not None:
                self._answer.left(port, acks)
                self.offer_control()
                return frame
        if requester is None or not self.running or not requester.probes.mask >> port & 1:
            return None
        return None if self.nic.scheduler.holds(self, port) else requester.timeouts.probe(port, now)

    def on_timer(self, now: int) -> int:
        """Send probes or time out, if due."""
        if not self.running or self.requester is None:
            return 0
        requester = self.requester
        lost = requester.on_window_end(now)
        released = requester.release_held(now)
        again = requester.timeouts.on_timer(now)
        if (lost or released or requester.window.paced) and not requester.window.waiting():
            self.offer_data()
        self._release_window()
        return again if self.running else 0

    # ---- paths --------------------------------------------------------------------------------------------------

    def path_changed(
        self, index: int, old: int, new: int, reason: PathReason, first_loss: int | None, now: int
    ) -> None:
        """Report the change to the application, and have the peer probe a path that went bad."""
        peer = self.peer
        if peer is None:
            return
        evs, plane_of = peer.paths.evs, peer.paths.plane_of
        if new == BAD:
            peer.watch(self, index, now)
        elif old == BAD:
            peer.probes.bad.unwatch(self, index)
        self.nic.emit(
            PathEvent(now, self.qpn, evs[index], plane_of[index], STATES[old], STATES[new], reason, first_loss)
        )

    def path_skip_changed(self, value: int, old: int, new: int, reason: PathReason) -> None:
        """Add it to the trace only: too frequent for an event."""
        trace, peer = self.nic.trace, self.peer
        if trace is not None and peer is not None:
            ev, plane = peer.paths.values[value], peer.paths.plane_of[value % len(peer.paths.plane_of)]
            trace.path(self.qpn, ev, plane, STATES[old], STATES[new], reason, self.nic.now)

    def packet_lost(self, index: int, psn: int, sent: int, why: str) -> None:
        """Add it to the trace."""
        trace, peer = self.nic.trace, self.peer
        if trace is not None and peer is not None:
            trace.lost(self.qpn, psn, peer.paths.evs[index], peer.paths.plane_of[index], sent, why, self.nic.now)

    def path_denied(self, index: int, denied: bool, now: int) -> None:
        """The controller denied a path or allowed it again."""
        if self.requester is not None:
            if self.requester.paths.deny(index, denied, now) and not denied:
                self.requester.timeouts.path_opened(index, now)
            self.requester.timeouts.starving(now)
            self.offer_data()
        self.offer_control()  # a pending acknowledgement may have to use another port, or may at last be able to leave

    def path_probed_good(self, index: int, reason: PathReason, lossy: bool, now: int) -> None:
        """A bad path works again."""
        if self.requester is not None:
            if self.requester.paths.restore(index, reason, now, lossy):
                self.requester.timeouts.path_opened(index, now)
            self.offer_data()

    def peer_reported(self, now: int) -> None:
        """If retrying, probe: the peer may answer now."""
        if self.running and self.requester is not None:
            self.requester.timeouts.peer_reported(now)

    def planes_changed(self, now: int) -> None:
        """Retransmit what is in flight on planes that went down, and use those that came back."""
        requester, peer = self.requester, self.peer
        if peer is None or not self.running:
            return
        if requester is None:
            self.offer_control()
            return
        usable = self._policy.usable_planes(peer)
        for plane in range(len(peer.paths.members)):
            if peer.paths.planes >> plane & 1 and not usable >> plane & 1:
                requester.flush_plane(plane)
        requester.planes_changed(now)
        requester.timeouts.starving(now)
        self.offer_data()
        self.offer_control()
        self._release_window()

    def settle_stats(self, now: int) -> None:
        """Bring the statistics up to `now`."""
        super().settle_stats(now)
        if self.requester is not None and self.running:
            self.requester.stalls.settle(now)

    def inflight(self) -> int:
        """Bytes of data in flight, as the congestion window counts them."""
        return 0 if self.requester is None else self.requester.sent.in_flight

    def gauges(self) -> dict[str, int]:
        """Current state of window and paths."""
        gauges = super().gauges()
        requester = self.requester
        if requester is None:
            return gauges
        cc, limit = requester.window.cc, requester.window.limit.limit
        gauges["inflight_bytes"] = requester.sent.in_flight
        gauges["cwnd_bytes"] = cc.cwnd
        gauges["cwnd_used_bytes"] = cc.inflight
        gauges["receiver_limit_bytes"] = 0 if limit == UNLIMITED else limit
        if isinstance(cc, Nscc):
            gauges["base_rtt_ns"] = cc.base_rtt
            gauges["average_delay_ns"] = int(cc.average_delay)
        for state in STATES:
            gauges[f"paths_{state.value}"] = requester.paths.count(state)
        return gauges

    def paths_info(self) -> tuple[PathInfo, ...]:
        """State and counters of every path."""
        requester, peer = self.requester, self.peer
        if requester is None or peer is None:
            return ()
        known = peer.paths
        planes = [p for p in range(len(known.members)) if peer.planes.usable >> p & 1]
        paths = requester.paths
        active = {index for plane in planes for index in paths.active(plane)}
        return tuple(
            PathInfo(
                ev, known.plane_of[i], paths.state(i), i in active,
                path.sent, path.lost, path.marked, path.trimmed, path.round_trip,
                tuple([known.values[value] for value in paths.values(i)]), paths.skipped(i),
            )
            for i, ev, path in ((i, known.evs[i], paths.each[i]) for i in paths.universe())
        )  # fmt: skip
