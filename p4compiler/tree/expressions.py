"""Expressions, the sets of values of select and entries, and types."""

from __future__ import annotations

from dataclasses import dataclass

from p4compiler.sources import SourceSpan
from p4compiler.tree.nodes import Expression, SyntaxNode, TypeNode


@dataclass(frozen=True, eq=False, slots=True)
class NumberLiteral(Expression):
    """A whole number; without a `width` where none is written."""

    value: int
    width: int | None
    signed: bool
    text: str


@dataclass(frozen=True, eq=False, slots=True)
class BooleanLiteral(Expression):
    """``true`` or ``false``."""

    value: bool


@dataclass(frozen=True, eq=False, slots=True)
class StringLiteral(Expression):
    """A string."""

    value: str


@dataclass(frozen=True, eq=False, slots=True)
class Name(Expression):
    """A name; `absolute` with a dot before it."""

    name: str
    absolute: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class TypeExpression(Expression):
    """A type where an expression stands, as before ``.`` or as what is called."""

    type: TypeNode


@dataclass(frozen=True, eq=False, slots=True)
class MemberExpression(Expression):
    """``base.name``."""

    base: Expression
    name: str
    name_span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class IndexExpression(Expression):
    """``base[index]``."""

    base: Expression
    index: Expression


@dataclass(frozen=True, eq=False, slots=True)
class SliceExpression(Expression):
    """``base[high:low]``, or with `from_low` ``base[low +: width]``, of which `high` is the low bit."""

    base: Expression
    high: Expression
    low: Expression
    from_low: bool


@dataclass(frozen=True, eq=False, slots=True)
class UnaryExpression(Expression):
    """An operator before its operand."""

    op: str
    operand: Expression


@dataclass(frozen=True, eq=False, slots=True)
class BinaryExpression(Expression):
    """An operator between its operands."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, eq=False, slots=True)
class ChoiceExpression(Expression):
    """``condition ? yes : no``."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, eq=False, slots=True)
class CastExpression(Expression):
    """``(type) operand``."""

    type: TypeNode
    operand: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Argument(SyntaxNode):
    """An argument of a call; `value` is None for ``_``."""

    name: str | None
    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class CallExpression(Expression):
    """``function<types>(arguments)``; also an instance without a name."""

    function: Expression
    type_arguments: tuple[TypeNode, ...]
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ListLiteral(Expression):
    """``{ a, b }``; `rest` with ``...`` at the end."""

    items: tuple[Expression, ...]
    rest: bool


@dataclass(frozen=True, eq=False, slots=True)
class NamedValue(SyntaxNode):
    """``name = value`` in a literal."""

    name: str
    value: Expression


@dataclass(frozen=True, eq=False, slots=True)
class RecordLiteral(Expression):
    """``{ f = a, g = b }``; `rest` with ``...`` at the end."""

    fields: tuple[NamedValue, ...]
    rest: bool


@dataclass(frozen=True, eq=False, slots=True)
class InvalidHeader(Expression):
    """``{#}``."""


@dataclass(frozen=True, eq=False, slots=True)
class DefaultLiteral(Expression):
    """``...`` as an initial value."""


@dataclass(frozen=True, eq=False, slots=True)
class AnyValue(Expression):
    """``default`` or ``_`` as a set."""

    is_default: bool


@dataclass(frozen=True, eq=False, slots=True)
class MaskExpression(Expression):
    """``value &&& mask``."""

    value: Expression
    mask: Expression


@dataclass(frozen=True, eq=False, slots=True)
class RangeExpression(Expression):
    """``low .. high``."""

    low: Expression
    high: Expression


@dataclass(frozen=True, eq=False, slots=True)
class SetTuple(Expression):
    """Several sets in parentheses, for several keys."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, eq=False, slots=True)
class PlainTypeNode(TypeNode):
    """``bool``, ``error``, ``string``, ``void``, ``match_kind``, ``int``, or ``_``."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class SizedTypeNode(TypeNode):
    """``bit<width>``, ``int<width>`` or ``varbit<width>``; `width` is None for ``bit``."""

    name: str
    width: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class NamedTypeNode(TypeNode):
    """The name of a type, with its arguments."""

    name: str
    arguments: tuple[TypeNode, ...]
    absolute: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class StackTypeNode(TypeNode):
    """``element[size]``."""

    element: TypeNode
    size: Expression


@dataclass(frozen=True, eq=False, slots=True)
class TupleTypeNode(TypeNode):
    """``tuple<items>``."""

    items: tuple[TypeNode, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ListTypeNode(TypeNode):
    """``list<item>``."""

    item: TypeNode
