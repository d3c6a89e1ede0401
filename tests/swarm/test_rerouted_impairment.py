"""What reroutes excuse less, and that a switch which does not reroute is found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mrc_host.verbs_types import QpType
from simulation.rerouting import Rerouting
from tests.simulation.worlds import small_fabric
from tests.swarm.plans import plan, write
from tests.swarm.rerouted_impairment import longest_rerouted_impairment
from tests.swarm.run import run
from tests.swarm.scenario import Scenario, ScenarioFault
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.controller_down import ControllerDown
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.power_off import PowerOff

FABRIC = replace(small_fabric(), reroute_ns=10)  # 2 planes, 2 T0, 2 T1, h1 h2 | h3 h4

Planned = Sequence[tuple[Fault, int, int]]


@pytest.mark.parametrize(
    ("faults", "impaired"),
    [
        ([], 0),
        ([(LinkDown("t0-0:t1-0@p0"), 100, 500)], 10),
        ([(PowerOff("t1-0@p0"), 100, 500)], 10),
        ([(LinkDown("h1@p0"), 100, 500)], 410),
        ([(LinkDown("h2@p0"), 100, 500)], 10),
        ([(LinkDown("t0-0:t1-0@p0"), 100, 500), (LinkDown("t0-1:t1-1@p0"), 200, 300)], 110),  # no way is left
        ([(LinkDown("t0-0:t1-0@p0"), 100, 500), (LinkDown("t0-1:t1-0@p0"), 200, 300)], 10),
        ([(LinkDown("t0-0:t1-0@p0"), 100, 500), (LinkDown("t0-1:t1-1@p1"), 200, 300)], 10),
        ([(Flap("t0-0:t1-0@p0", 5_000, 5_000), 100, 500)], 410),
        ([(Loss("t0-0:t1-0@p0", 0.1), 100, 500)], 400),
        ([(Blackhole("t1-0@p0"), 100, 500)], 400),
        ([(Loss("h2@p0", 0.1), 100, 500)], 0),
        ([(LinkDown("t0-0:t1-0@p0"), 100, 500), (ControllerDown(), 105, 400)], 300),
        ([(LinkDown("t0-0:t1-0@p0"), 100, 500), (ControllerDown(), 115, 400)], 10),
        ([(LinkDown("t0-0:t1-0@p0", towards="t1-0@p0"), 100, 500)], 400),  # nobody notices
    ],
)
def test_a_connection_is_impaired_until_it_is_rerouted_or_while_no_way_is_left(faults: Planned, impaired: int) -> None:
    planned = [ScenarioFault(*one) for one in faults]
    assert longest_rerouted_impairment(FABRIC, planned, "h1", "h3", 0) == impaired


def roce(reroute: int | None) -> Scenario:
    """Writes of some pairs on a path each, while one of two T1s has no power in either plane."""
    found = plan(pairs=6, writes=[write(pair=pair, length=9000) for pair in range(6)])
    fabric = replace(found.fabric, reroute_ns=reroute)
    pairs = tuple(replace(pair, kind=QpType.RC) for pair in found.pairs)
    return replace(found, fabric=fabric, pairs=pairs, faults=(ScenarioFault(PowerOff("t1-0@p*"), 0, 10**10),))


def test_a_switch_that_does_not_reroute_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = run(roce(10_000))
    assert honest.violations == ()
    assert honest.failed_pairs == 0
    monkeypatch.setattr(Rerouting, "_reroute", lambda *_: None)
    deaf = run(roce(10_000))
    assert [text for text in deaf.violations if "RC queue pair h1-h3 failed" in text], deaf.violations
    assert run(roce(None)).violations == (), "nothing else is to be expected of one that never reroutes"
