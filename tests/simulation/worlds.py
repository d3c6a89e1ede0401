"""Small worlds and a transfer, for the tests of this room."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from mrc_host.values import CompletionStatus, QpCounters, QpType
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric

GIGA = 1_000_000_000
US = 1_000


def small_fabric(**changes: int) -> Fabric:
    """2 planes, 2 T0, 2 T1, 4 NICs."""
    return multi_plane_clos("sim", **{"planes": 2, "t0": 2, "t1": 2, "hosts": 4, **changes})  # type: ignore[arg-type]


def small_world(seed: int = 1, *, rate: int = 100 * GIGA, **arguments) -> SimulatedWorld:  # type: ignore[no-untyped-def]
    return SimulatedWorld(small_fabric(), seed=seed, rate=rate, **arguments)


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
    with world.open(source) as near, world.open(target) as far:
        pd, far_pd = near.alloc_pd(), far.alloc_pd()
        region, far_region = pd.alloc_mr(length), far_pd.alloc_mr(length)
        region.buffer[:] = Random(length).randbytes(length)
        cq, far_cq = near.create_cq(), far.create_cq()
        qp = pd.create_qp(cq, cq, kind, world.attributes())
        far_qp = far_pd.create_qp(far_cq, far_cq, kind, world.attributes())
        qp.connect(far_qp.address)
        far_qp.connect(qp.address)
        start = world.now
        for number in range(times):
            qp.post_write(region, 0, length, far_region.address, far_region.rkey, wr_id=number)
        for number in range(times):
            completion = await cq.next()
            assert completion.status is CompletionStatus.SUCCESS, completion
            assert completion.wr_id == number
        return Transfer(region.buffer == far_region.buffer, world.now - start, qp.counters())
