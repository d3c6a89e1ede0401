"""Ranks meet in a store; one that gives up keeps nobody waiting who is about to read what it gave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch.distributed as dist

from mrc_lab.torch.store_exchange import StoreExchange


async def give_up(exchange: StoreExchange, name: str, store: Any) -> None:
    """Cancel a gather once its value is there."""
    gathering = asyncio.ensure_future(exchange.gather(name, "given"))
    while not store.check([f"mrc/{name}/{exchange.rank}"]):
        await asyncio.sleep(0)
    gathering.cancel()
    await asyncio.wait((gathering,))


def test_what_a_rank_gave_that_has_given_up_can_be_read_and_does_not_count() -> None:
    """A store's get waits for a key that is gone, and all other calls of its process with it."""

    async def scenario() -> None:
        store = dist.HashStore()
        first = [StoreExchange(store, rank, 2) for rank in range(2)]
        await asyncio.gather(*(exchange.gather("cards", exchange.rank) for exchange in first))
        await give_up(first[1], "connected", store)
        assert store.check(["mrc/cards/1", "mrc/connected/1"])
        second = [StoreExchange(store, rank, 2) for rank in range(2)]
        waiting = asyncio.ensure_future(second[0].gather("cards", 10))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert await asyncio.gather(waiting, second[1].gather("cards", 11)) == [[10, 11], [10, 11]]

    asyncio.run(scenario())
