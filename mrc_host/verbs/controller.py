"""The controller's side of a NIC: EV profiles, EV events, the denylist, endpoint probes, ports, the trace.

A context serves applications; a controller manages the NIC as a whole (docs/protocol.md §11): its changes apply to all
queue pairs of all applications, and outlive it. Get one from ``Context.controller`` or with
``verbs.open_controller(path)``.

>>> with verbs.open_controller("/run/mrc/demo/h1.sock") as controller:
...     h3 = controller.destination("h3")
...     controller.deny(h3.address, h3.evs[0])
...     print(controller.ping(h3.address, h3.evs[1]).rtt, "ns")
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from mrc_host.errors import NotFoundError
from mrc_host.verbs.errors import ClosedError
from mrc_host.verbs.provider import Provider
from mrc_host.verbs.waiting import Waiters, wait_until
from mrc_host.verbs_types import (
    AsyncEvent,
    CcProfile,
    DeniedPath,
    DestinationInfo,
    EvProfile,
    PathEvent,
    PortState,
    ProbeEvent,
)

EVENT_LIMIT = 4096  # EV events kept for a controller that does not read them
PROBE_TIMEOUT_NS = 1_000_000_000
_STRAYS = 256


class Controller:
    """Commands for the whole NIC. One thread (or one asyncio loop) at a time."""

    def __init__(self, provider: Provider, *, owns_provider: bool = False) -> None:
        self._provider = provider
        self._owns_provider = owns_provider
        self._ev_events: deque[PathEvent] = deque()
        self._answers: dict[int, ProbeEvent | None] = {}  # of the probes sent here
        self._strays: deque[ProbeEvent] = deque(maxlen=_STRAYS)
        self._waiters = Waiters()
        self._dropped_here = 0
        self._closed = False
        provider.add_event_sink(self._on_event, whole_nic=True)

    # ---- profiles -----------------------------------------------------------------------------------------------

    def create_ev_profile(self, profile: EvProfile) -> int:
        """Create an EV profile on the NIC; returns its number, for ``QpAttributes.ev_profile``.

        Raises InvalidArgumentError if it is invalid. Whether it has paths to a peer shows when a queue pair connects.
        """
        self._check_open()
        return self._provider.create_ev_profile(profile)

    def destroy_ev_profile(self, number: int) -> None:
        """Destroy a profile: NotFoundError, or StateError while a queue pair uses it."""
        self._check_open()
        self._provider.destroy_ev_profile(number)

    def ev_profiles(self) -> Mapping[int, EvProfile]:
        """All profiles of the NIC by number. Number 0, always there, is AUTO with every path."""
        self._check_open()
        return self._provider.ev_profiles()

    def create_cc_profile(self, name: str, profile: CcProfile) -> None:
        """Create a named congestion-control profile on the NIC, for ``QpAttributes.cc_profile``.

        InvalidArgumentError when the name is taken (as "nscc", "dcqcn", "fixed" and "none" are) or does not have 1 to
        64 characters, or a constant is out of range.
        """
        self._check_open()
        self._provider.create_cc_profile(name, profile)

    def destroy_cc_profile(self, name: str) -> None:
        """Destroy a profile: NotFoundError, or StateError while a queue pair names it."""
        self._check_open()
        self._provider.destroy_cc_profile(name)

    def cc_profiles(self) -> Mapping[str, CcProfile]:
        """All CC profiles of the NIC by name."""
        self._check_open()
        return self._provider.cc_profiles()

    # ---- paths --------------------------------------------------------------------------------------------------

    def deny(self, peer: bytes, ev: int) -> None:
        """Forbid the path with entropy value `ev` to the NIC with address `peer`; NotFoundError if there is none."""
        self._check_open()
        self._provider.deny_path(peer, ev, True)

    def allow(self, peer: bytes, ev: int) -> None:
        """Undo :meth:`deny`."""
        self._check_open()
        self._provider.deny_path(peer, ev, False)

    def denied(self) -> Sequence[DeniedPath]:
        """The denylist."""
        self._check_open()
        return self._provider.denied_paths()

    def poll_ev_event(self) -> PathEvent | None:
        """Take the oldest event of a path that became ASSUMED_BAD, DENIED or GOOD again, on any queue pair.

        Never blocks. At most 4096 are kept; see :attr:`ev_events_dropped`.
        """
        self._check_open()
        if not self._ev_events:
            self._provider.refresh()
        return self._ev_events.popleft() if self._ev_events else None

    @property
    def ev_events_dropped(self) -> int:
        """Events lost because this controller, its agent or its NIC could not keep them."""
        return self._dropped_here + self._provider.events_dropped()

    # ---- probes -------------------------------------------------------------------------------------------------

    def probe(self, peer: bytes, ev: int, timeout_ns: int = PROBE_TIMEOUT_NS) -> int:
        """Send an endpoint probe on one path, whatever its state; returns its number for :meth:`probe_result`.

        `timeout_ns` is 1 ns to 60 s. NotFoundError when there is no such path, ResourceExhaustedError while 1024
        are on the way to this peer.
        """
        self._check_open()
        number = self._provider.probe(peer, ev, timeout_ns)
        while len(self._answers) >= EVENT_LIMIT:  # results that were never taken
            del self._answers[next(iter(self._answers))]
        self._answers[number] = next((e for e in self._strays if e.probe_id == number), None)
        return number

    def probe_result(self, number: int) -> ProbeEvent | None:
        """Result of a probe, None while there is none; it can be taken once. NotFoundError for an unknown number."""
        self._check_open()
        if number not in self._answers:
            raise NotFoundError(f"No probe {number} was sent here, or its result was taken.")
        if self._answers[number] is None:
            self._provider.refresh()
        result = self._answers[number]
        if result is not None:
            del self._answers[number]
        return result

    def ping(self, peer: bytes, ev: int, timeout_ns: int = PROBE_TIMEOUT_NS) -> ProbeEvent:
        """Send one probe and block until it is answered or times out (then ``rtt`` is None)."""
        number = self.probe(peer, ev, timeout_ns)
        deadline = self._provider.now() + timeout_ns + 5_000_000_000  # the NIC itself gives up long before
        while True:
            result = self.probe_result(number)
            if result is not None:
                return result
            wait_until(self._provider, deadline, timeout_ns / 1e9, "probe result")

    async def next_result(self, number: int) -> ProbeEvent:
        """Like :meth:`probe_result`, letting other coroutines run until there is a result."""
        while True:
            result = self.probe_result(number)
            if result is not None:
                return result
            await self._waiters.wait(self._provider)

    # ---- state --------------------------------------------------------------------------------------------------

    def ports(self, peer: bytes | None = None) -> Sequence[PortState]:
        """Ports of this NIC, or of the NIC with address `peer` as it last reported them. NotFoundError."""
        self._check_open()
        return self._provider.port_states(peer)

    def destinations(self) -> Sequence[DestinationInfo]:
        """Every NIC this one knows paths to, with their entropy values."""
        self._check_open()
        return self._provider.destinations()

    def destination(self, name: str) -> DestinationInfo:
        """The NIC called `name`; NotFoundError lists those that exist."""
        known = self.destinations()
        for destination in known:
            if destination.name == name:
                return destination
        raise NotFoundError(f"No NIC is called {name}: there are {', '.join(d.name for d in known)}.")

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Have the agent write the NIC's event trace (docs/trace.md) to `path`; "" ends it.

        This process creates and owns the file. RejectedError for a NIC in this process, which takes a sink instead
        (``Nic.set_trace``); MrcError when the file cannot be created.
        """
        self._check_open()
        text = os.fspath(path)
        self._provider.trace(str(Path(text).absolute()) if text else "")

    # ---- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop receiving events. Changes to the NIC stay. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._provider.remove_event_sink(self._on_event)
        if self._owns_provider:
            self._provider.close()
        self._waiters.wake()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("This controller is closed.")

    def _on_event(self, event: AsyncEvent | None) -> None:
        if isinstance(event, PathEvent):
            if len(self._ev_events) >= EVENT_LIMIT:
                self._ev_events.popleft()
                self._dropped_here += 1
            self._ev_events.append(event)
        elif isinstance(event, ProbeEvent):
            if event.probe_id in self._answers:
                self._answers[event.probe_id] = event
            else:  # another controller's, or ours before we know its number
                self._strays.append(event)
        self._waiters.wake()
