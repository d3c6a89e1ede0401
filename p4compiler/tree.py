"""The syntax tree: one class a construct, each with the span of its most telling tokens.

Nodes are compared by identity, so later passes keep what they learn of a node in dictionaries beside the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.sources import Span


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """Any construct."""

    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Annotation(Node):
    """``@name(body)``; `structured` where it is ``@name[body]``."""

    name: str
    body: tuple[Token, ...]
    structured: bool
    has_body: bool


Annotations = tuple[Annotation, ...]


def children(node: Node) -> Iterator[Node]:
    """The nodes that a node is made of."""
    for name in node.__dataclass_fields__:
        part = getattr(node, name)
        if isinstance(part, Node):
            yield part
        elif isinstance(part, tuple):
            yield from (item for item in part if isinstance(item, Node))


# --- expressions ---


@dataclass(frozen=True, eq=False, slots=True)
class Expression(Node):
    """Anything that has a value, and the sets of select and entries."""


@dataclass(frozen=True, eq=False, slots=True)
class Number(Expression):
    """A whole number; without a `width` where none is written."""

    value: int
    width: int | None
    signed: bool
    text: str


@dataclass(frozen=True, eq=False, slots=True)
class Boolean(Expression):
    """``true`` or ``false``."""

    value: bool


@dataclass(frozen=True, eq=False, slots=True)
class Text(Expression):
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
class Member(Expression):
    """``base.name``."""

    base: Expression
    name: str
    name_span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Index(Expression):
    """``base[index]``."""

    base: Expression
    index: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Slice(Expression):
    """``base[high:low]``, or with `from_low` ``base[low +: width]``, of which `high` is the low bit."""

    base: Expression
    high: Expression
    low: Expression
    from_low: bool


@dataclass(frozen=True, eq=False, slots=True)
class Unary(Expression):
    """An operator before its operand."""

    op: str
    operand: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Binary(Expression):
    """An operator between its operands."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Choice(Expression):
    """``condition ? yes : no``."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Cast(Expression):
    """``(type) operand``."""

    type: TypeNode
    operand: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Argument(Node):
    """An argument of a call; `value` is None for ``_``."""

    name: str | None
    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class Call(Expression):
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
class NamedValue(Node):
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
class DefaultValue(Expression):
    """``...`` as an initial value."""


@dataclass(frozen=True, eq=False, slots=True)
class AnyValue(Expression):
    """``default`` or ``_`` as a set."""

    is_default: bool


@dataclass(frozen=True, eq=False, slots=True)
class Mask(Expression):
    """``value &&& mask``."""

    value: Expression
    mask: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Range(Expression):
    """``low .. high``."""

    low: Expression
    high: Expression


@dataclass(frozen=True, eq=False, slots=True)
class SetTuple(Expression):
    """Several sets in parentheses, for several keys."""

    items: tuple[Expression, ...]


# --- types ---


@dataclass(frozen=True, eq=False, slots=True)
class TypeNode(Node):
    """A type as it is written."""


@dataclass(frozen=True, eq=False, slots=True)
class PlainType(TypeNode):
    """``bool``, ``error``, ``string``, ``void``, ``match_kind``, ``int``, or ``_``."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class SizedType(TypeNode):
    """``bit<width>``, ``int<width>`` or ``varbit<width>``; `width` is None for ``bit``."""

    name: str
    width: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class TypeName(TypeNode):
    """The name of a type, with its arguments."""

    name: str
    arguments: tuple[TypeNode, ...]
    absolute: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class StackType(TypeNode):
    """``element[size]``."""

    element: TypeNode
    size: Expression


@dataclass(frozen=True, eq=False, slots=True)
class TupleType(TypeNode):
    """``tuple<items>``."""

    items: tuple[TypeNode, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ListType(TypeNode):
    """``list<item>``."""

    item: TypeNode


# --- statements ---


@dataclass(frozen=True, eq=False, slots=True)
class Statement(Node):
    """A statement."""


@dataclass(frozen=True, eq=False, slots=True)
class Block(Statement):
    """Statements in braces."""

    statements: tuple[Statement | Declaration, ...]
    end: Span


@dataclass(frozen=True, eq=False, slots=True)
class Empty(Statement):
    """A semicolon alone."""


@dataclass(frozen=True, eq=False, slots=True)
class Assign(Statement):
    """``target op= value``; `op` is empty for ``=``."""

    target: Expression
    op: str
    value: Expression


@dataclass(frozen=True, eq=False, slots=True)
class CallStatement(Statement):
    """A call whose value is not used."""

    call: Call


@dataclass(frozen=True, eq=False, slots=True)
class If(Statement):
    """``if (condition) yes else no``."""

    condition: Expression
    yes: Statement
    no: Statement | None


@dataclass(frozen=True, eq=False, slots=True)
class Return(Statement):
    """``return value``."""

    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class Exit(Statement):
    """``exit``."""


@dataclass(frozen=True, eq=False, slots=True)
class Break(Statement):
    """``break``."""


@dataclass(frozen=True, eq=False, slots=True)
class Continue(Statement):
    """``continue``."""


@dataclass(frozen=True, eq=False, slots=True)
class SwitchCase(Node):
    """``label: body``; `label` is AnyValue for ``default``; without a body the next case's body counts."""

    label: Expression
    body: Block | None


@dataclass(frozen=True, eq=False, slots=True)
class Switch(Statement):
    """``switch (subject) { cases }``."""

    subject: Expression
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, eq=False, slots=True)
class For(Statement):
    """``for (start; condition; step) body``."""

    start: tuple[Statement | Declaration, ...]
    condition: Expression
    step: tuple[Statement, ...]
    body: Statement


@dataclass(frozen=True, eq=False, slots=True)
class ForIn(Statement):
    """``for (type variable in collection) body``."""

    variable: Variable
    collection: Expression
    body: Statement


# --- declarations ---


@dataclass(frozen=True, eq=False, slots=True)
class Declaration(Node):
    """Anything that gives a name a meaning; the span is the name's."""

    name: str
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class TypeParameter(Declaration):
    """``T`` in ``f<T>(...)``."""


@dataclass(frozen=True, eq=False, slots=True)
class Parameter(Declaration):
    """``direction type name = default``; `direction` is empty, in, out or inout."""

    direction: str
    type: TypeNode
    default: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class Constant(Declaration):
    """``const type name = value``."""

    type: TypeNode
    value: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Variable(Declaration):
    """``type name = value``."""

    type: TypeNode
    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class Instance(Declaration):
    """``type(arguments) name = { body }``."""

    type: TypeNode
    arguments: tuple[Argument, ...]
    body: tuple[Declaration, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class Field(Declaration):
    """A field of a struct, header or union."""

    type: TypeNode


@dataclass(frozen=True, eq=False, slots=True)
class Struct(Declaration):
    """A struct, header or header_union (`kind`)."""

    kind: str
    type_parameters: tuple[TypeParameter, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, eq=False, slots=True)
class EnumMember(Declaration):
    """A value of an enum."""

    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class Enum(Declaration):
    """An enum; with a `base` type its values are numbers."""

    base: TypeNode | None
    members: tuple[EnumMember, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Names(Declaration):
    """``error { ... }`` or ``match_kind { ... }`` (the declaration's name)."""

    members: tuple[EnumMember, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Typedef(Declaration):
    """``typedef``, or with `is_new` ``type``; of a type or of a struct or enum that is declared in it."""

    is_new: bool
    type: TypeNode | Struct | Enum


@dataclass(frozen=True, eq=False, slots=True)
class Prototype(Declaration):
    """An extern function or a method; `returns` is None for a constructor."""

    returns: TypeNode | None
    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    is_abstract: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Extern(Declaration):
    """A type of extern objects."""

    type_parameters: tuple[TypeParameter, ...]
    methods: tuple[Prototype, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Function(Declaration):
    """A function of the program's own."""

    returns: TypeNode
    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    body: Block


@dataclass(frozen=True, eq=False, slots=True)
class Action(Declaration):
    """An action."""

    parameters: tuple[Parameter, ...]
    body: Block


@dataclass(frozen=True, eq=False, slots=True)
class SelectCase(Node):
    """``set: state``."""

    set: Expression
    state: Name


@dataclass(frozen=True, eq=False, slots=True)
class Select(Node):
    """``select (keys) { cases }``."""

    keys: tuple[Expression, ...]
    cases: tuple[SelectCase, ...]


@dataclass(frozen=True, eq=False, slots=True)
class State(Declaration):
    """A parser state; without a transition it goes to reject."""

    statements: tuple[Statement | Declaration, ...]
    transition: Name | Select | None


@dataclass(frozen=True, eq=False, slots=True)
class Parser(Declaration):
    """A parser, or its type where `states` is None."""

    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    constructor: tuple[Parameter, ...]
    locals: tuple[Declaration, ...]
    states: tuple[State, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class Control(Declaration):
    """A control, or its type where `body` is None."""

    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    constructor: tuple[Parameter, ...]
    locals: tuple[Declaration, ...]
    body: Block | None


@dataclass(frozen=True, eq=False, slots=True)
class Package(Declaration):
    """A type of packages."""

    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ValueSet(Declaration):
    """``value_set<type>(size) name``."""

    type: TypeNode
    size: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Key(Node):
    """``expression : match_kind`` in a table."""

    expression: Expression
    match_kind: Name
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class ActionReference(Node):
    """An action of a table, with arguments for its parameters that have a direction."""

    action: Name
    arguments: tuple[Argument, ...] | None
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class Entry(Node):
    """An entry that the program gives a table."""

    keys: Expression
    action: ActionReference
    priority: Expression | None
    is_const: bool
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class Property(Node):
    """Any other property of a table."""

    name: str
    value: Expression
    is_const: bool
    annotations: Annotations


@dataclass(frozen=True, eq=False, slots=True)
class Entries(Node):
    """The entries of a table."""

    items: tuple[Entry, ...]
    is_const: bool


@dataclass(frozen=True, eq=False, slots=True)
class Table(Declaration):
    """A table."""

    keys: tuple[Key, ...] | None
    actions: tuple[ActionReference, ...] | None
    entries: Entries | None
    properties: tuple[Property, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """All declarations of a program, those of included files too."""

    declarations: tuple[Declaration, ...]
    end: Span


def annotation(annotations: Annotations, name: str) -> Annotation | None:
    """The annotation of a name, if it is there."""
    return next((item for item in annotations if item.name == name), None)


def string_annotation(annotations: Annotations, name: str) -> str | None:
    """The text of ``@name("text")``."""
    found = annotation(annotations, name)
    if found is None or not found.body or not found.body[0].text.startswith('"'):
        return None
    return "".join(unquoted(token.text) for token in found.body)


def number_annotation(annotations: Annotations, name: str) -> int | None:
    """The number in ``@name(number)``; raises Refusal where there is another thing."""
    found = annotation(annotations, name)
    return number_in(found.body[:1], found.span) if found is not None else None


def number_in(tokens: Sequence[Token], span: Span) -> int:
    """The number that one token is, of an annotation at `span`; raises Refusal."""
    digits = tokens[0].text.replace("_", "").rpartition("w")[2].rpartition("s")[2] if len(tokens) == 1 else ""
    try:
        return int(digits, 0)
    except ValueError:
        raise Refusal("a number is expected in this annotation", tokens[0].span if tokens else span) from None


def unquoted(text: str) -> str:
    """What a string in quotes stands for."""
    return text[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
