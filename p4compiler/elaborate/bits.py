"""Values as strings of bits: what lookahead reads, and what checksums are over."""

from __future__ import annotations

from collections.abc import Iterable

from p4compiler import ir, tree
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate import operations
from p4compiler.elaborate.assignments import assign
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.expressions import evaluate
from p4compiler.elaborate.values import HeaderValue, StackValue, StructValue, Value, scalars, type_of
from p4compiler.sources import SourceSpan
from p4compiler.types import BitsType, Type, VarbitType, base_of, is_scalar, is_signed, width_of


def bit_pieces(e: Elaborator, node: tree.Expression) -> list[ir.Scalar]:
    """Scalars whose bits, one after the other, are those of an expression.

    A list is its items, ``a ++ b`` is a and b, and a number in a wider type is zeros and the number, so BMv2's
    checksums, which are of fields and constants, can be over these.
    """
    if node in e.checked.conversions:
        return scalars(evaluate(e, node))
    if isinstance(node, tree.ListLiteral) and not node.rest:
        return [piece for item in node.items for piece in bit_pieces(e, item)]
    if isinstance(node, tree.BinaryExpression) and node.op == "++":
        return [*bit_pieces(e, node.left), *bit_pieces(e, node.right)]
    if isinstance(node, tree.CastExpression):
        want, have = e.resolved(node.type), e.type_of(node.operand)
        is_plain = all(isinstance(base_of(kind), BitsType) and not is_signed(kind) for kind in (want, have))
        more = width_of(want) - width_of(have)
        if is_plain and more >= 0:
            zeros = [ir.ConstantValue(0, BitsType(more))] if more else []
            return [*zeros, *bit_pieces(e, node.operand)]
    return scalars(evaluate(e, node))


def look(e: Elaborator, target: Value, kind: Type, offset: int, span: SourceSpan) -> int:
    """Fill a variable with the bits from an offset; the offset after them."""
    base = base_of(kind)
    if isinstance(target, ir.FieldValue) and is_scalar(base) and not isinstance(base, VarbitType):
        width = width_of(base)
        read = e.variable(BitsType(width), "lookahead", span) if is_signed(base) else target
        assert isinstance(read, ir.FieldValue)
        e.emit(ir.AssignStep(read, ir.LookaheadValue(offset, BitsType(width)), span))
        if read is not target:
            assign(e, target, operations.cast(read, kind), span)
        return offset + width
    if isinstance(target, HeaderValue):
        e.emit(ir.PrimitiveStep("add_header", (ir.HeaderArgument(target.ref),), span))
        for name, item in target.type.fields.items():
            offset = look(e, target.field(name, item), item, offset, span)
        return offset
    if isinstance(target, StructValue | StackValue):
        parts: Iterable[Value] = target.items if isinstance(target, StackValue) else target.fields.values()
        for part in parts:
            offset = look(e, part, type_of(part), offset, span)
        return offset
    raise Refusal(f"lookahead of {kind} is not supported", span)
