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
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mrc_host import plugins
from mrc_host.config import NicConfig
from mrc_host.errors import InvalidArgumentError, StateError
from mrc_host.transport import algorithms
from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.completion_queue_table import MAX_CAPACITY, CompletionQueueTable, take
from mrc_host.transport.control_plane import NicControlPlane
from mrc_host.transport.demux import Demultiplexer
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.nic_stats import NicStats
from mrc_host.transport.pause import Pauses
from mrc_host.transport.peer_table import PeerTable
from mrc_host.transport.port_remap import PortRemap
from mrc_host.transport.qp import MAX_MPR, MAX_WIMM, largest_path_mtu
from mrc_host.transport.queue_pair_table import QueuePairTable
from mrc_host.transport.trace import Tracer, TraceSink
from mrc_host.transport.work import MAX_LENGTH
from mrc_host.verbs_types import (
    MAX_INLINE,
    MAX_RECEIVES,
    MAX_SGE,
    MPR_UNIT,
    Access,
    AsyncEvent,
    Completion,
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

_MAX_PORTS: Final = 32  # bits of a port status


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
        if len(ports) > _MAX_PORTS:
            raise InvalidArgumentError(f"A NIC has at most {_MAX_PORTS} ports, not {len(ports)}.")
        check_format(config)
        known = {**algorithms.ALGORITHMS, **plugins.CONGESTION_CONTROLS, **(congestion or {})}
        for mrc in (True, False):
            algorithms.check(known, QpAttributes(), config.settings.transport, mrc, {})
        if config.settings.transport.path_selection:
            plugins.make_path_selection(config.settings.transport.path_selection)  # or refuse it now
        self._config = config
        self._context = NicContext(
            config,
            random.Random(seed),
            random.Random(f"first PSNs {seed} {incarnation}"),
            known,
            plugins.make_path_selection,
        )
        self._scheduler = self._context.scheduler
        self._pauses = None if config.pause is None else Pauses(config, config.pause, self._scheduler)
        self._remap = PortRemap(self._scheduler, config.settings.transport.port_remap, self._change_port)
        self._peers = PeerTable(self._context, config.destinations)
        self._cqs = CompletionQueueTable(config.name)
        self._qps = QueuePairTable(self._context, self._peers, self._cqs, incarnation)
        self._trace: Tracer | None = None
        self.control = NicControlPlane(self._context, self._peers, self._qps.uses_profile)
        by_qpn = self._qps.by_qpn
        self._demux = Demultiplexer(self._context, by_qpn, self._peers, self.control.prober, self._pauses)
        self._stats = NicStats(self._context, by_qpn, self._peers, self._pauses)
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

    def answer_due(self, due: tuple[int, int, int, Flow], now: int) -> None:
        """``datapath`` was given a frame without ``receive``, carried it, and says this: it makes an answer due."""
        self._context.now = now
        self._scheduler.input_begins()
        try:
            self._demux.answer_due(due)
        except Exception as error:  # as in `receive`
            if plugins.is_from_plugin(error):
                raise
            self._stats.drops[Drop.INTERNAL_ERROR] += 1

    @property
    def datapath(self) -> NativeDatapath:
        """The datapath in C."""
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

    def waiting(self, ports: int) -> int:
        """The ports of the mask `ports` that ``transmit`` may have a frame for; the others were asked in vain."""
        return self._scheduler.all_waiting(ports & self._context.local_up)

    def has_news(self) -> bool:
        """Whether there are completions or events that ``cq_ready``, ``cq_notified`` or ``async_events`` would name."""
        cqs = self._cqs
        return bool(cqs.ready) or bool(cqs.notified) or self._context.has_events()

    def wakeup(self) -> int | None:
        """Earliest time when ``tick`` is due; a time in the past means at once; None means only after input."""
        return self._scheduler.wakeup()

    def tick(self, now: int) -> None:
        """Do everything that is due at `now`; then ports may have frames. Early calls are harmless."""
        self._context.now = now
        self._scheduler.input_begins()
        self._scheduler.tick(now)

    def port_changed(self, port: int, up: bool, now: int) -> None:
        """The link of `port` went down or came up.

        Traffic leaves a port without a link, and peers are notified: at once, or, if there are queue pairs, after the
        setting `port_remap`.
        """
        self._context.now = now
        self._scheduler.input_begins()
        if bool(self._context.local_up >> port & 1) == up:
            if up:
                self._remap.returned(port)
        elif up or not self._qps.by_qpn or not self._remap.begins(port, now):
            self._change_port(port, up, now)

    def _change_port(self, port: int, up: bool, now: int) -> None:
        """Use `port` again, or leave it."""
        context = self._context
        context.change_link(port)
        if up:
            self._ports[port].recovered += 1
        else:
            self._ports[port].downed += 1
            context.slow_ports.forget(port, now)
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
        self._context.datapath.outbox.keep_payloads()  # the application may use it again, though packets are under way

    # ---- completion queues --------------------------------------------------------------------------------------

    def create_cq(self, capacity: int) -> int:
        """New completion queue for `capacity` (1..65536) entries; returns its number."""
        return self._cqs.create(capacity)

    def destroy_cq(self, cq: int) -> None:
        """Remove a completion queue. StateError while a queue pair uses it."""
        self._cqs.destroy(cq)

    def poll_cq(self, cq: int, max_entries: int, now: int) -> list[Completion]:
        """Take up to `max_entries` completions, oldest first.

        A full queue never loses an entry. It holds `capacity` completions of signaled requests, which are reserved when
        these are posted (or ResourceExhaustedError), and as many of a peer's WRITE_WITH_IMM, which stay unacknowledged
        until there is room (``transport.completion``): if any wait (``cq_blocks``), ports may have frames afterwards.
        """
        self._context.now = now
        return self._cqs.get(cq).poll(max_entries)

    def cq_blocks(self, cq: int) -> bool:
        """Whether messages of peers wait for room in a completion queue."""
        return self._cqs.get(cq).blocks()

    def peek_cq(self, cq: int, first: int) -> list[Completion]:
        """What is in a completion queue, without the oldest `first`; nothing is taken."""
        return self._cqs.get(cq).peek(first)

    def cq_ready(self) -> set[int]:
        """Numbers of the completion queues with new entries since the last call."""
        return take(self._cqs.ready)

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue: ``cq_notified`` names it once it gets an entry (``notify`` says which)."""
        self._cqs.get(cq).notification.arm(solicited_only)

    def cq_notified(self) -> set[int]:
        """Numbers of the completion queues that got an entry they were armed for since the last call."""
        return take(self._cqs.notified)

    # ---- queue pairs --------------------------------------------------------------------------------------------

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """New queue pair in RESET; returns its QPN (24 bit, not guessable from others).

        `attributes` are what ``modify_qp`` starts from in each life; first PSNs are for the first.
        InvalidArgumentError names an attribute that is out of range or a congestion control that does not exist,
        NotFoundError an unknown completion queue or EV profile; ResourceExhaustedError if one of them is full of
        failures that were not polled.
        """
        return self._qps.create(pd, qp_type, send_cq, recv_cq, attributes)

    def connect_qp(self, qpn: int, remote: QpAddress, now: int) -> None:
        """Bring a queue pair from RESET or INIT to RTS, connected to `remote`: the three steps of ``modify_qp`` in one.

        Both ends must connect, in any order, with the same type and path MTU. `remote` is the result of the other end's
        ``qp_address`` in its present life. UnknownDestinationError, InvalidArgumentError, StateError.
        """
        self._qps.connect(qpn, remote, now)

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
        hints for INIT, what this end accepts for RTR, how it sends for RTS; `remote_write` for all three, and in INIT
        and RTS also with `state` as it is. The others keep their values, but RESET returns all to those of
        ``create_qp``. `remote` is given only for RTR, and required there. After an error
        (StateError, InvalidArgumentError, NotFoundError, UnknownDestinationError) the queue pair is unchanged.
        """
        self._qps.modify(qpn, state, now, changes, remote=remote)

    def flush_qp(self, qpn: int, now: int) -> None:
        """Complete what is posted, and what will be, as FLUSHED: it is about to be reset or destroyed.

        As ``modify_qp`` to ERROR, but without an event, as the application did not ask for that.
        """
        self._qps.flush(qpn, now)

    def destroy_qp(self, qpn: int, now: int) -> None:
        """Remove a queue pair. Its unfinished requests first complete as FLUSHED in its send CQ."""
        self._stats.gone.add(self._qps.destroy(qpn, now).stats)

    def qp_address(self, qpn: int) -> QpAddress:
        """What the other end needs to connect to this queue pair; a RESET after it was used changes the PSN."""
        return QpAddress(self._config.address, qpn, self._qps.get(qpn).life.first_sent)

    def query_device(self) -> DeviceLimits:
        """What this NIC can do at most."""
        return DeviceLimits(
            ports=len(self._ports),
            path_mtu=largest_path_mtu(self._qps.payload_mtu()),
            max_msg=MAX_LENGTH,
            max_send_wr=self._context.transport.send_queue_depth,
            max_recv_wr=MAX_RECEIVES,
            max_sge=MAX_SGE,
            max_inline=MAX_INLINE,
            max_cqe=MAX_CAPACITY,
            max_wimm=MAX_WIMM,
            max_mpr=MAX_MPR,
            mpr_resolution=MPR_UNIT,
        )

    def query_qp(self, qpn: int) -> QpInfo:
        """A queue pair as it is now: its state, attributes, other end and queues."""
        return self._qps.get(qpn).info()

    def qp_state(self, qpn: int) -> QpState:
        """State of a queue pair."""
        return self._qps.get(qpn).state

    def qp_counters(self, qpn: int) -> QpCounters:
        """Counters of a queue pair since its creation."""
        return self._qps.get(qpn).counters()

    def qp_paths(self, qpn: int) -> tuple[PathInfo, ...]:
        """Every path of a connected queue pair, in the order of the destination's EVs (one entry for RC)."""
        return self._qps.get(qpn).paths_info()

    def post_send(self, qpn: int, request: WorkRequest, now: int) -> None:
        """Queue one request. Returns at once; the outcome is a completion.

        InvalidArgumentError for a bad length or imm, StateError before RTS, ResourceExhaustedError when the send queue
        or its completion queue is full. In ERROR the request completes as FLUSHED. If the local range is not registered
        in the queue pair's protection domain, the request completes with LOCAL_PROTECTION_ERROR and the queue pair goes
        to ERROR.
        """
        qp = self._qps.get(qpn)
        if qp.state is not QpState.RTS and qp.state is not QpState.ERROR:
            raise StateError(f"Queue pair {qpn:#x} is not connected yet: it is in {qp.state.name}, not RTS.")
        self._context.now = now
        self._scheduler.input_begins()
        qp.post(request, now)

    def post_recv(self, qpn: int, wr_ids: tuple[int, ...], now: int) -> None:
        """Queue receives for one queue pair, in order, all or none; each arriving WRITE_WITH_IMM completes the oldest.

        Without any, its completion has wr_id 0: unlike in verbs none is needed. They are flushed with the requests.
        InvalidArgumentError for a wr_id of more than 64 bits, ResourceExhaustedError for more than 4096 receives.
        """
        self._context.now = now
        qp = self._qps.get(qpn)
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
            trace = Tracer(sink, self._config.settings, self._qps.connections)
        self._trace = self._context.trace = trace
        self._context.datapath.trace(trace is not None)
        self._cqs.trace(None if trace is None else self._trace_completion)

    def _trace_completion(self, entry: Completion) -> None:
        if self._trace is not None:
            self._trace.completion(entry, self._context.now)

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
            return self._qps.get(qpn).hw_counters(now)
        return self._stats.total(now)

    def sum_counters(self, now: int) -> Iterator[Mapping[str, int] | None]:
        """The counters of the NIC as ``hw_counters`` gives them, last; before that None, after some queue pairs each.

        Between the steps queue pairs may come and go: those that exist at the beginning are counted, once.
        """
        return self._stats.sum_up(now)

    def port_counters(self) -> tuple[dict[str, int], ...]:
        """All counters and gauges of each port (docs/counters.md), by name."""
        return self._stats.of_ports()

    def set_path_denied(self, peer: bytes, ev: int, denied: bool, now: int) -> None:
        """The same as ``control.set_path_denied``."""
        self.control.set_path_denied(peer, ev, denied, now)
