"""The rendezvous of a group's ranks over the store that every torch.distributed job has: our `Exchange`.

Values are JSON under one key a rank. The store is asked now and then rather than waited in: a client that waits in it
keeps every other thread of the process from using it. It is asked on a thread of its own: a store whose host is gone
answers nothing for as long as its own timeout, in which the NIC's loop has other things to do.

A group may be made again in the same store under the same name, where keys of the one before it are left. So what a
rank gives also has a hash of all that it was given before, random numbers of all ranks among it: values of another
group do not count. Whoever gives a value to one gather has read all of the one before it, whose keys are then deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from mrc_common import strict_json
from mrc_lab.torch.callback_threads import CallbackThreads

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.002, 0.1
_ANSWER_S = 1.0  # how long the store may take for what is not needed: to forget a key, to say who is missing

Result = TypeVar("Result")


class AsyncStore:
    """A torch.distributed Store for coroutines. What it raises is the store's own, a RuntimeError if it is gone."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._threads = CallbackThreads()

    async def set(self, key: str, value: Any) -> None:
        """Put a JSON value under `key`."""
        await self._run(lambda: self._store.set(key, strict_json.dumps(value)))

    async def check(self, keys: list[str]) -> bool:
        """Whether all keys have values."""
        return await self._run(lambda: bool(self._store.check(keys)))

    async def get(self, keys: list[str]) -> list[str]:
        """The texts under `keys`, which all have values."""
        return await self._run(lambda: [self._store.get(key).decode() for key in keys])

    async def delete(self, key: str) -> None:
        """Forget a key; some stores keep theirs, and one whose host is gone is not waited for."""
        with contextlib.suppress(NotImplementedError, RuntimeError, asyncio.TimeoutError):
            await asyncio.wait_for(self._run(lambda: self._store.delete_key(key)), _ANSWER_S)

    async def leave_word(self, key: str, value: Any) -> None:
        """As :meth:`set`, for others who may look; a store that is gone is not waited for."""
        with contextlib.suppress(RuntimeError, asyncio.TimeoutError):
            await asyncio.wait_for(self.set(key, value), _ANSWER_S)

    async def _run(self, call: Callable[[], Result]) -> Result:
        """Have a thread carry out `call`; a caller that is cancelled does not wait for it."""
        done: Future[Result] = Future()

        def settle() -> None:
            try:
                result = call()
            except BaseException as error:
                if done.set_running_or_notify_cancel():
                    done.set_exception(error)
            else:
                if done.set_running_or_notify_cancel():
                    done.set_result(result)

        self._threads.run(settle)
        return await asyncio.wrap_future(done)


class StoreExchange:
    """One rank's side. `store` is a torch.distributed Store whose keys belong to this group alone."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self._store = AsyncStore(store)
        self.rank = rank
        self.world = world
        self._nonce = secrets.token_hex(8)
        self._history = ""
        self._previous: str | None = None  # own key of the gather before

    async def gather(self, name: str, value: Any) -> list[Any]:
        """Give `value` under `name`; once every rank has, return all values in rank order. Waits without bound."""
        own = self._key(name, self.rank)
        await self._store.set(own, {"after": self._history, "nonce": self._nonce, "value": value})
        wait = _FIRST_WAIT_S
        try:
            while (given := await self._given(name)) is None:
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT_S)
        except asyncio.CancelledError:
            await self._withdraw(own)
            await self._withdraw(self._previous)
            raise
        await self._forget(self._previous)
        self._previous = own
        self._history = hashlib.sha256("\n".join(given).encode()).hexdigest()
        return [strict_json.loads(text)["value"] for text in given]

    async def missing(self, name: str) -> list[int]:
        """Ranks that have not given a value under `name`. RuntimeError, asyncio.TimeoutError: the store is gone."""

        async def absent() -> list[int]:
            return [rank for rank in range(self.world) if not await self._store.check([self._key(name, rank)])]

        return await asyncio.wait_for(absent(), _ANSWER_S)

    async def _given(self, name: str) -> list[str] | None:
        """What all ranks have given after the same as this one; None as long as one is missing."""
        keys = [self._key(name, rank) for rank in range(self.world)]
        if not await self._store.check(keys):
            return None
        given = await self._store.get(keys)
        return given if all(strict_json.loads(text)["after"] == self._history for text in given) else None

    async def _forget(self, key: str | None) -> None:
        if key is not None:
            await self._store.delete(key)

    async def _withdraw(self, key: str | None) -> None:
        """Have what was given count no more. Others may be about to read it, and wait if it is gone: it is replaced."""
        if key is not None:
            await self._store.leave_word(key, {"after": None})

    @staticmethod
    def _key(name: str, rank: int) -> str:
        return f"mrc/{name}/{rank}"
