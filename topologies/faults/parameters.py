"""Parameters of a kind of fault, declared as fields of its dataclass.

:func:`link`, :func:`share`, :func:`time` and so on make a dataclass field that says what it means, its type with its
range, and examples (:mod:`mrc_common.declared`). Experiment files, their JSON schema, the words of ``mrc fault`` and
their completion, the controller's messages and the checks of a value all read the same declaration.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from mrc_common import units
from mrc_common.declared.field_types import Boolean, FieldType, Integer, Quantity, Text, shown
from mrc_common.declared.sections import key
from mrc_common.units import Unit

_MAX_INTEGER = (1 << 64) - 1


class FaultPlace(enum.Enum):
    """What a parameter names."""

    LINK = "a link such as t0-0:t1-1@p0 or h1@p0, or a pattern"
    SWITCH = "a switch such as t1-0@p1, or a pattern"
    NODE = "a switch or host"
    HOST = "a host such as h1, or a pattern"
    TOWARDS = "only the direction towards this node, or pattern"


@dataclass(frozen=True)
class PlaceName(Text):
    """A name or pattern of `place`."""

    place: FaultPlace = FaultPlace.LINK

    def check(self, found: Any, written: str = "") -> str:
        """A str."""
        if not isinstance(found, str):
            raise ValueError(f"must be {self.place.value}, not {shown(str, found)!r}")
        return super().check(found, written)


def place_of(parameter_type: FieldType) -> FaultPlace | None:
    """What a parameter of this type names; None for any other."""
    return parameter_type.place if isinstance(parameter_type, PlaceName) else None


def is_flag(parameter_type: FieldType) -> bool:
    """Whether a parameter of this type is yes or no: on the command line its name stands for yes."""
    return isinstance(parameter_type, Boolean)


def link() -> Any:
    """Links, by name or pattern."""
    return _named(FaultPlace.LINK, "h1@p0", "t0-0:t1-1@p0")


def switch() -> Any:
    """Switches, by name or pattern."""
    return _named(FaultPlace.SWITCH, "t1-0@p1")


def node() -> Any:
    """A switch or host, by name."""
    return _named(FaultPlace.NODE, "t1-0@p1")


def host(doc: str) -> Any:
    """Hosts, by name or pattern; all, unless given."""
    return _named(FaultPlace.HOST, "h1", doc=doc, default="*")


def towards() -> Any:
    """One direction of links, by name or pattern of the nodes at the receiving end; both, unless given."""
    return _named(FaultPlace.TOWARDS, "h1", default=None)


def share(doc: str, *examples: str, **default: Any) -> Any:
    """A probability or share: above 0, at most 1."""
    return _quantity(units.SHARE, 0, 1, doc, examples, default)


def time(doc: str, *examples: str, low: int = 1, **default: Any) -> Any:
    """A time in ns."""
    return _quantity(units.TIME, low, units.TIME.most, doc, examples, default)


def rate(doc: str, *examples: str, low: int = 1, **default: Any) -> Any:
    """A rate in b/s."""
    return _quantity(units.RATE, low, units.RATE.most, doc, examples, default)


def whole(doc: str, *examples: str, low: int = 0, high: int = _MAX_INTEGER, **default: Any) -> Any:
    """A whole number; shown as the first example is: as 0x.. or decimal."""
    examples = examples or (str(low),)
    return key(Integer(low, high, examples[0]), doc, examples=examples, **default)


def flag(doc: str) -> Any:
    """Yes or no; no, unless given."""
    return key(Boolean(), doc, default=False)


def _named(place: FaultPlace, *examples: str, doc: str = "", **default: Any) -> Any:
    return key(PlaceName(place=place), doc or place.value, examples=examples, **default)


def _quantity(unit: Unit, low: float, high: float, doc: str, examples: tuple[str, ...], default: dict[str, Any]) -> Any:
    examples = examples or (unit.example,)
    return key(Quantity(unit, low, high, examples[0], above=unit.real), doc, examples=examples, **default)
