"""Types of single values: each reads a piece of a document or a word, and describes in JSON Schema what it accepts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mrc_common import units
from mrc_common.suggestions import did_you_mean
from mrc_common.units import Unit

if TYPE_CHECKING:  # a command that reads no file does without YAML
    from mrc_common.declared.document import Value

JsonSchema = dict[str, Any]
_ANY_NUMBER = 1 << 62
_LONGEST = 80  # characters of a value that an error repeats
_MAX_TIME = 3600 * 10**9


class FieldType(ABC):
    """The type of a field."""

    @abstractmethod
    def read(self, value: Value) -> Any:
        """What the piece says; the error of its source when it does not fit."""

    @abstractmethod
    def schema(self) -> JsonSchema:
        """What fits, as JSON Schema."""


class Scalar(FieldType):
    """A type whose values are single words: in a file, on a command line, or given by a program.

    With `yaml_types` files write it as YAML writes numbers or yes and no.
    """

    yaml_types: ClassVar[bool] = False

    def read(self, value: Value) -> Any:
        """What the piece says."""
        word = value.text()
        found = value.scalar() if self.yaml_types else None
        try:
            return self.check(found if self.yaml_types else self._parse(word), word)
        except (ValueError, ArithmeticError) as error:
            raise value.error(str(error)) from None

    def parse(self, word: str) -> Any:
        """What a word of a command line says; ValueError says what is wrong."""
        return self.check(self._parse(word), word)

    @abstractmethod
    def check(self, found: Any, written: str = "") -> Any:
        """`found` again; ValueError when it is of another type or out of range. `written` is how it was given."""

    def show(self, found: Any) -> str:
        """A value in words."""
        return str(found)

    @abstractmethod
    def _parse(self, word: str) -> Any:
        """What a word says, whatever its range; ValueError."""


@dataclass(frozen=True)
class Integer(Scalar):
    """A whole number from `low` to `high`, shown as `example` is: as 0x.. or decimal."""

    yaml_types: ClassVar[bool] = True
    low: int = 0
    high: int = _ANY_NUMBER
    example: str = ""

    def check(self, found: Any, written: str = "") -> int:
        """An int."""
        if isinstance(found, bool) or not isinstance(found, int):
            such = f" such as {self.example}" if self.example else ""
            raise ValueError(f"must be a whole number{such}, not {written[:_LONGEST] or shown(str, found)!r}")
        _check_range(found, self.low, self.high, self.show, written)
        return found

    def show(self, found: Any) -> str:
        """As ``12``, or ``0xc``."""
        return f"{found:#x}" if self.example.startswith("0x") else str(found)

    def _parse(self, word: str) -> Any:
        try:
            return int(word, 0) if word.isascii() else word
        except ValueError:
            return word

    def schema(self) -> JsonSchema:
        """An integer."""
        bound = {} if self.high == _ANY_NUMBER else {"maximum": self.high}
        return {"type": "integer", "minimum": self.low, **bound}


@dataclass(frozen=True)
class Boolean(Scalar):
    """Yes or no."""

    yaml_types: ClassVar[bool] = True

    def check(self, found: Any, written: str = "") -> bool:
        """A bool."""
        if not isinstance(found, bool):
            raise ValueError(f"must be yes or no, not {written[:_LONGEST] or shown(str, found)!r}")
        return found

    def _parse(self, word: str) -> Any:
        return {"yes": True, "no": False}.get(word, word)

    def schema(self) -> JsonSchema:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Text(Scalar):
    """Any text; where there are `choices`, one of them."""

    choices: tuple[str, ...] = ()

    def check(self, found: Any, written: str = "") -> str:
        """A str."""
        if not isinstance(found, str):
            raise ValueError(f"must be text, not {shown(str, found)!r}")
        if not found:
            raise ValueError("must not be empty")
        if self.choices and found not in self.choices:
            raise ValueError(f"{found[:_LONGEST]!r} is unknown; {suggest(found, self.choices)}")
        return found

    def _parse(self, word: str) -> str:
        return word.strip()

    def schema(self) -> JsonSchema:
        """A string; where anything will do, also what YAML takes for a number or a yes."""
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        return {"title": "text", "type": ["string", "number", "boolean"]}


@dataclass(frozen=True)
class FileBeside(FieldType):
    """The name of a file, from where the document is."""

    def read(self, value: Value) -> Path:
        """Its path."""
        name: str = Text().read(value)
        return Path(value.source.name).parent / name

    def schema(self) -> JsonSchema:
        """A string."""
        return {"type": "string"}


@dataclass(frozen=True)
class EnumMember(Scalar):
    """A member of an enum whose values are words, written as its value."""

    members: type[Enum]

    def check(self, found: Any, written: str = "") -> Enum:
        """The member."""
        if not isinstance(found, self.members):
            word = written.strip()[:_LONGEST] or shown(str, found)
            raise ValueError(f"{word!r} is unknown; {suggest(word, self._words)}")
        return found

    def show(self, found: Any) -> str:
        """Its value."""
        return str(found.value)

    def _parse(self, word: str) -> Any:
        return next((member for member in self.members if member.value == word.strip()), word)

    @property
    def _words(self) -> list[str]:
        return [str(member.value) for member in self.members]

    def schema(self) -> JsonSchema:
        """A string."""
        return {"type": "string", "enum": self._words}


@dataclass(frozen=True)
class Quantity(Scalar):
    """A number with a unit, from `low` (or `above` it) to `high`, in the unit that it becomes.

    `example` is one as people write it, if not the unit's own.
    """

    unit: Unit
    low: float = 0
    high: float = float(_ANY_NUMBER)
    example: str = ""
    above: bool = False

    def check(self, found: Any, written: str = "") -> Any:
        """An int, or for shares and plain numbers a float."""
        if isinstance(found, bool) or not isinstance(found, (int, float) if self.unit.real else int):
            raise ValueError(f"must be a {self.unit.name}, not {shown(str, found)!r}")
        end = f": write {found:g}% for {found:g} in a hundred" if self.unit is units.SHARE and 1 < found <= 100 else ""
        _check_range(found, self.low, self.high, self.unit.show, written, above=self.above, end=end)
        return found

    def show(self, found: Any) -> str:
        """As the unit shows it."""
        return self.unit.show(found)

    def _parse(self, word: str) -> Any:
        return self.unit.parse(word)

    def schema(self) -> JsonSchema:
        """A string or, where it needs no unit, a number."""
        text: JsonSchema = {"type": "string", "pattern": f"^{units.NUMBER_PATTERN}{self.unit.pattern}\\s*$"}
        examples = [self.example or self.unit.example]
        if not self.unit.plain:
            return {"title": self.unit.name, **text, "examples": examples}
        bound = {} if self.high == _ANY_NUMBER else {"maximum": self.high}
        number = {"type": "number", "minimum": self.low, **bound}
        return {"title": self.unit.name, "anyOf": [text, number], "examples": examples}


def a_rate(low: int = 1) -> Quantity:
    """Bits per second."""
    return Quantity(units.RATE, low, units.RATE.most)


def a_size(low: int = 1, high: int = int(units.SIZE.most)) -> Quantity:
    """Bytes."""
    return Quantity(units.SIZE, low, high)


def a_time(low: int = 0, high: int = _MAX_TIME) -> Quantity:
    """Nanoseconds."""
    return Quantity(units.TIME, low, high)


def a_share(high: float = 1.0) -> Quantity:
    """A share of a whole."""
    return Quantity(units.SHARE, 0.0, high)


def suggest(name: str, known: Collection[str]) -> str:
    """A hint at the right name: ``did you mean ...?``, or all there are."""
    return did_you_mean(name, known, most=1, cutoff=0.6) or f"known are {', '.join(known)}"


def shown(show: Callable[[Any], str], found: Any) -> str:
    """A value as text, shortened to fit a message; Python refuses to print integers of thousands of digits."""
    try:
        return show(found)[:_LONGEST]
    except (OverflowError, ValueError):
        return f"a number of {found.bit_length()} bits"


def _check_range(
    found: float,
    low: float,
    high: float,
    show: Callable[[Any], str],
    written: str,
    *,
    above: bool = False,
    end: str = "",
) -> None:
    """ValueError unless `found` is from `low` to `high`, or above `low`; not-a-number is out of every range."""
    if (low < found if above else low <= found) and found <= high:
        return
    least, most = shown(show, low), shown(show, high)
    limit = f"above {least} and at most {most}" if above else f"{least} to {most}"
    if high == _ANY_NUMBER:
        limit = f"at most {most}" if found > high else f"at least {least}"
    raise ValueError(f"is {written[:_LONGEST] or shown(show, found)}, but must be {limit}{end}")
