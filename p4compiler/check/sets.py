"""Sets of values: of select cases and of the entries of tables."""

from __future__ import annotations

from collections.abc import Sequence

from p4compiler import tree
from p4compiler.check.arguments import is_known
from p4compiler.check.checker import Checker
from p4compiler.check.expressions import check_expression, convert
from p4compiler.diagnostics import Refusal, counted
from p4compiler.types import INTEGER, UNKNOWN, EnumType, RecordType, SetType, TupleType, Type, base_of, number_type


def keys_of(node: tree.Expression, count: int) -> Sequence[tree.Expression]:
    """The sets of `count` keys; a lone ``default`` is for all of them."""
    if isinstance(node, tree.SetTuple | tree.ListLiteral):
        return node.items
    if isinstance(node, tree.AnyValue):
        return [node] * count
    return [node]


def sets_for(checker: Checker, node: tree.Expression, kinds: Sequence[Type], what: str) -> Sequence[tree.Expression]:
    """The checked sets for keys of these types, or one value set for all of them; raises Refusal."""
    if isinstance(node, tree.Name | tree.IndexExpression):
        found = check_expression(checker, node)
        if isinstance(found, SetType):
            if flat_types([found.item]) != flat_types(kinds):
                raise Refusal(f"a value set of {found.item} for keys of other types", node.span)
            return [node]
    sets = keys_of(node, len(kinds))
    if len(sets) != len(kinds):
        raise Refusal(f"{what}: {counted(len(sets), 'value')} for {counted(len(kinds), 'key')}", node.span)
    for set_, kind in zip(sets, kinds, strict=True):
        check_set(checker, set_, kind)
    return sets


def flat_types(kinds: Sequence[Type]) -> list[Type]:
    """The types of all values in values of these types."""
    out: list[Type] = []
    for kind in kinds:
        if isinstance(kind, RecordType):
            out += flat_types(list(kind.fields.values()))
        elif isinstance(kind, TupleType):
            out += flat_types(kind.items)
        else:
            out.append(base_of(kind))
    return out


def check_set(checker: Checker, node: tree.Expression, kind: Type) -> None:
    """Check a set of values of a type; raises Refusal."""
    if isinstance(node, tree.AnyValue):
        return
    if isinstance(node, tree.MaskExpression | tree.RangeExpression):
        bits = number_type(kind)
        if bits is None and kind not in (UNKNOWN, INTEGER):
            what = "a mask" if isinstance(node, tree.MaskExpression) else "a range"
            raise Refusal(f"{what} of {kind}", node.span)
        parts = (node.value, node.mask) if isinstance(node, tree.MaskExpression) else (node.low, node.high)
        wanted = bits if bits is not None and not isinstance(base_of(kind), EnumType) else kind
        for part in parts:
            _check_item(checker, part, wanted or kind)
        return
    _check_item(checker, node, kind)


def _check_item(checker: Checker, node: tree.Expression, kind: Type) -> None:
    have = check_expression(checker, node)
    bits = number_type(kind)
    if have == INTEGER and bits is not None:
        kind = bits if not isinstance(base_of(kind), EnumType) or isinstance(node, tree.NumberLiteral) else kind
    elif isinstance(have, EnumType) and have.base is not None and have.base == bits:
        kind = bits
    convert(checker, node, have, kind)
    if not checker.diagnostics.has_errors() and not is_known(checker, node):
        raise Refusal("a value that is not known at compile time", node.span)
