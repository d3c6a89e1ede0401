"""Errors and warnings: what they say, and the text under the caret."""

from __future__ import annotations

import pytest

import p4compiler
from tests.p4compiler.compiled import around


def errors_of(text: str) -> list[p4compiler.Diagnostic]:
    with pytest.raises(p4compiler.P4Error) as caught:
        p4compiler.compile_text(text)
    return [item for item in caught.value.diagnostics if item.severity == "error"]


def marked(item: p4compiler.Diagnostic) -> str:
    """The text that an error is about."""
    assert item.span is not None
    return item.span.source.text[item.span.start : item.span.end]


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        ("hdr.h.aa = 1;", "header bytes_t has no field 'aa'; did you mean 'a'?", "aa"),
        ("hdr.p.isvalid();", "header pair_t has no field 'isvalid'; did you mean 'isValid'?", "isvalid"),
        ("hdr.p.setvalid();", "header pair_t has no field 'setvalid'; did you mean 'setValid'?", "setvalid"),
        ("hdr.h.A = 1;", "header bytes_t has no field 'A'; did you mean 'a'?", "A"),
        ("hdr.h.a = hdr.h.e;",
         "bit<16> where bit<8> is expected; a cast is needed (cannot implicitly convert)", "hdr.h.e"),
        ("hdr.h.a = unknown;", "'unknown' is not declared", "unknown"),
        ("hdr.h.a = 1 +;", "syntax error: an expression expected, found ';'", ";"),
        ("hdr.h.a = 1 hdr.h.b = 2;", "syntax error: ';' after a statement expected, found 'hdr'", "hdr"),
        ("hdr.h.a<bit<8>>.a = 1;", "syntax error: '=' or a call expected, found '<'", "<"),
        ("hdr.s[3].x = 1;", "index 3 of a stack of 3 elements (outside the bounds)", "3"),
        ("hdr.s[-1].x = 1;", "Negative array index -1", "-1"),
        ("hdr.h.a[8:0] = 1;", "Bit index 8 greater than width 8", "8"),
        ("if (hdr.h.a) { }", "bit<8> where bool is expected (cannot implicitly convert)", "hdr.h.a"),
        ("bit<8> x; bit<8> x;", "'x' is declared twice (duplicates declaration)", "x"),
        ("return 1;", "nothing is returned here", "1"),
        ("break;", "'break' outside of a loop", "break"),
        ("hdr.h.e = hdr.h.a ++ 1;", "'++' of bit<8> and int: please specify a width for the operands", "hdr.h.a ++ 1"),
        ("hdr.h.a = 1 / 0;", "division by zero", "0"),
        ("hdr.h = { 1, 2 };", "2 values for the 6 fields of header bytes_t", "{ 1, 2 }"),
        ("meta.pair = { x = 1, z = 2 };", "struct pair_s has no field 'z'", "{ x = 1, z = 2 }"),
        ("const bit<8> c = 1; c = 2;", "constant 'c' cannot be written (left value expected)", "c"),
        ("int<8> n = (int<8>) hdr.h.e;", "bit<16> cannot be cast to int<8>: change width and sign in two steps",
         "(int<8>) hdr.h.e"),
        ("hash(hdr.h.e, HashAlgorithm.crc99, 16w0, { hdr.h.a }, 16w10);",
         "enum HashAlgorithm has no value 'crc99'; did you mean 'crc32'?", "crc99"),
        ("hash(hdr.h.e, HashAlgorithm.crc16, 16w0, { hdr.h.a }, 10);",
         "could not infer a width; write one, as in 16w0", "10"),
        ("std.mcast_grp = std.parser_error;", "error where bit<16> is expected (cannot implicitly convert)",
         "std.parser_error"),
        ("for (i in 1..6) { }",
         "syntax error, unexpected 'in': a loop over values declares its variable, as in 'bit<8> i in 1..6'", "in"),
        ("switch (hdr.h.a) { 1: { } 1: { } }", "value 1 has two cases", "1"),
        ("int<8> n = 1; n /= 2;", "'/' of signed numbers", "n /= 2"),
        ("switch (meta.port) { 1: { } } if (meta.port == 1) { }", "'==' of port_t and int: cast one of them",
         "meta.port == 1"),
        ("meta.port = meta.port + 1;", "'+' of port_t and int", "meta.port + 1"),
        ("hdr.h.a <<= -1;", "'<<' by a negative number", "-1"),
        ("clone(CloneType.E2E, 5);", "a clone of type E2E is only possible in egress", "clone(CloneType.E2E, 5)"),
        ("recirculate_preserving_field_list(1);", "recirculate_preserving_field_list() is only possible in egress",
         "recirculate_preserving_field_list(1)"),
        ("int<1> n = -1;", "a variable of type int<1> is not supported on this target", "n"),
        ("V() v; v.apply(hdr, meta);", "v: invalid declaration: an instance cannot be in code, only beside it", "v"),
    ],
)  # fmt: skip
def test_an_error_in_code(code: str, message: str, text: str) -> None:
    program = around(code, declarations="type bit<8> port_t;").replace("bit<8> n;", "bit<8> n; port_t port;")
    found = errors_of(program)[0]
    assert (found.message, marked(found)) == (message, text)


@pytest.mark.parametrize(
    ("local", "message", "text"),
    [
        ("action act(bit<8> x) { } table t { actions = { act; } default_action = act(1, 2); }",
         "2 arguments for action 'act', which has 1 parameter", "default_action"),
        ("table t { key = { hdr.h.a : exakt; } actions = { NoAction; } }",
         "match kind 'exakt' is not declared; did you mean 'exact'?", "exakt"),
        ("action drop() { } table t { actions = { dropp; } }",
         "action 'dropp' is not declared; did you mean 'drop'?", "dropp"),
        ("action act() { } table t { actions = { NoAction; } default_action = act(); }",
         "action 'act' is not in the actions of table 't'", "act"),
        ("table t { key = { hdr.h.a + 1 : exact; } actions = { NoAction; } }",
         "Complex key expression requires a @name annotation", "hdr.h.a + 1"),
        ("action act(inout bit<8> x) { } table t { actions = { act; } }",
         "action act(): parameter x must be bound", "act"),
        ("table t { key = { hdr.h.a : exact; } actions = { NoAction; } const entries = { 1 &&& 3 : NoAction(); } }",
         "a mask for a key that is exact", "1 &&& 3"),
        ("table t { key = { hdr.h.a : lpm; } actions = { NoAction; } const entries = { 1 &&& 5 : NoAction(); } }",
         "invalid mask for an lpm key: its ones must be before its zeros", "5"),
        ("action act(in bit<8> x, bit<8> y) { hdr.h.a = x + y; }"
         " table t { actions = { act(hdr.h.b); } default_action = act(hdr.h.c, 1); }",
         "argument 'x' of action 'act' is not that in the list of actions", "hdr.h.c"),
        ("table t { key = { hdr.h.a : range; } actions = { NoAction; } const entries = { 9..1 : NoAction(); } }",
         "the range 9..1 is empty", "9..1"),
        ("table t { key = { (int<8>) hdr.h.a : range; } actions = { NoAction; }"
         " const entries = { -1..1 : NoAction(); } }",
         "a range from negative to positive numbers is not supported for keys", "(int<8>) hdr.h.a"),
        ("table t { key = { hdr.h.a : ternary; } actions = { NoAction; }"
         " const entries = { priority=1: 1 : NoAction(); } }",
         "const entries have no priorities: the first that matches wins", "1"),
        ("table t { key = { hdr.h.a : ternary; } actions = { NoAction; }"
         " const entries = { 1 : NoAction() @priority(high); } }",
         "a number is expected in this annotation", "high"),
        ("@id(7) action act() { } @id(7) action b() { } table t { actions = { act; b; } }",
         "id 0x1000007 is given twice", "@id"),
        ("@id(0x2000007) action act() { } table t { actions = { act; } }",
         "the id of this action is from 1 to 0xffffff, perhaps with 0x1000000 added", "@id"),
        ("action act(@id(2) bit<8> x, @id(2) bit<8> y) { } table t { actions = { act; } }",
         "id 0x2 is given twice", "@id"),
        ("action act() { t.apply(); } table t { actions = { NoAction; } }",
         "'t' is used before it is declared (not found)", "t"),
        ("direct_meter<bit<8>>(MeterType.bytes) d; action act() { d.read(hdr.h.a); } table t { actions = { act; } }",
         "direct_meter 'd' belongs to no table: one needs 'meters = d;'", "d.read(hdr.h.a)"),
        ("register<pair_s>(4) r; action act() { r.write(0, meta.pair); } table t { actions = { act; } }",
         None, ""),
        ("register<bit<8>>(0) r; table t { actions = { NoAction; } }",
         "register 'r' has no cells: direct registers are not supported on this target", "r"),
        ('@name("x") counter(4, CounterType.packets) c; @name("x") counter(4, CounterType.bytes) d;'
         " table t { actions = { NoAction; } }",
         "two counters have the control-plane name 'I.x'", "d"),
        ("table t { actions = { NoAction; } size = 1 << 31; }",
         "a table of 2147483648 entries; a size is from 0 to 2,147,483,647", "1 << 31"),
    ],
)  # fmt: skip
def test_an_error_in_a_declaration(local: str, message: str | None, text: str) -> None:
    code = "t.apply();"
    found = errors_of(around(code, local=local))[0]
    if message is None:
        assert "not supported on this target" in found.message
    else:
        assert (found.message, marked(found)) == (message, text)


@pytest.mark.parametrize("arguments", ["", "<headers_t, metadata_t>"])
def test_a_control_of_another_type_is_told_how_it_differs(arguments: str) -> None:
    text = around("").replace("control V(inout headers_t", "control V(in headers_t")
    (found,) = errors_of(text.replace("V1Switch(", f"V1Switch{arguments}("))
    assert "parameter 'hdr' is `in struct headers_t` where `inout struct headers_t` is expected" in found.message


def test_a_control_without_parentheses_is_no_instance() -> None:
    (found,) = errors_of(around("").replace("V1Switch(P()", "V1Switch(P"))
    assert "; an instance of it is written P()" in found.message


def test_what_uses_itself_is_told_so() -> None:
    (found,) = errors_of("bit<8> f(in bit<8> x) { return f(x); }")
    assert found.message == "'f' cannot be used in its own declaration (not found)"
    (found,) = errors_of("bit<8> f(in bit<8> x) { return g(x); } bit<8> g(in bit<8> x) { return x; }")
    assert found.message == "'g' is used before it is declared (not found)"
    (found,) = errors_of(around("", local="action act() { act(); }"))
    assert found.message == "'act' cannot be used in its own declaration (not found)"
    found = errors_of(around("t.apply();", local="table t { actions = { act; } } action act() { }"))[0]
    assert found.message == "action 'act' is used before it is declared (not found)"


def test_a_main_of_another_name_is_shown() -> None:
    (found,) = errors_of(around("").replace(") main;", ") mian;"))
    assert found.message == "the program has no 'main'"
    assert [note.message for note in found.notes] == ["this V1Switch has another name"]


def test_how_an_error_is_shown() -> None:
    with pytest.raises(p4compiler.P4Error) as caught:
        p4compiler.compile_text("const bit<8> a = 1;\nconst bit<9> b = a;\n", "some.p4")
    shown = str(caught.value).splitlines()
    assert shown[:3] == [
        "some.p4:2:18: error: bit<8> where bit<9> is expected; a cast is needed (cannot implicitly convert)",
        "    const bit<9> b = a;",
        "                     ^",
    ]


def test_an_error_in_a_macro_shows_both_places() -> None:
    found = errors_of("#define TOO_WIDE 16w1\nconst bit<8> a = TOO_WIDE;\n")[0]
    lines = str(found).splitlines()
    assert lines[0].startswith("program.p4:2:18: error:")
    assert lines[2].endswith("^~~~~~~~")
    assert lines[3:] == [
        "program.p4:1:18: note: in the macro defined here",
        "    #define TOO_WIDE 16w1",
        "                     ^~~~",
    ]


def test_one_run_shows_several_errors() -> None:
    text = "const bit<8> a = b;\nconst bit<8> c = 8w1 +;\nheader h { bit<8> x }\nconst bit<8> d = *;\n"
    assert len(errors_of(text)) == 3  # all of the syntax: names are looked up when it is right
    assert len(errors_of("const bit<8> a = b;\nconst bit<8> c = d;\n")) == 2


def test_code_that_is_never_instantiated_is_checked() -> None:
    control = "control Unused(inout bit<8> x) { apply { x = y; } }"
    assert [item.message for item in errors_of(around("", controls=control))] == ["'y' is not declared"]


def test_an_error_is_reported_once() -> None:
    assert len(errors_of(around("hdr.h.a = unknown + 1; hdr.h.b = unknown2.x[1];"))) == 2


def test_json_of_an_error() -> None:
    assert errors_of("const bit<8> a = b;\n")[0].as_json() == {
        "severity": "error",
        "message": "'b' is not declared",
        "file": "program.p4",
        "line": 1,
        "column": 18,
        "end_line": 1,
        "end_column": 19,
    }


@pytest.mark.parametrize(
    ("code", "local", "controls", "message"),
    [
        ("bit<8> x = 1;", "", "", "variable 'x' is unused"),
        ("", "action act() { }", "", "action 'act' is unused"),
        ("bit<8> x; hdr.h.a = x;", "", "", "variable 'x' is read, and nothing ever gives it a value"),
        ("return; hdr.h.a = 1;", "", "", "code after 'return' is never run"),
        ("hdr.h.a = 256;", "", "", "value 256 does not fit bit<8>: it becomes 0"),
        ("hdr.h.a = hdr.h.b << 8;", "", "", "shift of bit<8> by 8 bits"),
        ("{ bit<8> x = 1; hdr.h.a = x; }", "bit<8> x = 0;", "", "'x' shadows another declaration"),
        ("", "", "parser Q(packet_in b) { state start { transition accept; } state lost { transition accept; } }",
         "state 'lost' is never reached"),
        ("resubmit_preserving_field_list(3);", "", "",
         "no metadata is kept: no field of the user metadata has @field_list(3)"),
        ("random(hdr.h.a, 9, 3);", "", "", "no number is from 9 to 3: the result is undefined"),
        ("hash(hdr.h.a, HashAlgorithm.crc16, 8w5, { hdr.h.b }, 8w0);", "", "",
         "the result is always the base, since 'max' (how many values it may have) is 0"),
        ("t.apply();",
         "direct_counter(CounterType.packets) d; action act() { d.count(); } table t { actions = { act; } }",
         "", "direct_counter 'd' belongs to no table: one needs 'counters = d;'"),
        ("r.write(4, 1);", "register<bit<8>>(4) r;", "", "index 4 of register 'r', which has 4 cells"),
        ("r.read(hdr.h.a, 9);", "register<bit<8>>(4) r;", "", "index 9 of register 'r', which has 4 cells"),
        ("r.count(1);", "counter(1, CounterType.packets) r;", "", "index 1 of counter 'r', which has 1 cell"),
        ("r.execute_meter(4, hdr.h.a);", "meter(4, MeterType.bytes) r;", "",
         "index 4 of meter 'r', which has 4 cells"),
    ],
)  # fmt: skip
def test_warnings(code: str, local: str, controls: str, message: str) -> None:
    found = p4compiler.compile_text(around(code, local=local, controls=controls)).warnings
    assert message in [item.message for item in found]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("clone_preserving_field_list(CloneType.I2E, 5, 1)", "a clone of type I2E is only possible in ingress"),
        ("resubmit_preserving_field_list(1)", "resubmit_preserving_field_list() is only possible in ingress"),
    ],
)
def test_what_only_ingress_can_do_is_refused_in_egress(call: str, message: str) -> None:
    before, start, after = around("").partition("control E(")
    (found,) = errors_of(before + start + after.replace("apply { }", f"apply {{ {call}; }}", 1))
    assert (found.message, marked(found)) == (message, call)


_DIRECT = """
direct_counter(CounterType.packets) c;
direct_meter<bit<8>>(MeterType.packets) m;
action own() { c.count(); m.read(hdr.h.a); }
action shared() { c.count(); }
action other() { m.read(hdr.h.a); }
table t { key = { hdr.h.a: exact; } actions = { own; shared; NoAction; } counters = c; meters = m; }
table u { key = { hdr.h.b: exact; } actions = { shared; other; NoAction; } }
"""


def test_direct_counters_and_meters_have_no_effect_elsewhere() -> None:
    found = p4compiler.compile_text(around("t.apply(); u.apply(); c.count();", local=_DIRECT)).warnings
    assert [(item.message, marked(item)) for item in found] == [
        ("this has no effect in an action of table 'u': direct_counter 'c' belongs to table 't'", "c.count()"),
        ("this has no effect in an action of table 'u': direct_meter 'm' belongs to table 't'", "m.read(hdr.h.a)"),
        ("this has no effect in code outside of actions: direct_counter 'c' belongs to table 't'", "c.count()"),
    ]
    assert p4compiler.compile_text(around("t.apply();", local=_DIRECT.partition("table u")[0])).warnings[1:] == ()


@pytest.mark.parametrize(
    "code",
    [
        "bit<8> x; x[3:0] = 1; hdr.h.a = x;",
        "bit<8> x; if (hdr.h.a == 1) { x = 1; } hdr.h.a = x;",
        "bit<8> x; random(x, 1, 2); hdr.h.a = x;",
        "pair_t x; hdr.h.a = x.isValid() ? 8w1 : 2;",
        "for (bit<8> i in 1..2) { hdr.h.a = i; }",
    ],
)
def test_a_variable_that_may_have_a_value_has_no_warning(code: str) -> None:
    assert p4compiler.compile_text(around(code)).warnings == ()


def test_a_branch_that_is_never_taken_has_no_warnings() -> None:
    control = """
    control C(inout bit<8> x)(bit<32> cells) {
        register<bit<8>>(cells) r;
        apply {
            if (cells > 4) { r.write(4, x); }
            switch (cells) { 8: { r.read(x, 7); } default: { r.read(x, 0); } }
        }
    }
    """
    text = around("small.apply(hdr.h.a); large.apply(hdr.h.b);", local="C(4) small; C(8) large;", controls=control)
    assert p4compiler.compile_text(text).warnings == ()
