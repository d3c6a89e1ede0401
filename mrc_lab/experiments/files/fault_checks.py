"""Checks of a case's faults: their times, what they name, and whether switches can hold them all at once."""

from __future__ import annotations

from collections.abc import Sequence

from mrc_common import units
from mrc_common.declared.document import Value
from mrc_lab.experiments.files.fault_draws import Matches, matches
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.model import Case
from simulation.fault_limits import SIMULATION
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.fault_entries import DataPlaneFault, check_room
from topologies.faults.effect import Effect


def check_faults(case: Case, fabric: Fabric, places: Sequence[Value]) -> None:
    """FileError at the place of a fault that is not possible."""
    effects = []
    names: set[str] = set()
    for planned, place in zip(case.faults, places, strict=True):
        _check_times(case, planned, place)
        if planned.name and planned.name in names:
            raise place.items()["name"].error(f"there are two faults {planned.name}")
        names.add(planned.name)
        try:
            effects.append(SIMULATION.effect_of(fabric, planned.fault))
            if planned.count is not None:
                _check_count(planned.count, matches(planned, fabric), place.items()["count"])
        except FabricError as error:
            raise place.error(str(error)) from None
    _check_together(case.faults, effects, places)


def _check_count(count: int, found: Matches, place: Value) -> None:
    """FileError where more are to be drawn than there are."""
    if count > len(found.names):
        there = units.counted(len(found.names), found.word, found.word + "es" if found.word == "switch" else "")
        verb = "matches" if len(found.names) == 1 else "match"
        raise place.error(f"is {count}, but only {there} {verb} {found.pattern!r}")


def _check_times(case: Case, fault: PlannedFault, place: Value) -> None:
    show = units.show_time
    if fault.at >= case.duration:
        raise place.error(f"begins at {show(fault.at)}, but the run is over at {show(case.duration)}")
    if fault.until is not None and fault.until <= fault.at:
        raise place.error(f"is over at {show(fault.until)}, before it begins at {show(fault.at)}")
    if fault.until is not None and fault.until > case.duration:
        raise place.error(f"is over at {show(fault.until)}, after the run, which lasts {show(case.duration)}")


def _check_together(faults: Sequence[PlannedFault], effects: Sequence[Effect], places: Sequence[Value]) -> None:
    """FileError for the first fault on paths that begins beside more of them than tables have room for.

    One that comes and goes keeps its room while it is off, so no other time matters.
    """
    active: list[tuple[PlannedFault, DataPlaneFault]] = []
    for planned, effect, place in sorted(zip(faults, effects, places, strict=True), key=lambda one: one[0].at):
        if effect.tables is None or not effect.tables.paths:
            continue
        active = [(other, held) for other, held in active if other.until is None or other.until > planned.at]
        active.append((planned, effect.tables))
        try:
            check_room(path for _, held in active for path in held.paths)
        except FabricError as error:
            raise place.error(f"cannot be combined with the faults before it: {error}") from None
