"""The seam below the verbs: what a way of reaching a NIC has to offer.

The objects an application holds (context, queue pair, ...) keep no protocol state. They turn each verb into one call
of a :class:`Provider`. :class:`~mrc_host.verbs.local.LocalProvider` calls a NIC device in the same process; the agent's
:class:`~mrc_host.agent.client.AgentProvider` asks the process that owns the host's NIC.

Completions are announced per completion queue through the callback given to :meth:`Provider.create_cq`; the callback
only says that the queue may have entries, which are then taken with :meth:`Provider.poll_cq`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

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

EventSink = Callable[["AsyncEvent | None"], None]
"""Takes one asynchronous event; None says that the provider has failed, which every further call will tell."""


class Provider(Protocol):
    """Commands of a NIC, as :class:`mrc_host.nic.Nic` defines them, plus waiting. Every method may raise MrcError."""

    @property
    def name(self) -> str:
        """Name of the NIC, as its configuration gives it."""

    @property
    def address(self) -> bytes:
        """The NIC's IPv6 address (16 bytes)."""

    def alloc_pd(self) -> int:
        """A new protection domain's number."""

    def dealloc_pd(self, pd: int) -> None:
        """Forget a protection domain."""

    def register_memory(self, pd: int, length: int, access: Access) -> tuple[MemoryRegionInfo, memoryview]:
        """Allocate `length` bytes of zeroed memory that NIC and application share, and register it."""

    def deregister_memory(self, lkey: int) -> None:
        """End a registration."""

    def create_cq(self, capacity: int, on_ready: Callable[[], None], on_notify: Callable[[], None]) -> int:
        """A completion queue; `on_ready` is called when it may have entries or when the provider has failed.

        `on_notify` is called when it got an entry that it was armed for, or when the provider has failed.
        """

    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue (:mod:`mrc_host.notify`)."""

    def destroy_cq(self, cq: int) -> None:
        """End a completion queue."""

    def poll_cq(self, cq: int, max_entries: int) -> list[Completion]:
        """Take up to `max_entries` completions, oldest first; never blocks."""

    def create_qp(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """A queue pair in RESET; returns its QPN."""

    def connect_qp(self, qpn: int, remote: QpAddress) -> None:
        """Bring a queue pair to RTS towards `remote`."""

    def modify_qp(self, qpn: int, state: QpState, changes: Mapping[str, Any], remote: QpAddress | None = None) -> None:
        """One step in a queue pair's life, as :meth:`mrc_host.nic.Nic.modify_qp`."""

    def destroy_qp(self, qpn: int) -> None:
        """End a queue pair; what it had under way completes as FLUSHED."""

    def post_send(self, qpn: int, requests: Sequence[WorkRequest]) -> None:
        """Hand over work requests, in order."""

    def qp_address(self, qpn: int) -> QpAddress:
        """What the other end needs to connect to a queue pair in its present life."""

    def qp_state(self, qpn: int) -> QpState:
        """State of a queue pair."""

    def qp_counters(self, qpn: int) -> QpCounters:
        """Counters of a queue pair."""

    def qp_paths(self, qpn: int) -> tuple[PathInfo, ...]:
        """Paths of a queue pair."""

    def nic_counters(self) -> Mapping[str, int]:
        """Counters of the NIC."""

    def hw_counters(self, qpn: int | None) -> Mapping[str, int]:
        """All counters of a queue pair, or of the NIC (None), by name."""

    def port_counters(self) -> tuple[Mapping[str, int], ...]:
        """All counters of each port, by name."""

    def create_ev_profile(self, profile: EvProfile) -> int:
        """Number of a new EV profile."""

    def destroy_ev_profile(self, number: int) -> None:
        """Forget an EV profile."""

    def create_cc_profile(self, name: str, profile: CcProfile) -> None:
        """Keep a CC profile under a name."""

    def destroy_cc_profile(self, name: str) -> None:
        """Forget a CC profile."""

    def cc_profiles(self) -> dict[str, CcProfile]:
        """All CC profiles by name."""

    def ev_profiles(self) -> dict[int, EvProfile]:
        """All EV profiles by number."""

    def set_path_denied(self, peer: bytes, ev: int, denied: bool) -> None:
        """Forbid a path, or allow it again."""

    def denied_paths(self) -> tuple[DeniedPath, ...]:
        """All forbidden paths."""

    def probe(self, peer: bytes, ev: int, timeout_ns: int) -> int:
        """Send an endpoint probe; its result is a ProbeEvent with the number returned."""

    def port_states(self, peer: bytes | None) -> tuple[PortState, ...]:
        """The NIC's ports, or a peer's as it told us."""

    def destinations(self) -> tuple[DestinationInfo, ...]:
        """The NICs to which there are paths."""

    def for_controller(self) -> Provider:
        """The provider for what is the controller's of the same NIC; it lives as long as this one."""

    def trace(self, path: str) -> None:
        """Write the NIC's event trace to `path` ("": nowhere); RefusedError where nobody can."""

    def events_dropped(self) -> int:
        """Asynchronous events lost on their way here because somebody did not take them in time."""

    def add_event_sink(self, sink: EventSink, *, whole_nic: bool = False) -> None:
        """Call `sink` with every asynchronous event that concerns this user of the NIC, or with `whole_nic` anybody."""

    def remove_event_sink(self, sink: EventSink) -> None:
        """Undo :meth:`add_event_sink`."""

    def now(self) -> int:
        """The time, in nanoseconds, on the clock of :meth:`wait`."""

    def refresh(self) -> None:
        """Take in what has arrived, announcing completions and events; never blocks."""

    def wait(self, deadline: int | None) -> None:
        """Block until something may have arrived or, unless None, `deadline` on the clock of :meth:`now` has come."""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on announce completions and events from `loop`. Attaching again to the same loop does nothing."""

    def close(self) -> None:
        """Give everything back. Closing twice does nothing."""
