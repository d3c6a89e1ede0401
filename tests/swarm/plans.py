"""Small plans made by hand, and what a rule must do to a defect planted in them: find it, and shrink the plan."""

from __future__ import annotations

from mrc_host.verbs_types import QpAttributes, QpType
from simulation.transport_timers import timing
from simulation.world import default_queues
from tests.simulation.worlds import GIGA, small_fabric
from tests.swarm.run import run
from tests.swarm.scenario import PlannedPair, PlannedWrite, Scenario, ScenarioFault
from tests.swarm.shrink import shrink
from topologies.faults.controller_down import ControllerDown

DELAY = 1_000


def fabric():
    """2 planes of 100 Gb/s, 2 T0, 2 T1, h1 h2 | h3 h4."""
    return small_fabric(rate_bps=100 * GIGA)


def plan(*faults, writes=None, pairs=1, on=None, attributes=None, kind=QpType.MRC):
    """A plan of h1-h3 pairs on two planes, two T0 and two T1; each of `faults` is a fault with its start and end."""
    on = on or fabric()
    queues = default_queues(on)
    fit = timing(on, DELAY, queues.max_packets)
    one = PlannedPair("h1", "h3", kind, fit.attributes(attributes or QpAttributes()))
    if writes is None:
        writes = [
            write(time=time, length=9000, imm=time % 2 == 0, back=time % 3 == 0) for time in range(1, 120_000, 9_001)
        ]
    planned = tuple(ScenarioFault(fault, start, end) for fault, start, end in faults)
    return Scenario(7, on, DELAY, queues, fit, (one,) * pairs, tuple(writes), planned)


def write(*, time=1, length=100, imm=False, back=False, pair=0):
    """One planned write."""
    return PlannedWrite(pair, back, time, length, imm)


def with_bystanders(made):
    """The same plan with faults that do nothing, which shrinking must leave out."""
    idle = tuple(ScenarioFault(ControllerDown(), start, start + 1_000) for start in (1, 2, 3))
    return type(made)(**{name: getattr(made, name) for name in made.__slots__} | {"faults": (*made.faults, *idle)})


def caught(made, text, *, faults=None, writes=None):
    """Assert that a run of the plan is found to have failed with `text`, and that it shrinks to what it needs."""
    whole = with_bystanders(made)
    found = run(whole).violations
    assert any(text in violation for violation in found), found
    small = shrink(whole)
    assert any(text in violation for violation in small.violations), small.violations
    assert len(small.faults) <= (len(made.faults) if faults is None else faults)
    assert len(small.writes) <= (len(made.writes) if writes is None else writes)
