"""The rendezvous of a group's ranks over the store that every torch.distributed job has: our `Exchange`.

Values are JSON under one key a rank. The store is asked now and then rather than waited in: a client that waits in it
keeps every other thread of the process from using it.

A group may be made again in the same store under the same name, where keys of the one before it are left. So what a
rank gives also has a hash of all that it was given before, random numbers of all ranks among it: values of another
group do not count. Whoever gives a value to one gather has read all of the one before it, whose keys are then deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from typing import Any

from mrc_common import strict_json

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.002, 0.1


class StoreExchange:
    """One rank's side. `store` is a torch.distributed Store whose keys belong to this group alone."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self._store = store
        self.rank = rank
        self.world = world
        self._nonce = secrets.token_hex(8)
        self._history = ""
        self._previous: str | None = None  # own key of the gather before

    async def gather(self, name: str, value: Any) -> list[Any]:
        """Give `value` under `name`; once every rank has, return all values in rank order. Waits without bound."""
        own = self._key(name, self.rank)
        self._store.set(own, strict_json.dumps({"after": self._history, "nonce": self._nonce, "value": value}))
        wait = _FIRST_WAIT_S
        try:
            while (given := self._given(name)) is None:
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT_S)
        except asyncio.CancelledError:
            self._forget(own)
            raise
        finally:
            self._forget(self._previous)
        self._previous = own
        self._history = hashlib.sha256("\n".join(given).encode()).hexdigest()
        return [strict_json.loads(text)["value"] for text in given]

    def missing(self, name: str) -> list[int]:
        """Ranks that have not given a value under `name`."""
        return [rank for rank in range(self.world) if not self._store.check([self._key(name, rank)])]

    def _given(self, name: str) -> list[str] | None:
        """What all ranks have given after the same as this one; None as long as one is missing."""
        keys = [self._key(name, rank) for rank in range(self.world)]
        if not self._store.check(keys):
            return None
        given = [self._store.get(key).decode() for key in keys]
        return given if all(strict_json.loads(text)["after"] == self._history for text in given) else None

    def _forget(self, key: str | None) -> None:
        if key is not None:
            with contextlib.suppress(NotImplementedError, RuntimeError):  # some stores keep their keys; it may be gone
                self._store.delete_key(key)

    @staticmethod
    def _key(name: str, rank: int) -> str:
        return f"mrc/{name}/{rank}"
