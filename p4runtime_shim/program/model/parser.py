"""The parser: a state machine that extracts headers.

A state runs its operations in order, then compares its key with the cases in order; the first that matches under its
mask determines the next state. States are referred to by position; None as next state is accept.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4runtime_shim.program.model.actions import Primitive
from p4runtime_shim.program.model.expressions import Expr, FieldRef, ValidBit


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Bits of the packet not yet extracted: offset and width in bits."""

    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class Extract:
    """Extract one header, with so many bits of its varbit field if it has one."""

    header: int
    varbit: Expr | None = None


@dataclass(frozen=True, slots=True)
class ExtractNext:
    """Extract into the next element of a stack."""

    stack: int
    varbit: Expr | None = None


@dataclass(frozen=True, slots=True)
class ParserSet:
    """Assign to a field in a parser state."""

    target: FieldRef | ValidBit
    value: Expr | Lookahead


@dataclass(frozen=True, slots=True)
class Verify:
    """Fail with an error code unless the condition holds."""

    condition: Expr
    error: Expr


@dataclass(frozen=True, slots=True)
class Advance:
    """Skip bits of the packet."""

    bits: Expr


@dataclass(frozen=True, slots=True)
class ParserCall:
    """A primitive called from a parser state."""

    primitive: Primitive


ParserOp = Extract | ExtractNext | ParserSet | Verify | Advance | ParserCall


@dataclass(frozen=True, slots=True)
class SelectCase:
    """One select case: for each key component (value, mask); None as next state is accept."""

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: int | None


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser value set: the widths of what a member matches, and the most members (None: no limit of its own).

    The widths are those of the select keys; None if no state selects on the set.
    """

    name: str
    widths: tuple[int, ...] | None
    size: int | None


@dataclass(frozen=True, slots=True)
class ValueSetCase:
    """A select case that applies if a member of a value set matches the key."""

    value_set: int
    next_state: int | None


@dataclass(frozen=True, slots=True)
class ParserState:
    """A parser state; cases are tried in order, then `default`."""

    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[FieldRef | ValidBit | Lookahead, ...]
    cases: tuple[SelectCase | ValueSetCase, ...]
    default: int | None


@dataclass(frozen=True, slots=True)
class Parser:
    """The parser of v1model; `start` None means that nothing is parsed."""

    states: tuple[ParserState, ...]
    start: int | None
    value_sets: tuple[ValueSet, ...] = ()
