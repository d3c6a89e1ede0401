"""The mapper against a fabric of pure arithmetic: which probes arrive is decided here, one report a step."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from controller.path_map.mapper import SECOND, PathMap
from controller.path_map.values import Direction
from mrc_host.path_probes import ProbeReport, ProbesArrived, ProbesSent
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.probe_plan import Crossing, ProbeRoute, probe_plan

STEP = SECOND // 2


class Field:
    """Hosts that send one round a step; `passes` decides about each probe."""

    def __init__(self, fabric: Fabric) -> None:
        self.plan = probe_plan(fabric)
        self.map = PathMap(self.plan)
        self.passes: Callable[[ProbeRoute], bool] = lambda route: True
        self.silent: set[str] = set()
        self.now = 0
        self.number = 0

    def step(self) -> list[str]:
        """One round; returns the names of suspected faults."""
        self.now += STEP
        self.number += 1
        arrived: dict[str, list[ProbesArrived]] = {host: [] for host in self.plan.routes}
        for host, routes in self.plan.routes.items():
            address = addressing.nic_address(self.plan.fabric, self.plan.fabric.nic(host)).packed
            for number, route in enumerate(routes):
                if host not in self.silent and self.passes(route):
                    arrived[route.target].append(ProbesArrived(address, self.number, 1 << number))
        for host, routes in self.plan.routes.items():
            if host not in self.silent:
                sent = (ProbesSent(self.number, (1 << len(routes)) - 1),)
                self.map.absorb(host, ProbeReport(True, sent, tuple(arrived[host])), self.now)
        return [fault.name for fault in self.map.update(self.now)]

    def steps(self, count: int) -> list[list[str]]:
        return [self.step() for _ in range(count)]


def cut(*crossings: Crossing) -> Callable[[ProbeRoute], bool]:
    return lambda route: not any(crossing in crossings for crossing in route.crossings)


def test_a_link_that_is_down_is_suspected_after_two_rounds_and_cleared_when_it_recovers() -> None:
    field = Field(multi_plane_clos())
    assert not any(field.steps(10))
    field.passes = cut(Crossing("t0-1:t1-3@p0", True), Crossing("t0-1:t1-3@p0", False))
    named = field.steps(6)
    assert named[-1] == ["t0-1:t1-3@p0"]
    assert {name for names in named for name in names} == {"t0-1:t1-3@p0"}
    (fault,) = field.map.suspected
    assert fault.loss > 0.99
    assert fault.confidence > 0.98
    assert fault.direction is Direction.BOTH
    field.passes = cut()
    assert field.steps(4)[-1] == []
    assert not any(field.steps(20)), "nothing is named for what is over"


def test_the_faulty_direction_of_a_link_is_named() -> None:
    for upward, way in ((True, Direction.UP), (False, Direction.DOWN)):
        for link in ("h3@p1", "t0-0:t1-0@p0"):
            field = Field(multi_plane_clos())
            field.passes = cut(Crossing(link, upward))
            field.steps(6)
            assert [(v.name, v.direction) for v in field.map.suspected] == [(link, way)]


def test_a_host_that_does_not_report_is_listed_as_silent_and_nothing_is_suspected() -> None:
    field = Field(multi_plane_clos())
    field.steps(4)
    field.silent = {"h2"}
    assert not any(field.steps(20))
    assert field.map.unreachable_hosts(field.now) == ("h2",)
    field.silent = set()
    assert not any(field.steps(4))
    assert field.map.unreachable_hosts(field.now) == ()


def test_indistinguishable_elements_are_named_together_after_a_while() -> None:
    field = Field(multi_plane_clos(planes=1, t0=1, t1=2, hosts=1))
    field.passes = lambda route: "t1-1@p0" not in route.switches
    names = field.steps(3)
    assert not any(names)
    assert field.steps(8)[-1] in (["t1-1@p0"], ["t0-0:t1-1@p0"])
    (fault,) = field.map.suspected
    assert {fault.name, *fault.rivals} == {"t1-1@p0", "t0-0:t1-1@p0"}


def test_a_lossy_link_is_found_beside_one_that_is_down() -> None:
    field = Field(multi_plane_clos())
    dead, half = "t0-0:t1-1@p0", "h2@p0"
    turn = [0]

    def passes(route: ProbeRoute) -> bool:
        crossed = {crossing.link for crossing in route.crossings}
        turn[0] += half in crossed
        return dead not in crossed and not (half in crossed and turn[0] % 3 == 0)

    field.passes = passes
    assert sorted(field.steps(12)[-1]) == sorted([dead, half])


FOUR_FAULTS: list[dict[str, float]] = [
    {"h2@p0": 1.0, "t1-1@p0": 1.0, "t0-0:t1-0@p0": 0.5, "h1@p0": 0.1},
    {"t0-1:t1-3@p0": 0.5, "h1@p0": 0.1, "t0-1:t1-2@p0": 1.0, "t1-1@p0": 1.0},
    {"t0-0:t1-2@p0": 1.0, "t0-1:t1-0@p0": 1.0, "t1-0@p0": 1.0, "h1@p0": 1.0},
    {"h2@p0": 0.5, "t1-2@p0": 1.0, "t0-0:t1-1@p0": 0.1, "t1-1@p0": 1.0},
    {"t1-3@p0": 1.0, "h4@p0": 0.2, "t0-1:t1-0@p0": 0.2, "t1-1@p0": 1.0},
]


@pytest.mark.second_ring
@pytest.mark.parametrize("faults", FOUR_FAULTS, ids=lambda faults: " ".join(faults))
def test_with_four_faults_no_healthy_element_is_named_with_confidence(faults: dict[str, float]) -> None:
    field, rng = Field(multi_plane_clos()), random.Random(11)
    field.steps(6)
    field.passes = lambda route: (
        not any(rng.random() < faults.get(name, 0.0) for name in (*(c.link for c in route.crossings), *route.switches))
    )
    for _ in range(15):
        field.step()
        confident = {fault.name for fault in field.map.suspected if fault.confidence >= 0.9}
        assert confident <= set(faults)
    assert {fault.name for fault in field.map.suspected} & set(faults)


def test_link_health_counts_probes_that_crossed_each_link() -> None:
    field = Field(multi_plane_clos())
    field.passes = cut(Crossing("h1@p0", True))
    field.steps(5)
    counts = field.map.link_counts(0)
    own = sum(any(c.link == "h1@p0" for c in route.crossings) for route in field.plan.all_routes)
    judged = counts["h1@p0"].sent / own
    assert judged == 4, "the last round is still open"
    assert 0 < counts["h1@p0"].lost < counts["h1@p0"].sent
    assert counts["h3@p1"].lost == 0
