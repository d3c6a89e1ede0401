"""Waiting for a provider, blocking or in a coroutine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc_host.verbs.errors import WaitTimeoutError
from mrc_host.verbs.provider import Provider

if TYPE_CHECKING:
    import asyncio


def deadline_after(provider: Provider, timeout_s: float | None) -> int | None:
    """The time on the provider's clock `timeout_s` seconds from now; None for no deadline."""
    return None if timeout_s is None else provider.now() + round(timeout_s * 1e9)


def wait_until(provider: Provider, deadline: int | None, timeout_s: float | None, what: str) -> None:
    """Block until anything arrives, which may not be what the caller waits for; WaitTimeoutError after the deadline."""
    if deadline is not None and provider.now() >= deadline:
        raise WaitTimeoutError(f"No {what} arrived within {timeout_s:g} s.")
    provider.wait(deadline)


class Waiters:
    """Coroutines that wait for the same thing. Waking wakes all of them; each then checks its own condition."""

    def __init__(self) -> None:
        self._futures: dict[asyncio.Future[None], None] = {}

    async def wait(self, provider: Provider) -> None:
        """Wait until woken. The caller must have found nothing to take since it last ran."""
        import asyncio  # not at the top: agents, which import this too, do without, and it takes long

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._futures[future] = None
        try:
            provider.attach(loop)  # may already call wake
            await future
        finally:
            self._futures.pop(future, None)

    def wake(self) -> None:
        """Wake every waiting coroutine."""
        for future in tuple(self._futures):
            if not future.done():
                future.set_result(None)
