"""Is a fault named with no more confidence than is earned? Trials with one to several faults at places of chance.

The faults of a trial are all in one plane, begin together or within some seconds, and are of every kind that can be
mapped. At every update the map's suspected faults are compared with the truth: of those with confidence c, a share of c
or more should name something faulty.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.path_map.mapper import SECOND
from controller.path_map.plane_model import path_name
from controller.path_map.values import Direction, ElementKind
from mrc_lab.path_map_trials.sampled import FaultyElement, SampledFabric, hidden
from simulation.seeds import generator
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkKind
from topologies.probe_plan import FabricProbePlan, ProbeKind, probe_plan

SHAPES = ((2, 2, 4, 4), (2, 2, 2, 4), (2, 3, 4, 6), (2, 4, 4, 8))  # planes, T0s and T1s in each, hosts
BANDS = (0.0, 0.5, 0.9, 0.98)  # of confidence, each up to the next
CONFIDENT = 0.9
_LOSSES = (1.0, 1.0, 0.5, 0.3, 0.2, 0.1)
_PARTS = (*[ElementKind.NIC_T0] * 3, *[ElementKind.T0_T1] * 3, *[ElementKind.SWITCH] * 2, ElementKind.PATH)
_HEALTHY_NS = 2 * SECOND
_STAGGER_NS = 5 * SECOND
_WATCHED_NS = 12 * SECOND


@dataclass(frozen=True, slots=True)
class CalibrationScene:
    """What breaks where, and when (ns) after the first fault."""

    plan: FabricProbePlan
    faults: tuple[FaultyElement, ...]
    onsets: tuple[int, ...]


@dataclass(slots=True)
class Calibration:
    """What became of a trial, or of several.

    `statements` counts suspicions (once an update) by the band of `BANDS` that their confidence is in, and those of
    them that were wrong; `wrong` are the names of healthy elements that were ever given with the highest confidence;
    `seconds` are, for each fault that shows, from its begin to its name with confidence (None: not within the trial).
    """

    trials: int = 1
    statements: dict[float, list[int]] = field(default_factory=lambda: {band: [0, 0] for band in BANDS})
    wrong: dict[str, float] = field(default_factory=dict)
    misled: int = 0  # trials in which a healthy element was named with confidence
    seconds: list[float | None] = field(default_factory=list)

    def at_least(self, confidence: float) -> tuple[int, int]:
        """Statements of this confidence (one of `BANDS`) or more, and how many of them were wrong."""
        made, wrong = zip(*(counts for band, counts in self.statements.items() if band >= confidence), strict=True)
        return sum(made), sum(wrong)


def total(trials: Iterable[Calibration]) -> Calibration:
    """Several trials together; `wrong` is left empty."""
    found = Calibration(trials=0)
    for trial in trials:
        found.trials += trial.trials
        found.misled += trial.misled
        found.seconds += trial.seconds
        for band, counts in trial.statements.items():
            found.statements[band] = [a + b for a, b in zip(found.statements[band], counts, strict=True)]
    return found


@functools.cache
def _plan(planes: int, t0: int, t1: int, hosts: int) -> FabricProbePlan:
    return probe_plan(multi_plane_clos(planes=planes, t0=t0, t1=t1, hosts=hosts))


def draw_scene(seed: int, count: int) -> CalibrationScene:
    """`count` faults at different places; in half of the scenes they begin at the same moment."""
    rng = generator(seed, "calibration", count)
    plan = _plan(*rng.choice(SHAPES))
    faults: dict[str, FaultyElement] = {}
    while len(faults) < count:
        fault = _fault(plan, rng)
        faults.setdefault(fault.name, fault)
    together = rng.random() < 0.5
    onsets = [0, *(0 if together else rng.randrange(_STAGGER_NS) for _ in range(count - 1))]
    return CalibrationScene(plan, tuple(faults.values()), tuple(onsets))


def _fault(plan: FabricProbePlan, rng: random.Random) -> FaultyElement:
    part = rng.choice(_PARTS)
    fabric = plan.fabric
    if part is ElementKind.SWITCH:
        return FaultyElement(part, rng.choice([s.name for s in fabric.switches if s.plane == 0]))
    if part is ElementKind.PATH:
        routes = [r for r in plan.all_routes if r.plane == 0 and r.kind is ProbeKind.PEER]
        return FaultyElement(part, path_name(rng.choice(routes)))
    kind = LinkKind.NIC_T0 if part is ElementKind.NIC_T0 else LinkKind.T0_T1
    name = rng.choice([link.name for link in fabric.links if link.plane == 0 and link.kind is kind])
    direction = rng.choice((Direction.BOTH, Direction.BOTH, Direction.UP, Direction.DOWN))
    return FaultyElement(part, name, rng.choice(_LOSSES), direction)


def calibrate(seed: int, count: int, watched_ns: int = _WATCHED_NS) -> Calibration:
    """Run the trial with this seed and number of faults; the same for the same seed."""
    scene = draw_scene(seed, count)
    fabric = SampledFabric(scene.plan, generator(seed, "probes", count))
    outcome = Calibration()
    onsets = zip(scene.faults, scene.onsets, strict=True)
    shows = {fault.name: onset for fault, onset in onsets if not hidden(fault, scene.faults, scene.plan)}
    named: dict[str, float] = {}
    while fabric.now < _HEALTHY_NS:
        _judge(outcome, fabric, named)
    while fabric.now < _HEALTHY_NS + watched_ns:
        since = fabric.now - _HEALTHY_NS
        broken = tuple(fault for fault, onset in zip(scene.faults, scene.onsets, strict=True) if onset <= since)
        if broken != fabric.faults:
            fabric.set_faults(*broken)
        _judge(outcome, fabric, named)
    outcome.misled = int(max(outcome.wrong.values(), default=0.0) >= CONFIDENT)
    outcome.seconds = [named[name] - onset / SECOND if name in named else None for name, onset in shows.items()]
    return outcome


def _judge(outcome: Calibration, fabric: SampledFabric, named: dict[str, float]) -> None:
    """Compare the suspected faults after one more update with what is faulty."""
    suspected = fabric.poll()
    faulty = {fault.name for fault in fabric.faults}
    for fault in suspected:
        counts = outcome.statements[max(band for band in BANDS if band <= fault.confidence)]
        counts[0] += 1
        if fault.name not in faulty:
            counts[1] += 1
            outcome.wrong[fault.name] = max(fault.confidence, outcome.wrong.get(fault.name, 0.0))
        elif fault.confidence >= CONFIDENT:
            named.setdefault(fault.name, (fabric.now - _HEALTHY_NS) / SECOND)
