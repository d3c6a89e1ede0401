"""Interval arithmetic: the possible values of each expression, from the widths of fields and constants upwards."""

from __future__ import annotations

from p4runtime_shim.codegen.c_integers import Interval, signed, unsigned
from p4runtime_shim.errors import Unsupported
from p4runtime_shim.program.model.actions import Param, SourceInfo
from p4runtime_shim.program.model.expressions import (
    Binary,
    Choice,
    Const,
    Expr,
    FieldRef,
    Local,
    RegisterCell,
    StackCount,
    Unary,
    ValidBit,
)
from p4runtime_shim.program.model.program import Program

MAX_BITS = 4096  # of an intermediate result


class Intervals:
    """Intervals of the expressions of one action (with its parameters), or of a control or parser (without)."""

    def __init__(self, program: Program, action: int | None = None, source: SourceInfo | None = None) -> None:
        self._program = program
        self._action = action
        self._source = source or SourceInfo()
        self._intervals: dict[int, Interval] = {}
        self._keep: list[Expr] = []  # expressions whose id is a key above

    def of(self, expr: Expr) -> Interval:
        """Bounds of a number."""
        known = self._intervals.get(id(expr))
        if known is None:
            known = self._intervals[id(expr)] = self._interval(expr)
            self._keep.append(expr)
        return known

    def _interval(self, expr: Expr) -> Interval:
        if isinstance(expr, Const):
            if expr.value.bit_length() > MAX_BITS:
                raise self.unsupported(f"constant of more than {MAX_BITS} bits")
            return Interval(expr.value, expr.value)
        if isinstance(expr, FieldRef):
            field = self._program.field(expr)
            return signed(field.width) if field.signed else unsigned(field.width)
        if isinstance(expr, ValidBit):
            return unsigned(1)
        if isinstance(expr, Local):
            return unsigned(self.param(expr).width)
        if isinstance(expr, RegisterCell):
            return unsigned(self._program.registers[expr.register].width)
        if isinstance(expr, StackCount):
            return unsigned(64) if expr.minus_one else Interval(0, 1 << 16)
        if isinstance(expr, Unary):
            return self._unary_interval(expr)
        if isinstance(expr, Choice):
            return self.of(expr.yes).union(self.of(expr.no))
        assert isinstance(expr, Binary)
        result = self._binary_interval(expr)
        if max(result.high.bit_length(), result.low.bit_length()) > MAX_BITS:
            raise self.unsupported(f"intermediate result of more than {MAX_BITS} bits ({expr.op!r})")
        return result

    def param(self, expr: Local) -> Param:
        """The parameter of the action."""
        assert self._action is not None
        return self._program.actions[self._action].params[expr.index]

    def _unary_interval(self, expr: Unary) -> Interval:
        if expr.op == "b2d":
            return unsigned(1)
        inner = self.of(expr.operand)
        return Interval(~inner.high, ~inner.low) if expr.op == "~" else Interval(-inner.high, -inner.low)

    def _binary_interval(self, expr: Binary) -> Interval:
        if expr.op in ("two_comp_mod", "sat_cast", "usat_cast"):
            width = cast_width(expr)
            return unsigned(width) if expr.op == "usat_cast" else signed(width)
        a, b = self.of(expr.left), self.of(expr.right)
        if expr.op == "+":
            return Interval(a.low + b.low, a.high + b.high)
        if expr.op == "-":
            return Interval(a.low - b.high, a.high - b.low)
        if expr.op == "*":
            return _hull(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
        if expr.op in ("/", "%"):
            return Interval(0, max(a.high, 0)) if expr.op == "/" else Interval(0, max(min(a.high, b.high), 0))
        if expr.op == "<<":
            if b.high > MAX_BITS:
                raise self.unsupported("shift left of an unmasked value by a variable amount")
            return _hull(a.low, a.high, a.low << max(b.high, 0), a.high << max(b.high, 0))
        if expr.op == ">>":
            far = min(max(b.high, 0), MAX_BITS)
            near = min(max(b.low, 0), MAX_BITS)
            return _hull(a.low >> near, a.high >> near, a.low >> far, a.high >> far)
        return _bitwise_interval(expr.op, a, b)

    def unsupported(self, construct: str) -> Unsupported:
        """The error for a construct at the current place."""
        return Unsupported(construct, self._source.file, self._source.line)


def cast_width(expr: Binary) -> int:
    """The width of a cast (two_comp_mod, sat_cast, usat_cast)."""
    assert isinstance(expr.right, Const)
    return expr.right.value


def _hull(*values: int) -> Interval:
    return Interval(min(values), max(values))


def _bitwise_interval(op: str, a: Interval, b: Interval) -> Interval:
    if op == "&" and (a.low >= 0 or b.low >= 0):
        return Interval(0, min(i.high for i in (a, b) if i.low >= 0))
    bits = max(_bits(a), _bits(b))
    if a.low >= 0 and b.low >= 0:
        return Interval(0, (1 << bits) - 1)
    return Interval(-(1 << bits), (1 << bits) - 1)


def _bits(interval: Interval) -> int:
    return max(interval.high.bit_length(), (~interval.low).bit_length() if interval.low < 0 else 0)
