"""Completion queues: where a queue pair says what became of its work requests.

A queue is read in any of three manners, which may be mixed: `poll` takes what is there, `wait` blocks until there is
something, `await next()` lets other coroutines run meanwhile. One completion queue may serve many queue pairs; then
`Completion.qpn` tells them apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from mrc_host.values import Completion, CompletionStatus
from mrc_host.verbs.errors import ClosedError, CompletionError
from mrc_host.verbs.provider import Provider
from mrc_host.verbs.waiting import Waiters, deadline_after, wait_until


def check(completion: Completion) -> Completion:
    """The completion itself if it succeeded; else raises CompletionError with status and reason."""
    if completion.status is not CompletionStatus.SUCCESS:
        reason = f": {completion.reason.rstrip('.')}" if completion.reason else ""
        status = completion.status.value.replace("_", " ")
        raise CompletionError(f"Work request {completion.wr_id} of QP {completion.qpn} failed, {status}{reason}.")
    return completion


class CompletionQueue:
    """Made by `Context.create_cq`. `capacity` is the number of entries it holds before it overruns."""

    def __init__(self, provider: Provider, capacity: int, forget: Callable[[CompletionQueue], None]) -> None:
        self.capacity = capacity
        self._provider = provider
        self._forget = forget
        self._waiters = Waiters()
        self._closed = False
        self.number = provider.create_cq(capacity, self._waiters.wake)

    def poll(self, max_entries: int = 16) -> list[Completion]:
        """Take up to `max_entries` completions, oldest first; an empty list when there is none. Never blocks."""
        if self._closed:
            raise ClosedError("This completion queue is closed.")
        return self._provider.poll_cq(self.number, max_entries)

    def wait(self, timeout_s: float | None = None) -> Completion:
        """Block until there is a completion and take it.

        Raises WaitTimeoutError after `timeout_s` seconds (None: never), and AgentLostError at once if the agent dies.
        Over a simulated NIC the time is that of its world.
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
        agent dies, ClosedError if the queue is closed meanwhile.
        """
        while True:
            entries = self.poll(1)
            if entries:
                return entries[0]
            await self._waiters.wait(self._provider)

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
        """Mark the queue closed without telling the NIC, because the whole context is going away."""
        self._closed = True
        self._forget(self)
        self._waiters.wake()

    def __enter__(self) -> CompletionQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
