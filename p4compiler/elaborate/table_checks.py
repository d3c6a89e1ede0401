"""What a table may not have on BMv2, and what of it has no effect there."""

from __future__ import annotations

from p4compiler import ir, tree
from p4compiler.arithmetic import mask
from p4compiler.diagnostics import Note, Refusal
from p4compiler.elaborate.elaborator import Elaborator
from p4compiler.elaborate.entries import MaskedValue, ValueRange, ValueSet
from p4compiler.elaborate.tables import LoweredKey, LoweredTable
from p4compiler.sources import SourceSpan
from p4compiler.types import width_of

_WITH_PRIORITIES = frozenset({"ternary", "range", "optional"})


def check_table(e: Elaborator, table: LoweredTable) -> None:
    """Check a lowered table; raises Refusal."""
    prefixes = [key for key in table.keys if key.match_kind == "lpm"]
    if len(prefixes) > 1:
        note = Note("the other is here", prefixes[0].span)
        raise Refusal("a table with two lpm keys is not supported on this target", prefixes[1].span, note)
    for reference in table.declaration.actions or ():
        names = {item.name for item in reference.annotations}
        if names >= {"tableonly", "defaultonly"}:
            raise Refusal("an action cannot be both tableonly and defaultonly", reference.span)
    _check_selector(e, table)
    if table.implementation is not None:
        _check_profile(e, table)
    elif table.entries:
        _check_entries(e, table)


def _property(table: LoweredTable, name: str) -> tree.TableProperty | None:
    return next((item for item in table.declaration.properties if item.name == name), None)


def _check_selector(e: Elaborator, table: LoweredTable) -> None:
    selecting = [key for key in table.keys if key.match_kind == "selector"]
    has_selector = table.implementation is not None and table.implementation.kind == "action_selector"
    if selecting and not has_selector:
        text = f"a selector key has no effect: the implementation of table {table.declaration.name!r} is no selector"
        e.diagnostics.warning("no-effect", text, selecting[0].span)
    if has_selector and not selecting:
        text = f"table {table.declaration.name!r} has no selector key, so a group has one member for all packets"
        where = _property(table, "implementation")
        assert where is not None
        e.diagnostics.warning("no-effect", text, where.span)


def _check_profile(e: Elaborator, table: LoweredTable) -> None:
    """A table whose entries name members of a profile, which a program cannot give it."""
    entries, default = table.declaration.entries, _property(table, "default_action")
    if entries is not None and entries.items:
        text = "entries in the program for a table with an action profile are not supported on this target"
        raise Refusal(text, entries.items[0].span)
    if default is not None and table.default is not None and ir.position(table.default[0].body) is not None:
        text = "this default action never runs: a table with an action profile has none on this target"
        e.diagnostics.warning("no-effect", text, default.span)


# --- entries ---


def _check_entries(e: Elaborator, table: LoweredTable) -> None:
    nodes = table.declaration.entries
    assert nodes is not None
    assert table.entries is not None
    size = _property(table, "size")
    if size is not None and table.size < len(table.entries):
        text = f"table {table.declaration.name!r} has {len(table.entries)} entries, and a size of {table.size}"
        e.diagnostics.warning("size", text, size.span)
    ranked = sorted(zip(table.entries, nodes.items, strict=True), key=lambda pair: pair[0].priority)
    may_overlap = any(key.match_kind in _WITH_PRIORITIES for key in table.keys)
    known: dict[tuple[ValueSet, ...], SourceSpan] = {}
    takes_all: SourceSpan | None = None
    for entry, node in ranked:
        sets = tuple(_plain(item, key) for item, key in zip(entry.sets, table.keys, strict=True))
        other = known.setdefault(sets, node.span)
        if other is not node.span and not may_overlap:
            raise Refusal("two entries have the same keys", node.span, Note("the other is here", other))
        if may_overlap and (other is not node.span or takes_all is not None):
            note = Note("this one is hit first", takes_all or other)
            e.diagnostics.warning("unreachable", "this entry is never hit", node.span, note)
        elif all(isinstance(item, MaskedValue) and item.mask == 0 for item in sets):
            takes_all = node.span


def _plain(item: ValueSet, key: LoweredKey) -> ValueSet:
    """A set in one form: a range of one value or of all is a value under a mask."""
    full = mask(width_of(key.value.type))
    if isinstance(item, ValueRange) and item.low == item.high:
        return MaskedValue(item.low, full)
    if isinstance(item, ValueRange) and (item.low, item.high) == (0, full):
        return MaskedValue(0, 0)
    return item
