"""Entries that a program gives its tables, sets of values, and the data of actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from p4compiler import ir, tree
from p4compiler.arithmetic import mask
from p4compiler.check.result import ResolvedCall
from p4compiler.check.sets import keys_of
from p4compiler.diagnostics import Refusal, shown
from p4compiler.elaborate import operations
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.expressions import evaluate, known_number, scalar
from p4compiler.types import BOOL, Type, base_of, width_of

if TYPE_CHECKING:
    from p4compiler.elaborate.tables import LoweredAction, LoweredTable


@dataclass(frozen=True)
class ValueRange:
    """The values from `low` to `high`, as bits: of signed numbers `low` is the greater where it is negative only."""

    low: int
    high: int


@dataclass(frozen=True)
class MaskedValue:
    """The values that are `value` under a mask; all bits of `mask` for one value, none for any."""

    value: int
    mask: int


ValueSet = ValueRange | MaskedValue


@dataclass(frozen=True)
class LoweredEntry:
    """An entry; `priority` counts from 1, the first to win."""

    sets: tuple[ValueSet, ...]
    action: LoweredAction
    data: tuple[int, ...]
    priority: int
    is_const: bool


def lower_set(e: Elaborator, node: tree.Expression, kind: Type) -> ValueSet:
    """A set of values of a type."""
    full = mask(width_of(kind))
    if isinstance(node, tree.AnyValue):
        return MaskedValue(0, 0)
    if isinstance(node, tree.MaskExpression):
        bits = _known(e, node.mask, kind)
        return MaskedValue(_known(e, node.value, kind) & bits, bits)
    if isinstance(node, tree.RangeExpression):
        low, high = _number_of(e, node.low, kind), _number_of(e, node.high, kind)
        if low > high:
            raise Refusal(f"the range {shown(low)}..{shown(high)} is empty", node.span)
        return ValueRange(low & full, high & full)
    return MaskedValue(_known(e, node, kind), full)


def _known(e: Elaborator, node: tree.Expression, kind: Type) -> int:
    return _number_of(e, node, kind) & mask(width_of(kind))


def _number_of(e: Elaborator, node: tree.Expression, kind: Type) -> int:
    value = scalar(e, node)
    if not isinstance(value, ir.ConstantValue):
        raise Refusal("a value that is not known at compile time", node.span)
    if base_of(value.type) != BOOL:
        value = operations.cast(value, kind)
    assert isinstance(value, ir.ConstantValue)
    return int(value.value)


def action_data(e: Elaborator, call: ResolvedCall) -> tuple[int, ...]:
    """The data of an action that a default or an entry calls."""
    out: list[int] = []
    for parameter, node in call.arguments:
        assert node is not None
        value = evaluate(e, node)
        if not isinstance(value, ir.ConstantValue):
            raise Refusal(f"the value of parameter {parameter.name!r} is not known at compile time", node.span)
        out.append(int(value.value) & mask(width_of(e.declared(parameter))))
    return tuple(out)


def lower_entries(e: Elaborator, table: LoweredTable, node: tree.DeclaredEntries) -> list[LoweredEntry]:
    """The entries of a table."""
    order = _order(e, table, node)
    out: list[LoweredEntry] = []
    for entry, priority in zip(node.items, order, strict=True):
        sets = tuple(
            lower_set(e, item, key.value.type)
            for item, key in zip(keys_of(entry.keys, len(table.keys)), table.keys, strict=True)
        )
        call = e.checked.calls[entry]
        assert isinstance(call.declaration, tree.ActionDeclaration)
        action = table.find(call.declaration)
        out.append(LoweredEntry(sets, action, action_data(e, call), priority, node.is_const or entry.is_const))
    return out


def _order(e: Elaborator, table: LoweredTable, node: tree.DeclaredEntries) -> list[int]:
    """The rank of each entry, from 1: by @priority, by its priority, or by its position."""
    explicit = [tree.number_annotation(entry.annotations, "priority") for entry in node.items]
    for entry, number in zip(node.items, explicit, strict=True):
        if number is not None and not 1 <= number < 1 << 31:
            raise Refusal(f"a priority is from 1 to {(1 << 31) - 1}, not {shown(number)}", entry.span)
    if any(number is not None for number in explicit):
        return [position if number is None else number for position, number in enumerate(explicit, 1)]
    if node.is_const or all(entry.priority is None for entry in node.items):
        return list(range(1, len(node.items) + 1))
    largest_wins = _flag(e, table, "largest_priority_wins", True)
    delta = _number(e, table, "priority_delta", 1)
    priorities: list[int] = []
    for entry in node.items:
        if entry.priority is not None:
            priorities.append(known_number(e, entry.priority))
        elif not priorities:
            raise Refusal("entry must have a priority, as it is the first and others have one", entry.span)
        else:
            priorities.append(priorities[-1] - delta if largest_wins else priorities[-1] + delta)
        if not 0 <= priorities[-1] < 1 << 32:
            raise Refusal("Overflow in priority computation", entry.span)
    ranked = sorted(range(len(priorities)), key=lambda i: -priorities[i] if largest_wins else priorities[i])
    out = [0] * len(priorities)
    for rank, position in enumerate(ranked, 1):
        out[position] = rank
    return out


def _flag(e: Elaborator, table: LoweredTable, name: str, default: bool) -> bool:
    node = next((item for item in table.declaration.properties if item.name == name), None)
    return default if node is None else bool(known_number(e, node.value))


def _number(e: Elaborator, table: LoweredTable, name: str, default: int) -> int:
    node = next((item for item in table.declaration.properties if item.name == name), None)
    return default if node is None else known_number(e, node.value)
