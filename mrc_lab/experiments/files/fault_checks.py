"""Checks of a case's faults: their times, what they name, and whether switches can hold them all at once."""

from __future__ import annotations

from collections.abc import Sequence

from mrc_common import units
from mrc_common.declared.document import Value
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.model import Case
from simulation.fault_limits import SIMULATION
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.engine import FaultChange, FaultEngine
from topologies.faults.flap import Flap


def check_faults(case: Case, fabric: Fabric, places: Sequence[Value]) -> None:
    """FileError at the place of a fault that is not possible."""
    effects = []
    for planned, place in zip(case.faults, places, strict=True):
        _check_times(case, planned, place)
        try:
            effects.append(SIMULATION.effect_of(fabric, planned.fault))
        except FabricError as error:
            raise place.error(str(error)) from None
    if any(effect.tables is not None and effect.tables.paths for effect in effects):  # else tables have room for all
        _check_together(case.faults, fabric, places)


def _check_times(case: Case, fault: PlannedFault, place: Value) -> None:
    show = units.show_time
    if fault.at >= case.duration:
        raise place.error(f"begins at {show(fault.at)}, but the run is over at {show(case.duration)}")
    if fault.until is not None and fault.until <= fault.at:
        raise place.error(f"is over at {show(fault.until)}, before it begins at {show(fault.at)}")
    if fault.until is not None and fault.until > case.duration:
        raise place.error(f"is over at {show(fault.until)}, after the run, which lasts {show(case.duration)}")


def _check_together(faults: Sequence[PlannedFault], fabric: Fabric, places: Sequence[Value]) -> None:
    """Let an engine have the faults in their time. What flaps takes no table entries."""
    engine, place_of = FaultEngine(fabric, SIMULATION), {}
    for planned, place in zip(faults, places, strict=True):
        if not isinstance(planned.fault, Flap):
            lasts = None if planned.until is None else planned.until - planned.at
            record = engine.add(planned.fault, -1, start_at_ns=planned.at, duration_ns=lasts)
            place_of[record.id] = place
    while (due := engine.wakeup()) is not None:
        change, fault_id = engine.tick(due) or (FaultChange.TOGGLE, "")
        if change is FaultChange.END:
            engine.clear([fault_id], due)
        elif change is FaultChange.BEGIN:
            try:
                engine.wanted()
            except FabricError as error:
                raise place_of[fault_id].error(f"cannot be combined with the faults before it: {error}") from None
