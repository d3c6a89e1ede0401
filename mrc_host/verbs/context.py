"""The context: an application's access to one NIC, and owner of everything it creates there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

from mrc_host.errors import InvalidArgumentError
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.controller import Controller
from mrc_host.verbs.errors import ClosedError
from mrc_host.verbs.memory import MemoryRegion
from mrc_host.verbs.provider import Provider
from mrc_host.verbs.queue_pair import QueuePair
from mrc_host.verbs.waiting import Waiters, deadline_after, wait_until
from mrc_host.verbs_types import Access, AsyncEvent, DeviceLimits, MemoryRegionInfo, PortState, QpAttributes, QpType

EVENT_LIMIT = 4096  # events kept for an application that does not read them

T = TypeVar("T")


class Context:
    """Everything an application has on one NIC. Use it in a `with` statement, which closes everything at its end.

    A context and its objects belong to one thread (or one asyncio loop) at a time.
    """

    def __init__(self, provider: Provider, *, owns_provider: bool = False) -> None:
        self._provider = provider
        self._owns_provider = owns_provider
        self._pds: dict[ProtectionDomain, None] = {}
        self._cqs: dict[CompletionQueue, None] = {}
        self._events: deque[AsyncEvent] = deque()
        self._event_waiters = Waiters()
        self.events_dropped = 0
        self._closed = False
        provider.add_event_sink(self._on_event)

    @property
    def name(self) -> str:
        """Name of the NIC."""
        return self._provider.name

    @property
    def address(self) -> bytes:
        """The NIC's IPv6 address (16 bytes)."""
        return self._provider.address

    def limits(self) -> DeviceLimits:
        """What the NIC can do at most (verbs: device attributes)."""
        self._check_open()
        return self._provider.query_device()

    def ports(self) -> tuple[PortState, ...]:
        """The NIC's ports."""
        self._check_open()
        return self._provider.port_states()

    def controller(self) -> Controller:
        """The controller's side of the same NIC, usable until it or the context is closed.

        Raises AgentLostError for a user who may use the NIC but not control it (docs/privileges.md).
        """
        self._check_open()
        return Controller(self._provider.for_controller())

    def alloc_pd(self) -> ProtectionDomain:
        """A protection domain: queue pairs can only use memory of their own domain."""
        self._check_open()
        pd = ProtectionDomain(self._provider, lambda gone: _discard(self._pds, gone))
        self._pds[pd] = None
        return pd

    def create_cq(self, capacity: int = 256) -> CompletionQueue:
        """A completion queue of `capacity` entries (at least 1)."""
        self._check_open()
        if capacity < 1:
            raise InvalidArgumentError(f"A completion queue needs at least one entry, not {capacity}.")
        cq = CompletionQueue(self._provider, capacity, lambda gone: _discard(self._cqs, gone))
        self._cqs[cq] = None
        return cq

    def counters(self) -> Mapping[str, int]:
        """Counters of the whole NIC: frames, drops by reason."""
        self._check_open()
        return self._provider.nic_counters()

    def hw_counters(self) -> Mapping[str, int]:
        """All counters and gauges of the NIC, including the sums over its queue pairs, by name (docs/counters.md)."""
        self._check_open()
        return self._provider.hw_counters(None)

    def port_counters(self) -> tuple[Mapping[str, int], ...]:
        """All counters and gauges of each port, in order of the ports (docs/counters.md)."""
        self._check_open()
        return self._provider.port_counters()

    def poll_event(self) -> AsyncEvent | None:
        """Take the oldest asynchronous event (path, port, queue pair) if there is one; never blocks.

        At most 4096 events are kept; `events_dropped` counts those lost because the application did not read.
        """
        self._check_open()
        if not self._events:
            self._provider.refresh()
        return self._events.popleft() if self._events else None

    def wait_event(self, timeout_s: float | None = None) -> AsyncEvent:
        """Block until there is an asynchronous event; raises WaitTimeoutError after `timeout_s` seconds."""
        deadline = deadline_after(self._provider, timeout_s)
        while True:
            event = self.poll_event()
            if event is not None:
                return event
            wait_until(self._provider, deadline, timeout_s, "event")

    async def next_event(self) -> AsyncEvent:
        """Take the next asynchronous event, letting other coroutines run until there is one."""
        while True:
            event = self.poll_event()
            if event is not None:
                return event
            await self._event_waiters.wait(self._provider)

    def close(self) -> None:
        """Close everything created here, queue pairs first. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._provider.remove_event_sink(self._on_event)
        if self._owns_provider:
            self._provider.close()
        parts: list[ProtectionDomain | CompletionQueue] = [*self._pds, *self._cqs]
        for part in parts:
            if self._owns_provider:
                part.abandon()
            else:
                part.close()
        self._event_waiters.wake()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("This context is closed.")

    def _on_event(self, event: AsyncEvent | None) -> None:
        if event is not None:
            if len(self._events) >= EVENT_LIMIT:
                self._events.popleft()
                self.events_dropped += 1
            self._events.append(event)
        self._event_waiters.wake()


class ProtectionDomain:
    """A set of memory regions and the queue pairs that may use them. Made by :meth:`Context.alloc_pd`."""

    def __init__(self, provider: Provider, forget: Callable[[ProtectionDomain], None]) -> None:
        self._provider = provider
        self._forget = forget
        self.number = provider.alloc_pd()
        self._regions: dict[MemoryRegion, None] = {}
        self._qps: dict[QueuePair, None] = {}
        self._closed = False

    def alloc_mr(
        self, length: int, access: Access = Access.LOCAL_WRITE | Access.REMOTE_WRITE, *, address: int | None = None
    ) -> MemoryRegion:
        """Allocate `length` (1 or more) bytes of zeroed memory and register it.

        REMOTE_WRITE, which lets peers write here, needs LOCAL_WRITE too. `address` is as for :meth:`reg_mr`.
        """
        self._check_range(length, 0)
        return self._add(*self._provider.allocate_memory(self.number, length, access, address))

    def reg_mr(
        self,
        fd: int,
        length: int,
        access: Access = Access.LOCAL_WRITE | Access.REMOTE_WRITE,
        *,
        offset: int = 0,
        address: int | None = None,
    ) -> MemoryRegion:
        """Register memory that the application owns: `length` bytes at `offset` of the memfd `fd`.

        The memfd must be sealed against shrinking (``F_SEAL_SHRINK``); what the application has mapped of it is the
        same memory as `buffer`, and stays when the region is closed. `address` is what work requests, here and at
        peers, call the first byte (verbs: iova), any 64-bit number for which the region does not wrap; None lets the
        NIC choose. One memfd may be registered several times. Raises InvalidArgumentError, ResourceExhaustedError.
        """
        self._check_range(length, offset)
        return self._add(*self._provider.register_memory(self.number, fd, offset, length, access, address))

    def _check_range(self, length: int, offset: int) -> None:
        self._check_open()
        if length < 1:
            raise InvalidArgumentError(f"A memory region has at least one byte, not {length}.")
        if offset < 0:
            raise InvalidArgumentError(f"A memory region cannot start at offset {offset}.")

    def _add(self, info: MemoryRegionInfo, buffer: memoryview) -> MemoryRegion:
        region = MemoryRegion(self._provider, info, buffer, lambda gone: _discard(self._regions, gone))
        self._regions[region] = None
        return region

    def create_qp(
        self,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue | None = None,
        qp_type: QpType = QpType.MRC,
        attributes: QpAttributes | None = None,
    ) -> QueuePair:
        """A queue pair whose own requests complete in `send_cq` and the peer's WRITE_WITH_IMM in `recv_cq`.

        Without `recv_cq` both use `send_cq`. Raises MrcError that names an attribute out of range.
        """
        self._check_open()
        queues = (send_cq, recv_cq if recv_cq is not None else send_cq)
        qpn = self._provider.create_qp(
            self.number, qp_type, queues[0].number, queues[1].number, attributes or QpAttributes()
        )
        qp = QueuePair(self._provider, qpn, qp_type, queues, lambda gone: _discard(self._qps, gone))
        self._qps[qp] = None
        return qp

    def close(self) -> None:
        """Close its queue pairs, then its memory regions, then itself. Closing twice does nothing."""
        if self._closed:
            return
        for qp in tuple(self._qps):
            qp.close()
        for region in tuple(self._regions):
            region.close()
        self._provider.dealloc_pd(self.number)
        self._closed = True
        self._forget(self)

    def abandon(self) -> None:
        """Mark everything closed without telling the NIC, because the whole context is going away."""
        self._closed = True
        for qp in tuple(self._qps):
            qp.abandon()
        for region in tuple(self._regions):
            region.abandon()
        self._forget(self)

    def __enter__(self) -> ProtectionDomain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("This protection domain is closed.")


def _discard(collection: dict[T, None], item: T) -> None:
    """Take `item` out of a dict that serves as an ordered set."""
    collection.pop(item, None)
