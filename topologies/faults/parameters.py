"""What a kind of fault takes: its parameters, declared as fields of its dataclass.

:func:`link`, :func:`share`, :func:`time` and so on make a dataclass field that says what it means, its unit, its range
and examples. Experiment files, their JSON schema, the words of ``mrc fault`` and their completion, the controller's
messages and the checks of a value all read the same :class:`Parameter`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrc_common import units
from mrc_common.units import Unit
from topologies.errors import FabricError

_MAX_INTEGER = (1 << 64) - 1
_LONGEST = 40  # characters of a value that an error repeats


class What(enum.Enum):
    """What a parameter names, or which sort of number it is."""

    LINK = "a link such as t0-0:t1-1@p0 or h1@p0, or a pattern"
    SWITCH = "a switch such as t1-0@p1, or a pattern"
    NODE = "a switch or host"
    HOST = "a host such as h1, or a pattern"
    TOWARDS = "only the direction towards this node, or pattern"
    RATE = "a rate"
    TIME = "a time"
    SHARE = "a share"
    WHOLE = "a whole number"
    FLAG = "yes or no"


UNITS = {What.RATE: units.RATE, What.TIME: units.TIME, What.SHARE: units.SHARE}
_NAMED = {
    What.LINK: ("h1@p0", "t0-0:t1-1@p0"),
    What.SWITCH: ("t1-0@p1",),
    What.NODE: ("t1-0@p1",),
    What.HOST: ("h1",),
    What.TOWARDS: ("h1",),
}
_TYPES: dict[What, tuple[type[Any], ...]] = {
    What.RATE: (int,), What.TIME: (int,), What.WHOLE: (int,), What.SHARE: (int, float), What.FLAG: (bool,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """One of them: `low` to `high` is its range (a share is above its `low`), `examples` are as people write them."""

    name: str
    what: What
    doc: str
    required: bool = True
    default: Any = None
    low: float = 0
    high: float = _MAX_INTEGER
    examples: tuple[str, ...] = ()

    @property
    def unit(self) -> Unit | None:
        """The unit of a number that has one."""
        return UNITS.get(self.what)

    def parse(self, text: str) -> Any:
        """The value that a word means; FabricError if it means none, or one out of range."""
        try:
            value = self._parse(text)
        except (ValueError, ArithmeticError) as error:
            raise FabricError(f"{self.name} {error}") from None
        self.check(value)
        return value

    def _parse(self, text: str) -> Any:
        if self.unit is not None:
            return self.unit.parse(text)
        if self.what is not What.WHOLE:
            return text
        try:
            return int(text, 0)
        except ValueError:
            raise ValueError(f"must be a whole number such as {self.examples[0]}, not {text[:_LONGEST]!r}") from None

    def show(self, value: Any) -> str:
        """A value in words."""
        if self.unit is not None:
            return self.unit.show(value)
        return f"{value:#x}" if self.what is What.WHOLE and self.examples[0].startswith("0x") else str(value)

    def check(self, value: Any) -> None:
        """FabricError if a value is of another type or out of range."""
        if value is None and not self.required:
            return
        if not isinstance(value, _TYPES.get(self.what, str)) or isinstance(value, bool) is not (self.what is What.FLAG):
            raise FabricError(f"{self.name} must be {self.what.value}, not {_shown(str, value)!r}")
        if not isinstance(value, str | bool):
            self._check_range(value)

    def _check_range(self, value: Any) -> None:
        above = self.low < value if self.what is What.SHARE else self.low <= value
        if above and value <= self.high:
            return
        low, high, shown = (_shown(self.show, number) for number in (self.low, self.high, value))
        hint = ""
        if self.what is What.SHARE and 1 < value <= 100:
            hint = f": write {value:g}% for {value:g} in a hundred"
        if self.what is What.SHARE:
            limit = f"above {low} and at most {high}"
        else:
            limit = f"at least {low}" if value < self.low else f"at most {high}"
        raise FabricError(f"{self.name} must be {limit}, not {shown}{hint}")


def _shown(show: Callable[[Any], str], value: Any) -> str:
    """A value as text, shortened to fit a message; Python refuses to print integers of thousands of digits."""
    try:
        return show(value)[:_LONGEST]
    except (OverflowError, ValueError):
        return f"a number of {value.bit_length()} bits"


def link() -> Any:
    """Links, by name or pattern."""
    return _field(What.LINK)


def switch() -> Any:
    """Switches, by name or pattern."""
    return _field(What.SWITCH)


def node() -> Any:
    """A switch or host, by name."""
    return _field(What.NODE)


def host(doc: str) -> Any:
    """Hosts, by name or pattern; all, unless given."""
    return _field(What.HOST, doc, default="*")


def towards() -> Any:
    """One direction of links, by name or pattern of the nodes at the receiving end; both, unless given."""
    return _field(What.TOWARDS, default=None)


def share(doc: str, *examples: str, **default: Any) -> Any:
    """A probability or share: above 0, at most 1."""
    return _field(What.SHARE, doc, high=1, examples=examples, **default)


def time(doc: str, *examples: str, low: int = 1, **default: Any) -> Any:
    """A time in ns."""
    return _field(What.TIME, doc, low=low, high=units.TIME.most, examples=examples, **default)


def rate(doc: str, *examples: str, low: int = 1, **default: Any) -> Any:
    """A rate in b/s."""
    return _field(What.RATE, doc, low=low, high=units.RATE.most, examples=examples, **default)


def whole(doc: str, *examples: str, low: int = 0, high: int = _MAX_INTEGER, **default: Any) -> Any:
    """A whole number; shown as the first example is: as 0x.. or decimal."""
    return _field(What.WHOLE, doc, low=low, high=high, examples=examples or (str(low),), **default)


def flag(doc: str) -> Any:
    """Yes or no; no, unless given. On the command line its name stands for yes."""
    return _field(What.FLAG, doc, default=False)


def _field(what: What, doc: str = "", examples: tuple[str, ...] = (), **more: Any) -> Any:
    default = {"default": more["default"]} if "default" in more else {}
    unit = UNITS.get(what)
    examples = examples or _NAMED.get(what, ()) or ((unit.example,) if unit else ())
    declared = Parameter("", what, doc or what.value, required=not default, examples=examples, **more)
    return dataclasses.field(**default, metadata={"parameter": declared})


def parameters_of(cls: type[Any]) -> tuple[Parameter, ...]:
    """The parameters that a dataclass declares, in order."""
    return tuple(
        dataclasses.replace(field.metadata["parameter"], name=field.name)
        for field in dataclasses.fields(cls)
        if "parameter" in field.metadata
    )
