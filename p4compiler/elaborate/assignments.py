"""Assignments of values of any type, part by part, and which places values share."""

from __future__ import annotations

from collections.abc import Mapping

from p4compiler import ir
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate import operations
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.values import (
    SCALARS,
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
    TableValue,
    UnionValue,
    Value,
    header_field,
    leaves,
)
from p4compiler.sources import SourceSpan
from p4compiler.types import BOOL, VarbitType

Places = set[tuple[object, str]]  # (header or stack, field); an empty field name is the header as a whole


def assign(e: Elaborator, target: Location | Value, value: Value, span: SourceSpan) -> None:
    """``target = value``; parts that the assignment itself changes are copied before."""
    if isinstance(target, SliceTarget):
        assert isinstance(value, SCALARS)
        whole = operations.put_slice(target.base, target.high, target.low, value)
        e.emit(ir.AssignStep(target.base, whole, span))
    elif isinstance(target, ir.FieldValue):
        _assign_field(e, target, value, span)
    elif isinstance(target, HeaderValue):
        _assign_header(e, target, value, span)
    elif isinstance(target, StructValue):
        _assign_struct(e, target, value, span)
    elif isinstance(target, StackValue):
        _assign_stack(e, target, value, span)
    elif isinstance(target, UnionValue):
        _assign_union(e, target, value, span)
    else:
        raise Refusal("this cannot be written", span)


def _assign_field(e: Elaborator, target: ir.FieldValue, value: Value, span: SourceSpan) -> None:
    if isinstance(value, AppliedTable):
        value = applied_bit(e, value, span)
    if not isinstance(value, SCALARS):
        raise Refusal("this assignment is not supported", span)
    if isinstance(target.type, VarbitType):
        if not isinstance(value, ir.FieldValue):
            raise Refusal("this value for a varbit field is not supported", span)
        if value != target:
            e.emit(ir.PrimitiveStep("assign_VL", (target, value), span))
    elif not (isinstance(value, ir.FieldValue) and (value.header, value.name) == (target.header, target.name)):
        e.emit(ir.AssignStep(target, value, span))


def _assign_header(e: Elaborator, target: HeaderValue, value: Value, span: SourceSpan) -> None:
    header = ir.HeaderArgument(target.ref)
    if isinstance(value, HeaderValue):
        if value.ref != target.ref:
            e.emit(ir.PrimitiveStep("assign_header", (header, ir.HeaderArgument(value.ref)), span))
    elif isinstance(value, DefaultValue) or (isinstance(value, HeaderLiteral) and value.items is None):
        e.emit(ir.PrimitiveStep("remove_header", (header,), span))
    elif isinstance(value, HeaderLiteral) and value.items is not None:
        items = _unaffected(e, value.items, target, span)
        e.emit(ir.PrimitiveStep("add_header", (header,), span))
        for name, item in items.items():
            assign(e, target.field(name, target.type.fields[name]), item, span)
    else:
        raise Refusal("this value for a header is not supported", span)


def _assign_struct(e: Elaborator, target: StructValue, value: Value, span: SourceSpan) -> None:
    if isinstance(value, ListValue):
        value = StructValue(target.type, dict(zip(value.names or tuple(target.fields), value.items, strict=True)))
    if not isinstance(value, StructValue):
        raise Refusal("this value for a struct is not supported", span)
    if value is target:
        return
    items = _unaffected(e, dict(zip(target.fields, value.fields.values(), strict=True)), target, span)
    for name, item in items.items():
        assign(e, target.fields[name], item, span)


def _assign_stack(e: Elaborator, target: StackValue, value: Value, span: SourceSpan) -> None:
    if isinstance(value, StackValue):
        if value.name != target.name:
            unions = any(isinstance(item, UnionValue) for item in target.items)
            op = "assign_union_stack" if unions else "assign_header_stack"
            e.emit(
                ir.PrimitiveStep(
                    op, (ir.StackArgument(target.name, unions), ir.StackArgument(value.name, unions)), span
                )
            )
    elif isinstance(value, StackLiteral):
        items = _unaffected(e, {str(i): item for i, item in enumerate(value.items)}, target, span)
        for element, item in zip(target.items, items.values(), strict=True):
            assign(e, element, item, span)
    else:
        raise Refusal("this value for a header stack is not supported", span)


def _assign_union(e: Elaborator, target: UnionValue, value: Value, span: SourceSpan) -> None:
    if isinstance(value, UnionValue):
        if value.name != target.name:
            e.emit(
                ir.PrimitiveStep("assign_union", (ir.UnionArgument(target.name), ir.UnionArgument(value.name)), span)
            )
    elif isinstance(value, DefaultValue) or (isinstance(value, HeaderLiteral) and value.items is None):
        initialise(e, target, span)
    else:
        raise Refusal("this value for a header union is not supported", span)


def _unaffected(e: Elaborator, items: Mapping[str, Value], target: Value, span: SourceSpan) -> Mapping[str, Value]:
    """The parts of a value, copied if they read what the assignment of an earlier part writes."""
    written = places(target)
    if not _meet(set[tuple[object, str]]().union(*map(places, items.values())), written):
        return items
    return {name: copied(e, item, span) for name, item in items.items()}


def initialise(e: Elaborator, target: Value, span: SourceSpan) -> None:
    """A variable's value without an initializer: headers are invalid, all else is undefined."""
    if isinstance(target, HeaderValue):
        e.emit(ir.PrimitiveStep("remove_header", (ir.HeaderArgument(target.ref),), span))
    elif isinstance(target, StructValue):
        for item in target.fields.values():
            initialise(e, item, span)
    elif isinstance(target, StackValue):
        for element in target.items:
            initialise(e, element, span)
    elif isinstance(target, UnionValue):
        for member in target.members.values():
            initialise(e, member, span)


# --- values as they are now ---


def copied(e: Elaborator, value: Value, span: SourceSpan) -> Value:
    """A copy of the value, which later assignments do not change."""
    if isinstance(value, ir.ConstantValue | ir.ActionData):
        return value
    if isinstance(value, SCALARS):
        return e.saved(value, span)
    if isinstance(value, HeaderValue | StructValue | StackValue | UnionValue):
        target = e.variable(value.type, "tmp", span)
        assign(e, target, value, span)
        return target
    if isinstance(value, HeaderLiteral) and value.items is not None:
        return HeaderLiteral(value.type, {name: copied(e, item, span) for name, item in value.items.items()})
    if isinstance(value, ListValue):
        return ListValue(tuple(copied(e, item, span) for item in value.items), value.names, value.rest)
    if isinstance(value, StackLiteral):
        return StackLiteral(value.type, tuple(copied(e, item, span) for item in value.items))
    if isinstance(value, AppliedTable) and value.part in ("hit", "miss"):
        return applied_bit(e, value, span)
    return value


def applied_bit(e: Elaborator, applied: AppliedTable, span: SourceSpan) -> ir.FieldValue:
    """A field that says whether a table hit, or missed; the table is applied."""
    target = e.variable(BOOL, applied.part, span)
    assert isinstance(target, ir.FieldValue)
    yes = (ir.AssignStep(target, operations.TRUE, span),)
    no = (ir.AssignStep(target, operations.FALSE, span),)
    hit, miss = (yes, no) if applied.part == "hit" else (no, yes)
    e.parts.apply_table(e, applied.table, span, hit=hit, miss=miss)
    return target


# --- places ---


def frozen(e: Elaborator, location: Location, span: SourceSpan) -> Location:
    """The place with its indices as they are now."""
    if isinstance(location, SliceTarget):
        base = frozen(e, location.base, span)
        assert isinstance(base, ir.FieldValue)
        return SliceTarget(base, location.high, location.low)
    if isinstance(location, HeaderValue):
        return HeaderValue(location.type, _frozen_ref(e, location.ref, span))
    if isinstance(location, ir.FieldValue):
        return ir.FieldValue(_frozen_ref(e, location.header, span), location.name, location.type)
    if isinstance(location, StructValue) and has_runtime_index(location):
        first = next(iter(leaves(location)))
        assert isinstance(first, ir.FieldValue)
        ref = _frozen_ref(e, first.header, span)
        prefix = first.name.rpartition(".")[0]
        made = header_field(ref, prefix, location.type)
        assert isinstance(made, StructValue)
        return made
    return location


def _frozen_ref(e: Elaborator, ref: ir.HeaderRef, span: SourceSpan) -> ir.HeaderRef:
    if isinstance(ref, ir.StackElement) and not isinstance(ref.index, ir.ActionData):
        return ir.StackElement(ref.stack, e.saved(ref.index, span, "index"))
    return ref


def has_runtime_index(value: Value) -> bool:
    """Whether the packet decides which header it is."""
    for leaf in leaves(value):
        ref = leaf.ref if isinstance(leaf, HeaderValue) else leaf.header if isinstance(leaf, ir.FieldValue) else None
        if ref is not None and not isinstance(ref, ir.HeaderName):
            return True
    return isinstance(value, TableValue)


def places(value: Value) -> Places:
    """The fields and headers that a value reads, or that a variable is made of."""
    out: Places = set()
    for leaf in leaves(value):
        if isinstance(leaf, HeaderValue):
            out.add((_key(leaf.ref), ""))
            if isinstance(leaf.ref, ir.StackElement):
                out |= places(leaf.ref.index)
        else:
            for part in ir.operands(leaf):
                if isinstance(part, ir.FieldValue):
                    out.add((_key(part.header), part.name))
                elif isinstance(part, ir.Valid):
                    out.add((_key(part.header), ""))
                elif isinstance(part, ir.HeadersEqual):
                    out |= {(_key(part.left), ""), (_key(part.right), "")}
                elif isinstance(part, ir.LastIndex):
                    out.add((part.stack, "$next"))
    return out


def _key(ref: ir.HeaderRef) -> object:
    """What headers share that may be one: an element of a stack is any of its elements."""
    name = ref.name if isinstance(ref, ir.HeaderName) else ref.stack
    return name.partition("[")[0]


def overlap(left: Value, right: Value) -> bool:
    """Whether a change of one may be seen in the other."""
    return _meet(places(left), places(right))


def same_place(left: Value, right: Value) -> bool:
    """Whether two values are in the same fields and headers, or are the same constants."""
    a, b = ([leaf.ref if isinstance(leaf, HeaderValue) else leaf for leaf in leaves(item)] for item in (left, right))
    return a == b != []


def _meet(a: Places, b: Places) -> bool:
    if a & b:
        return True
    wholes_a, wholes_b = {header for header, name in a if not name}, {header for header, name in b if not name}
    return any(header in wholes_b for header, _ in a) or any(header in wholes_a for header, _ in b)
