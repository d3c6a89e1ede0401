"""Rules of P4Info that the programs with p4c's committed output do not show."""

from __future__ import annotations

from finsy.proto import p4i
from google.protobuf import text_format

import p4compiler
from tests.p4compiler.compiled import around, result


def info(code: str, *, local: str = "", controls: str = "", declarations: str = "") -> p4i.P4Info:
    """The P4Info of a program around a piece of code."""
    text = around(code, local=local, controls=controls, declarations=declarations)
    return text_format.Parse(p4compiler.compile_text(text).p4info, p4i.P4Info())


TABLES = """
action act() { hdr.h.c = 9; }
action bet() { hdr.h.c = 8; }
table t { key = { hdr.h.a: exact; } actions = { act; } }
table u { key = { hdr.h.a: exact; } actions = { bet; } }
"""


def test_a_branch_that_is_never_taken_has_no_tables_and_actions() -> None:
    for code in (
        "if (FEATURE) { t.apply(); } else { u.apply(); }",
        "if (!FEATURE) { u.apply(); } else if (hdr.h.a == 1) { t.apply(); }",
        "switch (N) { 1: { t.apply(); } 2: { u.apply(); } default: { t.apply(); } }",
        "switch (N) { 3: { t.apply(); } 1: 2: { u.apply(); } default: { t.apply(); } }",
    ):
        found = info(code, local=TABLES, declarations="const bool FEATURE = false; const bit<8> N = 2;")
        assert [item.preamble.name for item in found.tables] == ["I.u"]
        assert [item.preamble.name for item in found.actions] == ["NoAction", "I.bet"]


def test_each_instance_of_a_control_has_the_tables_that_its_arguments_choose() -> None:
    control = """
    control C(inout bytes_t h)(bool wide) {
        action act() { h.c = 9; }
        table t { key = { h.a: exact; } actions = { act; } }
        table u { key = { h.e: exact; } actions = { act; } }
        apply { if (wide) { u.apply(); } else { t.apply(); } }
    }
    """
    found = info("c.apply(hdr.h); d.apply(hdr.h);", local="C(true) c; C(false) d;", controls=control)
    assert [item.preamble.name for item in found.tables] == ["I.c.u", "I.d.t"]


def test_what_a_constructor_is_given_has_the_name_of_its_parameter() -> None:
    controls = """
    control Inner(inout headers_t hdr)(register<bit<8>> cells) {
        apply { cells.read(hdr.h.a, 1); hdr.h.a = hdr.h.a + 5; cells.write(1, hdr.h.a); }
    }
    control Outer(inout headers_t hdr)(bit<32> size) {
        Inner(register<bit<8>>(size)) inner;
        apply { inner.apply(hdr); }
    }
    """
    code, local = "c.apply(hdr); d.apply(hdr);", "Outer(4) c; Outer(8) d;"
    found = info(code, local=local, controls=controls)
    assert [(item.preamble.name, item.size) for item in found.registers] == [
        ("I.c.inner.cells", 4),
        ("I.d.inner.cells", 8),
    ]
    assert result(code, local=local, controls=controls)[0] == 5  # each has its own


def test_annotations_are_written_as_tokens_but_for_those_that_p4c_knows() -> None:
    local = """
    @field(A/B) @pair(@x(1), c) @empty() @bare @noWarn("unused")
    action act() { }
    table t { actions = { act; } }
    """
    found = info("t.apply();", local=local)
    assert [*next(item for item in found.actions if item.preamble.name == "I.act").preamble.annotations] == [
        "@field(A / B)",
        "@pair(@ x ( 1 ) , c)",
        "@empty",
        "@bare",
        '@noWarn("unused")',
    ]


def test_conditions_in_a_string_over_several_lines_are_obeyed() -> None:
    local = """
    #define WIDE 1
    @description("one
    #if WIDE
    two \\"2\\" C:\\\\new
      # else
    three
    #endif
    four")
    action act() { }
    table t { actions = { act; } }
    """
    found = info("t.apply();", local=local)
    text = next(item for item in found.actions if item.preamble.name == "I.act").preamble.doc.description
    assert text == 'one\n\n    two "2" C:\\new\n\n\n\n    four'
