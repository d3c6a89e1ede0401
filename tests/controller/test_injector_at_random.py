"""Faults come, go and fail at random, several at once: links, switches and ports are as the engine wants, and so after.

Links and ports break and are repaired meanwhile. What a change that failed has left half done must not stay hidden.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from controller.errors import ControllerError
from tests.controller.driven import MS, Engine, engine
from tests.seeds import SEED
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkEnd
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate

FABRIC = multi_plane_clos("engine", planes=2, t0=2, t1=2, hosts=4)
LINKS = [link.name for link in FABRIC.links]
FAULTS: tuple[Fault, ...] = (
    Loss("*", 0.001), Loss("h1@p0", 0.5), PathLoss(1, 0.5), Blackhole("t1-0@p0"), Blackhole("t*"),
    LinkDown("h[1,2]@p*"), LinkDown("h1@p0"), LinkDown("h1@p*", "h1"), PowerOff("t0-0@p0"), Rate("h1@p0", 10**9),
    Rate("*", 10**8), Flap("h1@p0", 10 * MS, 20 * MS), Flap("h*@p0", 15 * MS, 10 * MS, random=True, seed=3),
    Flap("t0-0:t1-*@p0", 30 * MS, 10 * MS),
)  # fmt: skip


def change(world: Engine, chance: random.Random, tasks: list[asyncio.Task[object]]) -> None:
    """Begin one change, without waiting for it."""
    draw, faults, injector = chance.random(), list(world.registry), world.injector
    if draw < 0.45:
        start = world.clock.now + chance.choice((0, 0, chance.randrange(100 * MS)))
        lasts = chance.choice((None, chance.randrange(1, 200 * MS)))
        work = injector.add(chance.choice(FAULTS), start_at_ns=start, duration_ns=lasts)
        tasks.append(asyncio.ensure_future(work))
    elif draw < 0.65 and faults:
        tasks.append(asyncio.ensure_future(injector.clear(chance.sample(faults, 1))))
    elif draw < 0.8:
        tasks.append(asyncio.ensure_future(injector.repair(chance.sample(LINKS, chance.randint(1, 3)))))
    elif draw < 0.88:
        world.links.broken = chance.choice(("", chance.choice(LINKS), "h1@p0", "h2@p0"))
    elif draw < 0.92:
        world.links.broken_shape = chance.choice((None, LinkEnd("h1", 0)))


async def changes(world: Engine, chance: random.Random) -> None:
    """Many changes; none may fail but for what is broken."""
    tasks: list[asyncio.Task[object]] = []
    for _ in range(60):
        change(world, chance, tasks)
        await asyncio.sleep(chance.choice((0, 0.0005, 0.01, 0.05)))
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert not isinstance(result, BaseException) or isinstance(result, ControllerError), result


def compare(world: Engine) -> None:
    wanted = world.injector._engine.wanted()
    assert world.links.down == wanted.down
    assert world.switches.entries == wanted.entries
    assert world.links.shapes == wanted.shapes


@pytest.mark.parametrize("number", range(20))
def test_what_failed_halfway_is_put_right_when_it_works_again(number: int) -> None:
    print("seed", SEED)
    chance = random.Random(f"{SEED} {number}")
    with engine(FABRIC) as world:
        world.links.slow_s = chance.choice((0, 0, 0.001, 0.015))
        world.run(changes(world, chance))
        world.links.broken, world.links.broken_shape, world.links.slow_s = "", None, 0
        world.seconds(0.5)
        world.run(world.injector.add(Loss("h3@p1", 0.01)))
        for _ in range(50):
            compare(world)
            world.seconds(0.0013)
        world.run(world.injector.clear(world.registry))
        world.seconds(1)
        assert list(world.registry) == []
        assert (world.links.down, world.links.shapes) == (set(), {})
        compare(world)
