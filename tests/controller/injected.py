"""What the tests of faults over time share: a fabric, making a fault, and the states of all."""

from __future__ import annotations

from tests.controller.driven import Engine
from topologies.clos import multi_plane_clos
from topologies.faults import Fault, FaultState
from topologies.faults.record import FaultRecord

FABRIC = multi_plane_clos("engine", planes=2, t0=2, t1=2, hosts=4)
H1, H2 = "h1@p0", "h2@p0"


def make(world: Engine, fault: Fault, **more: object) -> FaultRecord:
    """Add a fault and let it begin."""
    return world.run(world.injector.add(fault, **more))  # type: ignore[arg-type]


def states(world: Engine) -> list[tuple[str, FaultState]]:
    """Ids and states of all faults, those that are over first."""
    return [(record.id, record.state) for record in (*world.registry.past, *world.registry)]
