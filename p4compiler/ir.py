"""The lowered program: scalar expressions over fields of named headers, and statements over them.

Expressions are BMv2's: numbers of any size without a type of their own, so that what P4 cuts to a width is cut here by
an operation (:mod:`p4compiler.elaborate.operations` makes them so). `type` says what the value is in P4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from p4compiler.sources import SourceSpan
from p4compiler.types import BOOL, BitsType, Type

if TYPE_CHECKING:
    from p4compiler.elaborate.parser_states import LoweredParser
    from p4compiler.elaborate.tables import LoweredTable
    from p4compiler.elaborate.values import ExternInstance

BITS32 = BitsType(32)

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
class StackElement:
    """``stack[index]`` with an index that the packet decides."""

    stack: str
    index: Scalar


HeaderRef = HeaderName | StackEnd | StackElement

# --- scalar expressions ---


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A number, or 0 or 1 for a boolean."""

    value: int
    type: Type


@dataclass(frozen=True, slots=True)
class FieldValue:
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
class OperationValue:
    """BMv2's operation `op`; with one operand `left` is None; with `condition` it is a choice."""

    op: str
    left: Scalar | None
    right: Scalar
    type: Type
    condition: Scalar | None = None


@dataclass(frozen=True, slots=True)
class HeadersEqual:
    """The equality of two headers."""

    left: HeaderRef
    right: HeaderRef
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class LookaheadValue:
    """Bits of the packet that is parsed, from an offset."""

    offset: int
    type: Type


@dataclass(frozen=True, slots=True)
class LastIndex:
    """The index of the last element that was extracted to a stack."""

    stack: str
    of_unions: bool = False
    type: Type = BITS32


Scalar = ConstantValue | FieldValue | Valid | ActionData | OperationValue | HeadersEqual | LookaheadValue | LastIndex

# --- arguments of primitives that are no scalars ---


@dataclass(frozen=True, slots=True)
class HeaderArgument:
    """A header, as an argument."""

    ref: HeaderRef


@dataclass(frozen=True, slots=True)
class StackArgument:
    """A header stack, or stack of unions, as an argument."""

    name: str
    of_unions: bool = False


@dataclass(frozen=True, slots=True)
class UnionArgument:
    """A header union, as an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class TextArgument:
    """A string, as an argument."""

    value: str


@dataclass(frozen=True, slots=True)
class ValuesArgument:
    """Several values in one argument."""

    items: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class FieldListArgument:
    """The number of a list of fields to keep; None: none are kept."""

    number: int | None


@dataclass(frozen=True, slots=True)
class DigestArgument:
    """A digest, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class CalculationArgument:
    """A hash or checksum over values."""

    algorithm: str
    inputs: tuple[Scalar, ...]
    with_payload: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class ExternArgument:
    """A counter, meter or register."""

    instance: ExternInstance


Argument = (
    Scalar
    | HeaderArgument
    | StackArgument
    | UnionArgument
    | TextArgument
    | ValuesArgument
    | FieldListArgument
    | DigestArgument
    | CalculationArgument
    | ExternArgument
)

# --- statements ---


@dataclass(frozen=True, eq=False, slots=True)
class AssignStep:
    """``target = value``."""

    target: FieldValue
    value: Scalar
    span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class PrimitiveStep:
    """BMv2's primitive `op`; also extract, advance, verify, emit and checksum, which are none."""

    op: str
    arguments: tuple[Argument, ...]
    span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class ChecksumStep:
    """A checksum to verify or update."""

    verifies: bool
    condition: Scalar
    calculation: CalculationArgument
    target: FieldValue
    span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class IfStep:
    """``if (condition) yes else no``."""

    condition: Scalar
    yes: Code
    no: Code
    span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class ApplyStep:
    """A table is applied; what follows depends on a hit (`hit`, `miss`), or on the action that ran (`cases`).

    In `cases` the name "" is for all other actions.
    """

    table: LoweredTable
    hit: Code | None
    miss: Code | None
    cases: Mapping[str, Code] | None
    span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class GroupStep:
    """The body of a called action, which stays one action, hence atomic."""

    name: str
    body: Code
    span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class BlockStep:
    """Code whose end a JumpStep with its label goes to."""

    label: int
    body: Code


@dataclass(frozen=True, eq=False, slots=True)
class LoopStep:
    """Code that begins again when it ends; a JumpStep to a BlockStep around it leaves it."""

    body: Code
    span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class JumpStep:
    """Go to the end of a BlockStep."""

    label: int


@dataclass(frozen=True, eq=False, slots=True)
class SubParserStep:
    """The states of a parser that a state applies."""

    parser: LoweredParser
    span: SourceSpan


Statement = (
    AssignStep
    | PrimitiveStep
    | ChecksumStep
    | IfStep
    | ApplyStep
    | GroupStep
    | BlockStep
    | LoopStep
    | JumpStep
    | SubParserStep
)
Code = tuple[Statement, ...]


def operands(value: Scalar) -> Iterator[Scalar]:
    """The expression and all expressions in it, also in the indices of headers."""
    waiting: list[Scalar] = [value]
    while waiting:
        item = waiting.pop()
        yield item
        if isinstance(item, OperationValue):
            waiting += [part for part in (item.left, item.right, item.condition) if part is not None]
        elif isinstance(item, FieldValue | Valid):
            if isinstance(item.header, StackElement):
                waiting.append(item.header.index)
        elif isinstance(item, HeadersEqual):
            waiting += [ref.index for ref in (item.left, item.right) if isinstance(ref, StackElement)]


def position(code: Code) -> SourceSpan | None:
    """Where the first statement with a place is."""
    for item in code:
        if isinstance(item, BlockStep):
            found = position(item.body)
            if found is not None:
                return found
        elif not isinstance(item, JumpStep):
            return item.span
    return None
