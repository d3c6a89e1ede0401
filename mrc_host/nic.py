"""The MRC NIC as a device: frames on one side, queue pairs on the other, time as an input.

A driver (AF_PACKET sockets), a simulated world or a test drives a ``Nic``. It reads no clock, opens no socket and
starts no thread. Its lower edge has the five methods of every device here: ``receive``, ``transmit``, ``wakeup``,
``tick`` and ``port_changed``; its upper edge has the commands of a real NIC's command queue and doorbells, with plain
frozen values as arguments and results, so that an agent can pass them to another process.

Ports are pulled: a driver calls ``transmit(port, now)`` when that port is free, and only then is it decided which
packet leaves and on which path. After every ``receive``, ``tick``, ``port_changed`` and ``post_send`` the driver should
try idle ports again, and before it sleeps it reads ``wakeup()``.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from typing import Any, Final

from mrc_host import plugins
from mrc_host.config import EvFormat, NicConfig
from mrc_host.errors import (
    InvalidArgumentError,
    MrcError,
    NotFoundError,
    ResourceExhaustedError,
    StateError,
    UnknownDestinationError,
)
from mrc_host.transport import algorithms, states
from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.transport.control_plane import NicControlPlane
from mrc_host.transport.demux import Demultiplexer
from mrc_host.transport.mrc import MrcQueuePair
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.nic_stats import NicStats
from mrc_host.transport.pause import Pauses
from mrc_host.transport.peer import Peer
from mrc_host.transport.peer_table import PeerTable
from mrc_host.transport.qp import MAX_MPR, MAX_WIMM, NicQueuePair, check_attributes, largest_path_mtu
from mrc_host.transport.roce.qp import RcQueuePair
from mrc_host.transport.trace import Tracer, TraceSink
from mrc_host.transport.work import MAX_LENGTH
from mrc_host.values import (
    MAX_INLINE,
    MAX_RECEIVES,
    MAX_SGE,
    MPR_UNIT,
    Access,
    AsyncEvent,
    Completion,
    CompletionStatus,
    DeviceLimits,
    MemoryRegionInfo,
    PathInfo,
    PortEvent,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpInfo,
    QpState,
    QpType,
    WorkRequest,
)
from mrc_host.wire.encap import Drop, Flow, check_format
from mrc_host.wire.ip import SRH_LENGTH

_MAX_CQ: Final = 65536
_FIRST_QPN: Final = 16  # lower numbers are reserved


class Nic:
    """One NIC: ports, memory, completion queues and queue pairs. All times are integer nanoseconds of one clock."""

    def __init__(
        self,
        config: NicConfig,
        *,
        seed: int,
        incarnation: int = 0,
        congestion: Mapping[str, Algorithm] | None = None,
    ) -> None:
        """All ports start up. `seed` determines QPNs, PSNs, keys, EV order and probe choices; nothing else is random.

        `incarnation` differs each time a NIC with this address is restarted: it moves QPNs and PSNs, so that packets
        for the previous incarnation reach no queue pair. `congestion` adds congestion controls, under names for
        `cc_profile` and the settings. InvalidArgumentError for a configuration that cannot work.
        """
        ports = [p.plane for p in config.ports]
        if not ports or ports != list(range(len(ports))):
            raise InvalidArgumentError("The ports of a NIC must be those of planes 0, 1, 2 ... in this order.")
        check_format(config)
        known = {**algorithms.ALGORITHMS, **plugins.CONGESTION_CONTROLS, **(congestion or {})}
        for mrc in (True, False):
            algorithms.check(known, QpAttributes(), config.settings.transport, mrc)
        if config.settings.transport.path_selection:
            plugins.make_path_selection(config.settings.transport.path_selection)  # or refuse it now
        self._config = config
        self._rng = random.Random(seed)
        self._context = NicContext(
            config, self._rng, random.Random(f"first PSNs {seed} {incarnation}"), known, plugins.make_path_selection
        )
        self._scheduler = self._context.scheduler
        self._pauses = None if config.pause is None else Pauses(config, config.pause, self._scheduler)
        self._peers = PeerTable(self._context, config.destinations)
        self._qps: dict[int, NicQueuePair] = {}
        self._qpn_shift = random.Random(incarnation).getrandbits(24) if incarnation else 0
        self._retired: dict[int, int] = {}  # QPNs of destroyed queue pairs -> until when they are not reused
        self._cqs: dict[int, NicCompletionQueue] = {}
        self._next_cq = 1
        self._ready: set[int] = set()
        self._notified: set[int] = set()
        self._trace: Tracer | None = None
        self.control = NicControlPlane(self._context, self._peers, self._profile_used)
        self._demux = Demultiplexer(self._context, self._qps, self._peers, self.control.prober, self._pauses)
        self._stats = NicStats(self._context, self._qps, self._peers, self._pauses)
        self._ports = self._stats.ports

    @property
    def config(self) -> NicConfig:
        """The configuration the NIC was built with."""
        return self._config

    # ---- device methods -----------------------------------------------------------------------------------------

    def receive(self, port: int, frame: bytes | bytearray | memoryview, now: int) -> None:
        """Take one Ethernet frame (without FCS) that arrived on `port`.

        Never raises because of the frame: what is malformed or not for this NIC is dropped and counted. Only what a
        plugin raises gets through. The frame is not kept after the call, so its buffer may be reused.
        """
        self._context.now = now
        scheduler = self._scheduler
        scheduler.empty_ports = 0  # input_begins, without the call
        scheduler.kick = False
        stats = self._ports[port]
        stats.rx_frames += 1
        stats.rx_bytes += len(frame)
        try:
            drop = self._demux.receive(port, memoryview(frame) if isinstance(frame, bytearray) else frame, now)
        except Exception as error:
            if plugins.is_from_plugin(error):  # a bug of the user's, who wants to know
                raise
            # otherwise a bug here, but no packet may stop the NIC with it
            drop = Drop.MALFORMED if isinstance(error, (struct.error, IndexError)) else Drop.INTERNAL_ERROR
        if drop is not None:
            self._stats.drops[drop] += 1
            if self._trace is not None:
                self._trace.dropped(port, drop.value, len(frame), now)

    def sack_due(self, due: tuple[int, int, int, Flow], now: int) -> None:
        """``datapath`` was given a frame without ``receive``, carried it, and says this: it makes a SACK due."""
        self._context.now = now
        self._scheduler.input_begins()
        try:
            self._demux.sack_due(due)
        except Exception as error:  # as in `receive`
            if plugins.is_from_plugin(error):
                raise
            self._stats.drops[Drop.INTERNAL_ERROR] += 1

    @property
    def datapath(self) -> NativeDatapath | None:
        """The datapath in C, where there is one."""
        return self._context.datapath

    def transmit(self, port: int, now: int) -> bytes | None:
        """Next frame for `port`, or None when there is none now (or the port is down)."""
        if not self._context.local_up >> port & 1:
            return None
        self._context.now = now
        frame = self._scheduler.transmit(port, now)
        if frame is not None:
            if self._trace is not None:
                self._trace.sent(port, frame, now)
            stats = self._ports[port]
            stats.tx_frames += 1
            stats.tx_bytes += len(frame)
        return frame

    def transmit_first(self, ports: int, now: int) -> tuple[int, bytes] | None:
        """Port and frame of the first in the mask `ports`, from the lowest on, that ``transmit`` has a frame for."""
        scheduler = self._scheduler
        ports &= self._context.local_up
        while low := scheduler.first_waiting(ports):
            port = low.bit_length() - 1
            frame = self.transmit(port, now)
            if frame is not None:
                return port, frame
            ports &= -(low << 1)
        return None

    def has_news(self) -> bool:
        """Whether there are completions or events that ``cq_ready``, ``cq_notified`` or ``async_events`` would name."""
        return bool(self._ready) or bool(self._notified) or self._context.has_events()

    def wakeup(self) -> int | None:
        """Earliest time when ``tick`` is due; a time in the past means at once; None means only after input."""
        return self._scheduler.wakeup()

    def tick(self, now: int) -> None:
        """Do everything that is due at `now`; then ports may have frames. Early calls are harmless."""
        self._context.now = now
        self._scheduler.input_begins()
        self._scheduler.tick(now)

    def port_changed(self, port: int, up: bool, now: int) -> None:
        """The link of `port` went down or came up. Traffic leaves the port at once, and peers are notified."""
        context = self._context
        context.now = now
        self._scheduler.input_begins()
        bit = 1 << port
        if bool(context.local_up & bit) == up:
            return
        context.change_link(port)
        if up:
            self._ports[port].recovered += 1
        else:
            self._ports[port].downed += 1
        if self._pauses is not None:
            self._pauses.port_down(port, now)
        context.emit(PortEvent(now, port, up, True))
        for peer in self._peers.made():
            peer.local_ports_changed(now)

    # ---- memory -------------------------------------------------------------------------------------------------

    def register_memory(
        self, pd: int, buffer: memoryview, access: Access, address: int | None = None
    ) -> MemoryRegionInfo:
        """Register a writable, contiguous buffer of 1 byte or more in protection domain `pd` (any number >= 0).

        `address` is that of its first byte in work requests, here and at peers; None lets the NIC choose one (page
        aligned, never reused). InvalidArgumentError if the region would not end within 64 bits, or has REMOTE_WRITE
        without LOCAL_WRITE, as in verbs.
        """
        return self._context.memory.register(pd, buffer, access, address)

    def deregister_memory(self, lkey: int) -> None:
        """Deregister a region at once: later packets with its rkey are refused. NotFoundError if unknown."""
        self._context.memory.deregister(lkey)

    # ---- completion queues --------------------------------------------------------------------------------------

    def create_cq(self, capacity: int) -> int:
        """New completion queue for `capacity` (1..65536) entries; returns its number."""
        if not 1 <= capacity <= _MAX_CQ:
            raise InvalidArgumentError(f"A completion queue has 1 to {_MAX_CQ} entries, not {capacity}.")
        number = self._next_cq
        self._next_cq += 1
        self._cqs[number] = NicCompletionQueue(number, capacity, self._ready, self._notified)
        self._cqs[number].trace = self._trace_completion if self._trace is not None else None
        return number

    def destroy_cq(self, cq: int) -> None:
        """Remove a completion queue. StateError while a queue pair uses it."""
        if self._cq(cq).users:
            raise StateError(f"Completion queue {cq} is still used by a queue pair; destroy that first.")
        del self._cqs[cq]
        self._ready.discard(cq)
        self._notified.discard(cq)

    def poll_cq(self, cq: int, max_entries: int = 16) -> list[Completion]:
        """Take up to `max_entries` completions, oldest first.

        A full queue never loses an entry. It holds `capacity` completions of signaled requests, which are reserved when
        these are posted (or ResourceExhaustedError), and as many of a peer's WRITE_WITH_IMM, which stay unacknowledged
        until there is room (``transport.completion``).
        """
        return self._cq(cq).poll(max_entries)

    def peek_cq(self, cq: int, first: int) -> list[Completion]:
        """What is in a completion queue, without the oldest `first`; nothing is taken."""
        return self._cq(cq).peek(first)

    def cq_ready(self) -> set[int]:
        """Numbers of the completion queues with new entries since the last call."""
        ready = set(self._ready)
        self._ready.clear()
        return ready

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue: ``cq_notified`` names it once it gets an entry (``notify`` says which)."""
        self._cq(cq).notification.arm(solicited_only)

    def cq_notified(self) -> set[int]:
        """Numbers of the completion queues that got an entry they were armed for since the last call."""
        notified = set(self._notified)
        self._notified.clear()
        return notified

    # ---- queue pairs --------------------------------------------------------------------------------------------

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """New queue pair in RESET; returns its QPN (24 bit, not guessable from others).

        `attributes` are what ``modify_qp`` starts from. InvalidArgumentError names an attribute that is out of range or
        a congestion control that does not exist, NotFoundError an unknown completion queue or EV profile;
        ResourceExhaustedError if one of them is full of failures that were not polled.
        """
        if pd < 0:
            raise InvalidArgumentError(f"Protection domain {pd} is negative.")
        self._check_attributes(attributes, qp_type)
        sends, receives = self._cq(send_cq), self._cq(recv_cq)
        for number, cq in ((send_cq, sends), (recv_cq, receives)):
            if cq.unpolled_failures() >= _MAX_CQ:
                raise ResourceExhaustedError(f"Completion queue {number} is full of failures: poll it first.")
        qpn = self._draw_qpn()
        while qpn in self._qps or qpn in self._retired:
            qpn = self._draw_qpn()
        make = MrcQueuePair if qp_type is QpType.MRC else RcQueuePair
        self._qps[qpn] = make(self._context, qpn, pd, sends, receives, attributes)
        sends.users += 1
        receives.users += 1
        return qpn

    def _draw_qpn(self) -> int:
        count = (1 << 24) - _FIRST_QPN
        return _FIRST_QPN + (self._rng.randrange(count) + self._qpn_shift) % count

    def connect_qp(self, qpn: int, remote: QpAddress, now: int) -> None:
        """Bring a queue pair from RESET or INIT to RTS, connected to `remote`: the three steps of ``modify_qp`` in one.

        Both ends must connect, in any order, with the same type and path MTU. `remote` is the result of the other end's
        ``qp_address`` in its present life. UnknownDestinationError, InvalidArgumentError, StateError.
        """
        qp = self._qp(qpn)
        if qp.state not in (QpState.RESET, QpState.INIT):
            raise StateError(f"Queue pair {qpn:#x} is in {qp.state.name}; only in RESET or INIT can it be connected.")
        before = qp.state
        if before is QpState.RESET:
            self.modify_qp(qpn, QpState.INIT, now)
        try:
            self.modify_qp(qpn, QpState.RTR, now, remote=remote)
            self.modify_qp(qpn, QpState.RTS, now)
        except MrcError:
            self.modify_qp(qpn, QpState.RESET, now)
            qp.state = before
            raise

    def modify_qp(
        self,
        qpn: int,
        state: QpState,
        now: int,
        changes: Mapping[str, Any] | None = None,
        *,
        remote: QpAddress | None = None,
    ) -> None:
        """One transition of a queue pair's state (docs/protocol.md §11.1).

        RESET -> INIT -> RTR -> RTS, and from any state to ERROR (everything posted completes as FLUSHED) or RESET.
        `changes` sets attributes by name, of those that the transition takes (``transport.states.TAKES``): profiles and
        hints for INIT, what this end accepts for RTR, how it sends for RTS. The others keep their values. `remote` is
        given only for RTR, and required there. After an error (StateError, InvalidArgumentError, NotFoundError,
        UnknownDestinationError) the queue pair is unchanged.
        """
        qp = self._qp(qpn)
        attributes = states.changed(qp.attributes, qp.state, state, changes or {}, remote is not None)
        self._check_attributes(attributes, qp.kind)
        peer = None if remote is None else self._known_peer(remote.address)
        self._context.now = now
        self._scheduler.input_begins()
        before, qp.attributes = qp.attributes, attributes
        try:
            if peer is not None and remote is not None:
                qp.to_rtr(peer, remote, now)
            elif state is QpState.RTS:
                qp.to_rts(now)
            elif state is QpState.RESET:
                qp.reset(now)
            elif state is QpState.ERROR:
                qp.enter_error(CompletionStatus.FLUSHED, "The application put the queue pair into ERROR.", now)
            else:
                qp.state = state
        except MrcError:
            qp.attributes = before
            raise
        self._trace_state(qp, now)

    def _profile_used(self, profile: int | str) -> bool:
        return any(profile in (qp.attributes.ev_profile, qp.attributes.cc_profile) for qp in self._qps.values())

    def _check_attributes(self, attributes: QpAttributes, kind: QpType) -> None:
        check_attributes(attributes, self._payload_mtu())
        algorithms.check(self._context.algorithms, attributes, self._context.transport, kind is QpType.MRC)
        if attributes.ev_profile and attributes.ev_profile not in self._context.ev_profiles:
            raise NotFoundError(f"NIC {self._config.name} has no EV profile {attributes.ev_profile}.")

    def _payload_mtu(self) -> int:
        """The MTU without what the EV format adds to each packet."""
        return self._config.mtu - (SRH_LENGTH if self._config.settings.ev_format is EvFormat.SRV6_SRH else 0)

    def _known_peer(self, address: bytes) -> Peer:
        peer = self._peers.get(address)
        if peer is None or not peer.planes:
            raise UnknownDestinationError(
                f"NIC {self._config.name} knows no paths to {address.hex(':', 2)}; add it to its destinations."
            )
        return peer

    def destroy_qp(self, qpn: int, now: int) -> None:
        """Remove a queue pair. Its unfinished requests first complete as FLUSHED in its send CQ."""
        qp = self._qp(qpn)
        self._context.now = now
        del self._qps[qpn]
        qp.destroy(now)
        self._stats.gone.add(qp.stats)
        self._retire(qpn, now)
        self._trace_state(qp, now, "destroyed")
        qp.send_cq.users -= 1
        qp.recv_cq.users -= 1

    def _retire(self, qpn: int, now: int) -> None:
        """Packets for a destroyed queue pair may still arrive: do not reuse its number for a packet lifetime."""
        retired = self._retired
        for number, until in list(retired.items()):
            if until > now:
                break
            del retired[number]
        retired[qpn] = now + self._context.transport.packet_lifetime

    def qp_address(self, qpn: int) -> QpAddress:
        """What the other end needs to connect to this queue pair; a RESET after it was used changes the PSN."""
        return QpAddress(self._config.address, qpn, self._qp(qpn).first_psn)

    def query_device(self) -> DeviceLimits:
        """What this NIC can do at most."""
        return DeviceLimits(
            ports=len(self._ports),
            path_mtu=largest_path_mtu(self._payload_mtu()),
            max_msg=MAX_LENGTH,
            max_send_wr=self._context.transport.send_queue_depth,
            max_recv_wr=MAX_RECEIVES,
            max_sge=MAX_SGE,
            max_inline=MAX_INLINE,
            max_cqe=_MAX_CQ,
            max_wimm=MAX_WIMM,
            max_mpr=MAX_MPR,
            mpr_resolution=MPR_UNIT,
        )

    def query_qp(self, qpn: int) -> QpInfo:
        """A queue pair as it is now: its state, attributes, other end and queues."""
        return self._qp(qpn).info()

    def qp_state(self, qpn: int) -> QpState:
        """State of a queue pair."""
        return self._qp(qpn).state

    def qp_counters(self, qpn: int) -> QpCounters:
        """Counters of a queue pair since its creation."""
        return self._qp(qpn).counters()

    def qp_paths(self, qpn: int) -> tuple[PathInfo, ...]:
        """Every path of a connected queue pair, in the order of the destination's EVs (one entry for RC)."""
        return self._qp(qpn).paths_info()

    def post_send(self, qpn: int, request: WorkRequest, now: int) -> None:
        """Queue one request. Returns at once; the outcome is a completion.

        InvalidArgumentError for a bad length or imm, StateError before RTS, ResourceExhaustedError when the send queue
        or its completion queue is full. In ERROR the request completes as FLUSHED. If the local range is not registered
        in the queue pair's protection domain, the request completes with LOCAL_PROTECTION_ERROR and the queue pair goes
        to ERROR.
        """
        qp = self._qp(qpn)
        if qp.state is not QpState.RTS and qp.state is not QpState.ERROR:
            raise StateError(f"Queue pair {qpn:#x} is not connected yet: it is in {qp.state.name}, not RTS.")
        self._context.now = now
        self._scheduler.input_begins()
        qp.post(request, now)

    def post_recv(self, qpn: int, wr_ids: tuple[int, ...]) -> None:
        """Queue receives for one queue pair, in order, all or none; each arriving WRITE_WITH_IMM completes the oldest.

        Without any, its completion has wr_id 0: unlike in verbs none is needed. They are flushed with the requests.
        InvalidArgumentError for a wr_id of more than 64 bits, ResourceExhaustedError for more than 4096 receives.
        """
        qp = self._qp(qpn)
        if not all(0 <= wr_id < 1 << 64 for wr_id in wr_ids):
            raise InvalidArgumentError("A wr_id is a 64-bit unsigned number.")
        qp.post_receives(wr_ids)

    # ---- inspection and control ---------------------------------------------------------------------------------

    def async_events(self) -> list[AsyncEvent]:
        """Events since the last call, oldest first.

        At most 4096 are kept; ``nic_counters()['events_lost']`` counts those dropped.
        """
        return self._context.take_events()

    def set_trace(self, sink: TraceSink | None) -> None:
        """Send the event trace (docs/trace.md) to `sink` from now on; None ends it.

        The sink is called while the NIC works: it must not raise, call the NIC, or change its argument.
        """
        trace = None
        if sink is not None:
            trace = Tracer(sink, self._config.settings, self._connections)
        self._trace = self._context.trace = trace
        if self._context.datapath is not None:
            self._context.datapath.receiver.trace(trace is not None)
        for cq in self._cqs.values():
            cq.trace = None if trace is None else self._trace_completion

    def _connections(self) -> list[tuple[bytes, int, int]]:
        """Peer's address, remote and local QPN of every connected queue pair."""
        return [(qp.peer.address, qp.remote_qpn, qp.qpn) for qp in self._qps.values() if qp.peer is not None]

    def _trace_completion(self, entry: Completion) -> None:
        if self._trace is not None:
            self._trace.completion(entry, self._context.now)

    def _trace_state(self, qp: NicQueuePair, now: int, state: str = "") -> None:
        if self._trace is not None:
            self._trace.connections_changed()
            peer = "" if qp.peer is None else qp.peer.destination.name
            self._trace.state(qp.qpn, state or qp.state.value, peer, qp.remote_qpn, now)

    def nic_counters(self) -> Mapping[str, int]:
        """Frames and bytes sent and received, and frames dropped by reason (``drop_<reason>``).

        With flow control also PAUSE frames received, and the time (ns) for which ports could not send data, summed over
        ports.
        """
        return self._stats.frames()

    def hw_counters(self, qpn: int | None, now: int) -> dict[str, int]:
        """All counters and gauges of a queue pair, or of the NIC (docs/counters.md), by name.

        The NIC's include those of all queue pairs that ever existed. NotFoundError.
        """
        if qpn is not None:
            return self._qp(qpn).hw_counters(now)
        return self._stats.total(now)

    def port_counters(self) -> tuple[dict[str, int], ...]:
        """All counters and gauges of each port (docs/counters.md), by name."""
        return self._stats.of_ports()

    def set_path_denied(self, peer: bytes, ev: int, denied: bool, now: int) -> None:
        """The same as ``control.set_path_denied``."""
        self.control.set_path_denied(peer, ev, denied, now)

    def _qp(self, qpn: int) -> NicQueuePair:
        qp = self._qps.get(qpn)
        if qp is None:
            raise NotFoundError(f"NIC {self._config.name} has no queue pair {qpn:#x}.")
        return qp

    def _cq(self, number: int) -> NicCompletionQueue:
        cq = self._cqs.get(number)
        if cq is None:
            raise NotFoundError(f"NIC {self._config.name} has no completion queue {number}.")
        return cq
