"""Operations on scalars: folded where the operands are known, else BMv2's operations that give P4's result.

BMv2 computes with numbers of any size, so what may leave its width is brought back: by ``&`` with a mask where the
type is unsigned, by two_comp_mod where it is signed.
"""

from __future__ import annotations

from dataclasses import replace

from p4compiler import arithmetic, ir
from p4compiler.arithmetic import COMPARISONS, mask
from p4compiler.diagnostics import Refusal
from p4compiler.sources import SourceSpan
from p4compiler.types import BOOL, INTEGER, BitsType, EnumType, Type, base_of, number_type, width_of

TRUE, FALSE = ir.ConstantValue(1, BOOL), ir.ConstantValue(0, BOOL)
_WIDTH = BitsType(32)
_SHORT_DISTANCE = 8  # bits of a number that a shift may be by as it is
_NEGATED = {"==": "!=", "!=": "=="}


def retype(value: ir.Scalar, kind: Type) -> ir.Scalar:
    """The same bits as another type."""
    if value.type == kind:
        return value
    if isinstance(
        value, ir.ConstantValue | ir.FieldValue | ir.ActionData | ir.OperationValue | ir.LookaheadValue | ir.LastIndex
    ):
        return replace(value, type=kind)
    return value


def boolean(value: bool) -> ir.ConstantValue:
    """A known boolean."""
    return TRUE if value else FALSE


def negate(value: ir.Scalar) -> ir.Scalar:
    """``!value``."""
    if isinstance(value, ir.ConstantValue):
        return boolean(not value.value)
    if isinstance(value, ir.OperationValue) and value.op in _NEGATED:
        return replace(value, op=_NEGATED[value.op])
    return ir.OperationValue("not", None, value, BOOL)


def both(left: ir.Scalar, right: ir.Scalar, op: str = "and") -> ir.Scalar:
    """``left && right``, or with "or" ``left || right``; neither changes anything."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ir.ConstantValue):
            return other if bool(one.value) == (op == "and") else one
    return ir.OperationValue(op, left, right, BOOL)


def choose(condition: ir.Scalar, yes: ir.Scalar, no: ir.Scalar) -> ir.Scalar:
    """``condition ? yes : no``."""
    if isinstance(condition, ir.ConstantValue):
        return yes if condition.value else no
    return ir.OperationValue("?", yes, no, yes.type, condition)


def wrap(value: ir.OperationValue, bits: BitsType) -> ir.OperationValue:
    """Bring a result back into its width."""
    if bits.signed:
        return ir.OperationValue("two_comp_mod", value, ir.ConstantValue(bits.width, _WIDTH), value.type)
    return ir.OperationValue("&", value, ir.ConstantValue(mask(bits.width), value.type), value.type)


def unary(op: str, value: ir.Scalar, span: SourceSpan) -> ir.Scalar:
    """``-value``, ``~value`` or ``+value``."""
    if isinstance(value, ir.ConstantValue):
        return ir.ConstantValue(arithmetic.unary(op, value.value, value.type), value.type)
    bits = number_type(value.type)
    if op == "+" or bits is None:
        return value
    return wrap(ir.OperationValue(op, None, value, value.type), bits)


def binary(op: str, left: ir.Scalar, right: ir.Scalar, span: SourceSpan) -> ir.Scalar:
    """An operation other than ``&&`` and ``||``; both operands have one type but for shifts and ``++``."""
    kind: Type = BOOL if op in COMPARISONS else left.type
    right_bits = number_type(right.type)
    if op == "++":
        return concatenate(left, right)
    if isinstance(left, ir.ConstantValue) and isinstance(right, ir.ConstantValue):
        try:
            return ir.ConstantValue(int(arithmetic.binary(op, left.value, right.value, kind)), kind)
        except arithmetic.ArithmeticFault as fault:
            raise Refusal(f"{fault}", span) from None
    if op in ("/", "%") and isinstance(right, ir.ConstantValue) and right.value == 0:
        raise Refusal("division by zero", span)
    if op in ("==", "!=") and base_of(left.type) == BOOL:
        return _equal_booleans(op, left, right)
    if kind == BOOL:
        return ir.OperationValue(op, left, right, BOOL)
    bits = number_type(kind)
    if bits is None or (left.type == INTEGER and right_bits is None):
        raise Refusal(f"{op!r} of numbers without a width", span)
    if op in ("|+|", "|-|"):
        sum_ = ir.OperationValue(op[1], left, right, kind)
        return ir.OperationValue(
            "sat_cast" if bits.signed else "usat_cast", sum_, ir.ConstantValue(bits.width, _WIDTH), kind
        )
    if op in ("<<", ">>"):
        right = _distance(bits.width, right)
    result = ir.OperationValue(op, left, right, kind)
    if op in ("&", "|", "^", "/", "%", ">>"):
        return result  # never wider than the operands
    if op == "<<" and isinstance(right, ir.ConstantValue) and right.value >= bits.width:
        return ir.ConstantValue(0, kind)  # without a number as wide as the shift is far
    return wrap(result, bits)


def _distance(width: int, distance: ir.Scalar) -> ir.Scalar:
    """How far to shift a number of `width` bits: no further than that, for BMv2 counts modulo 2^32 and makes room."""
    bits = number_type(distance.type)
    if isinstance(distance, ir.ConstantValue):
        return replace(distance, value=min(distance.value, width))
    if bits is None or bits.width <= _SHORT_DISTANCE:
        return distance
    known = ir.ConstantValue(mask(width.bit_length()), distance.type)
    far = ir.OperationValue(">", distance, ir.ConstantValue(width, distance.type), BOOL)
    return choose(far, ir.ConstantValue(width, distance.type), ir.OperationValue("&", distance, known, distance.type))


def _equal_booleans(op: str, left: ir.Scalar, right: ir.Scalar) -> ir.Scalar:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ir.ConstantValue):
            return other if bool(one.value) == (op == "==") else negate(other)
    return ir.OperationValue(op, left, right, BOOL)


def concatenate(left: ir.Scalar, right: ir.Scalar) -> ir.Scalar:
    """``left ++ right``."""
    a, b = number_type(left.type), number_type(right.type)
    assert a is not None
    assert b is not None
    kind = BitsType(a.width + b.width, a.signed)
    if isinstance(left, ir.ConstantValue) and isinstance(right, ir.ConstantValue):
        return ir.ConstantValue(arithmetic.binary("++", left.value, right.value, kind, b.width), kind)
    high = ir.OperationValue("<<", left, ir.ConstantValue(b.width, _WIDTH), kind)
    unsigned = ir.OperationValue("&", high, ir.ConstantValue(mask(kind.width), kind), kind)
    low = ir.OperationValue("&", right, ir.ConstantValue(mask(b.width), kind), kind)
    joined = ir.OperationValue("|", unsigned, low, kind)
    return wrap(joined, kind) if kind.signed else joined


def slice_of(value: ir.Scalar, high: int, low: int) -> ir.Scalar:
    """``value[high:low]``."""
    kind = BitsType(high - low + 1)
    if isinstance(value, ir.ConstantValue):
        return ir.ConstantValue(value.value >> low & mask(kind.width), kind)
    bits = number_type(value.type)
    shifted = ir.OperationValue(">>", value, ir.ConstantValue(low, _WIDTH), value.type) if low else value
    if bits is not None and not bits.signed and high == bits.width - 1:
        return retype(shifted, kind)
    return ir.OperationValue("&", shifted, ir.ConstantValue(mask(kind.width), kind), kind)


def put_slice(base: ir.Scalar, high: int, low: int, value: ir.Scalar) -> ir.Scalar:
    """The base with its bits high:low replaced."""
    bits = number_type(base.type)
    assert bits is not None
    part = mask(high - low + 1) << low
    kept = ir.OperationValue("&", base, ir.ConstantValue(mask(bits.width) & ~part, base.type), base.type)
    moved = ir.OperationValue("<<", value, ir.ConstantValue(low, _WIDTH), base.type)
    put = ir.OperationValue("&", moved, ir.ConstantValue(part, base.type), base.type)
    joined = ir.OperationValue("|", kept, put, base.type)
    return wrap(joined, bits) if bits.signed else joined


def cast(value: ir.Scalar, want: Type) -> ir.Scalar:
    """``(want) value``, which the checker has allowed."""
    target = number_type(want)
    have = number_type(value.type)
    if isinstance(value, ir.ConstantValue):
        if base_of(want) == BOOL:
            return ir.ConstantValue(int(bool(value.value)), want)
        return ir.ConstantValue(arithmetic.fit(value.value, want), want)
    if target is None:
        if base_of(want) == BOOL and have is not None:
            return ir.OperationValue("==", value, ir.ConstantValue(1, value.type), BOOL)
        return retype(value, want)
    if have is None:
        if base_of(value.type) == BOOL:
            return ir.OperationValue("?", ir.ConstantValue(1, target), ir.ConstantValue(0, target), want, value)
        return retype(value, want)  # an enum without a base, or what is the same already
    if have == target:
        return retype(value, want)
    if have.width < target.width and have.signed == target.signed and isinstance(value, ir.OperationValue):
        return retype(value, want)  # the same number; a field keeps its own width, on which keys depend
    operation = ir.OperationValue("&", value, ir.ConstantValue(mask(target.width), want), want)
    if target.signed:
        return ir.OperationValue("two_comp_mod", value, ir.ConstantValue(target.width, _WIDTH), want)
    return operation


def convert(value: ir.Scalar, want: Type) -> ir.Scalar:
    """The conversion of a scalar without a cast: of a number without width, or of an enum to its base."""
    if value.type == want or want == INTEGER:
        return value
    if isinstance(value, ir.ConstantValue):
        if value.type == INTEGER and number_type(want) is not None:
            return ir.ConstantValue(arithmetic.fit(value.value, want), want)
        return ir.ConstantValue(value.value, want)
    return retype(value, want)


def unsigned(value: int, kind: Type) -> int:
    """The bits of a constant of a type as a number that is not negative."""
    return value & mask(width_of(kind)) if not isinstance(base_of(kind), EnumType) or value < 0 else value
