"""A NIC device in the same process, for simulation and tests.

Neither the device nor this provider has a clock or a thread: the time comes from `clock`, and two callbacks reach the
*world*, the code that moves the frames. `poke` is called after every command that may have given the NIC something to
send. `advance(deadline)` lets the world run until something was dispatched or, in its own time, `deadline` (None: no
limit) is reached; it returns False when the world becomes idle before that. In turn, after driving the device, the
world calls :meth:`LocalProvider.dispatch`, which announces completions and events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mrc_common import large_memory
from mrc_host.errors import MrcError
from mrc_host.verbs import memfds
from mrc_host.verbs.device import DeviceVerbs
from mrc_host.verbs.errors import RejectedError
from mrc_host.verbs.provider import EventSink, Provider
from mrc_host.verbs_types import Access, Completion, MemoryRegionInfo, QpCounters, WorkRequest

if TYPE_CHECKING:
    import asyncio

    from mrc_host.nic import Nic  # not at the top, so that the caller chooses the compiled or the plain one

Advance = Callable[["int | None"], bool]


class LocalProvider(DeviceVerbs, Provider):
    """Verbs on a NIC device in this process; several contexts may share it.

    `clock` gives the world's time in nanoseconds. See the module for `poke` and `advance`; without `advance` a blocking
    wait is refused.
    """

    def __init__(
        self,
        nic: Nic,
        clock: Callable[[], int],
        *,
        poke: Callable[[], None] | None = None,
        advance: Advance | None = None,
    ) -> None:
        super().__init__(nic, clock, poke)
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
        """Announce the NIC's completions and events; True if there were any. The world calls this."""
        if not self._nic.has_news():
            return False
        ready = self._nic.cq_ready()
        for queues, callbacks in ((ready, self._on_ready), (self._nic.cq_notified(), self._on_notify)):
            for cq in sorted(queues):
                self._call_back(callbacks, cq)
        return self._dispatch_events() or bool(ready)

    @staticmethod
    def _call_back(callbacks: Mapping[int, Callable[[], None]], cq: int) -> None:
        callback = callbacks.get(cq)
        if callback is not None:
            callback()

    def _dispatch_events(self) -> bool:
        """Announce the NIC's asynchronous events; True if there were any."""
        events = self._nic.async_events()
        for event in events:
            for sink in tuple(self._sinks):
                sink(event)
        return bool(events)

    def alloc_pd(self) -> int:
        """A new protection domain's number."""
        self._next_pd += 1
        return self._next_pd - 1

    def dealloc_pd(self, pd: int) -> None:
        """Nothing to do: a protection domain is only a number."""

    def allocate_memory(
        self, pd: int, length: int, access: Access, address: int | None
    ) -> tuple[MemoryRegionInfo, memoryview]:
        """Allocate and register `length` bytes of zeroed memory, whose pages are taken when they are first used."""
        buffer = large_memory.zeroed(length)
        return self._nic.register_memory(pd, buffer, access, address), buffer

    def register_memory(
        self, pd: int, fd: int, offset: int, length: int, access: Access, address: int | None
    ) -> tuple[MemoryRegionInfo, memoryview]:
        """Map part of a memfd and register it."""
        _memory, view = memfds.map_part(fd, offset, length)
        return self._nic.register_memory(pd, view, access, address), view

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
        super().destroy_cq(cq)
        self._on_ready.pop(cq, None)
        self._on_notify.pop(cq, None)

    def poll_cq(self, cq: int, max_entries: int) -> list[Completion]:
        """Take completions."""
        blocks = self._nic.cq_blocks(cq)
        taken = self._nic.poll_cq(cq, max_entries, self._clock())
        if taken and blocks:
            self._poke()  # messages that had waited for room are to be acknowledged
        return taken

    def qp_counters(self, qpn: int) -> QpCounters:
        """Counters of a queue pair."""
        return self._nic.qp_counters(qpn)

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
            self._poke()  # also for requests posted before one that was refused

    def deny_path(self, peer: bytes, ev: int, denied: bool, leased: bool = False) -> None:
        """Deny or allow a path; there are no leases here."""
        if leased:
            raise RejectedError("This NIC has no agent to lease a denial from.")
        self._nic.control.set_path_denied(peer, ev, denied, self._clock())
        self._poke()

    def for_controller(self) -> LocalProvider:
        """The provider itself: it has all verbs."""
        return self

    def trace(self, path: str) -> None:
        """A device in this process writes no files: refused."""
        raise RejectedError("This NIC has no agent to write a trace: give it a sink with Nic.set_trace.")

    def events_dropped(self) -> int:
        """Events that the NIC could not keep."""
        return self.nic_counters().get("events_lost", 0)

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
        """Let the world run until something was dispatched or `deadline` has passed in its own time."""
        if self._advance is None:
            raise RejectedError("This NIC's world cannot be waited for: drive it, then poll, or use asyncio.")
        if not self._advance(deadline):
            raise RejectedError("The world is idle: nothing will ever arrive here.")

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing to do: the world calls :meth:`dispatch` in its own loop."""

    def close(self) -> None:
        """Forget all callbacks; the NIC belongs to its world."""
        self._on_ready.clear()
        self._on_notify.clear()
        self._sinks.clear()
