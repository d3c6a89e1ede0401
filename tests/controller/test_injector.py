"""Faults over time, in virtual time: begin, end, every kind, overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from controller.values import EventKind
from tests.controller.driven import MS, SECOND, Engine, engine
from tests.controller.injected import FABRIC, H1, H2, make, states
from topologies.errors import FabricError
from topologies.fabric import LinkEnd
from topologies.faults import Fault, FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.controller_down import ControllerDown
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.effect import PortShaping
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate


@pytest.fixture
def world() -> Iterator[Engine]:
    with engine(FABRIC) as one:
        yield one


def test_a_scheduled_fault_begins_and_ends_when_its_time_has_come(world: Engine) -> None:
    record = make(world, LinkDown(H1), start_at_ns=2 * SECOND, duration_ns=3 * SECOND)
    assert (record.state, record.began_at_ns, record.ends_at_ns) == (FaultState.PENDING, 0, 5 * SECOND)
    world.seconds(1.999)
    assert world.links.down == set()
    assert states(world) == [("f1", FaultState.PENDING)]
    world.seconds(0.002)
    assert world.links.down == {H1}
    assert states(world) == [("f1", FaultState.ACTIVE)]
    assert world.registry.get("f1").began_at_ns == 2 * SECOND
    world.seconds(2.998)
    assert world.links.down == {H1}
    world.seconds(0.002)
    assert world.links.changes == [(2 * SECOND, H1, False), (5 * SECOND, H1, True)]
    assert states(world) == [("f1", FaultState.CLEARED)]
    assert [(event.kind, event.name) for event in world.new_events()] == [
        (EventKind.SUBSCRIBED, ""),
        (EventKind.FAULT_ADDED, "f1"),
        (EventKind.FAULT_ACTIVE, "f1"),
        (EventKind.FAULT_CLEARED, "f1"),
    ]


def test_shaping_is_prepared_when_a_fault_that_shapes_is_ordered(world: Engine) -> None:
    make(world, LinkDown(H1), start_at_ns=SECOND)
    assert not world.links.prepared
    make(world, Rate(H1, 1_000_000), start_at_ns=SECOND)
    assert world.links.prepared
    assert world.links.shapes == {}, "its time has not come"


def test_a_start_time_in_the_past_means_now(world: Engine) -> None:
    world.seconds(10)
    record = make(world, LinkDown(H1), start_at_ns=SECOND)
    assert record.state is FaultState.ACTIVE
    assert record.starts_at_ns == record.began_at_ns == 10 * SECOND


def test_a_pending_fault_can_be_cleared(world: Engine) -> None:
    record = make(world, LinkDown(H1), start_at_ns=SECOND)
    world.run(world.injector.clear([record]))
    world.seconds(5)
    assert world.links.changes == []


def test_a_fault_cleared_before_its_end_does_not_end_twice(world: Engine) -> None:
    record = make(world, LinkDown(H1), duration_ns=SECOND)
    assert world.run(world.injector.clear([record])).links == (H1,)
    again = make(world, LinkDown(H1))
    world.seconds(5)
    assert world.links.down == {H1}, "the end of the first fault cleared the second"
    assert world.run(world.injector.clear([record])).faults == ()
    assert list(world.registry) == [again]


@pytest.mark.parametrize(
    ("start", "duration"), [(1 << 62, None), (None, 1 << 62), (None, -1), (1 << 63, 1), (None, 10**30)]
)
def test_times_beyond_ten_years_are_refused(world: Engine, start: int | None, duration: int | None) -> None:
    with pytest.raises(FabricError, match="a fault cannot"):
        make(world, LinkDown(H1), start_at_ns=start, duration_ns=duration)
    assert list(world.registry) == []


def test_a_fault_ends_on_time_although_link_changes_are_slow(world: Engine) -> None:
    world.links.slow_s = 0.4
    record = make(world, LinkDown(H1), duration_ns=SECOND)
    assert record.applied_at_ns - record.began_at_ns == 400 * MS
    world.seconds(1.1)
    assert states(world) == [("f1", FaultState.CLEARED)]


@pytest.mark.parametrize(
    ("fault", "down", "switches", "shapes"),
    [
        (LinkDown("t0-0:t1-*@p0"), {"t0-0:t1-0@p0", "t0-0:t1-1@p0"}, set(), {}),
        (LinkDown(H1, "h1"), set(), {"t0-0@p0"}, {}),
        (PortDown("h1", 1), {"h1@p1"}, set(), {}),
        (PowerOff("t1-0@p0"), {"t0-0:t1-0@p0", "t0-1:t1-0@p0"}, set(), {}),
        (Blackhole("t1-*@p1"), set(), {"t1-0@p1", "t1-1@p1"}, {}),
        (Loss(H1, 0.5, "t0-*"), set(), {"t0-0@p0"}, {}),
        (Corruption("t0-0:t1-0@p0", 1e-9), set(), {"t0-0@p0", "t1-0@p0"}, {}),
        (PathLoss(0x401, source="h1"), set(), {"t0-0@p1"}, {}),
        (Rate(H1, 1_000_000, "t0-0@p0"), set(), set(), {LinkEnd("h1", 0): PortShaping(1_000_000)}),
    ],
)
def test_every_fault_kind_is_applied_and_undone(
    world: Engine, fault: Fault, down: set[str], switches: set[str], shapes: dict[LinkEnd, PortShaping]
) -> None:
    record = make(world, fault)
    assert (world.links.down, set(world.switches.entries), world.links.shapes) == (down, switches, shapes)
    assert set(record.switches) == switches
    world.run(world.injector.clear([record]))
    assert (world.links.down, world.switches.entries, world.links.shapes) == (set(), {}, {})


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (LinkDown("h9@p0"), "no link that matches 'h9@p0'"),
        (LinkDown("[", None), "a bracket is not closed"),
        (LinkDown("", None), "link must not be empty"),
        (LinkDown(H1, "h2"), "leads to a node that matches 'h2'"),
        (PortDown("h1", 9), "there is no port 9 of h1"),
        (PowerOff("t7*"), "no switch that matches"),
        (Loss(H1, math.nan), "is nan %, but must be above 0 %"),
        (Loss(H1, -0.5), "is -50 %, but must be above 0 %"),
        (Loss(H1, math.inf), "is inf %, but must be above 0 %"),
        (Rate(H1, 7_999), "at least 8000 b/s"),
        (Rate(H1, 10**6, "h2"), "leads to a node that matches 'h2'"),
        (Delay(H1, 0), "extra is 0 ns, but must be at least 1 ns"),
        (Delay(H1, 10**11), "10 s at most"),
        (Flap(H1, 9 * MS, SECOND), "10 ms or more"),
        (Flap(H1, SECOND, -1), "up is -1 ns, but must be at least 1 ns"),
        (Flap(H1, SECOND, 1 << 62), "10 ms or more"),
        (ControllerDown(), "use simulation"),
    ],
)
def test_impossible_faults_are_refused_and_leave_nothing(world: Engine, fault: Fault, message: str) -> None:
    with pytest.raises(FabricError, match=message) as caught:
        make(world, fault)
    assert "\n" not in str(caught.value)
    assert (states(world), world.links.changes) == ([], [])


def test_a_link_recovers_when_the_last_of_overlapping_faults_is_cleared(world: Engine) -> None:
    one, two = make(world, LinkDown("h[1,2]@p0")), make(world, LinkDown("h[2,3]@p0"))
    loss = make(world, Loss(H1, 0.5))
    assert world.run(world.injector.clear([one])).links == (H1,)
    assert world.links.down == {H2, "h3@p0"}
    assert set(world.switches.entries) == {"t0-0@p0"}
    world.run(world.injector.clear([two, loss]))
    assert world.links.down == set()


def test_repairing_brings_up_a_link_taken_down_by_other_means(world: Engine) -> None:
    world.links.down.add(H1)
    assert world.run(world.injector.repair([H1])).links == (H1,)
    assert world.links.down == set()
