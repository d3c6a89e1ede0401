"""Faults of the controller before, what is saved, and more than switches hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.errors import ControllerError
from controller.fault_limits import EMULATION
from controller.values import EventKind
from tests.controller.driven import MS, SECOND, Engine, engine
from tests.controller.injected import FABRIC, H1, H2, make, states
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import LinkEnd
from topologies.faults import FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.effect import PortShaping
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.rate import Rate
from topologies.faults.record import FaultRecord


@pytest.fixture
def world() -> Iterator[Engine]:
    with engine(FABRIC) as one:
        yield one


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
