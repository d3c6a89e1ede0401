"""Small worlds, two NICs that are connected in one, a transfer, and observers, for the tests of this room."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

import pytest

from mrc_host.nic import Nic
from mrc_host.verbs import CompletionQueue, MemoryRegion, QueuePair
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpCounters, QpType
from simulation import world as world_module
from simulation.core.native import Clock
from simulation.nodes import NicNode, SwitchNode
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric

T = TypeVar("T")
GIGA = 1_000_000_000
US = 1_000


def small_fabric(**changes: int) -> Fabric:
    """2 planes, 2 T0, 2 T1, 4 NICs."""
    return multi_plane_clos("sim", **{"planes": 2, "t0": 2, "t1": 2, "hosts": 4, **changes})  # type: ignore[arg-type]


def small_world(seed: int = 1, *, rate: int = 100 * GIGA, hosts: int = 4, **arguments) -> SimulatedWorld:  # type: ignore[no-untyped-def]
    return SimulatedWorld(small_fabric(hosts=hosts), seed=seed, rate=rate, **arguments)


class Pair:
    """A queue pair of one NIC connected to one of another, with `length` bytes of memory at both; close() it.

    What ends in `_far` is the second NIC's, which is written to.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        source: str = "h1",
        target: str = "h3",
        *,
        length: int = 1 << 20,
        kind: QpType = QpType.MRC,
        attributes: QpAttributes | None = None,
    ) -> None:
        self.contexts = near, far = world.open(source), world.open(target)
        pd, pd_far = near.alloc_pd(), far.alloc_pd()
        self.length = length
        self.region, self.region_far = pd.alloc_mr(length), pd_far.alloc_mr(length)
        self.cq, self.cq_far = near.create_cq(4096), far.create_cq()
        attributes = attributes or world.attributes()
        self.qp = pd.create_qp(self.cq, self.cq, kind, attributes)
        far_attributes = replace(world.attributes(), path_mtu=attributes.path_mtu)
        self.qp_far = pd_far.create_qp(self.cq_far, self.cq_far, kind, far_attributes)
        self.qp.connect(self.qp_far.address)
        self.qp_far.connect(self.qp.address)

    def write(self, *, wr_id: int = 0, imm: int | None = None) -> None:
        """Write all of the memory."""
        self.qp.write(self.region, self.region_far.remote, wr_id=wr_id, imm=imm)

    async def write_without_end(self, outstanding: int) -> None:
        """Keep so many writes under way."""
        for _ in range(outstanding):
            self.write()
        while True:
            assert (await self.cq.next()).status is CompletionStatus.SUCCESS
            self.write()

    def close(self) -> None:
        """End both applications."""
        for context in self.contexts:
            context.close()


@dataclass(frozen=True)
class Transfer:
    equal: bool
    took: int
    counters: QpCounters


async def transfer(
    world: SimulatedWorld,
    source: str = "h1",
    target: str = "h3",
    *,
    length: int = 1 << 20,
    times: int = 1,
    kind: QpType = QpType.MRC,
) -> Transfer:
    """Write random bytes from one NIC to another, `times` in a row, and compare."""
    with contextlib.closing(Pair(world, source, target, length=length, kind=kind)) as pair:
        pair.region.buffer[:] = Random(length).randbytes(length)
        start = world.now
        for number in range(times):
            pair.write(wr_id=number)
        for number in range(times):
            completion = await pair.cq.next()
            assert completion.status is CompletionStatus.SUCCESS, completion
            assert completion.wr_id == number
        return Transfer(pair.region.buffer == pair.region_far.buffer, world.now - start, pair.qp.counters())


def connected(
    world: SimulatedWorld, kind: QpType, capacity: int, source: str = "h1", target: str = "h3"
) -> tuple[QueuePair, QueuePair, CompletionQueue, CompletionQueue, MemoryRegion, MemoryRegion]:
    """Queue pairs of two NICs, their completion queues, the far one with so many entries, and memory."""
    near, far = world.open(source), world.open(target)
    pd, pd_far = near.alloc_pd(), far.alloc_pd()
    cq, cq_far = near.create_cq(), far.create_cq(capacity)
    region, region_far = pd.alloc_mr(1 << 20), pd_far.alloc_mr(1 << 20)
    qp, qp_far = (
        owner.create_qp(queue, queue, kind, world.attributes()) for owner, queue in ((pd, cq), (pd_far, cq_far))
    )
    qp.connect(qp_far.address)
    qp_far.connect(qp.address)
    return qp, qp_far, cq, cq_far, region, region_far


@contextlib.contextmanager
def observed() -> Iterator[None]:
    """In worlds that are made meanwhile all verbs of devices are called in Python, for every frame."""
    make, drive = SwitchNode.__init__, NicNode._drive

    def make_observed(node: SwitchNode, *arguments: Any) -> None:
        make(node, *arguments)
        node.wrap(_as_it_is, _as_it_is)

    def drive_observed(node: NicNode, nic: Nic) -> None:
        drive(node, nic)
        node.wrap()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SwitchNode, "__init__", make_observed)
        patch.setattr(NicNode, "_drive", drive_observed)
        yield


@contextlib.contextmanager
def prefetching() -> Iterator[list[Clock]]:
    """Clocks that are made meanwhile prefetch however few events are queued; they are in the list."""
    made: list[Clock] = []

    def clock() -> Clock:
        made.append(Clock())
        made[-1].least_queued = 0
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world_module, "Clock", clock)
        yield made


def _as_it_is(verb: Callable[..., Any]) -> Callable[..., Any]:
    return verb


def with_and_without_observers(what: Callable[[], T]) -> tuple[T, T]:
    """What `what()` returns in worlds that are not observed, and in those that are."""
    with observed():
        seen = what()
    return what(), seen
