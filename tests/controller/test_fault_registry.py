from __future__ import annotations

import pytest

from controller import fault_registry
from controller.errors import BusyError, ControllerError
from controller.fault_impairments import effect
from controller.fault_registry import FaultBook
from controller.values import FaultRecord
from topologies.clos import multi_plane_clos
from topologies.fabric import Endpoint
from topologies.fault_entries import LinkFault
from topologies.faults import Fault, FaultState
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.rate import Rate

FABRIC = multi_plane_clos("book", planes=1, t0=2, t1=2, hosts=4)
H1, H2 = "h1@p0", "h2@p0"


def enter(book: FaultBook, fault: Fault, *, owner: str = "", state: FaultState = FaultState.ACTIVE) -> FaultRecord:
    done = effect(FABRIC, fault)
    record = FaultRecord(book.next_id(), fault, done.links, owner=owner, state=state)
    book.add(record, done)
    return record


def test_a_link_is_wanted_back_when_its_last_fault_is_cleared() -> None:
    book = FaultBook()
    first, second = enter(book, LinkDown("h[12]@p0")), enter(book, LinkDown("h[23]@p0"))
    assert book.ids_on(H2) == (first.id, second.id)
    assert book.wanted().down == {H1, H2, "h3@p0"}
    assert book.wanted(without=[first]).down == {H2, "h3@p0"}
    book.remove([first])
    assert book.ids_on(H2) == (second.id,)
    book.remove([second])
    assert book.wanted().down == frozenset()
    assert list(book) == []


def test_what_is_pending_takes_nothing() -> None:
    book = FaultBook()
    record = enter(book, LinkDown(H1), state=FaultState.PENDING)
    assert book.wanted().down == frozenset()
    book.change(record.id, state=FaultState.ACTIVE)
    assert book.wanted().down == {H1}


def test_a_flapping_fault_leaves_links_alone_while_they_are_up_but_others_do_not() -> None:
    book = FaultBook()
    flap = enter(book, Flap("h[12]@p0", 10_000_000, 10_000_000))
    cut = enter(book, LinkDown(H2))
    book.spare(flap.id, (H1, H2), up=True)
    assert book.wanted().down == {H2}
    book.remove([cut])
    assert book.wanted().down == frozenset()
    book.spare(flap.id, (H1,), up=False)
    assert book.wanted().down == {H1}


def test_shapes_and_entries_add_up() -> None:
    book = FaultBook()
    enter(book, Rate(H1, 2_000_000))
    enter(book, Rate(H1, 1_000_000, towards="h1"))
    enter(book, Loss(H1, 0.5))
    wanted = book.wanted()
    assert {end: shape.rate_bps for end, shape in wanted.shapes.items()} == {
        Endpoint("h1", 0): 2_000_000,
        Endpoint("t0-0@p0", 1): 1_000_000,
    }
    assert wanted.entries == (LinkFault(H1, loss=500_000_000),)


def test_ids_are_never_used_twice() -> None:
    book = FaultBook()
    first = enter(book, LinkDown(H1))
    book.remove([first])
    assert enter(book, LinkDown(H1)).id != first.id
    book.resume_after(41)
    assert book.next_id() == "f42"


def test_faults_are_found_by_owner_link_and_id() -> None:
    book = FaultBook()
    mine, other = enter(book, LinkDown(H1), owner="me"), enter(book, LinkDown(H2))
    assert book.of_owner("me") == [mine]
    assert book.on_links([H2, "z"]) == [other]
    assert book.get(other.id) is other
    assert list(book) == [mine, other]


def test_a_fault_that_is_gone_is_named_and_remembered() -> None:
    book = FaultBook()
    (struck,) = book.remove([enter(book, LinkDown(H1))])
    assert book.past == (struck,)
    assert struck.state is FaultState.CLEARED
    with pytest.raises(ControllerError, match="There is no fault f1"):
        book.get("f1")


def test_there_is_an_end_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_registry, "MAX_FAULTS", 2)
    book = FaultBook()
    enter(book, LinkDown(H1))
    enter(book, LinkDown(H1))
    with pytest.raises(BusyError, match="2 faults already"):
        enter(book, LinkDown(H1))


def test_what_is_wanted_follows_every_change_of_the_book() -> None:
    book = FaultBook()
    loss, rate = enter(book, Loss(H1, 0.5)), enter(book, Rate(H1, 10**6), state=FaultState.PENDING)
    assert (len(book.wanted().entries or ()), len(book.wanted().shapes)) == (1, 0)
    book.change(rate.id, state=FaultState.ACTIVE)
    assert (len(book.wanted().entries or ()), len(book.wanted().shapes)) == (1, 2)
    assert (len(book.wanted(without=[loss]).entries or ()), len(book.wanted().entries or ())) == (0, 1)
    book.remove([loss])
    assert (len(book.wanted().entries or ()), len(book.wanted().shapes)) == (0, 2)
    enter(book, Rate(H2, 10**6))
    assert len(book.wanted().shapes) == 4
