"""Field types of experiment files: each reads a piece of YAML, and describes in JSON Schema what it accepts.

The file's model (`model`) is made of frozen dataclasses whose fields carry their type (:func:`key`), so that reading,
the schema and the documentation are one description.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrc_common import units
from mrc_common.suggestions import did_you_mean
from mrc_common.units import Unit
from mrc_lab.experiments.files.document import Value

JsonSchema = dict[str, Any]
_ANY_NUMBER = 1 << 62
_LONGEST = 80  # characters of a value that an error repeats
_MAX_TIME = 3600 * 10**9


class FieldType(ABC):
    """The type of a field."""

    @abstractmethod
    def read(self, value: Value) -> Any:
        """What the piece says; FileError when it does not fit."""

    @abstractmethod
    def schema(self) -> JsonSchema:
        """What fits, as JSON Schema."""


def key(field_type: FieldType, doc: str, **default: Any) -> Any:
    """A field of a section: its type, what it means, and `default` or `default_factory` where it may be left out."""
    return dataclasses.field(metadata={"type": field_type, "doc": doc}, **default)


@dataclass(frozen=True)
class Integer(FieldType):
    """A whole number from `low` to `high`."""

    low: int = 0
    high: int = _ANY_NUMBER

    def read(self, value: Value) -> int:
        """An int."""
        number = value.scalar()
        if isinstance(number, bool) or not isinstance(number, int):
            raise value.error(f"must be a whole number, not {value.text()[:_LONGEST]!r}")
        if not self.low <= number <= self.high:
            limit = f"at least {self.low}" if self.high == _ANY_NUMBER else f"{self.low} to {self.high}"
            raise value.error(f"is {value.text()[:_LONGEST]}, but must be {limit}")
        return number

    def schema(self) -> JsonSchema:
        """An integer."""
        bound = {} if self.high == _ANY_NUMBER else {"maximum": self.high}
        return {"type": "integer", "minimum": self.low, **bound}


@dataclass(frozen=True)
class Boolean(FieldType):
    """Yes or no."""

    def read(self, value: Value) -> bool:
        """A bool."""
        found = value.scalar()
        if not isinstance(found, bool):
            raise value.error(f"must be yes or no, not {value.text()[:_LONGEST]!r}")
        return found

    def schema(self) -> JsonSchema:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Text(FieldType):
    """Any text; where there are `choices`, one of them."""

    choices: tuple[str, ...] = ()

    def read(self, value: Value) -> str:
        """A str."""
        text = value.text().strip()
        if not text:
            raise value.error("must not be empty")
        if self.choices and text not in self.choices:
            raise value.error(f"{text[:_LONGEST]!r} is unknown; {suggest(text, self.choices)}")
        return text

    def schema(self) -> JsonSchema:
        """A string; where anything will do, also what YAML takes for a number or a yes."""
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        return {"title": "text", "type": ["string", "number", "boolean"]}


@dataclass(frozen=True)
class Quantity(FieldType):
    """A number with a unit, from `low` to `high` (in the unit it becomes); `example` if not the unit's own."""

    unit: Unit
    low: float = 0
    high: float = float(_ANY_NUMBER)
    example: str = ""

    def read(self, value: Value) -> Any:
        """An int, or for shares a float."""
        try:
            number = self.unit.parse(value.text())
        except ValueError as error:
            raise value.error(str(error)) from None
        if not self.low <= number <= self.high:
            least, most = self.unit.show(self.low), self.unit.show(self.high)
            limit = f"at least {least}" if self.high == _ANY_NUMBER else f"{least} to {most}"
            raise value.error(f"is {value.text()[:_LONGEST]}, but must be {limit}")
        return number

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


@dataclass(frozen=True)
class ListOf(FieldType):
    """A list of `element`s, at least `least`. A single one may stand without brackets where `alone`."""

    element: FieldType
    least: int = 0
    alone: bool = False

    def read(self, value: Value) -> tuple[Any, ...]:
        """A tuple."""
        if self.alone and value.what() != "a list":
            return (self.element.read(value),)
        found = tuple(self.element.read(element) for element in value.elements())
        if len(found) < self.least:
            raise value.error(f"needs at least {self.least}, but has {len(found)}")
        return found

    def schema(self) -> JsonSchema:
        """An array."""
        array: JsonSchema = {"type": "array", "items": self.element.schema(), "minItems": self.least}
        return {"anyOf": [array, self.element.schema()]} if self.alone else array


@dataclass(frozen=True)
class PairOf(FieldType):
    """A list of two `element`s."""

    element: FieldType

    def read(self, value: Value) -> tuple[Any, Any]:
        """A tuple of two."""
        found = tuple(self.element.read(element) for element in value.elements())
        if len(found) != 2:
            raise value.error(f"must be a pair, but has {len(found)}")
        return found[0], found[1]

    def schema(self) -> JsonSchema:
        """An array of two."""
        return {"type": "array", "items": self.element.schema(), "minItems": 2, "maxItems": 2}


@dataclass(frozen=True)
class Section(FieldType):
    """A mapping with the keys that a dataclass has fields; `tag` is a key that somebody else reads."""

    cls: type[Any]
    tag: str = ""

    def read(self, value: Value) -> Any:
        """An instance; FileError names an unknown or a missing key."""
        members = value.items()
        known = {field.name: field for field in dataclasses.fields(self.cls) if "type" in field.metadata}
        check_keys(value, members, [*([self.tag] if self.tag else []), *known])
        arguments = {
            name: known[name].metadata["type"].read(member) for name, member in members.items() if name != self.tag
        }
        for name, field in known.items():
            if name not in arguments and _required(field):
                raise value.error(f"{name} is missing: {field.metadata['doc']}")
        if "line" in {field.name for field in dataclasses.fields(self.cls)}:
            arguments["line"] = value.line
        return self.cls(**arguments)

    def schema(self) -> JsonSchema:
        """An object."""
        fields = [field for field in dataclasses.fields(self.cls) if "type" in field.metadata]
        properties = {
            field.name: {"description": field.metadata["doc"], **field.metadata["type"].schema()} for field in fields
        }
        required = [field.name for field in fields if _required(field)]
        if self.tag:
            properties = {self.tag: {}, **properties}
            required = [self.tag, *required]
        return {
            "type": "object",
            "description": (self.cls.__doc__ or "").strip().split("\n\n")[0].replace("\n", " "),
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


@dataclass(frozen=True)
class MappingOf(FieldType):
    """A mapping with keys of the file's own choice, each an `element`."""

    element: FieldType

    def read(self, value: Value) -> tuple[tuple[str, Any], ...]:
        """Pairs of key and element."""
        return tuple((name, self.element.read(member)) for name, member in value.items().items())

    def schema(self) -> JsonSchema:
        """An object."""
        return {"type": "object", "properties": {}, "additionalProperties": self.element.schema()}


@dataclass(frozen=True)
class OrWord(FieldType):
    """An `element`, or a word, which becomes None."""

    word: str
    element: FieldType

    def read(self, value: Value) -> Any:
        """The element, or None."""
        if value.what() == "a mapping":
            return self.element.read(value)
        Text((self.word,)).read(value)
        return None

    def schema(self) -> JsonSchema:
        """Either."""
        return {"anyOf": [{"const": self.word}, self.element.schema()]}


@dataclass(frozen=True)
class Shorthand(FieldType):
    """A mapping with the keys of `cls`, or the value of its key `main` alone."""

    cls: type[Any]
    main: str

    def read(self, value: Value) -> Any:
        """An instance."""
        if value.what() != "a mapping":
            (field,) = (field for field in dataclasses.fields(self.cls) if field.name == self.main)
            return self.cls(**{self.main: field.metadata["type"].read(value)})
        return Section(self.cls).read(value)

    def schema(self) -> JsonSchema:
        """Either."""
        whole = Section(self.cls).schema()
        return {"anyOf": [whole["properties"][self.main], whole]}


@dataclass(frozen=True)
class TaggedUnion(FieldType):
    """A mapping whose key `kind` says which dataclass it is; `several` is the key that takes a list of them."""

    choices: Mapping[str, type[Any]]
    tag: str = "kind"
    several: str = ""

    def read(self, value: Value) -> Any:
        """An instance of the one named."""
        if self.several and value.what() == "a list":
            raise value.error(
                f"is a single mapping, not a list: for several at once write {self.several}, each with a name; "
                "for one after the other, variants"
            )
        members = value.items()
        if self.tag not in members:
            raise value.error(f"{self.tag} is missing; known are {', '.join(self.choices)}")
        name = Text(tuple(self.choices)).read(members[self.tag])
        return Section(self.choices[name], self.tag).read(value)

    def schema(self) -> JsonSchema:
        """One of several objects."""
        parts = []
        for name, cls in self.choices.items():
            part = Section(cls, self.tag).schema()
            part["properties"][self.tag] = {"const": name}
            parts.append(part)
        return {"oneOf": parts}


@dataclass(frozen=True)
class SomeFields(FieldType):
    """Some fields of a plain dataclass (numbers, yes/no, texts), those in `times` with units; the rest stays as it is.

    Becomes a tuple of (name, value), so that it stays a value. `without` are fields that have a key of their own,
    `parts` the types of fields that are no plain values, `old` earlier names with today's, for the schema alone.
    """

    cls: type[Any]
    times: Collection[str] = ()
    without: Collection[str] = ()
    parts: Sequence[tuple[str, FieldType]] = ()
    old: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def read(self, value: Value) -> tuple[tuple[str, Any], ...]:
        """Pairs of name and value."""
        members = value.items()
        types = self._types()
        check_keys(value, members, list(types))
        return tuple((name, types[name].read(member)) for name, member in members.items())

    def schema(self) -> JsonSchema:
        """An object without required keys."""
        properties = {name: field_type.schema() for name, field_type in self._types().items()}
        properties |= {old: {**properties[name], "deprecated": True} for old, name in self.old.items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}

    def _types(self) -> dict[str, FieldType]:
        types: dict[str, FieldType] = {}
        parts = dict(self.parts)
        for field in dataclasses.fields(self.cls):
            if field.name in self.times:
                types[field.name] = a_time()
            elif field.name in parts:
                types[field.name] = parts[field.name]
            elif field.name not in self.without:
                types[field.name] = _PLAIN[str(field.type).partition(" ")[0]]
        return types


@dataclass(frozen=True)
class Instance(FieldType):
    """A plain dataclass of which every field may be left out, made of what is given."""

    fields: SomeFields

    def read(self, value: Value) -> Any:
        """An instance."""
        return self.fields.cls(**dict(self.fields.read(value)))

    def schema(self) -> JsonSchema:
        """An object without required keys."""
        return self.fields.schema()


_PLAIN: Mapping[str, FieldType] = {
    "int": Integer(),
    "bool": Boolean(),
    "str": Text(),
    "float": Quantity(units.NUMBER),
}


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def override_schema(schema: JsonSchema) -> JsonSchema:
    """The schema of what may be laid over a value of `schema`: mappings of which parts may be missing."""
    if "oneOf" in schema:
        return {"anyOf": [override_schema(part) for part in schema["oneOf"]]}
    if schema.get("type") != "object":
        return schema
    parts = {name: override_schema(part) for name, part in schema["properties"].items()}
    return {**{name: part for name, part in schema.items() if name != "required"}, "properties": parts}


def check_keys(value: Value, members: Mapping[str, Value], known: Sequence[str]) -> None:
    """FileError at the first key that is not `known`, with the nearest that is."""
    for name, member in members.items():
        if name not in known:
            raise member.error(f"unknown key; {suggest(name, known)}")


def suggest(name: str, known: Collection[str]) -> str:
    """A hint at the right name: ``did you mean ...?``, or all there are."""
    return did_you_mean(name, known, most=1, cutoff=0.6) or f"known are {', '.join(known)}"
