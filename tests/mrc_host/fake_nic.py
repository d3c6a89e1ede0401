"""A NIC that copies memory: the commands of `mrc_host.nic.Nic` without frames, for tests of what stands on top of it.

Fakes on one `Wire` reach each other by address. A post is carried out by `Wire.run`, which moves at most `limit`
requests, so that a test decides when things complete; with `Wire(auto=True)` posting runs it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mrc_host.config import NicConfig, TransportSettings
from mrc_host.errors import NotFoundError, ResourceExhaustedError, StateError, UnknownDestinationError
from mrc_host.notify import Notification
from mrc_host.path_probes import ProbePlan, ProbeReport
from mrc_host.transport.algorithms import ALGORITHMS, derived
from mrc_host.transport.profiles import check_profile
from mrc_host.transport.trace import TraceSink
from mrc_host.verbs_types import (
    Access,
    AsyncEvent,
    CcProfile,
    Completion,
    CompletionOpcode,
    CompletionStatus,
    DeniedPath,
    DestinationInfo,
    DeviceLimits,
    EvProfile,
    MemoryRegionInfo,
    PathInfo,
    PathState,
    PortEvent,
    PortState,
    ProbeEvent,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpEvent,
    QpInfo,
    QpState,
    QpType,
    WorkRequest,
    WrOpcode,
)

PAGE = 4096


@dataclass
class _Pair:
    qpn: int
    pd: int
    send_cq: int
    recv_cq: int
    state: QpState = QpState.RESET
    remote: QpAddress | None = None
    sent: int = 0
    queue: deque[WorkRequest] = field(default_factory=deque)
    receives: deque[int] = field(default_factory=deque)


class Wire:
    """What joins fakes."""

    def __init__(self, *, auto: bool = True) -> None:
        self.nics: dict[bytes, FakeNic] = {}
        self.auto = auto

    def run(self, limit: int = 1 << 30) -> int:
        """Carry out up to `limit` posted requests; returns how many."""
        done = 0
        progress = True
        while progress and done < limit:
            progress = False
            for nic in self.nics.values():
                for pair in tuple(nic.pairs.values()):
                    if pair.queue and done < limit and nic.carry_out(pair):
                        done += 1
                        progress = True
        return done


class FakeControl:
    """The controller's side: records its calls; every probe is answered at once, in 1000 ns.

    `rtts` says otherwise: by entropy value, what comes of the next probes (ns, None: no answer); the last holds on.
    """

    def __init__(self, nic: FakeNic) -> None:
        self.nic = nic
        self.profiles: dict[int, EvProfile] = {}
        self.windows: dict[str, CcProfile] = {}
        self.probes = 0
        self.silent = False
        self.plan: ProbePlan | None = None
        self.rtts: dict[int, list[int | None]] = {}

    def create_ev_profile(self, profile: EvProfile) -> int:
        check_profile(profile)
        self.profiles[len(self.profiles) + 1] = profile
        return len(self.profiles)

    def destroy_ev_profile(self, number: int) -> None:
        if self.profiles.pop(number, None) is None:
            raise NotFoundError(f"No EV profile {number}.")

    def ev_profiles(self) -> dict[int, EvProfile]:
        return dict(self.profiles)

    def create_cc_profile(self, name: str, profile: CcProfile) -> None:
        derived(ALGORITHMS, profile, TransportSettings(base_rtt=1_000))
        self.windows[name] = profile

    def destroy_cc_profile(self, name: str) -> None:
        if self.windows.pop(name, None) is None:
            raise NotFoundError(f"No CC profile {name!r}.")

    def cc_profiles(self) -> dict[str, CcProfile]:
        return dict(self.windows)

    def set_path_denied(self, peer: bytes, ev: int, denied: bool, now: int) -> None:
        self.nic.denied.append((peer, ev, denied))

    def first_ev(self, peer: bytes, ev: int) -> int:
        return ev

    def denied_paths(self) -> tuple[DeniedPath, ...]:
        last = {(peer, ev): denied for peer, ev, denied in self.nic.denied}
        return tuple(DeniedPath(peer, ev) for (peer, ev), denied in last.items() if denied)

    def probe(self, peer: bytes, ev: int, now: int, timeout: int) -> int:
        self.probes += 1
        if ev > 0xFFFF:
            raise NotFoundError("No such path.")
        planned = self.rtts.get(ev, [None if self.silent else 1000])
        rtt = planned[0] if len(planned) == 1 else planned.pop(0)
        port = None if rtt is None else ev >> 10
        self.nic.events.append(ProbeEvent(now, self.probes, peer, ev, ev >> 10, port, rtt, rtt is not None))
        return self.probes

    def start_probing(self, plan: ProbePlan, now: int) -> None:
        self.plan = plan

    def stop_probing(self) -> None:
        self.plan = None

    def probe_report(self) -> ProbeReport:
        return ProbeReport(self.plan is not None)

    def port_states(self, peer: bytes | None = None) -> tuple[PortState, ...]:
        return (PortState(0, True, peer is None, 7), PortState(1, False, peer is None))

    def destinations(self) -> tuple[DestinationInfo, ...]:
        return tuple(
            DestinationInfo(d.name, d.address, d.evs, tuple(ev >> 10 for ev in d.evs))
            for d in self.nic.config.destinations
        )


class FakeNic:
    """See the module."""

    def __init__(self, config: NicConfig, wire: Wire, *, send_depth: int = 1 << 20) -> None:
        self.config = config
        self.wire = wire
        self.send_depth = send_depth
        self.pairs: dict[int, _Pair] = {}
        self.regions: dict[int, tuple[MemoryRegionInfo, int, memoryview, Access]] = {}
        self.queues: dict[int, tuple[int, deque[Completion]]] = {}
        self.ready: set[int] = set()
        self.notifications: dict[int, Notification] = {}
        self.notified: set[int] = set()
        self.events: list[AsyncEvent] = []
        self.slow_ports: set[int] = set()
        self.denied: list[tuple[bytes, int, bool]] = []
        self.modified: list[tuple[int, QpState, dict[str, Any], QpAddress | None]] = []
        self.control = FakeControl(self)
        self.trace: TraceSink | None = None
        self._next = 100 + 1000 * len(wire.nics)
        self._next_address = PAGE
        wire.nics[config.address] = self

    def _number(self) -> int:
        self._next += 1
        return self._next

    # memory and queues

    def register_memory(
        self, pd: int, buffer: memoryview, access: Access, address: int | None = None
    ) -> MemoryRegionInfo:
        key = self._number()
        info = MemoryRegionInfo(self._next_address if address is None else address, len(buffer), key, key)
        self._next_address += (len(buffer) // PAGE + 2) * PAGE
        self.regions[key] = (info, pd, buffer, access)
        return info

    def deregister_memory(self, lkey: int) -> None:
        if self.regions.pop(lkey, None) is None:
            raise NotFoundError(f"No memory region {lkey}.")

    def create_cq(self, capacity: int) -> int:
        cq = self._number()
        self.queues[cq] = (capacity, deque())
        return cq

    def destroy_cq(self, cq: int) -> None:
        if any(cq in (pair.send_cq, pair.recv_cq) for pair in self.pairs.values()):
            raise StateError(f"Completion queue {cq} is in use.")
        if self.queues.pop(cq, None) is None:
            raise NotFoundError(f"No completion queue {cq}.")

    def cq_blocks(self, cq: int) -> bool:
        return False

    def poll_cq(self, cq: int, max_entries: int, now: int) -> list[Completion]:
        entries = self.queues[cq][1]
        return [entries.popleft() for _ in range(min(max_entries, len(entries)))]

    def peek_cq(self, cq: int, first: int) -> list[Completion]:
        return list(self.queues[cq][1])[first:]

    def has_news(self) -> bool:
        return True

    def cq_ready(self) -> set[int]:
        ready, self.ready = self.ready, set()
        return ready

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        self.notifications.setdefault(cq, Notification()).arm(solicited_only)

    def cq_notified(self) -> set[int]:
        notified, self.notified = self.notified, set()
        return notified

    def push(self, cq: int, entry: Completion) -> None:
        self.queues[cq][1].append(entry)
        self.ready.add(cq)
        if cq in self.notifications and self.notifications[cq].due(entry):
            self.notified.add(cq)

    # queue pairs

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        qpn = self._number()
        self.pairs[qpn] = _Pair(qpn, pd, send_cq, recv_cq)
        return qpn

    def connect_qp(self, qpn: int, remote: QpAddress, now: int) -> None:
        pair = self._pair(qpn)
        if pair.state is not QpState.RESET:
            raise StateError(f"QP {qpn} is connected already.")
        if remote.address not in self.wire.nics:
            raise UnknownDestinationError("No path to that NIC.")
        pair.remote, pair.state = remote, QpState.RTS

    def destroy_qp(self, qpn: int, now: int) -> None:
        pair = self._pair(qpn)
        while pair.queue:
            request = pair.queue.popleft()
            self._complete(pair.send_cq, pair, request, CompletionStatus.FLUSHED)
        del self.pairs[qpn]

    def qp_address(self, qpn: int) -> QpAddress:
        return QpAddress(self.config.address, qpn, 0)

    def qp_state(self, qpn: int) -> QpState:
        return self._pair(qpn).state

    def query_device(self) -> DeviceLimits:
        return DeviceLimits(len(self.config.ports), 4096, (1 << 32) - 1, self.send_depth, 16, 16, 512, 64, 9, 8, 128)

    def query_qp(self, qpn: int) -> QpInfo:
        pair = self._pair(qpn)
        queues = pair.send_cq, pair.recv_cq
        return QpInfo(QpType.MRC, pair.state, QpAttributes(), pair.remote, pair.pd, *queues, len(pair.receives))

    def qp_counters(self, qpn: int) -> QpCounters:
        return QpCounters(data_sent=self._pair(qpn).sent)

    def qp_paths(self, qpn: int) -> tuple[PathInfo, ...]:
        self._pair(qpn)
        evs = self.config.destinations[0].evs
        return tuple(PathInfo(ev, ev >> 10, PathState.GOOD, True) for ev in evs)

    def post_recv(self, qpn: int, wr_ids: tuple[int, ...], now: int) -> None:
        self._pair(qpn).receives.extend(wr_ids)

    def post_send(self, qpn: int, request: WorkRequest, now: int) -> None:
        pair = self._pair(qpn)
        if pair.state is QpState.RESET:
            raise StateError(f"QP {qpn} is not connected.")
        if pair.state is QpState.ERROR:
            self._complete(pair.send_cq, pair, request, CompletionStatus.FLUSHED)
            return
        if len(pair.queue) >= self.send_depth:
            raise ResourceExhaustedError("The send queue is full.")
        pair.queue.append(request)
        if self.wire.auto:
            self.wire.run()

    def carry_out(self, pair: _Pair) -> bool:
        """Copy the oldest request's bytes and complete it; False if the peer has no room for its completion."""
        request = pair.queue[0]
        assert pair.remote is not None
        peer = self.wire.nics[pair.remote.address]
        other = peer.pairs.get(pair.remote.qpn)
        source = self.source(pair, request)
        if source is None:
            self._fail(pair, CompletionStatus.LOCAL_PROTECTION_ERROR)
            return True
        target = None
        if other is not None:
            target = peer.find(request.rkey, other.pd, request.remote_address, request.length, Access.REMOTE_WRITE)
        if target is None:
            self._fail(pair, CompletionStatus.REMOTE_ACCESS_ERROR)
            return True
        assert other is not None
        capacity, entries = peer.queues[other.recv_cq]
        if request.opcode is WrOpcode.WRITE_WITH_IMM and len(entries) >= capacity:
            return False
        pair.queue.popleft()
        target[:] = source
        pair.sent += 1
        if request.opcode is WrOpcode.WRITE_WITH_IMM:
            entry = Completion(
                other.receives.popleft() if other.receives else 0,
                other.qpn,
                CompletionOpcode.RECV_WRITE_WITH_IMM,
                CompletionStatus.SUCCESS,
                request.length,
                request.imm,
                solicited=request.solicited,
            )
            peer.push(other.recv_cq, entry)
        if request.signaled:
            self._complete(pair.send_cq, pair, request, CompletionStatus.SUCCESS)
        return True

    def source(self, pair: _Pair, request: WorkRequest) -> bytes | memoryview | None:
        """The bytes of a request, wherever they are; None if that is not the client's."""
        if request.inline is not None:
            return request.inline
        if not request.sges:
            return self.find(request.lkey, pair.pd, request.local_address, request.length, Access(0))
        pieces = [self.find(one.lkey, pair.pd, one.address, one.length, Access(0)) for one in request.sges]
        return None if None in pieces else b"".join(piece for piece in pieces if piece is not None)

    def find(self, key: int, pd: int, address: int, length: int, access: Access) -> memoryview | None:
        info, owner, buffer, rights = self.regions.get(key, (None, 0, memoryview(b""), Access(0)))
        if info is None or owner != pd or access & ~rights:
            return None
        offset = address - info.address
        return buffer[offset : offset + length] if 0 <= offset <= info.length - length else None

    def _fail(self, pair: _Pair, status: CompletionStatus) -> None:
        pair.state = QpState.ERROR
        self._complete(pair.send_cq, pair, pair.queue.popleft(), status, "it was wrong")
        while pair.queue:
            self._complete(pair.send_cq, pair, pair.queue.popleft(), CompletionStatus.FLUSHED)
        self.events.append(QpEvent(7, pair.qpn, status.value))

    def _complete(self, cq: int, pair: _Pair, request: WorkRequest, status: CompletionStatus, reason: str = "") -> None:
        self.push(
            cq,
            Completion(
                request.wr_id,
                pair.qpn,
                CompletionOpcode.WRITE,
                status,
                request.length,
                None,
                reason,
                signaled=request.signaled,
            ),
        )

    def _pair(self, qpn: int) -> _Pair:
        if qpn not in self.pairs:
            raise NotFoundError(f"No queue pair {qpn}.")
        return self.pairs[qpn]

    # the rest

    def async_events(self) -> list[AsyncEvent]:
        events, self.events = self.events, []
        return events

    def hw_counters(self, qpn: int | None, now: int) -> dict[str, int]:
        if qpn is not None:
            self.qp_counters(qpn)
        return {"tx_data_packets": 0}

    def sum_counters(self, now: int) -> Iterator[dict[str, int] | None]:
        yield from [None] * len(self.pairs)
        yield self.hw_counters(None, now)

    def port_counters(self) -> tuple[dict[str, int], ...]:
        slow = self.slow_ports
        return tuple({"link_up": 1, **({"slow": 1} if p in slow else {})} for p in range(len(self.config.ports)))

    def nic_counters(self) -> dict[str, int]:
        return {"rx_frames": 1, "tx_frames": 2}

    def modify_qp(
        self,
        qpn: int,
        state: QpState,
        now: int,
        changes: Mapping[str, Any] | None = None,
        *,
        remote: QpAddress | None = None,
    ) -> None:
        pair = self._pair(qpn)
        self.modified.append((qpn, state, dict(changes or {}), remote))
        if state in (QpState.RESET, QpState.ERROR):
            self.flush_qp(qpn, now)
        if state is QpState.ERROR:
            self.events.append(QpEvent(now, qpn, "The application put the queue pair into ERROR."))
        if state is QpState.RESET:
            pair.remote = None
        if remote is not None:
            pair.remote = remote
        pair.state = state

    def flush_qp(self, qpn: int, now: int) -> None:
        pair = self._pair(qpn)
        while pair.queue:
            self._complete(pair.send_cq, pair, pair.queue.popleft(), CompletionStatus.FLUSHED)
        pair.state = QpState.ERROR

    def set_trace(self, sink: TraceSink | None) -> None:
        self.trace = sink

    def port_changed(self, port: int, up: bool, now: int) -> None:
        self.events.append(PortEvent(now, port, up, True))

    def receive(self, port: int, frame: memoryview, now: int) -> None:
        pass

    def transmit(self, port: int, now: int) -> bytes | None:
        return None

    def waiting(self, ports: int) -> int:
        return 0

    def wakeup(self) -> int | None:
        return None

    def tick(self, now: int) -> None:
        pass
