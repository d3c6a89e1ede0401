"""Some links of a pattern's fault are repaired, and it stays on the others: in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import fault_file
from controller.errors import ControllerError
from controller.fault_limits import EMULATION
from controller.values import EventKind
from tests.controller.driven import MS, SECOND, Engine, engine
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkEnd
from topologies.faults import Fault, FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.effect import PortShaping
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate
from topologies.faults.record import FaultRecord

FABRIC = multi_plane_clos("repair", planes=2, t0=2, t1=2, hosts=4)
P0, P1 = "h1@p0", "h1@p1"


@pytest.fixture
def world() -> Iterator[Engine]:
    with engine(FABRIC) as one:
        yield one


def make(world: Engine, fault: Fault, **more: object) -> FaultRecord:
    return world.run(world.injector.add(fault, **more))  # type: ignore[arg-type]


def repair(world: Engine, *links: str) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Ids of the faults that are gone, and the links of those that are left of something."""
    cleared = world.run(world.injector.repair(links))
    return [record.id for record in cleared.faults], {record.id: record.links for record in cleared.remaining}


def applied(world: Engine) -> tuple[object, ...]:
    return set(world.links.down), dict(world.switches.entries), dict(world.links.shapes)


@pytest.mark.parametrize(
    ("pattern", "single"),
    [
        (LinkDown("h1@p*"), LinkDown(P1)),
        (LinkDown("h1@p*", "h1"), LinkDown(P1, "h1")),
        (Loss("h1@p*", 0.25), Loss(P1, 0.25)),
        (Corruption("h1@p*", 0.25, "t0-*"), Corruption(P1, 0.25, "t0-*")),
        (Rate("h1@p*", 1_000_000), Rate(P1, 1_000_000)),
        (Rate("h1@p*", 1_000_000, "h1"), Rate(P1, 1_000_000, "h1")),
        (Flap("h1@p*", SECOND, SECOND), Flap(P1, SECOND, SECOND)),
    ],
)
def test_a_repaired_pattern_equals_a_fault_on_the_remaining_link(world: Engine, pattern: Fault, single: Fault) -> None:
    make(world, pattern)
    assert repair(world, P0) == ([], {"f1": (P1,)})
    left = applied(world)
    (record,) = world.registry
    with engine(FABRIC) as other:
        (wanted,) = [make(other, single)]
        assert left == applied(other)
        assert (record.links, record.switches) == (wanted.links, wanted.switches)
    assert world.registry.ids_on(P0) == ()
    assert repair(world, P1) == (["f1"], {})
    assert applied(world) == (set(), {}, {})
    assert list(world.registry) == []


def test_a_repair_reports_the_remaining_links_and_emits_an_event(world: Engine) -> None:
    make(world, LinkDown("h1@p*"))
    world.new_events()
    saved = world.saved
    cleared = world.run(world.injector.repair([P0]))
    assert (cleared.faults, cleared.links) == ((), (P0,))
    (event,) = world.new_events()
    assert (event.kind, event.fault) == (EventKind.FAULT_CHANGED, cleared.remaining[0])
    assert world.saved > saved, "the file of faults was not written again"


def test_a_repaired_link_stays_repaired_through_other_changes(world: Engine) -> None:
    make(world, LinkDown("h1@p*"))
    make(world, Loss("h*@p0", 0.5))
    repair(world, P0)
    other = make(world, LinkDown("h2@p0"))
    make(world, Rate(P0, 1_000_000))
    world.run(world.injector.clear([other]))
    assert world.links.down == {P1}
    assert world.registry.get("f2").links == ("h2@p0", "h3@p0", "h4@p0")
    again = make(world, LinkDown("h1@p*"))
    assert world.links.down == {P0, P1}
    world.run(world.injector.clear([again]))
    assert world.links.down == {P1}


def test_overlapping_patterns_each_keep_their_remaining_links(world: Engine) -> None:
    make(world, LinkDown("h1@p*"))
    make(world, LinkDown("h[1,2]@p0"))
    make(world, LinkDown(P0))
    assert repair(world, P0) == (["f3"], {"f1": (P1,), "f2": ("h2@p0",)})
    assert world.links.down == {P1, "h2@p0"}
    assert repair(world, P1, "h2@p0", "h3@p0") == (["f1", "f2"], {})
    assert world.links.down == set()


def test_link_up_repairs_a_link_of_a_powered_off_switch_but_not_of_a_blackhole(world: Engine) -> None:
    make(world, PowerOff("t1-0@p0"))
    make(world, Blackhole("t1-0@p0"))
    assert repair(world, "t0-0:t1-0@p0") == ([], {"f1": ("t0-1:t1-0@p0",)})
    assert world.links.down == {"t0-1:t1-0@p0"}
    assert set(world.switches.entries) == {"t1-0@p0"}


def test_a_pending_fault_begins_on_the_remaining_links_only(world: Engine) -> None:
    make(world, LinkDown("h1@p*"), start_at_ns=SECOND, duration_ns=2 * SECOND)
    assert repair(world, P0) == ([], {"f1": (P1,)})
    assert world.registry.get("f1").state is FaultState.PENDING
    world.seconds(1.5)
    assert world.links.down == {P1}
    world.seconds(2)
    assert world.links.down == set()
    assert [record.links for record in world.registry.past] == [(P1,)]


@pytest.mark.parametrize("at_random", [False, True])
def test_a_flap_continues_unchanged_on_the_remaining_links(world: Engine, at_random: bool) -> None:
    flap = Flap("h1@p*", 100 * MS, 100 * MS, at_random, seed=3)
    with engine(FABRIC) as alone:
        make(alone, flap)
        alone.seconds(20)
        undisturbed = [change for change in alone.links.changes if change[1] == P1]
    make(world, flap)
    world.seconds(1.05)
    repair(world, P0)
    repaired = world.clock.now
    world.seconds(20 - 1.05)
    assert [change for change in world.links.changes if change[1] == P1] == undisturbed
    assert [up for at, link, up in world.links.changes if link == P0 and at > repaired] == []
    assert P0 not in world.links.down


def test_owner_and_end_time_apply_to_the_remaining_links(world: Engine) -> None:
    make(world, LinkDown("h1@p*"), owner="me", duration_ns=SECOND)
    repair(world, P0)
    (mine,) = world.registry.of_owner("me")
    assert (mine.links, mine.ends_at_ns) == ((P1,), SECOND)
    other = make(world, LinkDown(P0))
    world.seconds(2)
    assert world.links.down == {P0}
    assert list(world.registry) == [other]


def test_the_next_controller_knows_which_links_were_repaired(world: Engine, tmp_path: Path) -> None:
    make(world, LinkDown("h1@p*"))
    make(world, Loss("h1@p*", 0.5))
    make(world, Rate("h1@p*", 1_000_000))
    repair(world, P0)
    fault_file.save(tmp_path / "faults", world.registry)
    left = fault_file.load(tmp_path / "faults")
    with engine(FABRIC) as next_one:
        next_one.run(next_one.injector.resume(left))
        assert list(next_one.registry) == list(world.registry)
        assert next_one.links.down == {P1}
        assert set(next_one.links.shapes) == {LinkEnd("h1", 1), LinkEnd("t0-0@p1", 1)}
        assert {link for record in next_one.registry for link in record.links} == {P1}
    with engine(FABRIC) as another:
        another.links.down |= {P0, P1}  # the first by somebody else, meanwhile
        another.run(another.injector.undo(left))
        assert another.links.down == {P0}


def test_a_failed_repair_changes_nothing(world: Engine) -> None:
    make(world, LinkDown("h1@p*"))
    world.links.broken = P0
    with pytest.raises(ControllerError, match="does not exist"):
        world.run(world.injector.repair([P0]))
    assert [record.links for record in world.registry] == [(P0, P1)]
    world.links.broken = ""
    assert repair(world, P0) == ([], {"f1": (P1,)})
    assert world.links.down == {P1}


def test_a_part_of_an_effect_is_restricted_to_the_given_links() -> None:
    whole = EMULATION.effect_of(FABRIC, Rate("h[1,2]@p0", 1_000_000))
    assert whole.part(FABRIC, whole.links) is whole
    part = whole.part(FABRIC, ["h2@p0", "h9@p0"])
    shapes = {LinkEnd("h2", 0): PortShaping(1_000_000), LinkEnd("t0-0@p0", 2): PortShaping(1_000_000)}
    assert (part.links, dict(part.shapes)) == (("h2@p0",), shapes)
