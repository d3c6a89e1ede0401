"""What expressions evaluate to, besides scalars (:mod:`p4compiler.ir`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p4compiler import ir, tree
from p4compiler.types import EnumType, RecordType, StackType, TupleType, Type

if TYPE_CHECKING:
    from p4compiler.elaborate.frames import Frame
    from p4compiler.elaborate.tables import LoweredTable
    from p4compiler.sources import SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class HeaderValue:
    """A header of the packet, or a variable that is a header."""

    type: RecordType
    ref: ir.HeaderRef

    def field(self, name: str, kind: Type) -> Value:
        """A field; a struct in a header is flattened into it."""
        return header_field(self.ref, name, kind)


@dataclass(frozen=True, eq=False, slots=True)
class StructValue:
    """A struct, or a tuple, whose fields are called 0, 1, ...; as a variable or as a value."""

    type: Type
    fields: Mapping[str, Value]


@dataclass(frozen=True, eq=False, slots=True)
class StackValue:
    """A header stack, or a stack of unions."""

    type: StackType
    name: str
    items: tuple[HeaderValue | UnionValue, ...]


@dataclass(frozen=True, eq=False, slots=True)
class UnionValue:
    """A header union; `name` is None for an element of a stack that the packet chooses."""

    type: RecordType
    name: str
    members: Mapping[str, HeaderValue]


@dataclass(frozen=True, eq=False, slots=True)
class HeaderLiteral:
    """A header's value that is written as a list; without `items` it is invalid."""

    type: RecordType
    items: Mapping[str, Value] | None


@dataclass(frozen=True, eq=False, slots=True)
class ListValue:
    """``{ a, b }`` or ``{ f = a }`` (`names`) before it is converted to a type."""

    items: tuple[Value, ...]
    names: tuple[str, ...] | None
    rest: bool


@dataclass(frozen=True, eq=False, slots=True)
class StackLiteral:
    """The value of a stack that is written as a list."""

    type: StackType
    items: tuple[Value, ...]


@dataclass(frozen=True, eq=False, slots=True)
class DefaultValue:
    """``...`` or ``{#}`` before it is converted to a type."""


@dataclass(frozen=True, eq=False, slots=True)
class SliceTarget:
    """Bits of a field, to be written."""

    base: ir.FieldValue
    high: int
    low: int


@dataclass(frozen=True, eq=False, slots=True)
class PacketValue:
    """The packet that is parsed or deparsed."""


@dataclass(frozen=True, eq=False, slots=True)
class ActionValue:
    """An action in the instance of a control."""

    declaration: tree.ActionDeclaration
    name: str  # the control plane's


@dataclass(eq=False, slots=True)
class TableValue:
    """A table in the instance of a control; `lowered` and `frame` since it is applied."""

    declaration: tree.TableDeclaration
    name: str
    lowered: LoweredTable | None = None
    frame: Frame | None = None


@dataclass(frozen=True, eq=False, slots=True)
class ValueSetValue:
    """A value set in the instance of a parser."""

    declaration: tree.ValueSetDeclaration
    name: str
    size: int
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class AppliedTable:
    """The result of a table's apply(), of which `part` (hit, miss, action_run) is asked."""

    table: TableValue
    part: str


@dataclass(eq=False)
class ExternInstance:
    """An extern object: its name for the control plane, its arguments, and the tables that have it."""

    kind: str  # counter, direct_meter, ...
    name: str
    short: str
    types: tuple[Type, ...]
    arguments: Mapping[str, Value]
    annotations: tree.Annotations
    span: SourceSpan
    tables: list[LoweredTable] = field(default_factory=list)
    result: ir.FieldValue | None = None  # of a direct meter
    calls: list[tuple[SourceSpan, TableValue | None]] = field(default_factory=list)  # of a direct counter or meter

    def number(self, name: str) -> int:
        """A numeric argument."""
        value = self.arguments[name]
        assert isinstance(value, ir.ConstantValue)
        return value.value

    def choice(self, name: str) -> str:
        """The name of an argument that is an enum's value."""
        return enum_name(self.arguments[name])


@dataclass(eq=False)
class BlockInstance:
    """A parser or control: its name for the control plane, and its frame, which holds what is declared in it."""

    declaration: tree.ParserDeclaration | tree.ControlDeclaration
    name: str
    short: str
    frame: Frame
    variables: dict[tree.VariableDeclaration, Value] = field(default_factory=dict)  # made once, set at each apply()
    inner: list[BlockInstance] = field(default_factory=list)
    unnamed: dict[tree.Declaration, BlockInstance] = field(default_factory=dict)  # of each C, for ``C.apply()``


Value = (
    ir.Scalar
    | HeaderValue
    | StructValue
    | StackValue
    | UnionValue
    | HeaderLiteral
    | StackLiteral
    | ListValue
    | DefaultValue
    | ir.TextArgument
    | PacketValue
    | ActionValue
    | TableValue
    | ValueSetValue
    | AppliedTable
    | ExternInstance
    | BlockInstance
)
Location = ir.FieldValue | SliceTarget | HeaderValue | StructValue | StackValue | UnionValue

SCALARS = (
    ir.ConstantValue,
    ir.FieldValue,
    ir.Valid,
    ir.ActionData,
    ir.OperationValue,
    ir.HeadersEqual,
    ir.LookaheadValue,
    ir.LastIndex,
)


def enum_name(value: Value) -> str:
    """The name of an enum's value."""
    assert isinstance(value, ir.ConstantValue)
    assert isinstance(value.type, EnumType)
    return value.type.declaration.members[value.value].name


def header_field(ref: ir.HeaderRef, name: str, kind: Type) -> Value:
    """A field of a header; of a struct in it the fields are called ``struct.field``."""
    if isinstance(kind, RecordType):
        fields = {inner: header_field(ref, f"{name}.{inner}", item) for inner, item in kind.fields.items()}
        return StructValue(kind, fields)
    return ir.FieldValue(ref, name, kind)


def type_of(value: Value) -> Type:
    """The type of a value that has been converted."""
    if isinstance(value, (*SCALARS, HeaderValue, StructValue, StackValue, UnionValue, HeaderLiteral, StackLiteral)):
        return value.type
    assert isinstance(value, ListValue)
    return TupleType(tuple(type_of(item) for item in value.items))


def leaves(value: Value) -> Iterator[ir.Scalar | HeaderValue]:
    """The scalars and headers in a value, in order."""
    if isinstance(value, (*SCALARS, HeaderValue)):
        yield value
    elif isinstance(value, StructValue):
        for item in value.fields.values():
            yield from leaves(item)
    elif isinstance(value, StackValue | ListValue | StackLiteral):
        for item in value.items:
            yield from leaves(item)
    elif isinstance(value, UnionValue):
        yield from value.members.values()
    elif isinstance(value, HeaderLiteral):
        for item in (value.items or {}).values():
            yield from leaves(item)


def scalars(value: Value) -> list[ir.Scalar]:
    """The scalars in a value in order; of headers their fields."""
    out: list[ir.Scalar] = []
    for leaf in leaves(value):
        if isinstance(leaf, HeaderValue):
            for name, kind in leaf.type.fields.items():
                out += scalars(leaf.field(name, kind))
        else:
            out.append(leaf)
    return out
