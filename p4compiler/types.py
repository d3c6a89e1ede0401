"""The types of P4_16, after names are resolved: a typedef is what it stands for, a ``type`` is a type of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from p4compiler import tree

_MAX_SHOWN = 100  # parts of a type, in a message


@dataclass(frozen=True)
class Type:
    """Any type; ``str()`` is how P4 writes it."""

    @property
    def parts(self) -> int:
        """How many types it is made of, with itself."""
        return 1


@dataclass(frozen=True)
class PlainType(Type):
    """A type without parts."""

    name: str

    def __str__(self) -> str:
        return self.name


BOOL = PlainType("bool")
INTEGER = PlainType("int")  # of any size, at compile time only
STRING = PlainType("string")
ERROR = PlainType("error")
MATCH_KIND = PlainType("match_kind")
VOID = PlainType("void")
UNKNOWN = PlainType("unknown type")  # of what is wrong already, so that it is reported once
ANYTHING = PlainType("_")  # fits all: `_` and `...`
INVALID = PlainType("invalid header")  # of {#}
STATE = PlainType("state")


@dataclass(frozen=True)
class BitsType(Type):
    """``bit<width>``, or signed ``int<width>``."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True)
class VarbitType(Type):
    """``varbit<width>``."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True)
class EnumType(Type):
    """An enum; with a `base` its values are numbers of this type."""

    declaration: tree.EnumDeclaration
    name: str = field(compare=False)
    base: BitsType | None = field(compare=False)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each value in its declaration."""
        return {member.name: position for position, member in enumerate(self.declaration.members)}

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class RecordType(Type):
    """A struct, header or header union, with the arguments for its type parameters."""

    declaration: tree.StructDeclaration
    arguments: tuple[Type, ...]
    fields: Mapping[str, Type] = field(compare=False)

    @property
    def kind(self) -> str:
        """struct, header or header_union."""
        return self.declaration.kind

    @property
    def name(self) -> str:
        """The name that the program gives it."""
        return self.declaration.name

    @cached_property
    def parts(self) -> int:
        """How many types it is made of, with itself."""
        return 1 + sum(item.parts for item in self.fields.values())

    @cached_property
    def width(self) -> int:
        """Bits of a value; of a union the most that a header of it has."""
        widths = [width_of(item) for item in self.fields.values()]
        return max(widths, default=0) if self.kind == "header_union" else sum(widths)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}{_listed(self.arguments) if self.arguments else ''}"


@dataclass(frozen=True)
class StackType(Type):
    """``element[size]``."""

    element: Type
    size: int

    @property
    def parts(self) -> int:
        """How many types it is made of, with itself."""
        return 1 + self.size * self.element.parts

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class TupleType(Type):
    """``tuple<items>``, also the type of ``{ a, b }``; `rest` if ``...`` ends it."""

    items: tuple[Type, ...]
    rest: bool = False

    @cached_property
    def parts(self) -> int:
        """How many types it is made of, with itself."""
        return 1 + sum(item.parts for item in self.items)

    @cached_property
    def width(self) -> int:
        """Bits of a value."""
        return sum(width_of(item) for item in self.items)

    def __str__(self) -> str:
        return f"tuple{_listed(self.items)}"


@dataclass(frozen=True)
class NamedType(Type):
    """The type of ``{ f = a, g = b }`` before it is known which struct it is for."""

    names: tuple[str, ...]
    items: tuple[Type, ...]
    rest: bool = False

    def __str__(self) -> str:
        return f"struct {{ {' '.join(f'{kind} {name};' for name, kind in zip(self.names, self.items, strict=True))} }}"


@dataclass(frozen=True)
class ListType(Type):
    """``list<item>``."""

    item: Type

    def __str__(self) -> str:
        return f"list<{self.item}>"


@dataclass(frozen=True)
class NewType(Type):
    """A type that ``type base name`` declares."""

    declaration: tree.TypedefDeclaration
    base: Type = field(compare=False)

    @property
    def name(self) -> str:
        """The name that the program gives it."""
        return self.declaration.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TypeVariable(Type):
    """A type parameter, inside of what it is a parameter of."""

    declaration: tree.TypeParameter

    def __str__(self) -> str:
        return self.declaration.name


@dataclass(frozen=True)
class ObjectType(Type):
    """An extern, parser, control or package."""

    declaration: tree.ExternDeclaration | tree.ParserDeclaration | tree.ControlDeclaration | tree.PackageDeclaration
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        arguments = _listed(self.arguments) if self.arguments else ""
        return f"{tree.noun(self.declaration)} {self.declaration.name}{arguments}"


@dataclass(frozen=True)
class TableType(Type):
    """A table."""

    declaration: tree.TableDeclaration

    def __str__(self) -> str:
        return f"table {self.declaration.name}"


@dataclass(frozen=True)
class AppliedType(Type):
    """The result of a table's ``apply()``, or its ``action_run`` (`runs`)."""

    declaration: tree.TableDeclaration
    runs: bool = False

    def __str__(self) -> str:
        return f"{'action_run' if self.runs else 'result'} of table {self.declaration.name}"


@dataclass(frozen=True)
class CallableType(Type):
    """Anything that is called, before it is."""

    name: str

    def __str__(self) -> str:
        return f"function {self.name}"


@dataclass(frozen=True)
class TypeItself(Type):
    """A type that stands where an expression may."""

    type: Type

    def __str__(self) -> str:
        return f"type {self.type}"


@dataclass(frozen=True)
class SetType(Type):
    """Values of a type, as select and entries name them."""

    item: Type

    def __str__(self) -> str:
        return f"set<{self.item}>"


def _listed(items: tuple[Type, ...]) -> str:
    if sum(item.parts for item in items) > _MAX_SHOWN:
        return "<...>"
    return f"<{', '.join(map(str, items))}>"


def base_of(kind: Type) -> Type:
    """What a ``type`` is made of; other types are what they are."""
    while isinstance(kind, NewType):
        kind = kind.base
    return kind


def number_type(kind: Type) -> BitsType | None:
    """The number that a value of this type is: of ``bit<N>``, and of an enum with a base."""
    kind = base_of(kind)
    if isinstance(kind, EnumType):
        return kind.base
    return kind if isinstance(kind, BitsType) else None


def is_signed(kind: Type) -> bool:
    """Whether it is a number that may be negative."""
    bits = number_type(kind)
    return bits is not None and bits.signed


def width_of(kind: Type) -> int:
    """Bits of a value (in BMv2, where enums and errors have 32); of a varbit the most."""
    kind = base_of(kind)
    if isinstance(kind, BitsType | VarbitType):
        return kind.width
    if kind == BOOL:
        return 1
    if isinstance(kind, EnumType) and kind.base is not None:
        return kind.base.width
    if kind == ERROR or isinstance(kind, EnumType):
        return 32
    if isinstance(kind, RecordType | TupleType):
        return kind.width
    return kind.size * width_of(kind.element) if isinstance(kind, StackType) else 0


def is_scalar(kind: Type) -> bool:
    """Whether one field holds a value of this type."""
    kind = base_of(kind)
    return isinstance(kind, BitsType | EnumType | VarbitType) or kind in (BOOL, ERROR)


def is_header(kind: Type) -> bool:
    """Whether it is a header."""
    return isinstance(kind, RecordType) and kind.kind == "header"


def substitute(kind: Type, bindings: Mapping[tree.TypeParameter, Type]) -> Type:
    """The type with type parameters replaced."""
    if not bindings:
        return kind
    if isinstance(kind, TypeVariable):
        return bindings.get(kind.declaration, kind)
    if isinstance(kind, RecordType) and kind.arguments:
        arguments = tuple(substitute(item, bindings) for item in kind.arguments)
        if arguments == kind.arguments:
            return kind
        fields = {name: substitute(item, bindings) for name, item in kind.fields.items()}
        return RecordType(kind.declaration, arguments, fields)
    if isinstance(kind, ObjectType) and kind.arguments:
        return replace(kind, arguments=tuple(substitute(item, bindings) for item in kind.arguments))
    if isinstance(kind, StackType):
        return replace(kind, element=substitute(kind.element, bindings))
    if isinstance(kind, TupleType | NamedType):
        return replace(kind, items=tuple(substitute(item, bindings) for item in kind.items))
    if isinstance(kind, ListType | SetType):
        return replace(kind, item=substitute(kind.item, bindings))
    return kind


def has_variables(kind: Type) -> bool:
    """Whether a type parameter occurs in it."""
    if isinstance(kind, TypeVariable):
        return True
    if isinstance(kind, RecordType | ObjectType):
        return any(has_variables(item) for item in kind.arguments)
    if isinstance(kind, StackType):
        return has_variables(kind.element)
    if isinstance(kind, TupleType | NamedType):
        return any(has_variables(item) for item in kind.items)
    if isinstance(kind, ListType | SetType):
        return has_variables(kind.item)
    return False
