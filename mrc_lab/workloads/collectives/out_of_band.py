"""A collective's interface to the world beside the fabric, and an implementation for ranks that share a process."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class Exchange(Protocol):
    """Out-of-band all-gather of small JSON values between the ranks of one job."""

    @property
    def rank(self) -> int:
        """Number of this process, 0..world-1."""
        ...

    @property
    def world(self) -> int:
        """Number of ranks."""
        ...

    async def gather(self, name: str, value: Any) -> list[Any]:
        """Give `value` under `name`; once every rank has, return all values in rank order."""
        ...


class LocalMeeting:
    """Meeting place of `world` ranks that are coroutines of one loop; it takes no time, not even on a virtual clock."""

    def __init__(self, world: int) -> None:
        self.world = world
        self._gathers: dict[str, dict[int, Any]] = {}
        self._waiting: dict[str, asyncio.Future[list[Any]]] = {}

    def rank(self, number: int) -> LocalExchange:
        """The exchange that rank `number` uses."""
        return LocalExchange(self, number)

    async def gather(self, rank: int, name: str, value: Any) -> list[Any]:
        """As :meth:`Exchange.gather`, for `rank`."""
        values = self._gathers.setdefault(name, {})
        if rank in values:
            raise ValueError(f"rank {rank} gave a second value for {name!r}")
        values[rank] = value
        future = self._waiting.setdefault(name, asyncio.get_running_loop().create_future())
        if len(values) == self.world:
            del self._gathers[name], self._waiting[name]
            future.set_result([values[r] for r in range(self.world)])
        return list(await asyncio.shield(future))


class LocalExchange:
    """One rank's side of a :class:`LocalMeeting`."""

    def __init__(self, meeting: LocalMeeting, rank: int) -> None:
        self._meeting = meeting
        self.rank = rank
        self.world = meeting.world

    async def gather(self, name: str, value: Any) -> list[Any]:
        """As :meth:`Exchange.gather`."""
        return await self._meeting.gather(self.rank, name, value)
