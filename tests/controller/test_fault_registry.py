from __future__ import annotations

import pytest

from controller import fault_registry
from controller.errors import BusyError, ControllerError
from controller.fault_impairments import impairments_of
from controller.fault_registry import FaultRegistry
from controller.values import FaultRecord
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkEnd
from topologies.fault_entries import LinkFault
from topologies.faults import Fault, FaultState
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.rate import Rate

FABRIC = multi_plane_clos("registry", planes=1, t0=2, t1=2, hosts=4)
H1, H2 = "h1@p0", "h2@p0"


def enter(
    registry: FaultRegistry, fault: Fault, *, owner: str = "", state: FaultState = FaultState.ACTIVE
) -> FaultRecord:
    done = impairments_of(FABRIC, fault)
    record = FaultRecord(registry.next_id(), fault, done.links, owner=owner, state=state)
    registry.add(record, done)
    return record


def test_a_link_comes_up_when_its_last_fault_is_cleared() -> None:
    registry = FaultRegistry()
    first, second = enter(registry, LinkDown("h[1,2]@p0")), enter(registry, LinkDown("h[2,3]@p0"))
    assert registry.ids_on(H2) == (first.id, second.id)
    assert registry.wanted().down == {H1, H2, "h3@p0"}
    assert registry.wanted(without=[first]).down == {H2, "h3@p0"}
    registry.remove([first], 9)
    assert registry.ids_on(H2) == (second.id,)
    registry.remove([second], 9)
    assert registry.wanted().down == frozenset()
    assert list(registry) == []


def test_the_next_registry_uses_no_id_again() -> None:
    """Whether the fault with the highest one is still there, or cleared, or none was made since."""
    first = FaultRegistry()
    records = [enter(first, LinkDown(H1)) for _ in range(3)]
    assert first.to_keep() == tuple(records)
    cleared = first.remove(records[1:], 9)
    assert first.to_keep() == (records[0], cleared[-1])
    first.remove(records[:1], 10)
    kept = first.to_keep()
    for _ in range(3):
        registry = FaultRegistry()
        registry.resume_after(kept)
        assert [record.id for record in registry.past] == ["f3"]
        kept = registry.to_keep()
    assert registry.next_id() == "f4"
    empty = FaultRegistry()
    empty.resume_after(())
    assert (empty.to_keep(), empty.next_id()) == ((), "f1")


def test_pending_faults_have_no_effect() -> None:
    registry = FaultRegistry()
    record = enter(registry, LinkDown(H1), state=FaultState.PENDING)
    assert registry.wanted().down == frozenset()
    registry.change(record.id, state=FaultState.ACTIVE)
    assert registry.wanted().down == {H1}


def test_a_flap_in_its_up_phase_does_not_override_other_faults() -> None:
    registry = FaultRegistry()
    flap = enter(registry, Flap("h[1,2]@p0", 10_000_000, 10_000_000))
    cut = enter(registry, LinkDown(H2))
    registry.exempt(flap.id, (H1, H2), up=True)
    assert registry.wanted().down == {H2}
    registry.remove([cut], 9)
    assert registry.wanted().down == frozenset()
    registry.exempt(flap.id, (H1,), up=False)
    assert registry.wanted().down == {H1}


def test_shapes_and_entries_of_several_faults_combine() -> None:
    registry = FaultRegistry()
    enter(registry, Rate(H1, 2_000_000))
    enter(registry, Rate(H1, 1_000_000, towards="h1"))
    enter(registry, Loss(H1, 0.5))
    wanted = registry.wanted()
    assert {end: shape.rate_bps for end, shape in wanted.shapes.items()} == {
        LinkEnd("h1", 0): 2_000_000,
        LinkEnd("t0-0@p0", 1): 1_000_000,
    }
    assert wanted.entries == (LinkFault(H1, loss=500_000_000),)


def test_fault_ids_are_never_reused() -> None:
    registry = FaultRegistry()
    first = enter(registry, LinkDown(H1))
    registry.remove([first], 9)
    assert enter(registry, LinkDown(H1)).id != first.id
    registry.resume_after([FaultRecord("f41", LinkDown(H1)), FaultRecord("f7", LinkDown(H2))])
    assert registry.next_id() == "f42"


def test_faults_are_found_by_owner_link_and_id() -> None:
    registry = FaultRegistry()
    mine, other = enter(registry, LinkDown(H1), owner="me"), enter(registry, LinkDown(H2))
    assert registry.of_owner("me") == [mine]
    assert registry.on_links([H2, "z"]) == [other]
    assert registry.get(other.id) is other
    assert list(registry) == [mine, other]


def test_a_removed_fault_is_unknown_and_remembered() -> None:
    registry = FaultRegistry()
    (struck,) = registry.remove([enter(registry, LinkDown(H1))], 9)
    assert registry.past == (struck,)
    assert (struck.state, struck.cleared_at_ns) == (FaultState.CLEARED, 9)
    with pytest.raises(ControllerError, match="There is no fault f1"):
        registry.get("f1")


def test_the_number_of_faults_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_registry, "MAX_FAULTS", 2)
    registry = FaultRegistry()
    enter(registry, LinkDown(H1))
    enter(registry, LinkDown(H1))
    with pytest.raises(BusyError, match="2 faults already"):
        enter(registry, LinkDown(H1))


def test_the_wanted_state_follows_every_change_of_the_registry() -> None:
    registry = FaultRegistry()
    loss, rate = enter(registry, Loss(H1, 0.5)), enter(registry, Rate(H1, 10**6), state=FaultState.PENDING)
    assert (len(registry.wanted().entries or ()), len(registry.wanted().shapes)) == (1, 0)
    registry.change(rate.id, state=FaultState.ACTIVE)
    assert (len(registry.wanted().entries or ()), len(registry.wanted().shapes)) == (1, 2)
    assert (len(registry.wanted(without=[loss]).entries or ()), len(registry.wanted().entries or ())) == (0, 1)
    registry.remove([loss], 9)
    assert (len(registry.wanted().entries or ()), len(registry.wanted().shapes)) == (0, 2)
    enter(registry, Rate(H2, 10**6))
    assert len(registry.wanted().shapes) == 4
