from __future__ import annotations

import pytest

from controller.errors import ControllerError
from controller.faults import FaultBook
from controller.values import Fault, FaultKind


def fault(book: FaultBook, *links: str, owner: str = "") -> Fault:
    entered = Fault(book.next_id(), FaultKind.LINK_DOWN, "?", links, owner, 1, 2)
    book.add(entered)
    return entered


def test_a_link_comes_back_when_its_last_fault_is_cleared() -> None:
    book = FaultBook()
    first = fault(book, "a", "b")
    second = fault(book, "b", "c")
    assert book.ids_on("b") == (first.id, second.id)
    assert book.remove([first]) == ("a",)
    assert book.ids_on("b") == (second.id,)
    assert book.remove([second]) == ("b", "c")
    assert list(book) == []


def test_clearing_several_at_once_frees_what_they_share() -> None:
    book = FaultBook()
    both = [fault(book, "a", "b"), fault(book, "b")]
    assert set(book.remove(both)) == {"a", "b"}


def test_ids_are_never_used_twice() -> None:
    book = FaultBook()
    first = fault(book, "a")
    book.remove([first])
    assert fault(book, "a").id != first.id


def test_faults_are_found_by_owner_link_and_id() -> None:
    book = FaultBook()
    mine, other = fault(book, "a", owner="me"), fault(book, "b")
    assert book.of_owner("me") == [mine]
    assert book.on_links(["b", "z"]) == [other]
    assert book.get(other.id) is other
    assert list(book) == [mine, other]


def test_a_fault_that_is_gone_is_named() -> None:
    book = FaultBook()
    book.remove([fault(book, "a")])
    with pytest.raises(ControllerError, match="There is no fault f1"):
        book.get("f1")
