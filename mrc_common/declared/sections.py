"""Types of values with parts: sections with fixed keys, lists, mappings, and choices between them.

A section is a frozen dataclass whose fields carry their type (:func:`key`), so that reading, the schema and the
documentation are one description.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mrc_common import units
from mrc_common.declared.field_types import (
    Boolean,
    FieldType,
    Integer,
    JsonSchema,
    Quantity,
    Scalar,
    Text,
    a_time,
    suggest,
)

if TYPE_CHECKING:  # a command that reads no file does without YAML
    from mrc_common.declared.document import Value


def key(field_type: FieldType, doc: str, *, name: str = "", examples: tuple[str, ...] = (), **default: Any) -> Any:
    """A field of a section: its type, what it means, and `default` or `default_factory` where it may be left out.

    `name` is the key in files, where that is not the field's name; `examples` are values as people write them.
    """
    metadata = {"type": field_type, "doc": doc, "name": name, "examples": examples}
    return dataclasses.field(metadata=metadata, **default)


def like(cls: type[Any], field: str, **default: Any) -> Any:
    """A field that is declared as that of another section is, but for its default."""
    return dataclasses.field(metadata=cls.__dataclass_fields__[field].metadata, **default)


@dataclass(frozen=True, slots=True)
class SectionKey:
    """A key of a section: its name in files, the field that it is read into, its type, and what it means."""

    name: str
    field: str
    type: FieldType
    doc: str
    required: bool
    default: Any
    examples: tuple[str, ...]

    def check(self, found: Any) -> Any:
        """`found` again; ValueError, which begins with the key, when it is no single value of its type."""
        return found if found is None and not self.required else self._named(self.scalar.check, found)

    def parse(self, word: str) -> Any:
        """What a word of a command line says; ValueError, which begins with the key."""
        return self._named(self.scalar.parse, word)

    def show(self, found: Any) -> str:
        """A value in words."""
        return self.scalar.show(found)

    @property
    def scalar(self) -> Scalar:
        """Its type, where values are single words."""
        assert isinstance(self.type, Scalar), f"{self.name} has parts"
        return self.type

    def _named(self, use: Callable[[Any], Any], given: Any) -> Any:
        try:
            return use(given)
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"{self.name} {error}") from None


def keys_of(cls: Any) -> Mapping[str, SectionKey]:
    """The keys that a dataclass declares, by name, in order."""
    keys = [_key(field) for field in dataclasses.fields(cls) if "type" in field.metadata]
    return {known.name: known for known in keys}


def _key(field: dataclasses.Field[Any]) -> SectionKey:
    default = None if field.default is dataclasses.MISSING else field.default
    about = field.metadata
    return SectionKey(
        about["name"] or field.name,
        field.name,
        about["type"],
        about["doc"],
        _is_required(field),
        default,
        about["examples"],
    )


@dataclass(frozen=True)
class ListOf(FieldType):
    """A list of `element`s, at least `least`. A single one may stand without brackets where `alone`."""

    element: FieldType
    least: int = 0
    alone: bool = False

    def read(self, value: Value) -> tuple[Any, ...]:
        """A tuple."""
        if self.alone and not value.is_list:
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
    """A mapping with the keys that a dataclass declares; `tag` is a key that somebody else reads.

    `needed` are keys that a file must give although programs need not. A field `line` of the dataclass becomes the
    line where the section begins.
    """

    cls: type[Any]
    tag: str = ""
    needed: tuple[str, ...] = ()

    def read(self, value: Value) -> Any:
        """An instance; the error names an unknown or a missing key, or what the dataclass itself refuses."""
        members, known = value.items(), keys_of(self.cls)
        check_keys(value, members, [*([self.tag] if self.tag else []), *known])
        for name, declared in known.items():
            if name not in members and self.needs(declared, members):
                raise value.error(f"{name} is missing: {declared.doc}")
        given = {known[name].field: known[name].type.read(member) for name, member in members.items() if name in known}
        if "line" in self.cls.__dataclass_fields__:
            given["line"] = value.line
        return _made(self.cls, given, value)

    def needs(self, declared: SectionKey, _: Collection[str]) -> bool:
        """Whether a mapping with these keys must have that one too."""
        return declared.required or declared.name in self.needed

    def schema(self) -> JsonSchema:
        """An object."""
        known = keys_of(self.cls)
        properties = {name: {"description": declared.doc, **declared.type.schema()} for name, declared in known.items()}
        required = [name for name, declared in known.items() if self.needs(declared, ())]
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


_TEXT = Text()


@dataclass(frozen=True)
class MappingOf(FieldType):
    """A mapping with keys of the file's own choice, each of which names an `element`."""

    element: FieldType
    keys: Scalar = _TEXT

    def read(self, value: Value) -> Any:
        """A tuple of pairs of key and element."""
        return tuple((self._key(name, member), self.element.read(member)) for name, member in value.items().items())

    def _key(self, name: str, member: Value) -> Any:
        try:
            return self.keys.parse(name)
        except ValueError as error:
            raise member.error(str(error)) from None

    def schema(self) -> JsonSchema:
        """An object."""
        return {"type": "object", "properties": {}, "additionalProperties": self.element.schema()}


@dataclass(frozen=True)
class TableOf(MappingOf):
    """A mapping as a table to look keys up in."""

    def read(self, value: Value) -> dict[Any, Any]:
        """A dict."""
        return dict(super().read(value))


@dataclass(frozen=True)
class SetOf(FieldType):
    """A list of `element`s, at least `least`, whose order means nothing."""

    element: FieldType
    least: int = 0

    def read(self, value: Value) -> frozenset[Any]:
        """A frozenset."""
        return frozenset(ListOf(self.element, self.least).read(value))

    def schema(self) -> JsonSchema:
        """An array."""
        return ListOf(self.element, self.least).schema()


@dataclass(frozen=True)
class OrWord(FieldType):
    """An `element`, or a word, which becomes None."""

    word: str
    element: FieldType

    def read(self, value: Value) -> Any:
        """The element, or None."""
        if value.is_mapping:
            return self.element.read(value)
        if value.is_list or value.text().strip() != self.word:
            raise value.error(f"must be {self.word}, or a mapping, not {value.in_words()}")
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
        if value.is_mapping:
            return Section(self.cls).read(value)
        return self.cls(**{self.main: keys_of(self.cls)[self.main].type.read(value)})

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
        if self.several and value.is_list:
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
    """Some fields of a plain dataclass, each of its type in `types`; the rest stays as it is.

    Becomes a tuple of (name, value), so that it stays a value. `old` are earlier names with today's, for the schema
    alone.
    """

    types: Mapping[str, FieldType]
    old: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def read(self, value: Value) -> tuple[tuple[str, Any], ...]:
        """Pairs of name and value."""
        members = value.items()
        check_keys(value, members, list(self.types))
        return tuple((name, self.types[name].read(member)) for name, member in members.items())

    def schema(self) -> JsonSchema:
        """An object without required keys."""
        properties = {name: field_type.schema() for name, field_type in self.types.items()}
        properties |= {old: {**properties[name], "deprecated": True} for old, name in self.old.items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}


@dataclass(frozen=True)
class Instance(FieldType):
    """A plain dataclass made of the fields that are given; others have their defaults, where they have one."""

    cls: type[Any]
    types: Mapping[str, FieldType]

    def read(self, value: Value) -> Any:
        """An instance; the error names a missing field."""
        given = dict(SomeFields(self.types).read(value))
        for field in dataclasses.fields(self.cls):
            if field.name in self.types and field.name not in given and _is_required(field):
                raise value.error(f"{field.name} is missing")
        return _made(self.cls, given, value)

    def schema(self) -> JsonSchema:
        """An object without required keys."""
        return SomeFields(self.types).schema()


def plain_fields(
    cls: type[Any],
    types: Mapping[str, FieldType] = MappingProxyType({}),
    *,
    times: Collection[str] = (),
    without: Collection[str] = (),
) -> dict[str, FieldType]:
    """Types of the fields of a plain dataclass: those given, times for `times`, else what the annotation says.

    `without` are fields that have a key of their own.
    """
    own = {**dict.fromkeys(times, a_time()), **types}
    return {
        field.name: own.get(field.name) or _PLAIN[str(field.type).partition(" ")[0]]
        for field in dataclasses.fields(cls)
        if field.name not in without
    }


_PLAIN: Mapping[str, FieldType] = {
    "int": Integer(),
    "bool": Boolean(),
    "str": Text(),
    "float": Quantity(units.NUMBER),
}


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _made(cls: type[Any], given: Mapping[str, Any], value: Value) -> Any:
    """An instance; an error for what the class itself refuses."""
    try:
        return cls(**given)
    except ValueError as error:
        raise value.error(str(error)) from None


def override_schema(schema: JsonSchema) -> JsonSchema:
    """The schema of what may be laid over a value of `schema`: mappings of which parts may be missing."""
    if "oneOf" in schema:
        return {"anyOf": [override_schema(part) for part in schema["oneOf"]]}
    if schema.get("type") != "object":
        return schema
    parts = {name: override_schema(part) for name, part in schema["properties"].items()}
    return {**{name: part for name, part in schema.items() if name != "required"}, "properties": parts}


def check_keys(value: Value, members: Mapping[str, Value], known: Sequence[str]) -> None:
    """An error at the first key that is not `known`, with the nearest that is."""
    for name, member in members.items():
        if name not in known:
            raise member.error(f"unknown key; {suggest(name, known)}")
