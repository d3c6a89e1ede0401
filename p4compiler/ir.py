"""The lowered program: scalar expressions over fields of named headers, and statements over them.

Expressions are BMv2's: numbers of any size without a type of their own, so that what P4 cuts to a width is cut here by
an operation (:mod:`p4compiler.elaborate.operations` makes them so). `type` says what the value is in P4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from p4compiler.sources import Span
from p4compiler.types import BOOL, Bits, Type

if TYPE_CHECKING:
    from p4compiler.elaborate.parser_states import LoweredParser
    from p4compiler.elaborate.tables import LoweredTable
    from p4compiler.elaborate.values import ExternInstance

BITS32 = Bits(32)

# --- which header ---


@dataclass(frozen=True, slots=True)
class HeaderName:
    """A header that is known by name."""

    name: str


@dataclass(frozen=True, slots=True)
class StackEnd:
    """``stack.next`` or ``stack.last`` (`end`); of a stack of unions the `member` of that."""

    stack: str
    end: str
    member: str = ""


@dataclass(frozen=True, slots=True)
class Element:
    """``stack[index]`` with an index that the packet decides."""

    stack: str
    index: Scalar


HeaderRef = HeaderName | StackEnd | Element

# --- scalar expressions ---


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, or 0 or 1 for a boolean."""

    value: int
    type: Type


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header."""

    header: HeaderRef
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Valid:
    """The validity of a header; of a union that of any of its headers."""

    header: HeaderRef
    is_union: bool = False
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class ActionData:
    """A parameter that the control plane gives an action, by its position."""

    index: int
    type: Type


@dataclass(frozen=True, slots=True)
class Operation:
    """BMv2's operation `op`; with one operand `left` is None; with `condition` it is a choice."""

    op: str
    left: Scalar | None
    right: Scalar
    type: Type
    condition: Scalar | None = None


@dataclass(frozen=True, slots=True)
class HeaderEqual:
    """The equality of two headers."""

    left: HeaderRef
    right: HeaderRef
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Bits of the packet that is parsed, from an offset."""

    offset: int
    type: Type


@dataclass(frozen=True, slots=True)
class LastIndex:
    """The index of the last element that was extracted to a stack."""

    stack: str
    type: Type = BITS32


Scalar = Constant | Field | Valid | ActionData | Operation | HeaderEqual | Lookahead | LastIndex

# --- arguments of primitives that are no scalars ---


@dataclass(frozen=True, slots=True)
class Header:
    """A header, as an argument."""

    ref: HeaderRef


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack, or stack of unions, as an argument."""

    name: str
    of_unions: bool = False


@dataclass(frozen=True, slots=True)
class Union:
    """A header union, as an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string, as an argument."""

    value: str


@dataclass(frozen=True, slots=True)
class Values:
    """Several values in one argument."""

    items: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class FieldList:
    """The number of a list of fields to keep; None: none are kept."""

    number: int | None


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Calculation:
    """A hash or checksum over values."""

    algorithm: str
    inputs: tuple[Scalar, ...]
    with_payload: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class ExternObject:
    """A counter, meter or register."""

    instance: ExternInstance


Argument = Scalar | Header | Stack | Union | Text | Values | FieldList | Digest | Calculation | ExternObject

# --- statements ---


@dataclass(frozen=True, eq=False, slots=True)
class Assign:
    """``target = value``."""

    target: Field
    value: Scalar
    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Primitive:
    """BMv2's primitive `op`; also extract, advance, verify, emit and checksum, which are none."""

    op: str
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Checksum:
    """A checksum to verify or update."""

    verifies: bool
    condition: Scalar
    calculation: Calculation
    target: Field
    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class If:
    """``if (condition) yes else no``."""

    condition: Scalar
    yes: Code
    no: Code
    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Apply:
    """A table is applied; what follows depends on a hit (`hit`, `miss`), or on the action that ran (`cases`).

    In `cases` the name "" is for all other actions.
    """

    table: LoweredTable
    hit: Code | None
    miss: Code | None
    cases: Mapping[str, Code] | None
    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """The body of a called action, which stays one action, hence atomic."""

    name: str
    body: Code
    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Code whose end a Jump with its label goes to."""

    label: int
    body: Code


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """Code that begins again when it ends; a Jump to a Block around it leaves it."""

    body: Code
    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Jump:
    """Go to the end of a Block."""

    label: int


@dataclass(frozen=True, eq=False, slots=True)
class SubParser:
    """The states of a parser that a state applies."""

    parser: LoweredParser
    span: Span


Statement = Assign | Primitive | Checksum | If | Apply | Group | Block | Loop | Jump | SubParser
Code = tuple[Statement, ...]


def operands(value: Scalar) -> Iterator[Scalar]:
    """The expression and all expressions in it, also in the indices of headers."""
    waiting: list[Scalar] = [value]
    while waiting:
        item = waiting.pop()
        yield item
        if isinstance(item, Operation):
            waiting += [part for part in (item.left, item.right, item.condition) if part is not None]
        elif isinstance(item, Field | Valid):
            if isinstance(item.header, Element):
                waiting.append(item.header.index)
        elif isinstance(item, HeaderEqual):
            waiting += [ref.index for ref in (item.left, item.right) if isinstance(ref, Element)]


def position(code: Code) -> Span | None:
    """Where the first statement with a place is."""
    for item in code:
        if isinstance(item, Block):
            found = position(item.body)
            if found is not None:
                return found
        elif not isinstance(item, Jump):
            return item.span
    return None
