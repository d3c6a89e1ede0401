"""Completion queues: where queue pairs report the outcome of work requests.

A queue can be read in three ways, which may be mixed: `poll` takes what is there, `wait` blocks until there is an
entry, `await next()` lets other coroutines run meanwhile. One completion queue may serve many queue pairs; then
`Completion.qpn` distinguishes them. Who takes every entry, and does little with each, spares the coroutine: `listen`.

To avoid being woken for every entry, arm the queue with `req_notify` and wait for one notification, as with a
completion channel:

    cq.req_notify(solicited_only=True)
    entries = cq.poll()            # what arrived before it was armed
    if not entries:
        cq.wait_notified()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from mrc_host.verbs.errors import ClosedError, CompletionError
from mrc_host.verbs.provider import Provider
from mrc_host.verbs.waiting import Waiters, deadline_after, wait_until
from mrc_host.verbs_types import Completion, CompletionStatus

if TYPE_CHECKING:
    import asyncio


def check(completion: Completion) -> Completion:
    """The completion itself if it succeeded; else raises CompletionError with status and reason."""
    if completion.status is not CompletionStatus.SUCCESS:
        reason = f": {completion.reason.rstrip('.')}" if completion.reason else ""
        status = completion.status.value.replace("_", " ")
        raise CompletionError(f"Work request {completion.wr_id} of QP {completion.qpn:#x} failed, {status}{reason}.")
    return completion


class CompletionQueue:
    """Created by `Context.create_cq`. `capacity` is the number of entries it holds before it overruns."""

    def __init__(self, provider: Provider, capacity: int, forget: Callable[[CompletionQueue], None]) -> None:
        self.capacity = capacity
        self._provider = provider
        self._forget = forget
        self._waiters = Waiters()
        self._notify_waiters = Waiters()
        self._notified = False
        self._closed = False
        self._listener: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the listener's
        self._soon: asyncio.Handle | None = None  # a call of the listener that is due
        self.number = provider.create_cq(capacity, self._on_ready, self._on_notify)

    def poll(self, max_entries: int = 16) -> list[Completion]:
        """Take up to `max_entries` completions, oldest first; an empty list when there is none. Never blocks."""
        if self._closed:
            raise ClosedError("This completion queue is closed.")
        return self._provider.poll_cq(self.number, max_entries)

    def wait(self, timeout_s: float | None = None) -> Completion:
        """Block until there is a completion and take it.

        Raises WaitTimeoutError after `timeout_s` seconds (None: never), and AgentLostError at once if the agent exits.
        With a simulated NIC the time is that of its world.
        """
        deadline = deadline_after(self._provider, timeout_s)
        while True:
            entries = self.poll(1)
            if entries:
                return entries[0]
            wait_until(self._provider, deadline, timeout_s, "completion")

    async def next(self) -> Completion:
        """Take the next completion, letting other coroutines run until there is one.

        Several coroutines may wait on one queue: each gets a different completion. Raises AgentLostError at once if the
        agent exits, ClosedError if the queue is closed meanwhile.
        """
        while True:
            entries = self.poll(1)
            if entries:
                return entries[0]
            await self._waiters.wait(self._provider)

    def listen(self, listener: Callable[[], None]) -> None:
        """From now on, have `listener` called by the running event loop whenever it may find entries, until `unlisten`.

        It is to poll until nothing is left, or an error says that nothing will come: ClosedError, AgentLostError. One
        listener at a time. Raises AgentLostError if the agent has exited.
        """
        import asyncio  # not at the top: see `Waiters.wait`

        loop = asyncio.get_running_loop()
        self._provider.attach(loop)
        self.unlisten()
        self._listener, self._loop = listener, loop
        self._call_soon()  # for entries that are here already

    def unlisten(self) -> None:
        """End :meth:`listen`: the listener is not called any more."""
        self._listener = self._loop = None
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def _on_ready(self) -> None:
        self._waiters.wake()
        self._call_soon()

    def _call_soon(self) -> None:
        """Not at once: the provider may be in the middle of a command."""
        if self._loop is not None and self._soon is None and not self._loop.is_closed():
            self._soon = self._loop.call_soon(self._call)

    def _call(self) -> None:
        self._soon = None
        if self._listener is not None:
            self._listener()

    def req_notify(self, solicited_only: bool = False) -> None:
        """Request one notification: of the next entry or, with `solicited_only`, the next solicited one or failure.

        Solicited is a peer's WRITE_WITH_IMM posted with `solicited=True` (SE, docs/protocol.md §1.5). Entries that are
        already here do not notify: arm, then poll, then wait. An earlier notification that nobody took is discarded.
        """
        if self._closed:
            raise ClosedError("This completion queue is closed.")
        self._notified = False
        self._provider.req_notify_cq(self.number, solicited_only)

    def wait_notified(self, timeout_s: float | None = None) -> None:
        """Block until the notification requested by `req_notify`; the entry itself is still to be polled.

        Raises as :meth:`wait` does.
        """
        deadline = deadline_after(self._provider, timeout_s)
        while not self._take_notification():
            wait_until(self._provider, deadline, timeout_s, "notification")

    async def notified(self) -> None:
        """Like :meth:`wait_notified`, letting other coroutines run; each notification goes to one of the waiters."""
        while not self._take_notification():
            await self._notify_waiters.wait(self._provider)

    def _take_notification(self) -> bool:
        if self._closed:
            raise ClosedError("This completion queue is closed.")
        if not self._notified:
            self._provider.refresh()
        notified, self._notified = self._notified, False
        return notified

    def _on_notify(self) -> None:
        self._notified = True
        self._notify_waiters.wake()

    def __aiter__(self) -> AsyncIterator[Completion]:
        return self

    async def __anext__(self) -> Completion:
        return await self.next()

    def close(self) -> None:
        """Destroy the queue; coroutines that wait for it get ClosedError. Closing twice does nothing.

        Raises MrcError while a queue pair still uses it.
        """
        if not self._closed:
            self._provider.destroy_cq(self.number)
            self.abandon()

    def abandon(self) -> None:
        """Mark the queue closed without a command to the NIC, because the whole context is being closed."""
        self._closed = True
        self._forget(self)
        self._on_ready()
        self._notify_waiters.wake()

    def __enter__(self) -> CompletionQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
