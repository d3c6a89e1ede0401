"""Expressions to values.

Operands are evaluated from left to right. A value is an expression over fields that are read later, so where an operand
on the right may change something, the values on its left are copied first (:func:`evaluate_all`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from p4compiler import ir, tree
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate import operations
from p4compiler.elaborate.assignments import applied_bit, assign, copied
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.values import (
    SCALARS,
    ActionValue,
    AppliedTable,
    DefaultValue,
    HeaderLiteral,
    HeaderValue,
    ListValue,
    Location,
    SliceTarget,
    StackLiteral,
    StackValue,
    StructValue,
    UnionValue,
    Value,
)
from p4compiler.sources import SourceSpan
from p4compiler.types import (
    BOOL,
    ERROR,
    INTEGER,
    BitsType,
    EnumType,
    RecordType,
    StackType,
    TupleType,
    Type,
    TypeItself,
    base_of,
    is_scalar,
    substitute,
)

_PURE = frozenset({"isValid", "length", "lookahead", "static_assert"})
_SIZES = frozenset({"minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"})


# --- entry points ---


def evaluate(e: Elaborator, node: tree.Expression) -> Value:
    """The value of an expression, converted as the checker found."""
    value = _EVALUATE[type(node)](e, node)
    wanted = e.checked.conversions.get(node)
    if wanted is not None:
        return convert(e, value, substitute(wanted, e.frame.types), node.span)
    return value


def scalar(e: Elaborator, node: tree.Expression) -> ir.Scalar:
    """The value of an expression that is a number, a boolean, an enum or an error."""
    value = evaluate(e, node)
    if isinstance(value, AppliedTable):
        return applied_bit(e, value, node.span)
    if not isinstance(value, SCALARS):
        raise Refusal("a number or a boolean is expected here", node.span)
    return value


def known_number(e: Elaborator, node: tree.Expression) -> int:
    """The value of an expression that is known, at the latest now."""
    value = scalar(e, node)
    if not isinstance(value, ir.ConstantValue):
        raise Refusal("this value is not known at compile time", node.span)
    return value.value


def evaluate_all(e: Elaborator, nodes: Sequence[tree.Expression]) -> list[Value]:
    """The values of expressions from left to right, of which none changes by a later one."""
    out: list[Value] = []
    for position, node in enumerate(nodes):
        value = _plain(e, evaluate(e, node), node.span)
        if any(may_change(e, later) for later in nodes[position + 1 :]):
            value = copied(e, value, node.span)
        out.append(value)
    return out


def may_change(e: Elaborator, node: tree.SyntaxNode) -> bool:
    """Whether evaluating the expression may change something."""
    if isinstance(node, tree.CallExpression):
        call = e.checked.calls[node]
        if call.kind != "constructor":
            function = node.function
            name = function.name if isinstance(function, tree.MemberExpression | tree.Name) else ""
            if name not in _PURE and name not in _SIZES:
                return True
        return any(argument is not None and may_change(e, argument) for _, argument in call.arguments)
    return any(may_change(e, part) for part in tree.children(node))


# --- conversions ---


def convert(e: Elaborator, value: Value, want: Type, span: SourceSpan) -> Value:
    """A value as a type that the checker has allowed."""
    base = base_of(want)
    if isinstance(value, SCALARS):
        return operations.convert(value, want)
    if isinstance(value, DefaultValue):
        return default(want, span)
    if isinstance(value, AppliedTable):
        return applied_bit(e, value, span)
    if isinstance(value, StructValue) and isinstance(value.type, TupleType):
        value = ListValue(tuple(value.fields.values()), None, False)
    if not isinstance(value, ListValue):
        return value
    if isinstance(base, RecordType):
        names = value.names or tuple(base.fields)
        given = dict(zip(names, value.items, strict=False))
        items = {
            name: convert(e, given[name], kind, span) if name in given else default(kind, span)
            for name, kind in base.fields.items()
        }
        return HeaderLiteral(base, items) if base.kind == "header" else StructValue(want, items)
    if isinstance(base, TupleType):
        items = {
            str(i): convert(e, item, kind, span)
            for i, (item, kind) in enumerate(zip(value.items, base.items, strict=False))
        }
        for i, kind in enumerate(base.items[len(value.items) :], len(value.items)):
            items[str(i)] = default(kind, span)
        return StructValue(want, items)
    if isinstance(base, StackType):
        elements = [convert(e, item, base.element, span) for item in value.items]
        elements += [default(base.element, span)] * (base.size - len(elements))
        return StackLiteral(base, tuple(elements))
    return value


def default(kind: Type, span: SourceSpan) -> Value:
    """The value that ``...`` stands for: zeros, and invalid headers."""
    base = base_of(kind)
    if isinstance(base, RecordType):
        if base.kind == "struct":
            return StructValue(kind, {name: default(item, span) for name, item in base.fields.items()})
        return HeaderLiteral(base, None)
    if isinstance(base, TupleType):
        return StructValue(kind, {str(i): default(item, span) for i, item in enumerate(base.items)})
    if isinstance(base, StackType):
        return StackLiteral(base, (default(base.element, span),) * base.size)
    if not is_scalar(base):
        raise Refusal(f"'...' for {kind}", span)
    return ir.ConstantValue(0, kind)


# --- leaves ---


def _number(e: Elaborator, node: tree.NumberLiteral) -> Value:
    kind = e.type_of(node)
    return operations.cast(ir.ConstantValue(node.value, kind), kind)


def _name(e: Elaborator, node: tree.Name) -> Value:
    declaration = e.checked.names.get(node)
    if declaration is None:
        raise Refusal(f"{node.name!r} cannot be used here", node.span)
    value = e.frame.find(declaration)
    if value is not None:
        return value
    if isinstance(
        declaration, tree.ConstantDeclaration
    ):  # the program's own; those in bodies are bound when they are met
        with e.within(e.globals):
            value = evaluate(e, declaration.value)
        e.globals.values[declaration] = value
        return value
    if isinstance(declaration, tree.ActionDeclaration):
        made = ActionValue(declaration, e.control_name(declaration, ""))
        e.globals.values[declaration] = made
        return made
    raise Refusal(f"{node.name!r} has no value here", node.span)


def _member(e: Elaborator, node: tree.MemberExpression) -> Value:
    base_type = e.checked.types[node.base]
    if isinstance(base_type, TypeItself):
        return _member_of_type(e, base_type.type, node)
    base = evaluate(e, node.base)
    name = node.name
    if isinstance(base, StructValue):
        return base.fields[name]
    if isinstance(base, HeaderValue):
        return base.field(name, base.type.fields[name])
    if isinstance(base, UnionValue):
        return base.members[name]
    if isinstance(base, HeaderLiteral):
        return (base.items or {})[name]
    if isinstance(base, StackValue):
        return _member_of_stack(base, node)
    if isinstance(base, AppliedTable):
        return AppliedTable(base.table, name)
    raise Refusal(f"{name!r} cannot be used here", node.name_span)


def _member_of_type(e: Elaborator, kind: Type, node: tree.MemberExpression) -> ir.ConstantValue:
    if kind == ERROR:
        return ir.ConstantValue(e.checked.errors[node.name], ERROR)
    assert isinstance(kind, EnumType)
    position = kind.positions[node.name]
    member = kind.declaration.members[position]
    if kind.base is None or member.value is None:
        return ir.ConstantValue(position, kind)
    known = e.checked.constants[member.value]
    return ir.ConstantValue(int(known), kind)


def _member_of_stack(base: StackValue, node: tree.MemberExpression) -> Value:
    if node.name == "size":
        return ir.ConstantValue(base.type.size, BitsType(32))
    element = base.type.element
    assert isinstance(element, RecordType)
    if node.name == "lastIndex":
        return ir.LastIndex(base.name, element.kind == "header_union")
    if element.kind == "header":
        return HeaderValue(element, ir.StackEnd(base.name, node.name))
    members: dict[str, HeaderValue] = {}
    for name, kind in element.fields.items():
        assert isinstance(kind, RecordType)
        members[name] = HeaderValue(kind, ir.StackEnd(base.name, node.name, name))
    return UnionValue(element, "", members)


def _index(e: Elaborator, node: tree.IndexExpression) -> Value:
    base = evaluate(e, node.base)  # a place, which is read or written after the index is known
    index = evaluate(e, node.index)
    if isinstance(base, ListValue):
        base = StructValue(TupleType(()), {str(i): item for i, item in enumerate(base.items)})
    if isinstance(base, StructValue):
        assert isinstance(index, ir.ConstantValue)
        return base.fields[str(index.value)]
    if not isinstance(base, StackValue) or not isinstance(index, SCALARS):
        raise Refusal("an element of this is not supported", node.span)
    if isinstance(index, ir.ConstantValue):
        if not 0 <= index.value < base.type.size:
            raise Refusal(f"index {index.value} of a stack of {base.type.size} elements", node.index.span)
        return base.items[index.value]
    element = base.type.element
    assert isinstance(element, RecordType)
    if element.kind != "header":
        raise Refusal(
            "an element of a stack of header unions by an index that is not known is not supported", node.span
        )
    if isinstance(index, ir.OperationValue) and e.mode != "checksum":
        index = e.saved(index, node.index.span, "index")
    return HeaderValue(element, ir.StackElement(base.name, index))


def _slice(e: Elaborator, node: tree.SliceExpression) -> Value:
    high, low = slice_bounds(e, node)
    return operations.slice_of(scalar(e, node.base), high, low)


def slice_bounds(e: Elaborator, node: tree.SliceExpression) -> tuple[int, int]:
    """The high and the low bit."""
    first, second = known_number(e, node.high), known_number(e, node.low)
    return (first + second - 1, first) if node.from_low else (first, second)


# --- operators ---


def _unary(e: Elaborator, node: tree.UnaryExpression) -> Value:
    if node.op == "!":
        value = evaluate(e, node.operand)
        if isinstance(value, AppliedTable):
            return AppliedTable(value.table, "miss" if value.part == "hit" else "hit")
        assert isinstance(value, SCALARS)
        return operations.negate(value)
    return operations.unary(node.op, scalar(e, node.operand), node.span)


def _binary(e: Elaborator, node: tree.BinaryExpression) -> Value:
    if node.op in ("&&", "||"):
        return _logic(e, node)
    left, right = evaluate_all(e, (node.left, node.right))
    if isinstance(left, SCALARS) and isinstance(right, SCALARS):
        return operations.binary(node.op, left, right, node.span)
    return _equal(node, left, right)


def _plain(e: Elaborator, value: Value, span: SourceSpan) -> Value:
    return applied_bit(e, value, span) if isinstance(value, AppliedTable) else value


def _logic(e: Elaborator, node: tree.BinaryExpression) -> Value:
    left = scalar(e, node.left)
    is_and = node.op == "&&"
    if isinstance(left, ir.ConstantValue) and bool(left.value) != is_and:
        return left
    with e.collecting() as code:
        right = scalar(e, node.right)
    if isinstance(left, ir.ConstantValue):
        e.emit(*code)
        return right
    if not code:
        return operations.both(left, right, "and" if is_and else "or")
    result = e.variable(BOOL, "tmp", node.span)
    assert isinstance(result, ir.FieldValue)
    evaluated = (*code, ir.AssignStep(result, right, node.span))
    skipped = (ir.AssignStep(result, operations.boolean(not is_and), node.span),)
    yes, no = (evaluated, skipped) if is_and else (skipped, evaluated)
    e.emit(ir.IfStep(left, yes, no, node.span))
    return result


def _equal(node: tree.BinaryExpression, left: Value, right: Value) -> ir.Scalar:
    """Equality of headers, structs, tuples and stacks: of all their parts.

    Invalid headers are equal in P4, though not to BMv2.
    """
    out: ir.Scalar = operations.TRUE
    for a, b in _pairs(left, right, node.span):
        if isinstance(a, HeaderValue) and isinstance(b, HeaderValue):
            neither = operations.both(operations.negate(ir.Valid(a.ref)), operations.negate(ir.Valid(b.ref)))
            out = operations.both(out, operations.both(ir.HeadersEqual(a.ref, b.ref), neither, "or"))
        elif isinstance(a, HeaderLiteral) or isinstance(b, HeaderLiteral):
            out = operations.both(out, _equal_literal(a, b, node.span))
        else:
            assert isinstance(a, SCALARS)
            assert isinstance(b, SCALARS)
            out = operations.both(out, operations.binary("==", a, b, node.span))
    return out if node.op == "==" else operations.negate(out)


def _equal_literal(left: Value, right: Value, span: SourceSpan) -> ir.Scalar:
    """Equality of a header and a list of its fields, which counts as a valid header."""
    literal, other = (left, right) if isinstance(left, HeaderLiteral) else (right, left)
    assert isinstance(literal, HeaderLiteral)
    if not isinstance(other, HeaderValue):
        raise Refusal("a comparison of two header literals is not supported", span)
    if literal.items is None:
        return operations.negate(ir.Valid(other.ref))
    out: ir.Scalar = ir.Valid(other.ref)
    for name, item in literal.items.items():
        for a, b in _pairs(other.field(name, other.type.fields[name]), item, span):
            assert isinstance(a, SCALARS)
            assert isinstance(b, SCALARS)
            out = operations.both(out, operations.binary("==", a, b, span))
    return out


def _pairs(left: Value, right: Value, span: SourceSpan) -> list[tuple[Value, Value]]:
    parts, others = _parts(left), _parts(right)
    if parts is not None and others is not None:
        return [pair for a, b in zip(parts, others, strict=True) for pair in _pairs(a, b, span)]
    is_header = isinstance(left, HeaderValue | HeaderLiteral) and isinstance(right, HeaderValue | HeaderLiteral)
    if is_header or (isinstance(left, SCALARS) and isinstance(right, SCALARS)):
        return [(left, right)]
    raise Refusal("this comparison is not supported", span)


def _parts(value: Value) -> Sequence[Value] | None:
    """What a value is made of; None if it has no parts that are compared by themselves."""
    if isinstance(value, StructValue):
        return tuple(value.fields.values())
    if isinstance(value, ListValue | StackValue | StackLiteral):
        return value.items
    return tuple(value.members.values()) if isinstance(value, UnionValue) else None


def _choice(e: Elaborator, node: tree.ChoiceExpression) -> Value:
    condition = scalar(e, node.condition)
    if isinstance(condition, ir.ConstantValue):
        return evaluate(e, node.yes if condition.value else node.no)
    with e.collecting() as yes_code:
        yes = _plain(e, evaluate(e, node.yes), node.yes.span)
    with e.collecting() as no_code:
        no = _plain(e, evaluate(e, node.no), node.no.span)
    if not yes_code and not no_code and isinstance(yes, SCALARS) and isinstance(no, SCALARS):
        return operations.choose(condition, yes, no)
    result = e.variable(e.type_of(node), "tmp", node.span)
    with e.collecting() as code:
        e.emit(*yes_code)
        assign(e, result, yes, node.span)
        yes_all = tuple(code)
    with e.collecting() as code:
        e.emit(*no_code)
        assign(e, result, no, node.span)
    e.emit(ir.IfStep(condition, yes_all, tuple(code), node.span))
    return result


def _cast(e: Elaborator, node: tree.CastExpression) -> Value:
    kind = e.resolved(node.type)
    value = _plain(e, evaluate(e, node.operand), node.span)
    if isinstance(value, SCALARS):
        return operations.cast(value, kind) if kind != INTEGER else value
    return convert(e, value, kind, node.span)


# --- literals and calls ---


def _list(e: Elaborator, node: tree.ListLiteral) -> Value:
    return ListValue(tuple(evaluate_all(e, node.items)), None, node.rest)


def _record(e: Elaborator, node: tree.RecordLiteral) -> Value:
    values = evaluate_all(e, [item.value for item in node.fields])
    return ListValue(tuple(values), tuple(item.name for item in node.fields), node.rest)


def _call(e: Elaborator, node: tree.CallExpression) -> Value:
    value = e.parts.call(e, node)
    if value is None:
        raise Refusal("this has no value", node.span)
    return value


def _unexpected(e: Elaborator, node: tree.Expression) -> Value:
    raise Refusal("this is not a value", node.span)


_EVALUATE: dict[type, Callable[[Elaborator, Any], Value]] = {
    tree.NumberLiteral: _number,
    tree.BooleanLiteral: lambda e, node: operations.boolean(node.value),
    tree.StringLiteral: lambda e, node: ir.TextArgument(node.value),
    tree.Name: _name,
    tree.TypeExpression: _unexpected,
    tree.MemberExpression: _member,
    tree.IndexExpression: _index,
    tree.SliceExpression: _slice,
    tree.UnaryExpression: _unary,
    tree.BinaryExpression: _binary,
    tree.ChoiceExpression: _choice,
    tree.CastExpression: _cast,
    tree.CallExpression: _call,
    tree.ListLiteral: _list,
    tree.RecordLiteral: _record,
    tree.InvalidHeader: lambda e, node: DefaultValue(),
    tree.DefaultLiteral: lambda e, node: DefaultValue(),
    tree.AnyValue: _unexpected,
    tree.MaskExpression: _unexpected,
    tree.RangeExpression: _unexpected,
    tree.SetTuple: _unexpected,
}


# --- places to write to ---


def locate(e: Elaborator, node: tree.Expression) -> Location:
    """The place that an expression names, to be written to; its indices are evaluated now."""
    if isinstance(node, tree.SliceExpression):
        high, low = slice_bounds(e, node)
        base = locate(e, node.base)
        if isinstance(base, SliceTarget):
            return SliceTarget(base.base, base.low + high, base.low + low)
        assert isinstance(base, ir.FieldValue)
        return SliceTarget(base, high, low)
    value = evaluate(e, node)
    if not isinstance(value, ir.FieldValue | HeaderValue | StructValue | StackValue | UnionValue):
        raise Refusal("this cannot be written", node.span)
    return value


def read(e: Elaborator, location: Location) -> Value:
    """The value at a place."""
    if isinstance(location, SliceTarget):
        return operations.slice_of(location.base, location.high, location.low)
    return location
