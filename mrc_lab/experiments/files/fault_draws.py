"""Faults by chance: of the links or switches that a pattern matches, `count` or a `share` are drawn at random.

So are flaps at random times (`flap_process`).

Each name has a rank, derived from the run's seed, the fault and the name alone; the lowest ranks are drawn. So the same
seed draws the same in both backends, more of them include the fewer, and neither the other faults nor the times of the
fault matter. A drawn fault is one fault for each name: wherever it runs, nothing of chance is left in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.faults import FaultDraw, PlannedFault
from mrc_lab.experiments.files.model import Case, Experiment
from simulation.seeds import derive
from topologies.fabric import Fabric
from topologies.fault_targets import directions
from topologies.faults.parameters import FaultPlace, place_of


@dataclass(frozen=True, slots=True)
class Matches:
    """What a fault may be drawn from: names in the fabric's order, what they are, and the pattern."""

    names: tuple[str, ...]
    word: str
    pattern: str


def draw_faults(experiment: Experiment, seed: int) -> Experiment:
    """The experiment with all faults of chance drawn; one that has none is returned as it is."""
    cases = tuple(draw_case(case, seed) for case in experiment.cases)
    return experiment if cases == experiment.cases else replace(experiment, cases=cases)


def draw_case(case: Case, seed: int) -> Case:
    """The case with all faults of chance drawn."""
    if not case.flaps and not any(planned.by_chance for planned in case.faults):
        return case
    fabric = build_fabric(case.fabric)
    drawn = [one for place, planned in enumerate(case.faults) for one in _draw(planned, place, fabric, seed)]
    for place, process in enumerate(case.flaps, len(case.faults)):
        drawn += process.draw(fabric, seed, place, _line(case), case.duration)
    return replace(case, faults=tuple(drawn), flaps=())


def _line(case: Case) -> int:
    """Where the file says that links flap."""
    flaps = None if case.document is None else case.document.items().get("flaps")
    return 0 if flaps is None else flaps.line


def matches(planned: PlannedFault, fabric: Fabric) -> Matches:
    """What a fault by chance is drawn from; FabricError where nothing matches."""
    target = planned.fault.kind.target
    assert target is not None, "the file was checked"
    pattern = getattr(planned.fault, target.field)
    if place_of(target.type) is FaultPlace.SWITCH:
        return Matches(tuple(switch.name for switch in fabric.find_switches(pattern)), "switch", pattern)
    links = directions(fabric, pattern, getattr(planned.fault, "towards", None))
    return Matches(tuple(dict.fromkeys(link.name for link, *_ in links)), "link", pattern)


def number_of(planned: PlannedFault, found: Matches) -> int:
    """How many are drawn: the share is rounded, half up, and is one at least."""
    if planned.count is not None:
        return planned.count
    exact = Fraction(str(planned.share)) * len(found.names)
    return max(1, int(exact + Fraction(1, 2)))


def _draw(planned: PlannedFault, place: int, fabric: Fabric, seed: int) -> list[PlannedFault]:
    if not planned.by_chance:
        return [planned]
    target = planned.fault.kind.target
    assert target is not None, "the file was checked"
    found = matches(planned, fabric)
    ranked = sorted(found.names, key=lambda name: derive(seed, "fault", planned.name or place, name))
    chosen = set(ranked[: number_of(planned, found)])
    single = replace(planned, count=None, share=None, draw=FaultDraw(place, len(found.names)))
    return [
        replace(single, fault=replace(planned.fault, **{target.field: name}))  # type: ignore[type-var]
        for name in found.names
        if name in chosen
    ]
