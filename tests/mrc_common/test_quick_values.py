"""Tests of frozen dataclasses that are made quickly: in all but that they are as any other."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from mrc_common.quick_values import quick_dataclass


@quick_dataclass(frozen=True, slots=True)
class Quick:
    """A value."""

    number: int
    name: str = ""
    parts: tuple[int, ...] = ()

    def doubled(self) -> int:
        return 2 * self.number


@dataclass(frozen=True, slots=True)
class Plain:
    """A value."""

    number: int
    name: str = ""
    parts: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((1,), {}), ((1, "a", (2, 3)), {}), ((), {"number": 1}), ((1,), {"parts": (2,)}), ((None,), {"name": 5})],
)
def test_it_has_what_it_is_given_and_defaults(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    made, plain = Quick(*arguments, **named), Plain(*arguments, **named)
    assert dataclasses.asdict(made) == dataclasses.asdict(plain)
    assert repr(made) == repr(plain).replace("Plain", "Quick")
    assert type(made) is Quick


@pytest.mark.parametrize(
    ("arguments", "named"), [((), {}), ((1, "", (), 4), {}), ((1,), {"number": 1}), ((1,), {"x": 1})]
)
def test_wrong_arguments_are_refused_by_name(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as refusal:
        Quick(*arguments, **named)
    with pytest.raises(TypeError) as plain:
        Plain(*arguments, **named)
    assert str(refusal.value) == str(plain.value).replace("Plain", "Quick")


def test_nothing_changes_it() -> None:
    made = Quick(1, "a")
    for change in (lambda: setattr(made, "number", 2), lambda: setattr(made, "more", 2), lambda: delattr(made, "name")):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            change()
    assert made == Quick(1, "a")
    assert not hasattr(made, "__dict__")


def test_it_is_a_value() -> None:
    made = Quick(1, "a", (2,))
    assert made == Quick(1, "a", (2,))
    assert made != Quick(2, "a", (2,))
    assert {made: "found"}[Quick(1, "a", (2,))] == "found"
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), dataclasses.replace(made)):
        assert other == made
        assert type(other) is Quick
    assert dataclasses.replace(made, number=3).doubled() == 6
    match made:
        case Quick(number, name):
            assert (number, name) == (1, "a")
    assert inspect.signature(Quick) == inspect.signature(Plain)


def test_a_class_of_its_kind_may_have_more() -> None:
    @dataclass(frozen=True)
    class More(Quick):
        extra: int = 7

    class Loose(Quick):
        pass

    assert (More(1, extra=8).extra, More(1).number) == (8, 1)
    loose = Loose(1, "a")
    assert (type(loose), loose.number, loose.name) == (Loose, 1, "a")


def test_what_it_does_not_know_is_refused() -> None:
    class Base:
        pass

    with pytest.raises(TypeError, match="Factory is not a plain dataclass"):

        @quick_dataclass(frozen=True, slots=True)
        class Factory:
            parts: list[int] = field(default_factory=list)

    with pytest.raises(TypeError, match="is not a plain dataclass"):

        @quick_dataclass(frozen=True, slots=True)
        class Derived(Base):
            number: int

    with pytest.raises(TypeError, match="is not a plain dataclass"):

        @quick_dataclass(frozen=True, slots=True)
        class Checked:
            number: int

            def __post_init__(self) -> None:
                pass
