"""Expressions, as trees of small classes.

There are three kinds of expressions: data (unbounded integers, as in BMv2, truncated only when stored), booleans
(operators in `BOOLEAN_OPS`, `BoolConst`, `HeaderEqual`, `VarbitEqual`), and headers (`HeaderExpr`: an instance, or a
stack element known only at run time). Leaves refer to headers, fields and registers by position.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Const:
    """An integer, possibly negative."""

    value: int


@dataclass(frozen=True, slots=True)
class BoolConst:
    """true or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class HeaderRef:
    """A header instance."""

    header: int


@dataclass(frozen=True, slots=True)
class StackItem:
    """The stack element at a run-time index; out of range, an invalid header that ignores writes."""

    stack: int
    index: Expr


@dataclass(frozen=True, slots=True)
class StackLast:
    """The last extracted element of a stack."""

    stack: int


HeaderExpr = HeaderRef | StackItem | StackLast


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field of a header; data."""

    header: HeaderExpr
    field: int


@dataclass(frozen=True, slots=True)
class ValidBit:
    """The validity of a header as data, 0 or 1 (BMv2's hidden field $valid$)."""

    header: HeaderExpr


@dataclass(frozen=True, slots=True)
class Local:
    """An action parameter."""

    index: int


@dataclass(frozen=True, slots=True)
class RegisterCell:
    """A cell of a register array; reads as 0 out of range."""

    register: int
    index: Expr


@dataclass(frozen=True, slots=True)
class StackCount:
    """The number of elements extracted into or pushed onto a stack (`size_stack`); lastIndex is this minus 1."""

    stack: int
    minus_one: bool


@dataclass(frozen=True, slots=True)
class Unary:
    """`~`, `-`, `not`, `d2b` (data to boolean), `b2d`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, comparison, `and`/`or`, `two_comp_mod`, `sat_cast`, `usat_cast` (right is then a constant width)."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Choice:
    """`condition ? yes : no`."""

    condition: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True)
class HeaderEqual:
    """Boolean: both headers are valid, of the same type, and equal in all fields."""

    left: HeaderExpr
    right: HeaderExpr
    negated: bool


@dataclass(frozen=True, slots=True)
class VarbitEqual:
    """Boolean: two varbit fields have the same length and bits."""

    left: FieldRef
    right: FieldRef
    negated: bool


Expr = (
    Const
    | BoolConst
    | FieldRef
    | ValidBit
    | Local
    | RegisterCell
    | StackCount
    | Unary
    | Binary
    | Choice
    | HeaderEqual
    | VarbitEqual
)


BOOLEAN_OPS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b"})


def is_boolean(expr: Expr) -> bool:
    """True for boolean expressions."""
    if isinstance(expr, Unary | Binary):
        return expr.op in BOOLEAN_OPS
    if isinstance(expr, Choice):
        return is_boolean(expr.yes)
    return isinstance(expr, BoolConst | HeaderEqual | VarbitEqual)
