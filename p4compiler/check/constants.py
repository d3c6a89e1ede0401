"""Values that are known at compile time, of expressions whose types are known."""

from __future__ import annotations

from p4compiler import arithmetic, tree
from p4compiler.check.checker import Checker
from p4compiler.check.result import Constant
from p4compiler.diagnostics import Refusal
from p4compiler.types import (
    BOOL,
    ERROR,
    INTEGER,
    UNKNOWN,
    BitsType,
    EnumType,
    StackType,
    TypeItself,
    base_of,
    number_type,
    width_of,
)


def number(checker: Checker, node: tree.Expression, what: str) -> int | None:
    """The value of an expression that has to be a known whole number; None after an error."""
    kind = checker.expression(node)
    if kind == UNKNOWN:
        return None
    if number_type(kind) is None and kind != INTEGER:
        checker.error(f"{what} is a number, not {kind}", node.span)
        return None
    known = value(checker, node)
    if known is None:
        checker.error(f"{what} is not known at compile time (compile-time known value expected)", node.span)
        return None
    return int(known)


def value(checker: Checker, node: tree.Expression) -> Constant | None:
    """The value of an expression that has been checked, converted as the checker found; None if it is not known."""
    found = checker.checked.constants.get(node)
    if found is not None:
        return found
    try:
        found = _value(checker, node)
    except arithmetic.ArithmeticFault as fault:
        raise Refusal(f"{fault} in a constant", node.span) from None
    if found is not None:
        wanted = checker.checked.conversions.get(node)
        if wanted is not None and isinstance(found, int) and not isinstance(found, bool):
            found = arithmetic.fit(found, wanted)
        checker.checked.constants[node] = found
    return found


def _value(checker: Checker, node: tree.Expression) -> Constant | None:
    types = checker.checked.types
    kind = types.get(node, UNKNOWN)
    if isinstance(node, tree.NumberLiteral):
        return arithmetic.fit(node.value, kind)
    if isinstance(node, tree.BooleanLiteral | tree.StringLiteral):
        return node.value
    if isinstance(node, tree.Name):
        declaration = checker.checked.names.get(node)
        if isinstance(declaration, tree.ConstantDeclaration):
            return value(checker, declaration.value)
        return None
    if isinstance(node, tree.MemberExpression):
        return _member(checker, node)
    if isinstance(node, tree.UnaryExpression):
        operand = value(checker, node.operand)
        return (
            None if operand is None or isinstance(operand, str) else arithmetic.unary(node.op, operand, base_of(kind))
        )
    if isinstance(node, tree.BinaryExpression):
        return _binary(checker, node)
    if isinstance(node, tree.ChoiceExpression):
        condition = value(checker, node.condition)
        return None if condition is None else value(checker, node.yes if condition else node.no)
    if isinstance(node, tree.CastExpression):
        operand = value(checker, node.operand)
        if isinstance(operand, str) or operand is None:
            return operand
        return bool(operand) if base_of(kind) == BOOL else arithmetic.fit(int(operand), kind)
    if isinstance(node, tree.CallExpression):
        call = checker.checked.calls.get(node)
        is_assertion = call is not None and call.declaration is not None and call.declaration.name == "static_assert"
        return True if is_assertion else None
    if isinstance(node, tree.SliceExpression):
        base, high, low = (value(checker, item) for item in (node.base, node.high, node.low))
        if not (isinstance(base, int) and isinstance(high, int) and isinstance(low, int)):
            return None
        start = high if node.from_low else low
        return base >> start & arithmetic.mask(width_of(kind))
    return None


def _member(checker: Checker, node: tree.MemberExpression) -> Constant | None:
    base = checker.checked.types.get(node.base)
    if isinstance(base, StackType) and node.name == "size":
        return base.size
    if not isinstance(base, TypeItself):
        return None
    if base.type == ERROR:
        return node.name
    if isinstance(base.type, EnumType):
        position = base.type.positions.get(node.name)
        if position is None:
            return None
        given = base.type.declaration.members[position].value
        return node.name if base.type.base is None else None if given is None else value(checker, given)
    return None


def _binary(checker: Checker, node: tree.BinaryExpression) -> Constant | None:
    left = value(checker, node.left)
    if node.op in ("&&", "||") and left is not None:
        return left if bool(left) == (node.op == "||") else value(checker, node.right)
    right = value(checker, node.right)
    if left is None or right is None:
        return None
    if isinstance(left, str) or isinstance(right, str):
        return (left == right) == (node.op == "==") if node.op in ("==", "!=") else None
    types = checker.checked.types
    kind = base_of(types.get(node, UNKNOWN))
    right_kind = number_type(types.get(node.right, UNKNOWN))
    return arithmetic.binary(node.op, left, right, kind, right_kind.width if isinstance(right_kind, BitsType) else 0)
