"""Faults that cannot be made or undone, in virtual time: what was begun is undone, and others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from controller.errors import ControllerError
from controller.values import EventKind
from tests.controller.driven import MS, SECOND, Engine, engine
from tests.controller.injected import FABRIC, H1, H2, make
from tests.topologies.faults.spells import LossySpells, SlowSpells
from topologies.fabric import LinkEnd
from topologies.fault_entries import fault_entries, link_fault
from topologies.faults.delay import Delay
from topologies.faults.effect import PortShaping
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.rate import Rate


@pytest.fixture
def world() -> Iterator[Engine]:
    with engine(FABRIC) as one:
        yield one


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
