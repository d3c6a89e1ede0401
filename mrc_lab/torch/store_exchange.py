"""The rendezvous of a group's ranks over the store that every torch.distributed job has: our `Exchange`.

Values are JSON under one key a rank. The store is asked now and then rather than waited in: a client that waits in it
keeps every other thread of the process from using it. Whoever gives a value to one gather has read all of the one
before it; so each rank then deletes its key of that one, and a group that is made later in the same store under the
same name does not find addresses of an earlier one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.002, 0.1


class StoreExchange:
    """One rank's side. `store` is a torch.distributed Store whose keys belong to this group alone."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self._store = store
        self.rank = rank
        self.world = world
        self._previous: str | None = None  # own key of the gather before

    async def gather(self, name: str, value: Any) -> list[Any]:
        """Give `value` under `name`; once every rank has, return all values in rank order. Waits without bound."""
        own = self._key(name, self.rank)
        self._store.set(own, json.dumps(value))
        keys = [self._key(name, rank) for rank in range(self.world)]
        wait = _FIRST_WAIT_S
        while not self._store.check(keys):
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)
        values = [json.loads(self._store.get(key)) for key in keys]
        if self._previous is not None:
            with contextlib.suppress(NotImplementedError):  # a FileStore keeps its keys
                self._store.delete_key(self._previous)
        self._previous = own
        return values

    def missing(self, name: str) -> list[int]:
        """Ranks that have not given a value under `name`."""
        return [rank for rank in range(self.world) if not self._store.check([self._key(name, rank)])]

    @staticmethod
    def _key(name: str, rank: int) -> str:
        return f"mrc/{name}/{rank}"
