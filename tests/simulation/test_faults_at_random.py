"""Faults come and go at random in a world: what its switches, channels and ports are like is compared each time.

What should be is computed anew from the faults that are listed, by their effects alone.
"""

from __future__ import annotations

import random

from simulation.world import DEFAULT_DELAY, SimulatedWorld
from simulation.write_entries import write_entries
from tests.seeds import SEED
from tests.simulation.worlds import small_fabric
from topologies.entries import SwitchEntries
from topologies.fabric import LinkEnd
from topologies.fault_entries import fault_entries
from topologies.faults import Fault, FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.controller_down import ControllerDown
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.effect import PortShaping, combined_shapes
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate
from topologies.faults.reordering import Reordering

FABRIC = small_fabric()
TABLES = ("arrival_fault", "departure_fault", "path_fault")
FAULTS: tuple[Fault, ...] = (
    Loss("*", 0.001), Loss("h*@p0", 0.5), Loss("h1@p0", 0.25, "h1"), Corruption("t0-*:t1-0@p1", 0.1), PathLoss(1, 0.5),
    PathLoss(1, 0.5, "h1"), Blackhole("t1-0@p0"), Blackhole("t*"), LinkDown("h[1,2]@p*"), LinkDown("h1@p0"),
    LinkDown("h1@p*", "h1"), PowerOff("t0-0@p0"), Rate("h1@p0", 10**9), Rate("*", 10**10), Delay("h*@p0", 500),
    Delay("*", 70, "t0-*"), Reordering("h1@p*", 0.5, 100), ControllerDown(),
)  # fmt: skip


def held(world: SimulatedWorld, switch: str) -> set[object]:
    """Entries of faults in a switch's tables."""
    device = world.switch(switch)
    assert device.pipeline is not None
    full = {name.rpartition(".")[2]: name for name in device.pipeline.tables}
    return {(name, entry) for name in TABLES for entry in device.control_plane.table(full[name]).entries()}


def compare(world: SimulatedWorld, reference: SimulatedWorld) -> None:
    """Everything is as the faults that are active want it; `reference` has no faults, and lends its switches."""
    effects = [record.fault.effect(FABRIC) for record in world.faults.list() if record.state is FaultState.ACTIVE]
    entries = fault_entries(effect.tables for effect in effects if effect.tables is not None)
    shapes, down = combined_shapes(effects), {link for effect in effects for link in effect.down}
    for switch in FABRIC.switches:
        device = reference.switch(switch.name)
        write_entries(device, SwitchEntries(switch.name, (), (), entries.get(switch.name, ())))
        assert held(world, switch.name) == held(reference, switch.name), switch.name
        for name, entry in held(reference, switch.name):  # type: ignore[misc]
            full = next(table for table in device.pipeline.tables if table.endswith(f".{name}"))  # type: ignore[union-attr]
            device.control_plane.table(full).delete(entry.match, entry.priority)
        for port, stats in world.switch(switch.name).stats().ports.items():
            link = FABRIC.link_at(LinkEnd(switch.name, port))
            assert link is not None
            assert stats.up is (link.name not in down), (switch.name, port)
    for link in FABRIC.links:
        assert world.faults.has_carrier(link.name) is (link.name not in down)
        for end in (link.lower, link.upper):
            channel = world.channel(end)
            shape = shapes.get(end, PortShaping())
            assert channel.down is (link.name in down)
            assert channel.rate == min(shape.rate_bps or link.rate_bps, link.rate_bps)
            assert channel.delay == DEFAULT_DELAY + shape.delay
            assert (channel.hold_back is None) is (not shape.reorder)
    assert world.faults.controller_present is not any(effect.controller_down for effect in effects)


def test_switches_channels_and_ports_follow_the_faults_that_are_listed() -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    with SimulatedWorld(FABRIC, seed=SEED) as world, SimulatedWorld(FABRIC, seed=SEED) as reference:
        for _ in range(120):
            draw, ids = chance.random(), [record.id for record in world.faults.list()]
            if draw < 0.5:
                at = world.now + chance.choice((0, 0, chance.randrange(5_000)))
                until = chance.choice((None, at + chance.randrange(1, 20_000)))
                world.faults.add(chance.choice(FAULTS), at=at, until=until)
            elif draw < 0.7 and ids:
                world.faults.clear(chance.choice(ids))
            elif draw < 0.72:
                world.faults.clear_all()
            else:
                world.run(world.now + chance.randrange(4_000))
            compare(world, reference)
        world.faults.clear_all()
        compare(world, reference)
        assert not any(held(world, switch.name) for switch in FABRIC.switches)
