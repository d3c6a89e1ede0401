"""Faults over time, in virtual time: begin, end, flap, overlap, fail, resume."""

from __future__ import annotations

import asyncio
import itertools
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from controller.errors import BusyError, ControllerError
from controller.fault_limits import EMULATION
from controller.values import EventKind
from tests.controller.driven import MS, SECOND, Engine, engine
from tests.topologies.faults.spells import LossySpells, SlowSpells
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import LinkEnd
from topologies.fault_entries import fault_entries, link_fault
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
from topologies.faults.record import FaultRecord

FABRIC = multi_plane_clos("engine", planes=2, t0=2, t1=2, hosts=4)
H1, H2 = "h1@p0", "h2@p0"


@pytest.fixture
def world() -> Iterator[Engine]:
    with engine(FABRIC) as one:
        yield one


def make(world: Engine, fault: Fault, **more: object) -> FaultRecord:
    return world.run(world.injector.add(fault, **more))  # type: ignore[arg-type]


def states(world: Engine) -> list[tuple[str, FaultState]]:
    return [(record.id, record.state) for record in (*world.registry.past, *world.registry)]


# ---- begin and end


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


# ---- every kind


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


# ---- failure


def test_a_fault_that_fails_half_way_is_undone_and_reported(world: Engine) -> None:
    world.links.broken = H2
    with pytest.raises(ControllerError, match="does not exist"):
        make(world, LinkDown("h[1,2]@p0"))
    assert list(world.registry) == []
    world.links.broken = ""
    make(world, Loss(H1, 0.5))
    assert world.links.down == set(), "a half-made fault was left"
    assert [event.kind for event in world.new_events()][1:4] == [
        EventKind.FAULT_ADDED,
        EventKind.FAULT_CLEARED,
        EventKind.FAULT_ADDED,
    ]


def test_a_scheduled_fault_that_fails_is_listed_as_cleared_with_its_reason(world: Engine) -> None:
    make(world, Delay(H1, MS), start_at_ns=SECOND)
    world.seconds(2)
    (record,) = world.registry.past
    assert record.problem == "Switch t0-0@p0 is BMv2."
    assert world.new_events()[-1].detail == "Switch t0-0@p0 is BMv2."
    assert list(world.registry) == []


def test_a_fault_that_cannot_be_undone_stays_registered(world: Engine) -> None:
    record = make(world, LinkDown(H1), duration_ns=SECOND)
    world.links.broken = H1
    with pytest.raises(ControllerError, match="does not exist"):
        world.run(world.injector.clear([record]))
    world.seconds(2)
    assert "could not be taken back" in world.registry.get("f1").problem
    world.links.broken = ""
    world.run(world.injector.clear(world.registry))
    assert world.links.down == set()


def test_a_missing_link_does_not_block_other_faults(world: Engine) -> None:
    """Its host was killed, say, and its interface with it."""
    cut = make(world, LinkDown(H1))
    world.links.absent = H1
    world.run(world.injector.clear([cut]))
    with pytest.raises(ControllerError, match="h1@p0 does not exist"):
        make(world, LinkDown("h[1,2]@p0"))
    loss = make(world, Loss(H2, 0.5))
    assert list(world.registry) == [loss]
    assert set(world.switches.entries) == {"t0-0@p0"}
    with pytest.raises(ControllerError, match="h1@p0 does not exist"):
        world.run(world.injector.repair([H1]))
    world.run(world.injector.clear(world.registry))
    assert (world.switches.entries, world.links.down) == ({}, set())


def test_ports_reshaped_before_a_change_failed_get_their_shape_back(
    world: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, slower = make(world, Rate("h[1,2]@p0", 5_000_000, "t0-0@p0")), make(world, Rate(H1, 10**6, "t0-0@p0"))
    before, seen, shape = dict(world.links.shapes), [], world.links.shape

    async def recorded(shapes: Mapping[LinkEnd, PortShaping | None]) -> None:
        try:
            await shape(shapes)
        finally:
            seen.append(LinkEnd("h1", 0) in world.links.shapes)

    monkeypatch.setattr(world.links, "shape", recorded)
    world.links.broken_shape = LinkEnd("h2", 0)
    with pytest.raises(ControllerError, match="h2 cannot be shaped"):
        world.run(world.injector.clear([slow, slower]))
    assert not seen[0], "or this test shows nothing"
    assert world.links.shapes == before, "the faults stay, and so does what they do"
    world.links.broken_shape = None
    make(world, LinkDown("h3@p0"))
    assert world.links.shapes == before
    world.run(world.injector.clear([slow, slower]))
    assert world.links.shapes == {}


def test_links_that_came_up_before_clearing_failed_go_down_again(world: Engine) -> None:
    record = make(world, LinkDown("h[1,2]@p0"))
    world.links.broken = H2
    with pytest.raises(ControllerError, match="h2@p0 does not exist"):
        world.run(world.injector.clear([record]))
    assert (H1, True) in [change[1:] for change in world.links.changes], "or this test shows nothing"
    assert list(world.registry) == [record]
    assert world.links.down == {H1, H2}


def test_entries_and_shapes_come_and_go(world: Engine) -> None:
    lossy = make(world, LossySpells("h[1,2]@p0", 10 * MS, 30 * MS))
    slow = make(world, SlowSpells(H1, 20 * MS, 20 * MS), duration_ns=90 * MS)
    found = []
    for _ in range(10):
        world.seconds(0.001)
        found.append((bool(world.switches.entries), bool(world.links.shapes), world.links.down))
        world.links.down = set(world.links.down)
        world.seconds(0.009)
    on, off = (True, True, {"h4@p0"}), (False, False, set())
    assert found == [on, (False, *on[1:]), off, off] * 2 + [on, (False, False, set())]
    assert [record.id for record in world.registry] == [lossy.id], slow
    world.seconds(0.02)
    assert world.registry.get(lossy.id).problem == ""
    world.run(world.injector.clear([lossy]))
    world.seconds(1)
    assert (world.switches.entries, world.links.shapes, world.links.down) == ({}, {}, set())


def test_a_switch_that_is_away_when_a_fault_comes_back_makes_it_later(world: Engine) -> None:
    lossy = make(world, LossySpells(H1, 10 * MS, 30 * MS, towards="t0-*"))
    entries = world.switches.entries
    world.seconds(0.015)
    assert (set(entries), world.switches.entries) == ({"t0-0@p0"}, {})
    world.switches.away = "t0-0@p0"
    world.seconds(0.03)
    assert "Not made yet at t0-0@p0" in world.registry.get(lossy.id).problem
    assert world.injector.wanted_entries() == world.switches.entries == entries
    world.seconds(0.01)
    assert (world.registry.get(lossy.id).problem, world.switches.entries) == ("", {})


def test_repaired_links_go_down_again_if_others_that_come_up_with_them_cannot(world: Engine) -> None:
    cut = make(world, LinkDown("h[1,2]@p0"))
    flap = make(world, Flap("h3@p0", 10 * MS, 40 * MS))
    world.links.broken = "h3@p0"
    world.seconds(0.02)
    assert "h3@p0 does not exist" in world.registry.get(flap.id).problem
    with pytest.raises(ControllerError, match="h3@p0 does not exist"):
        world.run(world.injector.repair([H1]))
    assert (H1, True) in [change[1:] for change in world.links.changes], "or this test shows nothing"
    assert world.registry.get(cut.id).links == (H1, H2)
    assert world.links.down >= {H1, H2}


def test_a_link_that_a_failed_flap_left_up_goes_down_for_another_fault(world: Engine) -> None:
    flap = make(world, Flap("h[1,2]@p0", 10 * MS, 30 * MS))
    world.seconds(0.02)
    world.links.broken = H1
    world.seconds(0.025)
    assert "h1@p0 does not exist" in world.registry.get(flap.id).problem
    assert world.links.down == set(), "or this test shows nothing"
    cut = make(world, LinkDown(H2))
    assert world.links.down == {H2}
    with pytest.raises(ControllerError, match="h1@p0 does not exist"):
        make(world, LinkDown(H1))
    assert [record.id for record in world.registry] == [flap.id, cut.id]
    world.links.broken = ""
    world.seconds(0.04)
    assert world.registry.get(flap.id).problem == ""
    assert world.links.down == {H1, H2}


def test_a_missing_port_with_a_fault_does_not_block_other_faults(world: Engine) -> None:
    slow, slower = make(world, Rate(H1, 5_000_000, "t0-0@p0")), make(world, Rate(H1, 10**6, "t0-0@p0"))
    world.links.broken_shape = LinkEnd("h1", 0)
    for _ in range(2):
        with pytest.raises(ControllerError, match="h1 cannot be shaped"):
            world.run(world.injector.clear([slower]))
    other = make(world, Rate(H2, 10**6, "t0-0@p0"))
    cut = make(world, LinkDown("h3@p0"))
    world.run(world.injector.clear([other]))
    world.run(world.injector.clear([cut]))
    assert (world.links.down, set(world.links.shapes)) == (set(), {LinkEnd("h1", 0)})
    assert list(world.registry) == [slow, slower]
    world.links.broken_shape = None
    world.run(world.injector.clear([slower]))
    assert world.links.shapes == {LinkEnd("h1", 0): PortShaping(rate_bps=5_000_000)}


def test_an_ended_fault_is_removed_from_an_unreachable_switch_that_keeps_another(world: Engine) -> None:
    stays = make(world, Loss(H1, 0.5))
    make(world, Loss(H1, 0.25), duration_ns=SECOND)
    world.switches.away = "t0-0@p0"
    world.seconds(2)
    assert list(world.registry) == [stays]
    assert world.switches.entries == fault_entries([link_fault(FABRIC, H1, loss=500_000_000)])


def test_a_fault_is_saved_before_it_is_applied(world: Engine) -> None:
    seen: list[list[tuple[str, ...]]] = []
    world.links.slow_s = 1
    world.when_saved = lambda: seen.append([record.links for record in world.registry])

    async def crash() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(world.injector.add(LinkDown(H1)), 0.5)
        assert (seen, world.links.down) == ([[(H1,)]], set())

    world.run(crash())
    world.seconds(2)


# ---- flapping


def spans(world: Engine, link: str) -> list[int]:
    """Lengths of the times that a link was down and up, in turn."""
    times = [at for at, name, _ in world.links.changes if name == link]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def test_a_flap_toggles_all_its_links_together_with_its_period_and_duty(world: Engine) -> None:
    record = make(world, Flap("h[1,2]@p0", 500 * MS, 1500 * MS))
    world.seconds(100)
    for link in (H1, H2):
        assert spans(world, link)[:98] == [500 * MS, 1500 * MS] * 49
    changes = [change for change in world.links.changes if change[1] == H1]
    assert [up for *_, up in changes] == [bool(number % 2) for number in range(len(changes))]
    assert [at for at, *_ in changes] == [at for at, name, _ in world.links.changes if name == H2]
    world.run(world.injector.clear([record]))
    count = len(world.links.changes)
    world.seconds(10)
    assert len(world.links.changes) == count
    assert world.links.down == set()


def test_a_flap_does_not_drift_when_changes_take_time(world: Engine) -> None:
    world.links.slow_s = 0.003
    make(world, Flap(H1, 100 * MS, 100 * MS))
    world.seconds(60)
    downs = [at for at, _, up in world.links.changes if not up]
    assert downs == [3 * MS + number * 200 * MS for number in range(301)]


def flaps(seed: int, links: str = "h*@p0", seconds: float = 200) -> dict[str, list[int]]:
    with engine(FABRIC) as world:
        make(world, Flap(links, 100 * MS, 300 * MS, True, seed))
        world.seconds(seconds)
        return {link: spans(world, link) for link in sorted({name for _, name, _ in world.links.changes})}


def test_random_flaps_follow_their_seed_independently_on_each_link() -> None:
    found = flaps(7)
    assert found == flaps(7)
    assert flaps(7, H1)[H1] == found[H1], "other links change what one of them does"
    assert found[H1] != found[H2]
    assert found[H1] != flaps(8)[H1]


def test_random_flaps_have_the_requested_mean_times() -> None:
    for times in flaps(7).values():
        down, up = statistics.fmean(times[0::2]), statistics.fmean(times[1::2])
        assert down == pytest.approx(100 * MS, rel=0.2)  # some 500 draws: four standard errors
        assert up == pytest.approx(300 * MS, rel=0.2)
        assert statistics.pstdev(times[0::2]) == pytest.approx(100 * MS, rel=0.3)


def test_a_flap_with_a_duration_ends_with_its_links_up(world: Engine) -> None:
    make(world, Flap(H1, 500 * MS, 500 * MS), duration_ns=2_200 * MS)
    world.seconds(10)
    assert world.links.down == set()
    assert states(world) == [("f1", FaultState.CLEARED)]
    assert world.links.changes[-1] == (2_200 * MS, H1, True)


def test_a_scheduled_flap_begins_at_its_start_time(world: Engine) -> None:
    make(world, Flap(H1, 500 * MS, 500 * MS), start_at_ns=3 * SECOND)
    world.seconds(3.6)
    assert world.links.changes == [(3 * SECOND, H1, False), (3_500 * MS, H1, True)]


def test_a_flap_does_not_bring_up_a_link_that_another_fault_holds_down(world: Engine) -> None:
    make(world, Flap(H1, 100 * MS, 100 * MS))
    cut = make(world, LinkDown(H1))
    world.seconds(1.05)
    assert world.links.changes == [(0, H1, False)]
    world.run(world.injector.clear([cut]))
    world.seconds(1)
    assert len(world.links.changes) > 8


def test_an_error_of_our_own_stops_no_other_fault(world: Engine, caplog: pytest.LogCaptureFixture) -> None:
    make(world, Rate(H1, 10**6), start_at_ns=SECOND)
    make(world, LinkDown(H2), start_at_ns=2 * SECOND, duration_ns=SECOND)

    async def fails(_shapes: object) -> None:
        raise ZeroDivisionError

    world.injector._links.shape = fails  # type: ignore[method-assign, assignment]
    world.seconds(1.5)
    del world.injector._links.shape
    assert "a fault could not be changed; others go on" in caplog.text
    world.seconds(1)
    assert world.links.down == {H2}
    world.seconds(1)
    assert world.links.down == set()


def test_a_flap_that_fails_to_change_a_link_reports_it_and_continues(world: Engine) -> None:
    make(world, Flap(H1, 100 * MS, 100 * MS))
    world.links.broken = H1
    world.seconds(0.5)
    assert "does not exist" in world.registry.get("f1").problem
    world.links.broken = ""
    world.seconds(0.5)
    assert world.registry.get("f1").problem == ""
    assert len(world.links.changes) > 3


# ---- one after another


def test_a_hundred_concurrent_changes_end_in_the_state_of_the_registry(world: Engine) -> None:
    world.links.slow_s = 0.01

    async def all_at_once() -> None:
        made = await asyncio.gather(*(world.injector.add(LinkDown(f"h{1 + n % 4}@p0")) for n in range(100)))
        await asyncio.gather(*(world.injector.clear([record]) for record in made if record.links != (H1,)))

    world.run(all_at_once())
    assert world.links.down == {H1}
    assert len(list(world.registry)) == 25


def test_a_cancelled_request_leaves_nothing_half_applied(world: Engine) -> None:
    world.links.slow_s = 1

    async def given_up() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(world.injector.add(LinkDown(H1), duration_ns=5 * SECOND), 0.5)

    world.run(given_up())
    world.seconds(2)
    assert world.links.down == {H1}, "it had been asked for, and is listed"
    assert states(world) == [("f1", FaultState.ACTIVE)]
    world.seconds(10)
    assert states(world) == [("f1", FaultState.CLEARED)]
    assert world.links.down == set()


def test_too_many_faults_are_refused() -> None:
    with engine(FABRIC, replace(EMULATION, max_faults=3)) as world:
        for _ in range(3):
            make(world, LinkDown(H1))
        with pytest.raises(BusyError, match="There are 3 faults already: clear some first"):
            make(world, LinkDown(H1))


# ---- before and after


def test_faults_of_the_previous_controller_continue_where_they_were(world: Engine) -> None:
    world.seconds(10)
    ended = FaultRecord("f3", LinkDown(H2), (H2,), starts_at_ns=0, ends_at_ns=SECOND)
    active = FaultRecord("f4", LinkDown(H1), (H1,), owner="me", starts_at_ns=SECOND, ends_at_ns=12 * SECOND)
    later = FaultRecord("f5", Loss(H1, 0.5), (H1,), state=FaultState.PENDING, starts_at_ns=11 * SECOND)
    gone = FaultRecord("f6", LinkDown("h99@p0"), ("h99@p0",))
    no_path = FaultRecord("f7", PathLoss(0x3FF))
    world.run(world.injector.resume([ended, active, later, gone, no_path]))
    assert world.links.down >= {H1}
    assert world.registry.get("f4").owner == "me"
    world.seconds(0.5)
    assert world.links.down == {H1}, "one whose time is over ends at once"
    assert [record.id for record in world.registry] == ["f4", "f5"]
    world.seconds(1)
    assert set(world.switches.entries) == {"t0-0@p0"}
    world.seconds(1)
    assert world.links.down == set()
    assert [record.id for record in world.registry] == ["f5"]


def test_of_ten_thousand_inherited_faults_as_many_resume_as_fit_and_the_rest_are_undone(
    world: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    most = EMULATION.max_faults or 0
    left = [FaultRecord(f"f{n}", LinkDown(H1 if n <= most else H2)) for n in range(1, 10_001)]
    world.links.down = {H1, H2}
    world.run(world.injector.resume(left))
    assert [record.id for record in world.registry] == [record.id for record in left[:most]]
    assert world.links.down == {H1}
    assert f"Of 10000 faults of the last controller, {10_000 - most} exceed the limits: undone." in caplog.text


def test_inherited_flaps_above_the_rate_limit_are_undone(world: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Such a file was edited, or is of a controller with higher limits."""
    each = 2 * SECOND // (10 * MS + 10 * MS)  # changes a second of one link
    fits = (EMULATION.max_changes_per_s or 0) // each
    flaps = [FaultRecord(f"f{n}", Flap(H1, 10 * MS, 10 * MS), (H1,)) for n in range(1, fits + 1)]
    excess = FaultRecord("f90", Flap(H2, 10 * MS, 10 * MS), (H2,))
    last = FaultRecord("f91", LinkDown("t0-0:t1-0@p0"), ("t0-0:t1-0@p0",))
    world.links.down = {H2}
    world.run(world.injector.resume([*flaps, excess, last]))
    assert [record.id for record in world.registry] == [*(record.id for record in flaps), "f91"]
    assert H2 not in world.links.down
    assert "1 exceed the limits" in caplog.text


def test_a_fault_due_while_its_switch_is_unreachable_is_applied_on_its_return(world: Engine) -> None:
    world.switches.away = "t0-0@p0"
    late = FaultRecord("f1", Loss(H1, 0.5), (H1,), state=FaultState.PENDING, starts_at_ns=SECOND)
    short = FaultRecord(
        "f2", Blackhole("t0-0@p0"), state=FaultState.PENDING, starts_at_ns=SECOND, ends_at_ns=3 * SECOND
    )
    world.run(world.injector.resume([late, short]))
    world.registry.resume_after([late, short])
    world.seconds(2)
    for record in world.registry:
        assert record.state is FaultState.ACTIVE
        assert record.problem == (
            "Not made yet at t0-0@p0, which cannot be reached: it is made there when that changes."
        )
    assert [event.fault.problem != "" for event in world.new_events() if event.fault and event.fault.id == "f1"][-1]
    with pytest.raises(ControllerError, match="t0-0@p0 is not reachable, so it can make no fault"):
        make(world, Loss(H2, 0.5))
    world.seconds(2)
    assert [record.id for record in world.registry] == ["f1"], "one whose time is over is over"
    world.switches.back.set()
    world.seconds(1)
    (made,) = world.registry
    assert made.problem == ""
    assert 4 * SECOND <= made.applied_at_ns < 4 * SECOND + MS
    assert [event.kind for event in world.new_events()][-1] is EventKind.FAULT_ACTIVE
    assert set(world.switches.entries) == {"t0-0@p0"}


def test_a_deferred_fault_can_be_cleared_before_its_switch_returns(world: Engine) -> None:
    world.switches.away = "t1-0@p0"
    record = make(world, Blackhole("t1-0@p0"), start_at_ns=SECOND)
    world.seconds(2)
    world.run(world.injector.clear([record]))
    world.switches.back.set()
    world.seconds(1)
    assert states(world) == [(record.id, FaultState.CLEARED)]
    assert world.switches.entries == {}


def test_a_fault_that_cannot_be_resumed_is_reported_and_the_rest_resume(world: Engine) -> None:
    world.links.broken = H2
    left = [FaultRecord("f1", LinkDown(H1), (H1,)), FaultRecord("f2", LinkDown(H2), (H2,), ends_at_ns=SECOND)]
    world.run(world.injector.resume(left))
    assert "does not exist" in world.registry.get("f2").problem
    world.links.broken = ""
    world.seconds(2)
    assert [record.id for record in world.registry] == ["f1"]
    assert world.links.down == {H1}


def test_undo_brings_links_up_and_removes_shapes(world: Engine) -> None:
    world.links.down = {H1, "h3@p0"}
    world.links.shapes = {LinkEnd("h2", 0): PortShaping(10**6)}
    left = [FaultRecord("f1", LinkDown(H1), (H1,)), FaultRecord("f2", Rate(H2, 10**6, "t0-0@p0"), (H2,))]
    world.run(world.injector.undo(left))
    assert world.links.down == {"h3@p0"}, "not a fault of ours"
    assert world.links.shapes == {}


@pytest.mark.parametrize(("keep", "down"), [(True, {H1}), (False, set())])
def test_close_keeps_or_undoes_faults(world: Engine, keep: bool, down: set[str]) -> None:
    make(world, LinkDown(H1))
    make(world, LinkDown(H2), start_at_ns=SECOND)
    world.run(world.injector.close(keep=keep))
    world.seconds(3)
    assert world.links.down == down


def test_every_change_of_the_registry_is_saved(world: Engine) -> None:
    record = make(world, LinkDown(H1), start_at_ns=SECOND)
    assert world.saved == 1
    world.seconds(1.5)
    assert world.saved == 2
    world.run(world.injector.clear([record]))
    assert world.saved == 3
    make(world, LinkDown(H1))
    assert world.saved == 5


def test_an_effect_lists_all_its_links() -> None:
    assert EMULATION.effect_of(FABRIC, LinkDown("h*@p0")).links == tuple(f"h{n}@p0" for n in range(1, 5))


# ---- more than switches hold


def test_a_fault_that_overflows_a_switch_table_is_refused_before_anything_changes() -> None:
    """An entropy value of 32 NICs below each of two T0s takes 32 x 31 + 32 entries: there is no room for another."""
    with engine(multi_plane_clos("full", planes=1, t0=2, t1=2, hosts=64)) as world:
        first = make(world, PathLoss(0))
        late = make(world, PathLoss(1), start_at_ns=SECOND)
        held = world.switches.entries
        with pytest.raises(ControllerError, match=r"combined with the current ones: losses on paths take \d+ entries"):
            make(world, PathLoss(1))
        world.seconds(2)
        cleared = [event for event in world.new_events() if event.kind is EventKind.FAULT_CLEARED]
        assert [event.name for event in cleared] == ["f3", late.id]
        assert all("name fewer source and destination hosts" in event.detail for event in cleared)
        assert list(world.registry) == [first]
        assert world.switches.entries == held
        assert world.links.changes == []
        world.run(world.injector.clear([first]))
        make(world, PathLoss(1))


def test_a_fault_too_large_for_any_switch_is_not_registered() -> None:
    with engine(multi_plane_clos("large", planes=1, t0=1, t1=1, hosts=33)) as world:
        with pytest.raises(FabricError, match="name fewer source and destination hosts"):
            make(world, PathLoss(0))
        assert world.saved == 0
        assert list(world.registry) == []


def test_inherited_faults_with_one_id_or_a_senseless_one_get_others(world: Engine) -> None:
    """Such a file was edited or damaged; a fault must not hold links down that clearing it leaves down."""
    left = [
        FaultRecord("f2", LinkDown(H1), (H1,)), FaultRecord("f2", LinkDown(H2), (H2,)),
        *(FaultRecord(name, LinkDown("h3@p0"), ("h3@p0",)) for name in ("", "x", "f01", "f-1", "f" + "9" * 5000)),
    ]  # fmt: skip
    world.registry.resume_after(left)
    world.run(world.injector.resume(left))
    assert [record.id for record in world.registry] == ["f2", *(f"f{number}" for number in range(3, 9))]
    assert world.links.down == {H1, H2, "h3@p0"}
    world.run(world.injector.clear([world.registry.get("f2")]))
    assert world.links.down == {H2, "h3@p0"}
    world.run(world.injector.clear(world.registry))
    assert world.links.down == set()


def test_inherited_losses_on_paths_that_fill_a_table_are_cleared_but_for_those_that_fit() -> None:
    fabric = multi_plane_clos("large", planes=1, t0=2, t1=2, hosts=80)
    left = [FaultRecord("f1", LinkDown(H1), (H1,))]
    left += [FaultRecord(f"f{number}", PathLoss(ev, 0.5, "h[1-11]")) for number, ev in enumerate((0, 1), 2)]
    with engine(fabric) as world:
        world.run(world.injector.resume([*left, FaultRecord("f4", LinkDown(H2), (H2,))]))
        assert [record.id for record in world.registry] == ["f1", "f2", "f4"]
        assert world.links.down == {H1, H2}
        (refused,) = world.registry.past
        assert refused.id == "f3"
        assert "It could not be resumed: losses on paths take" in refused.problem
        assert len(tuple(world.injector.wanted_entries()["t0-0@p0"])) <= 1024
