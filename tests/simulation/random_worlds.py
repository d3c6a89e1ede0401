"""Worlds of which everything is drawn at random, and what shows of each: for tests that run one several times."""

from __future__ import annotations

import asyncio
import random

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import QpType
from p4runtime_shim.pipeline import Pipeline
from simulation.hardware_timing import IDEAL, PUBLISHED_TESTBED, HardwareTiming
from simulation.trace import Trace
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, Pair
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkEnd
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.effect import PortShaping
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.queues import QueueProfile

HARDWARE = (  # packets occupy the NICs of all but the first
    IDEAL,
    PUBLISHED_TESTBED,
    HardwareTiming(packet=700),
    HardwareTiming(pcie_rate=30 * GIGA, message=50, dma_write=300),
)


def contended(
    seed: int, pipeline: Pipeline | None = None, hardware: HardwareTiming = IDEAL, watched: bool = False
) -> tuple[object, ...]:
    """A random world, two writers to one host, and impairments that come, change and go.

    `watched`: somebody looks at all that leaves h1 from some moment on.
    """
    chance, left = random.Random(seed), list[bytes]()
    planes, t1 = chance.choice((1, 2, 4)), chance.choice((1, 2))
    fabric = multi_plane_clos(planes=planes, t0=2, t1=t1, hosts=4)
    trace = Trace()
    rate, delay = chance.choice((1, 10, 100)) * GIGA, chance.choice((0, 1, 1000))
    with SimulatedWorld(
        fabric, seed=seed, rate=rate, delay=delay, pipeline=pipeline, trace=trace, hardware=hardware
    ) as world:
        if watched:
            world.clock.at(chance.randrange(20_000), lambda _a, _b: world.nic_node("h1").watch(left.append))
        links = [end for link in fabric.links for end in (link.lower, link.upper)]
        for when in sorted(chance.randrange(200_000) for _ in range(12)):
            shape = chance.choice(
                (
                    PortShaping(rate_bps=chance.choice((GIGA // 8, GIGA))),
                    PortShaping(delay=chance.randrange(5_000)),
                    PortShaping(reorder=0.2, hold=2_000),
                    PortShaping(reorder=0.1, hold=500, rate_bps=GIGA // 2),
                    None,
                    PortShaping(),
                )
            )
            world.clock.at(when, lambda end, shape: _disturb(world, end, shape), chance.choice(links), shape)
            link = chance.choice(fabric.links).name
            fault = chance.choice((Loss(link, 0.1), Loss("*", 0.02), Corruption(link, 0.1), Blackhole("t1-0@p0")))
            world.faults.add(fault, at=when, until=chance.randrange(when + 1, 200_001))
        for end in links:
            world.clock.at(200_000, lambda end, _: _disturb(world, end, PortShaping()), end)
        for source in ("h1", "h2"):
            world.spawn(write_some(world, source, "h3"))
        world.run(2_000_000 if rate == GIGA else 300_000)
        stats = [world.link_stats(link.name) for link in fabric.links]
        return trace.cut(), stats, world.clock.events, len(world.clock.queued()), left


def _disturb(world: SimulatedWorld, end: LinkEnd, shape: PortShaping | None) -> None:
    """Shape a channel that is up; None: take it down."""
    world.channel(end).set_up(shape is not None)
    world.shape(end, shape or PortShaping())


async def write_some(world: SimulatedWorld, source: str, target: str) -> None:
    """Write for a second."""
    pair = Pair(world, source, target, length=1 << 15)
    await asyncio.wait_for(pair.write_without_end(2), 1.0)


def paused(seed: int) -> tuple[object, ...]:
    """An incast under flow control in which links go down and lose packets. First is how many pauses were sent."""
    chance = random.Random(seed)
    queues = QueueProfile(pfc=True, trimming=False)
    planes, t1 = chance.choice((1, 2)), chance.choice((1, 2))
    fabric = multi_plane_clos("pfc", planes=planes, t0=2, t1=t1, hosts=8, rate_bps=100 * GIGA, queues=queues)
    trace, transport = Trace(), TransportSettings(rc_congestion="none")
    delay, hardware = chance.choice((0, 1, 1_000)), chance.choice(HARDWARE[:2])  # with others NICs are too slow
    with SimulatedWorld(fabric, seed=seed, delay=delay, transport=transport, trace=trace, hardware=hardware) as world:
        names = [link.name for link in fabric.links]
        for kind in (LinkDown, LinkDown, Loss):
            begin = chance.randrange(10_000, 100_000)
            link = chance.choice(names)
            fault = Loss(link, 0.05) if kind is Loss else LinkDown(link)
            world.faults.add(fault, at=begin, until=begin + chance.randrange(1, 60_000))
        for number in range(2, 8):
            pair = Pair(world, f"h{number}", "h1", length=1 << 18, kind=QpType.RC)
            world.spawn(pair.write_without_end(2))
        world.run(300_000)
        ports = [world.switch(switch.name).stats().ports for switch in fabric.switches]
        sent = sum(port.pauses_sent for stats in ports for port in stats.values())
        return sent, ports, trace.cut(), world.clock.events, len(world.clock.queued())


def crowded(seed: int) -> tuple[object, ...]:
    """Sixteen hosts that all write at once."""
    trace = Trace()
    fabric = multi_plane_clos(planes=4, t0=4, t1=2, hosts=16)
    with SimulatedWorld(fabric, seed=seed, rate=100 * GIGA, trace=trace) as world:
        for number in range(16):
            Pair(world, f"h{number + 1}", f"h{(number + 5) % 16 + 1}", length=1 << 16).write()
        world.run(100_000)
        return trace.cut(), world.now, world.clock.events
