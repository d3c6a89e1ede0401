"""Faults of a case as the page shows them: when they began and ended, and which links had no carrier meanwhile.

A result folder has the file as run, so a fault's links follow from it as they did in the run. Only random times of one
that comes and goes cannot be repeated: its links are shown as faulty, but never as down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.running.run_case import span
from mrc_lab.web.records import FaultView
from simulation.fault_limits import SIMULATION
from topologies.fabric import Fabric
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.kind import Intermittent
from topologies.faults.power_off import PowerOff

MAX_CHANGES = 2000  # of the carrier by one fault that comes and goes


@dataclass(frozen=True, slots=True)
class FaultInResult:
    """One fault from `begin` to `end` (ns, None: to the end of the run), and when it took its `links` down."""

    id: str
    view: FaultView
    begin: int
    end: int | None
    links: tuple[str, ...]
    down: tuple[tuple[int, int | None], ...]


def faults_of(case: Case, fabric: Fabric, time_scale: float, end: int) -> Iterator[FaultInResult]:
    """The faults of a case on the fabric as it was in the run, which lasted `end` ns."""
    for number, planned in enumerate(case.faults, 1):
        fault = planned.fault.scaled(times=time_scale, rates=1 / time_scale)
        shown = span(planned, fabric, time_scale)
        if shown.at > end:
            continue
        carrier = SIMULATION.effect_of(fabric, fault).down
        down = tuple(_down(fault, shown.at, shown.until, end)) if carrier else ()
        view = FaultView(fault.kind.word, shown.label, shown.links, _switches(fault, fabric), "active")
        yield FaultInResult(f"f{number}", view, shown.at, shown.until, carrier, down)


def _switches(fault: Fault, fabric: Fabric) -> tuple[str, ...]:
    if isinstance(fault, Blackhole | PowerOff):
        return tuple(switch.name for switch in fabric.find_switches(fault.switch))
    return ()


def _down(fault: Fault, begin: int, until: int | None, end: int) -> Iterator[tuple[int, int | None]]:
    """Spans of time without carrier."""
    if not isinstance(fault, Intermittent):
        yield begin, until
        return
    if fault.random:
        return
    on, off = fault.times()
    over = end if until is None else min(until, end)
    for number in range(MAX_CHANGES):
        start = begin + number * (on + off)
        if start >= over:
            return
        yield start, min(start + on, over)


def carrier_changes(faults: Iterable[FaultInResult]) -> Iterator[tuple[int, str, bool]]:
    """When links lost and regained their carrier, in order of time: a link is down while any fault takes it down."""
    steps: dict[tuple[int, str], int] = {}
    for fault in faults:
        for begin, end in fault.down:
            for link in fault.links:
                steps[begin, link] = steps.get((begin, link), 0) + 1
                if end is not None:
                    steps[end, link] = steps.get((end, link), 0) - 1
    holding: dict[str, int] = {}
    for (time, link), step in sorted(steps.items()):
        before = holding.get(link, 0)
        holding[link] = before + step
        if (before > 0) != (holding[link] > 0):
            yield time, link, before > 0
