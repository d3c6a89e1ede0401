"""Several ranks of one group in this process, on NICs that copy memory, with torch's own store between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from mrc_lab.torch.group_links import GroupLinks
from mrc_lab.torch.loop_thread import LoopThread
from mrc_lab.torch.process_group import MrcProcessGroup
from mrc_lab.torch.store_exchange import StoreExchange
from mrc_lab.workloads.collectives import StreamSettings
from mrc_lab.workloads.liveness import LivenessSettings
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork

SMALL = StreamSettings(chunk_bytes=256, slots=3, tail_bytes=100)


class Ranks:
    """`groups` are the ranks' process groups, in order."""

    def __init__(
        self,
        world: int,
        *,
        seed: int = 1,
        timeout_s: float = 20,
        store: Any = None,
        liveness: LivenessSettings | None = None,
    ) -> None:
        self.world = world
        self.liveness = liveness
        self.thread = LoopThread()
        self.network = FakeNetwork(seed)
        self.store = store or dist.HashStore()
        self.released: list[int] = []
        self.groups = [self.group(rank, timeout_s) for rank in range(world)]

    def group(self, rank: int, timeout_s: float, name: str = "g") -> MrcProcessGroup:
        async def device() -> Any:
            return self.network.device(rank)

        exchange = StoreExchange(dist.PrefixStore(f"{name}/", self.store), rank, self.world)
        links = GroupLinks(self.thread.call(device()), exchange, SMALL, name, self.liveness)
        release = lambda: self.released.append(rank)  # noqa: E731
        return MrcProcessGroup(self.thread, links, timedelta(seconds=timeout_s), release=release)

    def each(self, post: Callable[[MrcProcessGroup, int], Any]) -> list[Any]:
        """Post an operation on every rank, then wait for all."""
        works = [post(group, rank) for rank, group in enumerate(self.groups)]
        for work in works:
            assert work.wait()
        return works

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for group in self.groups:
            group.abort()
        self.thread.stop()


def options(kind: Any, **fields: Any) -> Any:
    """One of torch's options, with these fields."""
    made = kind()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def same(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    return len(found) == len(expected) and all(bool((a == b).all()) for a, b in zip(found, expected, strict=True))
