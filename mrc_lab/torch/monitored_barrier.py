"""A barrier that names the ranks that do not come, as gloo's: all report to rank 0, which lets them go.

It uses messages with tags that no user of 32-bit tags has. Ranks count their barriers, so that one who came too late to
a failed barrier is not taken for one who has come to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import numpy as np

from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives import Messages

_TAGS = 1 << 40  # two for each barrier
_ALL_CAME = -1


class MonitoredBarrier:
    """One, the `number`-th of its group, with a time limit; run it on every rank."""

    def __init__(self, number: int, timeout_s: float, *, wait_all_ranks: bool) -> None:
        """With `wait_all_ranks` rank 0 names everyone who is missing, otherwise the first."""
        self._arrive, self._leave = _TAGS + 2 * number, _TAGS + 2 * number + 1
        self._timeout_s = timeout_s
        self._wait_all = wait_all_ranks

    async def run(self, messages: Messages) -> None:
        """Ends when all ranks have come. TransferError names those who have not, or says that rank 0 gave up."""
        if messages.rank:
            await self._report(messages)
        else:
            await self._collect(messages)

    async def _report(self, messages: Messages) -> None:
        answer = np.full(1, _ALL_CAME, np.int64)
        reached = (
            f"Rank {messages.rank} successfully reached monitoredBarrier, but received errors while waiting for"
            " send/recv from rank 0"
        )
        try:
            await asyncio.wait_for(self._ask(messages, answer), self._timeout_s)
        except asyncio.TimeoutError:
            raise TransferError(f"{reached}: no answer within {self._timeout_s:g} s") from None
        except TransferError as error:
            raise TransferError(f"{reached}: {error}") from None
        if answer[0] != _ALL_CAME:
            raise TransferError(f"{reached}: rank {answer[0]} did not come")

    async def _ask(self, messages: Messages, answer: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        await messages.send(np.empty(0, np.uint8), 0, self._arrive)
        await messages.receive(answer, 0, self._leave)

    async def _collect(self, messages: Messages) -> None:
        awaited = {
            rank: asyncio.ensure_future(messages.receive(np.empty(0, np.uint8), rank, self._arrive))
            for rank in range(1, messages.world)
        }
        try:
            if awaited and self._timeout_s > 0:
                until = asyncio.ALL_COMPLETED if self._wait_all else asyncio.FIRST_EXCEPTION
                await asyncio.wait(awaited.values(), timeout=self._timeout_s, return_when=until)
        finally:
            came = [rank for rank, arrival in awaited.items() if _has_come(arrival)]
            for arrival in awaited.values():
                arrival.cancel()
            await asyncio.gather(*awaited.values(), return_exceptions=True)
        missing = [rank for rank in awaited if rank not in came]
        await self._let_go(messages, came, missing[0] if missing else _ALL_CAME)
        if missing:
            raise TransferError(self._who_is_missing(missing if self._wait_all else missing[:1]))

    def _who_is_missing(self, ranks: Sequence[int]) -> str:
        limit = f"{self._timeout_s * 1000:g} ms"
        if self._timeout_s <= 0:
            return f"Rank 0 timed out in monitoredBarrier after {limit}"
        named = f"Rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
        return f"{named} failed to pass monitoredBarrier in {limit}"

    async def _let_go(self, messages: Messages, ranks: Sequence[int], verdict: int) -> None:
        """Tell the ranks that have come; one that has gone since is no reason to fail."""
        for rank in ranks:
            with contextlib.suppress(TransferError):
                await messages.send(np.full(1, verdict, np.int64), rank, self._leave)


def _has_come(arrival: asyncio.Future[int]) -> bool:
    return arrival.done() and not arrival.cancelled() and arrival.exception() is None
