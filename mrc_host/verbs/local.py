"""A NIC device in the same process, for simulation and tests.

The device has no clock and no thread, and neither has this provider: the time is asked of `clock`, and whoever moves
the frames (the *world*) is told through two callbacks. `poke` is called after every command that may have given the NIC
something to send. `advance(deadline)` lets the world run until something was dispatched or, in its own time, `deadline`
(None: no limit) is reached; it returns False when the world has come to rest before either. In turn the world calls
:meth:`LocalProvider.dispatch` after it has driven the device, which announces completions and events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mrc_host.config import NicConfig
from mrc_host.errors import MrcError
from mrc_host.probing import ProbePlan, ProbeReport
from mrc_host.values import (
    Access,
    AsyncEvent,
    CcProfile,
    Completion,
    DeniedPath,
    DestinationInfo,
    EvProfile,
    MemoryRegionInfo,
    PathInfo,
    PortState,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpState,
    QpType,
    WorkRequest,
)
from mrc_host.verbs.errors import RefusedError
from mrc_host.verbs.provider import EventSink

Advance = Callable[["int | None"], bool]


class ControlCommands(Protocol):
    """The commands of :class:`mrc_host.transport.control_plane.ControlPlane` (see there)."""

    def create_ev_profile(self, profile: EvProfile) -> int:
        """Keep an EV profile."""

    def destroy_ev_profile(self, number: int) -> None:
        """Forget an EV profile."""

    def ev_profiles(self) -> dict[int, EvProfile]:
        """All EV profiles."""

    def create_cc_profile(self, name: str, profile: CcProfile) -> None:
        """Keep a CC profile under a name."""

    def destroy_cc_profile(self, name: str) -> None:
        """Forget a CC profile."""

    def cc_profiles(self) -> dict[str, CcProfile]:
        """All CC profiles."""

    def set_path_denied(self, peer: bytes, ev: int, denied: bool, now: int) -> None:
        """Forbid or allow a path."""

    def denied_paths(self) -> tuple[DeniedPath, ...]:
        """All forbidden paths."""

    def probe(self, peer: bytes, ev: int, now: int, timeout: int) -> int:
        """Send an endpoint probe."""

    def start_probing(self, plan: ProbePlan, now: int) -> None:
        """Send path probes by a plan."""

    def stop_probing(self) -> None:
        """Send no more path probes."""

    def probe_report(self) -> ProbeReport:
        """Take the counts of path probes."""

    def port_states(self, peer: bytes | None = None) -> tuple[PortState, ...]:
        """Ports."""

    def destinations(self) -> tuple[DestinationInfo, ...]:
        """Known NICs."""


class NicCommands(Protocol):
    """The commands of :class:`mrc_host.nic.Nic` that the upper edge uses (see there)."""

    @property
    def control(self) -> ControlCommands:
        """The controller's side."""

    @property
    def config(self) -> NicConfig:
        """What the NIC was built with."""

    def register_memory(self, pd: int, buffer: memoryview, access: Access) -> MemoryRegionInfo:
        """Register memory."""

    def deregister_memory(self, lkey: int) -> None:
        """End a registration."""

    def create_cq(self, capacity: int) -> int:
        """Create a completion queue."""

    def destroy_cq(self, cq: int) -> None:
        """Destroy a completion queue."""

    def poll_cq(self, cq: int, max_entries: int = 16) -> list[Completion]:
        """Take completions."""

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """Create a queue pair."""

    def connect_qp(self, qpn: int, remote: QpAddress, now: int) -> None:
        """Connect a queue pair."""

    def modify_qp(
        self,
        qpn: int,
        state: QpState,
        now: int,
        changes: Mapping[str, Any] | None = None,
        *,
        remote: QpAddress | None = None,
    ) -> None:
        """One step in a queue pair's life."""

    def destroy_qp(self, qpn: int, now: int) -> None:
        """Destroy a queue pair."""

    def post_send(self, qpn: int, request: WorkRequest, now: int) -> None:
        """Post a work request."""

    def qp_address(self, qpn: int) -> QpAddress:
        """What the other end needs to connect."""

    def qp_state(self, qpn: int) -> QpState:
        """State of a queue pair."""

    def qp_counters(self, qpn: int) -> QpCounters:
        """Counters of a queue pair."""

    def qp_paths(self, qpn: int) -> tuple[PathInfo, ...]:
        """Paths of a queue pair."""

    def async_events(self) -> list[AsyncEvent]:
        """Take asynchronous events."""

    def nic_counters(self) -> Mapping[str, int]:
        """Counters of the NIC."""

    def hw_counters(self, qpn: int | None, now: int) -> Mapping[str, int]:
        """All counters of a queue pair, or of the NIC."""

    def port_counters(self) -> Sequence[Mapping[str, int]]:
        """All counters of each port."""

    def cq_ready(self) -> set[int]:
        """Completion queues that got entries since last asked."""

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue."""

    def cq_notified(self) -> set[int]:
        """Completion queues that got what they were armed for since last asked."""


class LocalProvider:
    """Verbs on a NIC device in this process; several contexts may share it.

    `clock` gives the world's time in nanoseconds. See the module for `poke` and `advance`; without `advance` a blocking
    wait is refused.
    """

    def __init__(
        self,
        nic: NicCommands,
        clock: Callable[[], int],
        *,
        poke: Callable[[], None] | None = None,
        advance: Advance | None = None,
    ) -> None:
        self._nic = nic
        self._clock = clock
        self._poke = poke or _nothing
        self._advance = advance
        self._next_pd = 1
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._on_notify: dict[int, Callable[[], None]] = {}
        self._sinks: list[EventSink] = []

    @property
    def name(self) -> str:
        """Name of the NIC."""
        return self._nic.config.name

    @property
    def address(self) -> bytes:
        """The NIC's IPv6 address (16 bytes)."""
        return self._nic.config.address

    def dispatch(self) -> bool:
        """Announce what the NIC has to tell; True if there was anything. The world calls this."""
        ready = self._nic.cq_ready()
        for told, callbacks in ((ready, self._on_ready), (self._nic.cq_notified(), self._on_notify)):
            for cq in sorted(told):
                callback = callbacks.get(cq)
                if callback is not None:
                    callback()
        events = self._nic.async_events()
        for event in events:
            for sink in tuple(self._sinks):
                sink(event)
        return bool(ready or events)

    def alloc_pd(self) -> int:
        """A new protection domain's number."""
        self._next_pd += 1
        return self._next_pd - 1

    def dealloc_pd(self, pd: int) -> None:
        """Nothing to do: a protection domain is only a number."""

    def register_memory(self, pd: int, length: int, access: Access) -> tuple[MemoryRegionInfo, memoryview]:
        """Allocate and register `length` bytes of zeroed memory."""
        buffer = memoryview(bytearray(length))
        return self._nic.register_memory(pd, buffer, access), buffer

    def deregister_memory(self, lkey: int) -> None:
        """End a registration."""
        self._nic.deregister_memory(lkey)

    def create_cq(self, capacity: int, on_ready: Callable[[], None], on_notify: Callable[[], None]) -> int:
        """Create a completion queue."""
        cq = self._nic.create_cq(capacity)
        self._on_ready[cq] = on_ready
        self._on_notify[cq] = on_notify
        return cq

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue."""
        self._nic.req_notify_cq(cq, solicited_only)

    def destroy_cq(self, cq: int) -> None:
        """Destroy a completion queue."""
        self._nic.destroy_cq(cq)
        self._on_ready.pop(cq, None)
        self._on_notify.pop(cq, None)

    def poll_cq(self, cq: int, max_entries: int) -> list[Completion]:
        """Take completions."""
        return self._nic.poll_cq(cq, max_entries)

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """Create a queue pair."""
        return self._nic.create_qp(pd, qp_type, send_cq, recv_cq, attributes)

    def connect_qp(self, qpn: int, remote: QpAddress) -> None:
        """Connect a queue pair."""
        self._nic.connect_qp(qpn, remote, self._clock())
        self._poke()

    def modify_qp(self, qpn: int, state: QpState, changes: Mapping[str, Any], remote: QpAddress | None = None) -> None:
        """One step in a queue pair's life."""
        self._nic.modify_qp(qpn, state, self._clock(), changes, remote=remote)
        self._poke()

    def destroy_qp(self, qpn: int) -> None:
        """Destroy a queue pair."""
        self._nic.destroy_qp(qpn, self._clock())
        self._poke()

    def post_send(self, qpn: int, requests: Sequence[WorkRequest]) -> None:
        """Post work requests."""
        now = self._clock()
        posted = 0
        try:
            for request in requests:
                self._nic.post_send(qpn, request, now)
                posted += 1
        except MrcError as error:
            error.posted = posted
            raise
        finally:
            self._poke()  # also for those posted before one that was refused

    def qp_address(self, qpn: int) -> QpAddress:
        """What the other end needs to connect to a queue pair."""
        return self._nic.qp_address(qpn)

    def qp_state(self, qpn: int) -> QpState:
        """State of a queue pair."""
        return self._nic.qp_state(qpn)

    def qp_counters(self, qpn: int) -> QpCounters:
        """Counters of a queue pair."""
        return self._nic.qp_counters(qpn)

    def qp_paths(self, qpn: int) -> tuple[PathInfo, ...]:
        """Paths of a queue pair."""
        return self._nic.qp_paths(qpn)

    def nic_counters(self) -> Mapping[str, int]:
        """Counters of the NIC."""
        return self._nic.nic_counters()

    def hw_counters(self, qpn: int | None) -> Mapping[str, int]:
        """All counters of a queue pair, or of the NIC."""
        return self._nic.hw_counters(qpn, self._clock())

    def port_counters(self) -> tuple[Mapping[str, int], ...]:
        """All counters of each port."""
        return tuple(self._nic.port_counters())

    def create_cc_profile(self, name: str, profile: CcProfile) -> None:
        """Keep a CC profile under a name."""
        self._nic.control.create_cc_profile(name, profile)

    def destroy_cc_profile(self, name: str) -> None:
        """Forget a CC profile."""
        self._nic.control.destroy_cc_profile(name)

    def cc_profiles(self) -> dict[str, CcProfile]:
        """All CC profiles by name."""
        return self._nic.control.cc_profiles()

    def create_ev_profile(self, profile: EvProfile) -> int:
        """Keep an EV profile."""
        return self._nic.control.create_ev_profile(profile)

    def destroy_ev_profile(self, number: int) -> None:
        """Forget an EV profile."""
        self._nic.control.destroy_ev_profile(number)

    def ev_profiles(self) -> dict[int, EvProfile]:
        """All EV profiles."""
        return self._nic.control.ev_profiles()

    def set_path_denied(self, peer: bytes, ev: int, denied: bool) -> None:
        """Forbid or allow a path."""
        self._nic.control.set_path_denied(peer, ev, denied, self._clock())
        self._poke()

    def denied_paths(self) -> tuple[DeniedPath, ...]:
        """All forbidden paths."""
        return self._nic.control.denied_paths()

    def probe(self, peer: bytes, ev: int, timeout_ns: int) -> int:
        """Send an endpoint probe."""
        number = self._nic.control.probe(peer, ev, self._clock(), timeout_ns)
        self._poke()
        return number

    def port_states(self, peer: bytes | None) -> tuple[PortState, ...]:
        """Ports."""
        return self._nic.control.port_states(peer)

    def destinations(self) -> tuple[DestinationInfo, ...]:
        """Known NICs."""
        return self._nic.control.destinations()

    def for_controller(self) -> LocalProvider:
        """Whoever has the device in its process has all of it."""
        return self

    def trace(self, path: str) -> None:
        """A device in this process writes no files: refused."""
        raise RefusedError("This NIC has no agent to write a trace: give it a sink with Nic.set_trace.")

    def events_dropped(self) -> int:
        """Events that the NIC could not keep."""
        return self._nic.nic_counters().get("events_lost", 0)

    def add_event_sink(self, sink: EventSink, *, whole_nic: bool = False) -> None:
        """Call `sink` with every asynchronous event of the NIC."""
        self._sinks.append(sink)

    def remove_event_sink(self, sink: EventSink) -> None:
        """Undo :meth:`add_event_sink`."""
        if sink in self._sinks:
            self._sinks.remove(sink)

    def now(self) -> int:
        """The world's time."""
        return self._clock()

    def refresh(self) -> None:
        """The same as :meth:`dispatch`."""
        self.dispatch()

    def wait(self, deadline: int | None) -> None:
        """Let the world run until something was dispatched or `deadline` has come in its own time."""
        if self._advance is None:
            raise RefusedError("This NIC's world cannot be waited for: drive it, then poll, or use asyncio.")
        if not self._advance(deadline):
            raise RefusedError("The world has come to rest: nothing will ever arrive here.")

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing to do: the world calls :meth:`dispatch` in its own loop."""

    def close(self) -> None:
        """Forget all callbacks; the NIC belongs to its world."""
        self._on_ready.clear()
        self._on_notify.clear()
        self._sinks.clear()


def _nothing() -> None:
    """The default of `poke`: the world looks at the NIC by itself."""
