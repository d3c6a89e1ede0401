"""One document over another."""

from __future__ import annotations

from mrc_common.declared.document import Value
from mrc_common.declared.overlay import overlay, without
from tests.mrc_common.declared.parsed import parse


def test_overlay_merges_mappings_and_replaces_the_rest() -> None:
    lower = parse("a: {b: 1, c: 2}\nd: [1, 2]\ne: {kind: x, y: 1}\n", "f")
    upper = parse("a: {c: 3}\nd: [4]\ne: {kind: z}\nn: 5\n", "f")
    merged = overlay(lower.node, upper.node)
    found = Value(merged, lower.source).items()
    assert {name: value.text() for name, value in found["a"].items().items()} == {"b": "1", "c": "3"}
    assert [value.text() for value in found["d"].elements()] == ["4"]
    assert list(found["e"].items()) == ["kind"]
    assert found["n"].text() == "5"
    assert found["a"].items()["c"].line == 1
    assert list(Value(without(merged, "a", "e"), lower.source).items()) == ["d", "n"]
