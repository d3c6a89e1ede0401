"""Trials of the mapper in simulation: a fault at a place and a time of chance, and what the map says of it.

What is measured is the time from the fault until it is suspected by the right name (the link, the switch or the path),
the time from the end of the fault to the end of the suspicion, and every name that was ever given and is wrong.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from controller.path_map.mapper import SECOND, MapSettings, PathMap
from controller.path_map.plane_model import path_name
from controller.path_map.values import Direction, SuspectedFault
from simulation.seeds import derive, generator
from simulation.world import SimulatedWorld
from topologies.fabric import Fabric, Link, LinkKind, Tier
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.power_off import PowerOff
from topologies.probe_plan import FabricProbePlan, ProbeKind, probe_plan

_POLL = 200_000_000  # ns between two looks at what the NICs report
_BEGIN = 2 * SECOND  # of the fault, at the earliest
_AFTER = 3 * SECOND  # the map is watched on for this long after it is right, for names that are wrong


@dataclass(frozen=True, slots=True)
class TrialScene:
    """What is broken, and what should be named: names, each with the direction where there is one."""

    faults: tuple[Fault, ...]
    truth: dict[str, Direction]


Make = Callable[[FabricProbePlan, random.Random], TrialScene]


@dataclass(frozen=True, slots=True)
class TrialCase:
    """A kind of fault, and the longest that the map may take (s)."""

    name: str
    make: Make
    limit_s: float


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """One trial: seconds to the last right name and from the end of the fault to the last suspicion's (None: never).

    `wrong` are names that were given and are not true; `direction_right` counts suspicions with the right direction at
    the end, out of `directions`; `loss` is the estimate for the first name at the end.
    """

    seconds: float | None
    healed: float | None
    wrong: tuple[str, ...]
    direction_right: int
    directions: int
    loss: float | None


def trial(
    case: TrialCase,
    fabric: Fabric,
    seed: int,
    *,
    plan: FabricProbePlan | None = None,
    settings: MapSettings | None = None,
) -> TrialOutcome:
    """Run one trial; the same for the same seed."""
    plan = plan or probe_plan(fabric)
    rng = generator(seed, "trial", case.name)
    scene = case.make(plan, rng)
    begin = _BEGIN + rng.randrange(SECOND)
    with SimulatedWorld(fabric, seed=seed) as world:
        path_map = PathMap(plan, settings)
        wrong: dict[str, None] = {}
        named: dict[str, int] = {}
        last: tuple[SuspectedFault, ...] = ()

        def look(now: int, suspected: tuple[SuspectedFault, ...]) -> bool:
            nonlocal last
            last = suspected
            names = {fault.name for fault in suspected}
            wrong.update(dict.fromkeys(names - scene.truth.keys()))
            for name in scene.truth:
                if name in names:
                    named.setdefault(name, now)
                else:
                    named.pop(name, None)
            right = len(named) == len(scene.truth) and now >= max(named.values(), default=begin) + _AFTER
            return right and bool(scene.truth)

        numbers = [world.faults.add(fault, at=begin) for fault in scene.faults]
        world.run(_watch(world, path_map, until=begin + round(case.limit_s * SECOND), seen=look))
        complete = len(named) == len(scene.truth) > 0
        found = {fault.name: fault for fault in last}
        seconds = (max(named.values()) - begin) / SECOND if complete else None
        healed = _time_to_heal(world, path_map, numbers, case.limit_s, wrong, scene) if complete else None
    first = found.get(next(iter(scene.truth), ""))
    return TrialOutcome(
        seconds,
        healed,
        tuple(wrong),
        sum(name in found and found[name].direction is way for name, way in scene.truth.items()),
        len(scene.truth),
        None if first is None else first.loss,
    )


def _time_to_heal(
    world: SimulatedWorld,
    path_map: PathMap,
    numbers: list[int],
    limit_s: float,
    wrong: dict[str, None],
    scene: TrialScene,
) -> float | None:
    for number in numbers:
        world.faults.clear(number)
    ended = world.now
    over: list[int] = []

    def look(now: int, suspected: tuple[SuspectedFault, ...]) -> bool:
        wrong.update(dict.fromkeys({fault.name for fault in suspected} - scene.truth.keys()))
        if not suspected:
            over.append(now)
        return not suspected

    world.run(_watch(world, path_map, until=world.now + round(4 * limit_s * SECOND), seen=look))
    return (over[0] - ended) / SECOND if over else None


async def _watch(
    world: SimulatedWorld, path_map: PathMap, *, until: int, seen: Callable[[int, tuple[SuspectedFault, ...]], bool]
) -> None:
    """Probe and map until the time `until` (ns), or until `seen` says that it is enough; probing stops then."""
    plan = path_map.plan
    for host in plan.routes:
        first = derive(world.seed, "probes", host) & 0xFFFF0000
        world.nic(host).control.start_probing(plan.of(host, first), world.now)
        world.poke(host)
    try:
        while world.now < until:
            await asyncio.sleep(_POLL / SECOND)
            for host in plan.routes:
                path_map.absorb(host, world.nic(host).control.probe_report(), world.now)
            if seen(world.now, path_map.update(world.now)):
                return
    finally:
        for host in plan.routes:
            world.nic(host).control.stop_probing()


# ---- scenes ---------------------------------------------------------------------------------------------------------


def _link(plan: FabricProbePlan, rng: random.Random, kind: LinkKind) -> Link:
    return rng.choice([link for link in plan.fabric.links if link.kind is kind])


def _cut(kind: LinkKind) -> Make:
    def make(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
        link = _link(plan, rng, kind)
        return TrialScene((LinkDown(link.name),), {link.name: Direction.BOTH})

    return make


def _one_way(kind: LinkKind, upward: bool) -> Make:
    def make(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
        link = _link(plan, rng, kind)
        towards = (link.upper if upward else link.lower).node
        return TrialScene((LinkDown(link.name, towards),), {link.name: Direction.UP if upward else Direction.DOWN})

    return make


def _lossy(kind: LinkKind, share: float) -> Make:
    def make(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
        link = _link(plan, rng, kind)
        return TrialScene((Loss(link.name, share),), {link.name: Direction.BOTH})

    return make


def _switch(tier: Tier, blackhole: bool) -> Make:
    def make(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
        name = rng.choice([switch.name for switch in plan.fabric.switches if switch.tier is tier])
        return TrialScene((Blackhole(name) if blackhole else PowerOff(name),), {name: Direction.BOTH})

    return make


def _path(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
    route = rng.choice([route for route in plan.all_routes if route.kind is ProbeKind.PEER])
    fault = PathLoss(route.ev, 1.0, route.source, route.target)
    return TrialScene((fault,), {path_name(route): Direction.BOTH})


def _two_links(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
    """A cut T0-T1 link and a lossy NIC's link in one plane."""
    up = _link(plan, rng, LinkKind.T0_T1)
    nic = rng.choice([x for x in plan.fabric.links if x.kind is LinkKind.NIC_T0 and x.plane == up.plane])
    return TrialScene((LinkDown(up.name), Loss(nic.name, 0.2)), {up.name: Direction.BOTH, nic.name: Direction.BOTH})


def _three_links(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
    """Three cut T0-T1 links anywhere, no two at the same T1."""
    links: list[Link] = []
    while len(links) < 3:
        link = _link(plan, rng, LinkKind.T0_T1)
        if all(link.upper.node != other.upper.node for other in links):
            links.append(link)
    return TrialScene(tuple(LinkDown(link.name) for link in links), {link.name: Direction.BOTH for link in links})


def _switch_and_link(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
    """A T1 that is a blackhole and a T0-T1 link of the same plane that loses half."""
    link = _link(plan, rng, LinkKind.T0_T1)
    t1 = rng.choice([s.name for s in plan.fabric.tier(Tier.T1, link.plane) if s.name != link.upper.node])
    return TrialScene((Blackhole(t1), Loss(link.name, 0.5)), {t1: Direction.BOTH, link.name: Direction.BOTH})


def _nothing(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
    return TrialScene((), {})


def _noise(plan: FabricProbePlan, rng: random.Random) -> TrialScene:
    """Every link loses one in a thousand: nothing stands out."""
    return TrialScene((Loss("*", 0.001),), {})


NIC, UP = LinkKind.NIC_T0, LinkKind.T0_T1
CASES = (
    TrialCase("NIC-T0 link cut", _cut(NIC), 10),
    TrialCase("NIC-T0 link cut upward only", _one_way(NIC, True), 10),
    TrialCase("NIC-T0 link cut downward only", _one_way(NIC, False), 10),
    TrialCase("T0-T1 link cut", _cut(UP), 10),
    TrialCase("T0-T1 link cut upward only", _one_way(UP, True), 10),
    TrialCase("T0-T1 link cut downward only", _one_way(UP, False), 10),
    TrialCase("T0 powered off", _switch(Tier.T0, False), 10),
    TrialCase("T0 blackhole", _switch(Tier.T0, True), 10),
    TrialCase("T1 powered off", _switch(Tier.T1, False), 10),
    TrialCase("T1 blackhole", _switch(Tier.T1, True), 10),
    TrialCase("NIC-T0 link loses 50 %", _lossy(NIC, 0.5), 20),
    TrialCase("NIC-T0 link loses 10 %", _lossy(NIC, 0.1), 30),
    TrialCase("NIC-T0 link loses 1 %", _lossy(NIC, 0.01), 180),
    TrialCase("T0-T1 link loses 50 %", _lossy(UP, 0.5), 20),
    TrialCase("T0-T1 link loses 10 %", _lossy(UP, 0.1), 30),
    TrialCase("T0-T1 link loses 1 %", _lossy(UP, 0.01), 180),
    TrialCase("one path loses all", _path, 20),
    TrialCase("T0-T1 link cut and NIC-T0 link loses 20 %", _two_links, 30),
    TrialCase("three T0-T1 links cut", _three_links, 15),
    TrialCase("T1 blackhole and T0-T1 link loses 50 %", _switch_and_link, 30),
    TrialCase("no fault", _nothing, 300),
    TrialCase("every link loses 0.1 %", _noise, 300),
)
