"""Processes that form and reconfigure a group, all in this one, on NICs that copy memory, with a store between them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from mrc_lab.torch.group_links import GroupLinks
from mrc_lab.torch.loop_thread import LoopThread
from mrc_lab.torch.options import ReconfigureOptions
from mrc_lab.torch.process_group import MrcProcessGroup
from mrc_lab.torch.reconfiguration import Reconfiguration, new_handle
from mrc_lab.torch.stages import Stage
from mrc_lab.torch.store_exchange import StoreExchange
from mrc_lab.workloads.liveness import LivenessSettings
from tests.mrc_lab.torch.ranks import SMALL
from tests.mrc_lab.workloads.collectives.fakes import FakeDevice, FakeNetwork

MS = 1_000_000
LIVENESS = LivenessSettings(300 * MS, 10 * MS)


class Process:
    """One of them. At the stage `at` its part ends by `kill` or `stop`, or it waits (`hold`) until it is `released`."""

    def __init__(self, world: Processes, number: int) -> None:
        self.world, self.number = world, number
        self.at: tuple[Stage, str] | None = None  # where it ends, and how
        self.reached = False
        self.released = asyncio.Event()  # set on the loop
        self.device = world.device(number)
        store = dist.PrefixStore("g/", world.store)
        reconfiguration = Reconfiguration(store, new_handle(self.device.name), self._links, self._at_stage)
        self.group = MrcProcessGroup(
            world.thread,
            self._links("", number, world.size),
            timedelta(seconds=world.timeout_s),
            reconfiguration=reconfiguration,
        )
        self.handle = self.group.get_reconfigure_handle()

    def _links(self, name: str, rank: int, world: int) -> GroupLinks:
        store = dist.PrefixStore(f"g/{name}", self.world.store)
        exchange = StoreExchange(store, rank, world)
        return GroupLinks(self.device, exchange, SMALL, "g", LIVENESS, at_stage=self._at_stage)  # type: ignore[arg-type]

    async def _at_stage(self, stage: Stage) -> None:
        if self.at is not None and self.at[0] is stage:
            self.reached = True
            if self.at[1] == "hold":
                await self.released.wait()
                return
            if self.at[1] == "kill":
                self.device.kill()
            await asyncio.Event().wait()  # neither a process that has ended nor one that is stopped goes on


class Processes:
    """`size` processes, and more as they come."""

    def __init__(self, size: int, *, timeout_s: float = 30, seed: int = 1) -> None:
        self.size, self.timeout_s = size, timeout_s
        self.thread = LoopThread()
        self.network = FakeNetwork(seed)
        self.store = dist.HashStore()
        self._uuid = 100
        self.all: list[Process] = []
        for _ in range(size):
            self.start()

    def start(self) -> Process:
        """One more."""
        self.all.append(Process(self, len(self.all)))
        return self.all[-1]

    def device(self, number: int) -> FakeDevice:
        async def make() -> FakeDevice:
            return self.network.device(number)

        return self.thread.call(make())

    def kill(self, process: Process) -> None:
        async def kill() -> None:
            process.device.kill()

        self.thread.call(kill())

    def release(self, process: Process) -> None:
        async def release() -> None:
            process.released.set()

        self.thread.call(release())

    def reconfigure(self, members: Sequence[Process], *, timeout_s: float | None = None) -> list[Any]:
        """Have all members call, with a new number; their works, in order."""
        self._uuid += 1
        timeout = None if timeout_s is None else timedelta(seconds=timeout_s)
        options = ReconfigureOptions(self._uuid, [member.handle for member in members], timeout)
        return [member.group.reconfigure(options) for member in members]

    def form(self, members: Sequence[Process]) -> None:
        """The same, and wait; then a sum over all is right, and ranks are as in the list."""
        for work in self.reconfigure(members):
            assert work.wait()
        self.check(members)

    def check(self, members: Sequence[Process]) -> None:
        assert [member.group.rank() for member in members] == list(range(len(members)))
        assert {member.group.size() for member in members} == {len(members)}
        for rank, member in enumerate(members):  # as C++ sees them, such as DistributedDataParallel's average
            assert (dist.ProcessGroup.rank(member.group), dist.ProcessGroup.size(member.group)) == (rank, len(members))
        values = [torch.full((700,), float(2**rank)) for rank in range(len(members))]
        works = [member.group.allreduce([value]) for member, value in zip(members, values, strict=True)]
        for work in works:
            assert work.wait()
        for value in values:
            assert bool((value == 2 ** len(members) - 1).all())

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            process.at = None
            process.group.shutdown()
        self.thread.stop()
