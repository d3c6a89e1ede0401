"""Small worlds, two NICs that are connected in one, and a transfer, for the tests of this room."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from random import Random

from mrc_host.values import CompletionStatus, QpAttributes, QpCounters, QpType
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric

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
