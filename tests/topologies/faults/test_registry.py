from __future__ import annotations

import pytest

from topologies.clos import multi_plane_clos
from topologies.errors import UnknownFaultError
from topologies.faults import Fault, FaultState
from topologies.faults.link_down import LinkDown
from topologies.faults.record import FaultRecord
from topologies.faults.registry import FaultRegistry

FABRIC = multi_plane_clos("registry", planes=1, t0=2, t1=2, hosts=4)
H1, H2 = "h1@p0", "h2@p0"


def enter(registry: FaultRegistry, fault: Fault, *, owner: str = "") -> FaultRecord:
    effect = fault.effect(FABRIC)
    record = FaultRecord(registry.next_id(), fault, effect.links, owner=owner)
    registry.add(record, effect)
    return record


def struck(registry: FaultRegistry, *records: FaultRecord, now: int = 9) -> tuple[FaultRecord, ...]:
    return registry.remove([record.id for record in records], now)


def test_the_next_registry_uses_no_id_again() -> None:
    """Whether the fault with the highest one is still there, or cleared, or none was made since."""
    first = FaultRegistry()
    records = [enter(first, LinkDown(H1)) for _ in range(3)]
    assert first.to_keep() == tuple(records)
    cleared = struck(first, *records[1:])
    assert first.to_keep() == (records[0], cleared[-1])
    struck(first, records[0], now=10)
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


def test_fault_ids_are_never_reused() -> None:
    registry = FaultRegistry()
    first = enter(registry, LinkDown(H1))
    struck(registry, first)
    assert enter(registry, LinkDown(H1)).id != first.id
    registry.resume_after([FaultRecord("f41", LinkDown(H1)), FaultRecord("f7", LinkDown(H2))])
    assert registry.next_id() == "f42"


def test_faults_are_found_by_owner_link_and_id() -> None:
    registry = FaultRegistry()
    mine, other = enter(registry, LinkDown(H1), owner="me"), enter(registry, LinkDown(H2))
    assert registry.of_owner("me") == [mine]
    assert registry.on_links([H2, "z"]) == [other]
    assert registry.ids_on(H2) == (other.id,)
    assert registry.get(other.id) is other
    assert list(registry) == [mine, other]
    assert len(registry) == 2


def test_a_removed_fault_is_unknown_and_remembered() -> None:
    registry = FaultRegistry()
    record = enter(registry, LinkDown(H1))
    (gone,) = struck(registry, record, record)
    assert registry.past == (gone,)
    assert (gone.state, gone.cleared_at_ns) == (FaultState.CLEARED, 9)
    with pytest.raises(UnknownFaultError, match="There is no fault f1"):
        registry.get("f1")


def test_a_confined_fault_is_on_fewer_links() -> None:
    registry = FaultRegistry()
    record = enter(registry, LinkDown("h[1,2]@p0"))
    (left,) = registry.confine({record.id: registry.effect(record.id).part(FABRIC, [H2])})
    assert (left.links, registry.effect(record.id).down) == ((H2,), (H2,))
    assert (registry.ids_on(H1), registry.ids_on(H2)) == ((), (record.id,))
