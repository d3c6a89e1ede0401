"""Base of the queue pairs of both transports: identity, state, queues, counters and the step to ERROR."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mrc_host.counters import Level, at_level
from mrc_host.errors import InvalidArgumentError, ResourceExhaustedError
from mrc_host.transport.completion import NicCompletionQueue, WaitingReceiver
from mrc_host.transport.incarnation import Incarnation
from mrc_host.transport.lives import UsedPsns
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer import Peer, PlaneUser
from mrc_host.transport.queue_pair_interfaces import Connection, ReceivingHalf, RequesterOwner, ResponderOwner
from mrc_host.transport.scheduler import PacketSource
from mrc_host.transport.stats import QpStats
from mrc_host.transport.work import SendQueue
from mrc_host.verbs_types import (
    ALL_PLANES,
    MAX_RECEIVES,
    Completion,
    CompletionOpcode,
    CompletionStatus,
    PathInfo,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpEvent,
    QpInfo,
    QpState,
    QpType,
    WorkRequest,
)
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import Drop, Flow

_OPCODES = {
    QpType.MRC: opcodes.OF_MRC,
    QpType.UET: opcodes.OF_MRC,
    QpType.RC: opcodes.OF_RC,
    QpType.RC_SR: opcodes.OF_SELECTIVE_REPEAT,
    QpType.RC_AR: opcodes.OF_SELECTIVE_REPEAT,
}
_NOTHING_COUNTED = QpCounters()
_GAUGES = tuple(info.name for info in at_level(Level.QP) if info.gauge)
MAX_MPR = 255
MAX_WIMM = 32767
_HEADERS = 40 + 40 + 8 + 12 + 4 + 4 + 16 + 4 + 4  # from the outer IPv6 header to the ICRC, without payload


def largest_path_mtu(mtu: int) -> int:
    """The largest path MTU whose packets fit the NIC's `mtu`."""
    return (mtu - _HEADERS) // 4 * 4


def check_attributes(attributes: QpAttributes, mtu: int) -> None:
    """Check attributes against their ranges and the NIC's `mtu`; InvalidArgumentError names the one out of range."""
    largest = largest_path_mtu(mtu)
    ranges = (
        ("path_mtu", attributes.path_mtu, 256, largest),
        ("mpr", attributes.mpr, 1, MAX_MPR),
        ("mpr_dest", attributes.mpr_dest, 1, MAX_MPR),
        ("max_wimm", attributes.max_wimm, 1, MAX_WIMM),
        ("max_wimm_dest", attributes.max_wimm_dest, 1, MAX_WIMM),
        ("timeout", attributes.timeout, 1, 24),
        ("retry_count", attributes.retry_count, 0, 255),
        ("linear_retries", attributes.linear_retries, 0, 255),
        ("congestion_window", attributes.congestion_window, 1, 1 << 40),
        ("active_paths", attributes.active_paths, 1, 1 << 20),
        ("send_psn", attributes.send_psn, 0, 0xFFFFFF),
        ("receive_psn", attributes.receive_psn, 0, 0xFFFFFF),
        ("ev_profile", attributes.ev_profile, 0, 1 << 31),
        ("dynamic_mpr", attributes.dynamic_mpr, 0, 255),
        ("num_qps_per_peer", attributes.num_qps_per_peer, 0, 65535),
        ("num_send_peers", attributes.num_send_peers, 0, 65535),
        ("num_remote_recv_peers", attributes.num_remote_recv_peers, 0, 65535),
        ("udp_sport", attributes.udp_sport, 0, 65535),
        ("planes", attributes.planes, 1, ALL_PLANES),
    )
    for name, value, least, most in ranges:
        if value is not None and not least <= value <= most:
            raise InvalidArgumentError(f"{name} must be between {least} and {most}, not {value}.")
    if attributes.path_mtu % 4:
        raise InvalidArgumentError(f"path_mtu must be a multiple of 4, not {attributes.path_mtu}.")


@dataclass(frozen=True, slots=True)
class QueuePairCreation:
    """What a queue pair is created with: its NIC, type and number, protection domain, completion queues, attributes."""

    nic: NicContext
    kind: QpType
    qpn: int
    pd: int
    send_cq: NicCompletionQueue
    recv_cq: NicCompletionQueue
    attributes: QpAttributes


class NicQueuePair(PacketSource, PlaneUser, WaitingReceiver, RequesterOwner, ResponderOwner):
    """Base class of the transports' queue pairs."""

    __slots__ = (
        "_counted",
        "_psns_received",
        "_psns_sent",
        "_receives",
        "_snapshot",
        "initial",
        "kind",
        "life",
        "nic",
        "opcodes",
        "pd",
        "qpn",
        "recv_cq",
        "running",
        "send_cq",
        "sends",
        "source_routed",
        "state",
        "stats",
    )

    def __init__(self, creation: QueuePairCreation) -> None:
        super().__init__()
        nic, kind, attributes = creation.nic, creation.kind, creation.attributes
        qpn, pd, send_cq = creation.qpn, creation.pd, creation.send_cq
        self.nic = nic
        self.kind = kind
        self.qpn = qpn
        self.pd = pd
        self.send_cq = send_cq
        self.recv_cq = creation.recv_cq
        self.initial = attributes  # what the next life starts from
        self.life = Incarnation(qpn, attributes, nic.psn_rng.getrandbits(24))
        self.opcodes = _OPCODES[kind]  # of the packets it may receive
        self.source_routed = kind.source_routed  # they have an outer header, if the NIC's entropy format has one
        self.state = QpState.RESET
        self.running = False  # state is RTR or RTS
        self.stats = QpStats()
        self._counted = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)  # what `_snapshot` shows
        self._snapshot = _NOTHING_COUNTED
        self.sends = SendQueue(qpn, pd, send_cq, nic.memory, nic.transport.send_queue_depth)
        self._receives: deque[int] = deque()  # wr_ids
        self._psns_sent = UsedPsns(nic.transport.packet_lifetime)
        self._psns_received = UsedPsns(nic.transport.packet_lifetime)

    @property
    def attributes(self) -> QpAttributes:
        """The attributes of the present life, which begins with the RESET before it."""
        return self.life.attributes

    @property
    def peer(self) -> Peer | None:
        """The other end's NIC, from RTR on."""
        return self.life.peer

    @property
    def remote_qpn(self) -> int:
        """The other end's queue pair, from RTR on."""
        return self.life.remote_qpn

    # ---- states ----

    def to_rtr(self, peer: Peer, remote: QpAddress, now: int) -> None:
        """INIT to RTR: connect to `remote`, a queue pair of `peer`, and start receiving.

        InvalidArgumentError without a first PSN, or with two that differ; StateError for one too close to those of an
        earlier life. After an error the queue pair is still in INIT.
        """
        life = self.life.connected(peer, remote)
        self._psns_received.check(
            "receive_psn", self.qpn, life.first_received, peer.address, remote.qpn, now, told=remote.psn is not None
        )
        self.life = life
        self.state = QpState.RTR
        self.running = True
        self.start_receiving(life.first_received, now)

    def to_rts(self, now: int) -> None:
        """RTR to RTS; after an error still in RTR.

        InvalidArgumentError when the EV profile has no path to the peer, StateError for a first PSN too close to those
        of an earlier life.
        """
        first = self.life.first_sent
        self._psns_sent.check("send_psn", self.qpn, first, self.connected_peer().address, self.remote_qpn, now)
        self.start_sending(first, now)
        self.state = QpState.RTS

    def reset(self, now: int) -> None:
        """Back to RESET: flush unfinished requests, and begin a new life, which knows nothing of the present one.

        The PSNs used so far are remembered, and PSNs given at creation are not given again once they were used.
        """
        self.settle_stats(now)
        own_psn = self._end("The queue pair was reset.", now)
        if self.peer is not None:
            self.initial = dataclasses.replace(self.initial, send_psn=None, receive_psn=None)
        self.life = Incarnation(self.qpn, self.initial, own_psn)
        self.state = QpState.RESET

    def step_back(self, state: QpState, life: Incarnation) -> None:
        """Undo the steps since it was in `state` in its `life`, at the same moment: nothing was sent or received."""
        self._disconnect()
        self.life = life
        self.state = state

    def _remember_psns(self, now: int) -> int:
        """Record the PSNs that this life used, given ones too; returns what the NIC chooses as first for the next.

        If nothing was sent that is the same one: the peer, which expected it, refuses others close to it for a while.
        """
        life = self.life
        if life.peer is None:
            return life.own_psn
        peer, sent, received = life.peer.address, self.psns_sent(), self.psns_received()
        self._psns_sent.add(peer, life.remote_qpn, life.first_sent, sent, now)
        if received:
            self._psns_received.add(peer, life.remote_qpn, life.first_received, received, now)
        else:
            self._psns_received.add_unseen(peer, life.remote_qpn, life.first_received, now)
        return self._psns_sent.next_first(self.nic.psn_rng) if sent else life.first_sent

    def info(self) -> QpInfo:
        """The queue pair as it is now."""
        life = self.life
        peer, attributes = life.peer, life.attributes
        received = attributes.receive_psn if peer is None else life.first_received
        return QpInfo(
            self.kind,
            self.state,
            dataclasses.replace(attributes, send_psn=life.first_sent, receive_psn=received),
            None if peer is None else QpAddress(peer.address, life.remote_qpn, life.first_received),
            self.pd,
            self.send_cq.number,
            self.recv_cq.number,
            len(self._receives),
        )

    def connected_peer(self) -> Peer:
        """The peer; known from RTR on."""
        peer = self.life.peer
        assert peer is not None
        return peer

    def connection(self) -> Connection:
        """What requester and responder know of this queue pair; from RTR on."""
        return Connection(self.nic, self.qpn, self.remote_qpn, self.pd, self.attributes, self.stats)

    def arm(self, when: int) -> None:
        """Call ``on_timer`` at `when`, or earlier if it is already armed for an earlier time."""
        self.nic.scheduler.arm(self, when)

    def armed(self) -> bool:
        """Whether the timer runs."""
        return self.timer_at != 0

    def accepts_writes(self) -> bool:
        """Whether the peer may write through this queue pair, as its attributes say at present."""
        return self.life.attributes.remote_write

    def has_cq_room(self) -> bool:
        """Whether the receive CQ has room for one more; if not, ``on_cq_room`` is called once it has."""
        return self.recv_cq.room(self)

    def complete_receive(self, length: int, imm: int, solicited: bool) -> None:
        """Complete a WRITE_WITH_IMM of `length` bytes, for which the receive CQ has room."""
        opcode, status = CompletionOpcode.RECV_WRITE_WITH_IMM, CompletionStatus.SUCCESS
        wr_id = self._receives.popleft() if self._receives else 0
        self.recv_cq.push(Completion(wr_id, self.qpn, opcode, status, length, imm, solicited=solicited))

    def post_receives(self, wr_ids: Sequence[int]) -> None:
        """Queue receives, all or none; in ERROR they are flushed. ResourceExhaustedError when they are too many."""
        taken = len(self._receives) + self.recv_cq.flushed_receives.get(self.qpn, 0) + len(wr_ids)
        if taken > MAX_RECEIVES:
            raise ResourceExhaustedError(
                f"The receive queue holds {MAX_RECEIVES} receives (flushed ones until they are polled); poll first."
            )
        self._receives.extend(wr_ids)
        if self.state is QpState.ERROR:
            self._flush_receives("The queue pair is in ERROR.")

    def _flush_receives(self, reason: str) -> None:
        """The posted receives will never be used."""
        opcode, status = CompletionOpcode.RECV_WRITE_WITH_IMM, CompletionStatus.FLUSHED
        while self._receives:
            wr_id = self._receives.popleft()
            self.recv_cq.push_flushed_receive(Completion(wr_id, self.qpn, opcode, status, 0, None, reason))

    @abstractmethod
    def start_receiving(self, first_psn: int, now: int) -> None:
        """Create the receiving half, which expects `first_psn`."""

    @abstractmethod
    def start_sending(self, first_psn: int, now: int) -> None:
        """Create the sending half, which starts at `first_psn`."""

    @abstractmethod
    def psns_sent(self) -> int:
        """How many PSNs were sent in this life."""

    @abstractmethod
    def receiving_half(self) -> ReceivingHalf | None:
        """What ``start_receiving`` created."""

    def psns_received(self) -> int:
        """How many PSNs there are up to the highest one accepted in this life."""
        half = self.receiving_half()
        return 0 if half is None else half.psns_used()

    @abstractmethod
    def stop(self) -> None:
        """Drop both halves; queue entries and timers that still refer to this queue pair find nothing to do."""

    @abstractmethod
    def receive(self, opcode: int, frame: memoryview, flow: Flow, port: int, now: int) -> Drop | None:
        """Handle a packet whose ICRC, source and transport are right; struct.error when it is too short."""

    @abstractmethod
    def answer_due(self, psn: int, flow: Flow, stamp: int) -> None:
        """The datapath in C has carried packet `psn`, sent at `stamp`, and an answer may be due; of RC see there."""

    @abstractmethod
    def receive_late(self, opcode: int, frame: memoryview, flow: Flow, peer: Peer, now: int) -> None:
        """A packet of `peer` arrived in RESET or INIT."""

    @abstractmethod
    def paths_info(self) -> tuple[PathInfo, ...]:
        """State of every path."""

    @abstractmethod
    def kick(self, now: int) -> None:
        """The send queue has a new request."""

    def post(self, request: WorkRequest, now: int) -> None:
        """Queue a request; in ERROR it is flushed."""
        self.sends.post(request)
        if self.state is QpState.ERROR:
            self.sends.fail(CompletionStatus.FLUSHED, "The queue pair is in ERROR.")
            return
        self.kick(now)
        self.check_broken_head(now)

    def check_broken_head(self, now: int) -> None:
        """If the oldest request has an invalid local range, fail it."""
        if self.sends.broken_head():
            self.enter_error(
                CompletionStatus.LOCAL_PROTECTION_ERROR,
                "The local range is not inside a memory region of this protection domain.",
                now,
            )

    def enter_error(self, status: CompletionStatus, reason: str, now: int) -> None:
        """Go to ERROR, once, with an event: the oldest request fails with `status`, the rest are flushed."""
        if self.state is not QpState.ERROR:
            self.end_requests(status, reason, now)
            self.nic.emit(QpEvent(now, self.qpn, reason))

    def end_requests(self, status: CompletionStatus, reason: str, now: int) -> None:
        """The same without an event, from another state than ERROR."""
        self.state = QpState.ERROR
        self.settle_stats(now)
        self._count_error(status)
        self.running = False
        self.sends.fail(status, reason)
        self._flush_receives("The queue pair went to ERROR.")
        half = self.receiving_half()
        if half is not None:
            half.stop_placing()

    def refuse(self, syndrome: int, reason: str) -> None:
        """The responder received a message that is not allowed, and its NAK is due: enter ERROR."""
        if syndrome == headers.NAK_REMOTE_ACCESS:
            self.stats.access_refused += 1
        else:
            self.stats.operation_refused += 1
        self.enter_error(CompletionStatus.FLUSHED, reason, self.nic.now)
        self.offer_control()

    def fail_responder(self, reason: str) -> None:
        """The peer violated the protocol: enter ERROR."""
        self.stats.operation_refused += self.state is not QpState.ERROR
        self.enter_error(CompletionStatus.FLUSHED, reason, self.nic.now)

    def on_cq_room(self) -> None:
        """The receive CQ was polled, so completions may fit again."""
        half = self.receiving_half()
        if half is not None and self.running:
            half.on_cq_room()

    def _count_error(self, status: CompletionStatus) -> None:
        stats = self.stats
        if status is CompletionStatus.RETRY_EXCEEDED:
            stats.retry_exceeded += 1
        elif status is CompletionStatus.REMOTE_ACCESS_ERROR:
            stats.remote_access_errors += 1
        elif status in (CompletionStatus.REMOTE_OPERATION_ERROR, CompletionStatus.REMOTE_INVALID_REQUEST_ERROR):
            stats.remote_operation_errors += 1
        elif status is CompletionStatus.LOCAL_PROTECTION_ERROR:
            stats.local_protection_errors += 1

    def destroy(self, now: int) -> None:
        """Shut down before removal from the NIC."""
        self.settle_stats(now)
        self.state = QpState.ERROR
        self._end("The queue pair was destroyed.", now)

    def _end(self, reason: str, now: int) -> int:
        """End this life; returns the first PSN that the NIC chooses for the next one."""
        own_psn = self._remember_psns(now)
        self.sends.fail(CompletionStatus.FLUSHED, reason)
        self._flush_receives(reason)
        self.send_cq.forget(self)
        self.recv_cq.forget(self)
        self._disconnect()
        return own_psn

    def _disconnect(self) -> None:
        self.running = False
        self.nic.scheduler.disarm(self)
        half = self.receiving_half()
        if half is not None:
            half.close()
        self.stop()
        if self.peer is not None:
            self.peer.leave(self, self.remote_qpn)

    def settle_stats(self, now: int) -> None:
        """Bring the statistics up to `now`: counts kept elsewhere, and durations still running."""
        self.collect_counts()
        half = self.receiving_half()
        if half is not None and self.running:
            half.settle_stats(now)

    def collect_counts(self) -> None:
        """Have the statistics show what is counted elsewhere."""
        self.stats.bytes_completed = self.sends.bytes_completed
        half = self.receiving_half()
        if half is not None:
            half.counts.collect()

    def hw_counters(self, now: int) -> dict[str, int]:
        """Every counter and gauge of a queue pair by name (``mrc_host.counters``)."""
        self.settle_stats(now)
        return {**self.stats.read(), **self.gauges()}

    def inflight(self) -> int:
        """Bytes of data in flight."""
        return self.gauges()["inflight_bytes"]

    def gauges(self) -> dict[str, int]:
        """Gauges by name; all 0 unless connected."""
        return dict.fromkeys(_GAUGES, 0)

    def counters(self) -> QpCounters:
        """Snapshot of the counters; the one taken last, if nothing has been counted since."""
        self.collect_counts()
        s = self.stats
        counted = (
            s.data_sent,
            s.retransmitted,
            s.spurious_retransmitted,
            s.lost,
            s.late,
            s.timeouts,
            s.data_received,
            s.duplicates_received,
            s.out_of_order_received,
            s.acks_sent,
            s.acks_received,
            s.probes_sent,
            s.bytes_completed,
        )
        if counted != self._counted:
            self._counted = counted
            self._snapshot = QpCounters(*counted)
        return self._snapshot
