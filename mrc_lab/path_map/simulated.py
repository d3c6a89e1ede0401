"""The mapper in simulation: the same plan, NICs, reports and suspected faults, under the virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.path_map.mapper import PathMap
from controller.path_map.values import SuspectedFault
from simulation.seeds import derive
from simulation.world import SimulatedWorld

POLL_NS = 200_000_000


async def watch(
    world: SimulatedWorld,
    path_map: PathMap,
    *,
    until: int,
    poll_ns: int = POLL_NS,
    seen: Callable[[int, tuple[SuspectedFault, ...]], bool] = lambda now, suspected: False,
) -> None:
    """Probe and map until the time `until` (ns), or until `seen` says that it is enough; probing stops then."""
    plan = path_map.plan
    for host in plan.routes:
        first = derive(world.seed, "probes", host) & 0xFFFF0000
        world.nic(host).control.start_probing(plan.of(host, first), world.now)
        world.poke(host)
    try:
        while world.now < until:
            await asyncio.sleep(poll_ns / 1e9)
            for host in plan.routes:
                path_map.absorb(host, world.nic(host).control.probe_report(), world.now)
            if seen(world.now, path_map.update(world.now)):
                return
    finally:
        for host in plan.routes:
            world.nic(host).control.stop_probing()
