"""Sets of values: of select cases and of the entries of tables."""

from __future__ import annotations

from collections.abc import Sequence

from p4compiler import tree
from p4compiler.check.calls import is_known
from p4compiler.check.checker import Checker
from p4compiler.check.expressions import check_expression, convert
from p4compiler.diagnostics import Refusal
from p4compiler.types import INTEGER, UNKNOWN, Enum, Set, Type, base_of, number_type


def keys_of(node: tree.Expression, count: int) -> Sequence[tree.Expression]:
    """The sets of `count` keys; a lone ``default`` is for all of them."""
    if isinstance(node, tree.SetTuple):
        return node.items
    if isinstance(node, tree.AnyValue) and count > 1:
        return [tree.AnyValue(node.span, node.is_default)] * count
    if isinstance(node, tree.ListLiteral) and count > 1:
        return node.items
    return [node]


def check_set(checker: Checker, node: tree.Expression, kind: Type) -> None:
    """Check a set of values of a type; raises Refusal."""
    if isinstance(node, tree.AnyValue):
        return
    if isinstance(node, tree.Mask | tree.Range):
        bits = number_type(kind)
        if bits is None and kind not in (UNKNOWN, INTEGER):
            what = "a mask" if isinstance(node, tree.Mask) else "a range"
            raise Refusal(f"{what} of {kind}", node.span)
        parts = (node.value, node.mask) if isinstance(node, tree.Mask) else (node.low, node.high)
        wanted = bits if bits is not None and not isinstance(base_of(kind), Enum) else kind
        for part in parts:
            _check_item(checker, part, wanted or kind)
        return
    found = check_expression(checker, node)
    if isinstance(found, Set):
        if found.item != kind and UNKNOWN not in (found.item, kind):
            raise Refusal(f"a value set of {found.item} for a key of type {kind}", node.span)
        return
    _check_item(checker, node, kind)


def _check_item(checker: Checker, node: tree.Expression, kind: Type) -> None:
    have = check_expression(checker, node)
    bits = number_type(kind)
    if have == INTEGER and bits is not None:
        kind = bits if not isinstance(base_of(kind), Enum) or isinstance(node, tree.Number) else kind
    elif isinstance(have, Enum) and have.base is not None and have.base == bits:
        kind = bits
    convert(checker, node, have, kind)
    if not checker.diagnostics.has_errors() and not is_known(checker, node):
        raise Refusal("a value that is not known at compile time", node.span)
