"""The interface below the verbs: what each way of reaching a NIC implements.

The objects an application holds (context, queue pair, ...) keep no protocol state. They turn each verb into one call
of a :class:`Provider`. :class:`~mrc_host.verbs.local.LocalProvider` calls a NIC device in the same process; the agent's
:class:`~mrc_host.verbs.remote.client.AgentProvider` sends requests to the process that owns the host's NIC.

Completions are announced per completion queue through the callback given to :meth:`Provider.create_cq`; the callback
only says that the queue may have entries, which are then taken with :meth:`Provider.poll_cq`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mrc_host.verbs.nic_verbs import NicVerbs
from mrc_host.verbs_types import Access, AsyncEvent, Completion, MemoryRegionInfo, WorkRequest

if TYPE_CHECKING:
    import asyncio

EventSink = Callable[["AsyncEvent | None"], None]
"""Takes one asynchronous event; None means that the provider has failed, as every further call will report."""


class Provider(NicVerbs):
    """The verbs of the table, and what each provider does in its own way: memory, completions, posts, events, waiting.

    Every method may raise MrcError.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the NIC, as its configuration gives it."""

    @property
    @abstractmethod
    def address(self) -> bytes:
        """The NIC's IPv6 address (16 bytes)."""

    @abstractmethod
    def allocate_memory(
        self, pd: int, length: int, access: Access, address: int | None
    ) -> tuple[MemoryRegionInfo, memoryview]:
        """Allocate `length` bytes of zeroed memory that NIC and application share, and register it at `address`."""

    @abstractmethod
    def register_memory(
        self, pd: int, fd: int, offset: int, length: int, access: Access, address: int | None
    ) -> tuple[MemoryRegionInfo, memoryview]:
        """Register `length` bytes at `offset` of the memfd `fd` at `address`; `fd` may be closed afterwards."""

    @abstractmethod
    def create_cq(self, capacity: int, on_ready: Callable[[], None], on_notify: Callable[[], None]) -> int:
        """A completion queue; `on_ready` is called when it may have entries or when the provider has failed.

        `on_notify` is called when it got an entry that it was armed for, or when the provider has failed.
        """

    @abstractmethod
    def req_notify_cq(self, cq: int, solicited_only: bool) -> None:
        """Arm a completion queue (:mod:`mrc_host.notify`)."""

    @abstractmethod
    def poll_cq(self, cq: int, max_entries: int) -> list[Completion]:
        """Take up to `max_entries` completions, oldest first; never blocks."""

    @abstractmethod
    def post_send(self, qpn: int, requests: Sequence[WorkRequest]) -> None:
        """Hand over work requests, in order."""

    @abstractmethod
    def for_controller(self) -> Provider:
        """The provider of the controller's verbs on the same NIC; it lives as long as this one."""

    @abstractmethod
    def trace(self, path: str) -> None:
        """Write the NIC's event trace to `path` ("": nowhere); RejectedError if this provider cannot."""

    @abstractmethod
    def events_dropped(self) -> int:
        """Asynchronous events lost because the NIC or the agent could not keep them."""

    @abstractmethod
    def add_event_sink(self, sink: EventSink, *, whole_nic: bool = False) -> None:
        """Call `sink` with every asynchronous event for this user of the NIC or, with `whole_nic`, for any user."""

    @abstractmethod
    def remove_event_sink(self, sink: EventSink) -> None:
        """Undo :meth:`add_event_sink`."""

    @abstractmethod
    def now(self) -> int:
        """The time, in nanoseconds, on the clock of :meth:`wait`."""

    @abstractmethod
    def refresh(self) -> None:
        """Process what has arrived, announcing completions and events; never blocks."""

    @abstractmethod
    def wait(self, deadline: int | None) -> None:
        """Block until something may have arrived or, unless None, `deadline` on the clock of :meth:`now` has passed."""

    @abstractmethod
    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on announce completions and events from `loop`. Attaching again to the same loop does nothing."""

    @abstractmethod
    def close(self) -> None:
        """Release everything. Closing twice does nothing."""
