"""Tables that BMv2 cannot have, and what of a table has no effect there."""

from __future__ import annotations

import pytest

import p4compiler
from tests.p4compiler.compiled import around, result

SELECTOR = "implementation = action_selector(HashAlgorithm.crc16, 4, 4);"
PROFILE = "implementation = action_profile(4);"


def table(key: str, properties: str = "", actions: str = "act; NoAction;") -> str:
    """A program that applies a table with these keys and properties."""
    local = f"""
    action act(bit<8> x) {{ hdr.h.a = x; }}
    table t {{ key = {{ {key} }} actions = {{ {actions} }} {properties} }}
    """
    return around("t.apply();", local=local)


def marked(item: p4compiler.Diagnostic) -> str:
    """The text that a diagnostic is about."""
    assert item.span is not None
    return item.span.source.text[item.span.start : item.span.end]


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        (table("hdr.h.a: lpm; hdr.h.b: lpm;"), "a table with two lpm keys is not supported on this target", "hdr.h.b"),
        (table("hdr.h.a: exact;", actions="@tableonly @defaultonly act; NoAction;"),
         "an action cannot be both tableonly and defaultonly", "act"),
        (table("hdr.h.a: exact;", "const entries = { 1: act(1); 2: act(2); 1: act(3); }"),
         "two entries have the same keys", "1"),
        (table("hdr.h.a: lpm;", "const entries = { 4 &&& 0xfc: act(1); 5 &&& 0xfc: act(2); }"),
         "two entries have the same keys", "5"),
        (table("hdr.h.a: exact;", f"{PROFILE} const entries = {{ 1: act(1); }}"),
         "entries in the program for a table with an action profile are not supported on this target", "1"),
    ],
)  # fmt: skip
def test_a_table_that_bmv2_cannot_have_is_refused(text: str, message: str, where: str) -> None:
    with pytest.raises(p4compiler.P4Error) as caught:
        p4compiler.compile_text(text)
    (found,) = (item for item in caught.value.diagnostics if item.severity == "error")
    assert found.message == message
    assert marked(found).startswith(where)


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        (table("hdr.h.a: exact; hdr.h.b: selector;", PROFILE),
         "a selector key has no effect: the implementation of table 't' is no selector", "hdr.h.b"),
        (table("hdr.h.a: exact;", SELECTOR),
         "table 't' has no selector key, so a group has one member for all packets", "implementation"),
        (table("hdr.h.a: exact;", f"{PROFILE} default_action = act(1);"),
         "this default action never runs: a table with an action profile has none on this target", "default_action"),
        (table("hdr.h.a: exact;", "size = 1; const entries = { 1: act(1); 2: act(2); }"),
         "table 't' has 2 entries, and a size of 1", "size"),
        (table("hdr.h.a: ternary; hdr.h.b: exact;",
               "const entries = { (1, 2): act(1); (_, 2): act(2); (1, 2): act(3); }"),
         "this entry is never hit", "(1, 2)"),
        (table("hdr.h.a: range;", "const entries = { 0..255: act(1); 3..4: act(2); }"),
         "this entry is never hit", "3..4"),
        (table("hdr.h.a: optional;", "entries = { priority=2: 5: act(1); priority=3: _: act(2); }"),
         "this entry is never hit", "5"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_warned_of(text: str, message: str, where: str) -> None:
    (found,) = p4compiler.compile_text(text).warnings
    assert found.message == message
    assert marked(found).startswith(where)


@pytest.mark.parametrize(
    "text",
    [
        table("hdr.h.a: exact; hdr.h.b: selector;", f"{SELECTOR} default_action = NoAction();"),
        table("hdr.h.a: exact;", f"{PROFILE} const default_action = NoAction();"),
        table("hdr.h.a: ternary;", "size = 2; const entries = { 1: act(1); _: act(2); }"),
        table("hdr.h.a: ternary;", "const entries = { 1 &&& 3: act(1); 1 &&& 7: act(1); }"),
        table("hdr.h.a: optional;", "entries = { priority=3: 5: act(1); priority=2: _: act(2); }"),
    ],
)
def test_what_has_an_effect_is_not(text: str) -> None:
    assert p4compiler.compile_text(text).warnings == ()


def test_the_entries_of_a_table_fit_it() -> None:
    local = """
    action act(bit<8> x) { hdr.h.a = x; }
    table t {
        key = { hdr.h.b: exact; }
        actions = { act; }
        size = 1;
        const entries = { 1: act(7); 2: act(8); }
    }
    """
    assert result("t.apply();", local=local)[0] == 8
