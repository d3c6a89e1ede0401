"""Packets whose payload stays where it was written, through whole worlds: as if each was copied, for observers."""

from __future__ import annotations

import random

import pytest

from mrc_host.errors import MrcError
from mrc_host.verbs_types import CompletionStatus, QpState
from simulation.trace import Trace
from simulation.world import SimulatedWorld
from tests.mrc_host.datapath.in_place import under_way
from tests.mrc_host.datapath.module import native as datapath_in_c
from tests.mrc_host.datapath.module import used
from tests.seeds import SEED
from tests.simulation.worlds import GIGA, Pair, small_world, with_and_without_observers
from topologies.clos import multi_plane_clos
from topologies.faults.corruption import Corruption
from topologies.faults.effect import PortShaping
from topologies.faults.loss import Loss

SLOT = 1 << 14


async def use_again(world: SimulatedWorld, pair: Pair, chance: random.Random) -> None:
    """Write slot by slot, and other bytes over each as soon as its write has ended, in whatever way."""
    slots = len(pair.region) // SLOT
    for number in range(slots):
        pair.qp.write(pair.region, pair.region_far.remote, offset=number * SLOT, length=SLOT, wr_id=number)
    while True:
        done = await pair.cq.next()
        at = done.wr_id * SLOT
        pair.region.buffer[at : at + SLOT] = chance.randbytes(SLOT)
        if done.status is not CompletionStatus.SUCCESS:
            return
        pair.qp.write(pair.region, pair.region_far.remote, offset=at, length=SLOT, remote_offset=at, wr_id=done.wr_id)


def disturb(world: SimulatedWorld, pairs: list[Pair], chance: random.Random) -> None:
    """Faults on links, and ends of queue pairs, of memory and of a NIC, with other bytes in the memory at once."""
    ends = [end for link in world.fabric.links for end in (link.lower, link.upper)]
    wrong = (
        PortShaping(reorder=0.3, hold=20_000),
        PortShaping(delay=30_000),
        PortShaping(),
    )
    for _ in range(16):
        world.clock.at(chance.randrange(150_000), world.shape, chance.choice(ends), chance.choice(wrong))
        link, start = chance.choice(world.fabric.links).name, chance.randrange(150_000)
        fault = chance.choice((Loss(link, 0.1), Corruption(link, 0.2), Loss(link, 0.05)))
        world.faults.add(fault, at=start, until=start + chance.randrange(1, 60_000))
    one, other, third = pairs

    def give_back(how: str, pair: Pair) -> None:
        if how == "reset":
            pair.qp.modify(QpState.RESET)
        elif how == "deregister":
            world.nic("h2").deregister_memory(pair.region.info.lkey)
        else:
            world.restart_nic("h3")
        pair.region.buffer[:] = chance.randbytes(len(pair.region))

    world.clock.at(100_000, give_back, "reset", one)
    world.clock.at(120_000, give_back, "deregister", other)
    world.clock.at(140_000, give_back, "restart", third)


def run(seed: int, traced: bool) -> tuple[list[object], int]:
    """What shows of a world, and how many packets were under way in place when it was looked at."""
    chance = random.Random(seed)
    trace = Trace() if traced else None
    fabric = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)
    with SimulatedWorld(fabric, seed=seed, rate=100 * GIGA, trace=trace) as world:
        pairs = [
            Pair(world, source, target, length=4 * SLOT)
            for source, target in (("h1", "h4"), ("h2", "h4"), ("h3", "h1"))
        ]
        for pair in pairs:
            pair.region.buffer[:] = chance.randbytes(len(pair.region))
            world.spawn(use_again(world, pair, chance))
        disturb(world, pairs, chance)
        world.run(5_000)
        left = sum(under_way(world.nic(name)) for name in ("h1", "h2", "h3"))
        world.run(400_000)
        memory = [bytes(pair.region_far.buffer) for pair in pairs]
        counters = [dict(world.nic(name).nic_counters()) for name in world.fabric.nic_names]
        return [trace and trace.cut(), memory, counters, world.clock.events], left


@pytest.mark.parametrize("traced", [False, True], ids=("", "traced"))
@pytest.mark.parametrize("number", range(3))
def test_memory_that_is_used_again_runs_alike(number: int, traced: bool) -> None:
    with used(datapath_in_c()):
        (alone, in_place), (observed, none) = with_and_without_observers(lambda: run(SEED + number, traced))
    assert alone == observed, f"seed {SEED + number}"
    assert in_place > 10
    assert none == 0
    assert alone[3] > 1_000  # type: ignore[operator]


def test_a_closed_context_ends_what_it_has_under_way() -> None:
    """Its memory may be gone with it, and the world goes on."""
    with used(datapath_in_c()), small_world(seed=SEED) as world:
        pair = Pair(world, length=1 << 16)
        pair.region.buffer[:] = old = random.Random(SEED).randbytes(1 << 16)
        pair.write()
        world.run(4_000)
        assert under_way(world.nic("h1")) > 5
        near, _ = pair.contexts
        buffer = pair.region.buffer
        near.close()
        assert under_way(world.nic("h1")) == 0
        buffer[:] = bytes(1 << 16)
        with pytest.raises(MrcError):
            pair.write()
        world.run(100_000)
        arrived = bytes(pair.region_far.buffer)
        assert sum(one == other for one, other in zip(arrived, old, strict=True)) > 16_384
        assert all(one in (other, 0) for one, other in zip(arrived, old, strict=True))
