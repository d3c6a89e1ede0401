"""Copy-in and copy-out, aliases, and the order of evaluation: what P4 fixes and compilers get wrong silently.

The frame is the bytes 1 to 16: h.a to h.d are 1 to 4, h.e is 0x0506, h.f 0x0708, p is 9, 10, the stack s 11 to 16.
"""

from __future__ import annotations

import pytest

import p4compiler
from tests.p4compiler.compiled import around, result

SWAP = "void swap(inout bit<8> x, inout bit<8> y) { bit<8> t = x; x = y; y = t; }"
BUMP = "bit<8> bump(inout bit<8> x) { x = x + 1; return x; }"
TWICE = "void twice(inout bit<8> x, inout bit<8> y) { x = x + 1; y = y + 2; }"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("swap(hdr.h.a, hdr.h.b);", (2, 1, 3, 4)),
        ("swap(hdr.h.a, hdr.h.a);", (1, 2, 3, 4)),
        ("swap_nibbles(hdr.h.a[3:0], hdr.h.b[3:0]);", (2, 1, 3, 4)),
        ("twice(hdr.h.a, hdr.h.a);", (3, 2, 3, 4)),  # copied back from left to right: the last wins
        ("hdr.h.a = bump(hdr.h.b) + hdr.h.b;", (6, 3, 3, 4)),
        ("hdr.h.a = hdr.h.b + bump(hdr.h.b);", (5, 3, 3, 4)),
        ("hdr.h.a = hdr.h.b ++ bump(hdr.h.b) == 0x0203 ? 8w7 : 8w8;", (7, 3, 3, 4)),
        ("if (hdr.h.a == 9 && bump(hdr.h.b) == 3) { hdr.h.c = 0; }", (1, 2, 3, 4)),
        ("if (hdr.h.a == 1 || bump(hdr.h.b) == 3) { hdr.h.c = 0; }", (1, 2, 0, 4)),
        ("if (hdr.h.a == 1 && bump(hdr.h.b) == 3) { hdr.h.c = 0; }", (1, 3, 0, 4)),
        ("add(hdr.h.a, bump(hdr.h.a)); hdr.h.b = hdr.h.a;", (3, 3, 3, 4)),  # 1 + 2: the inout argument is read first
        ("pair_s s = { hdr.h.a, bump(hdr.h.a) }; hdr.h.c = s.x; hdr.h.d = s.y;", (2, 2, 1, 2)),
        ("pair_s s = { 1, 2 }; s = { s.y, s.x }; hdr.h.c = s.x; hdr.h.d = s.y;", (1, 2, 2, 1)),
        ("hdr.h.a = hdr.h.a == 1 ? bump(hdr.h.b) : bump(hdr.h.c);", (3, 3, 3, 4)),
    ],
)
def test_functions(code: str, expected: tuple[int, ...]) -> None:
    add = "void add(inout bit<8> x, in bit<8> y) { x = x + y; }"
    nibbles = SWAP.replace("swap", "swap_nibbles").replace("bit<8>", "bit<4>")
    assert tuple(result(code, declarations="\n".join((SWAP, nibbles, BUMP, TWICE, add)))[:4]) == expected


@pytest.mark.parametrize(
    ("action", "call", "expected"),
    [
        # an action names the variable that is also its argument
        ("action act(inout bit<8> x) { hdr.h.a = 7; x = x + 1; }", "act(hdr.h.a);", (2, 2)),
        ("action act(inout bit<8> x) { x = x + 1; hdr.h.b = hdr.h.a; }", "act(hdr.h.a);", (2, 1)),
        ("action act(in bit<8> x) { hdr.h.a = 7; hdr.h.b = x; }", "act(hdr.h.a);", (7, 1)),
        ("action act(in pair_t x) { hdr.p.x = 7; hdr.h.b = x.x; }", "act(hdr.p);", (1, 9)),
        ("action act(inout pair_t x) { hdr.p.x = 7; x.y = 8; }", "act(hdr.p); hdr.h.a = hdr.p.x;", (9, 2)),
        ("action act(out bit<8> x) { x = 5; return; }", "act(hdr.h.a);", (5, 2)),
        ("action act(inout bit<8> x) { x = 5; if (hdr.h.b == 2) { return; } x = 6; }", "act(hdr.h.a);", (5, 2)),
        ("action act(inout bit<8> x) { x = 5; exit; }", "act(hdr.h.a); hdr.h.b = 9;", (5, 2)),
        ("action act(inout bit<8> x) { x = 5; if (x == 5) { exit; } x = 6; }", "act(hdr.h.a); hdr.h.b = 9;", (5, 2)),
    ],
)
def test_actions(action: str, call: str, expected: tuple[int, ...]) -> None:
    assert tuple(result(call, local=action)[:2]) == expected


@pytest.mark.parametrize(
    ("control", "call", "expected"),
    [
        ("control C(inout bit<8> x, in bit<8> y) { apply { x = 7; x = x + y; } }",
         "c.apply(hdr.h.a, hdr.h.a);", (8, 2)),
        ("control C(inout bit<8> x, in bit<8> y) { apply { x = 7; x = x + y; } }",
         "c.apply(hdr.h.a, hdr.h.b);", (9, 2)),
        ("control C(inout pair_t x, in bit<8> y) { apply { x.x = 7; x.y = y; } }",
         "c.apply(hdr.p, hdr.p.x); hdr.h.a = hdr.p.y;", (9, 2)),
        ("control C(out pair_t x, out bit<8> y) { apply { y = x.isValid() ? 8w1 : 8w0; } }",
         "c.apply(hdr.p, hdr.h.a); hdr.p.setValid(); hdr.p = {9, 10};", (0, 2)),
        ("control C(inout bit<8> x, in bit<8> y) { apply { x = y; if (x == 2) { return; } x = 9; } }",
         "c.apply(hdr.h.a, hdr.h.b); c.apply(hdr.h.b, hdr.h.c);", (2, 9)),
        ("control C(inout bit<8> x, in bit<8> y) { bit<8> n = 0; apply { n = n + y; x = n; } }",
         "c.apply(hdr.h.a, 3); c.apply(hdr.h.b, 4);", (3, 4)),  # its variables are set again at each apply()
    ],
)  # fmt: skip
def test_controls(control: str, call: str, expected: tuple[int, ...]) -> None:
    assert tuple(result(call, local="C() c;", controls=control)[:2]) == expected


def test_the_element_that_an_index_names_at_the_call_is_written_after_it() -> None:
    code = "meta.i = 1; move(hdr.s[meta.i].x, meta.i);"
    declarations = "void move(inout bit<8> x, inout bit<2> i) { i = 2; x = 99; }"
    assert result(code, declarations=declarations)[10:] == bytes((11, 12, 99, 14, 15, 16))


def test_the_element_that_an_extern_function_writes_is_known_before_its_other_arguments() -> None:
    declarations = "bit<8> step(inout bit<2> i) { i = i + 1; return 77; }"
    code = "meta.i = 0; random(hdr.s[meta.i].x, step(meta.i), 77);"
    assert result(code, declarations=declarations)[10:] == bytes((77, 12, 13, 14, 15, 16))


def test_the_index_of_an_assignment_is_evaluated_before_its_value() -> None:
    declarations = "bit<8> next(inout bit<2> i) { i = i + 1; return 99; }"
    assert result("meta.i = 0; hdr.s[meta.i].x = next(meta.i);", declarations=declarations)[10] == 99


def test_the_stack_is_written_whatever_its_index_calls() -> None:
    declarations = "bit<2> zero(inout bit<8> x) { x = 50; return 0; }"
    out = result("hdr.s[zero(hdr.s[1].x)].y = 99;", declarations=declarations)
    assert out[10:] == bytes((11, 99, 50, 14, 15, 16))


def test_named_arguments_are_evaluated_as_they_are_written() -> None:
    declarations = f"{BUMP} bit<8> f(in bit<8> x, in bit<8> y) {{ return x * 10 + y; }}"
    assert tuple(result("hdr.h.a = f(y = bump(hdr.h.b), x = hdr.h.b);", declarations=declarations)[:2]) == (33, 3)
    declarations = "void f(out bit<8> x, out bit<8> y) { x = 5; y = 6; }"
    assert result("f(y = hdr.h.a, x = hdr.h.a);", declarations=declarations)[0] == 5


def test_keys_are_evaluated_from_left_to_right() -> None:
    table = """
    action act() { hdr.h.b = 77; }
    table t {
        key = { hdr.h.a: exact; bump(hdr.h.a): exact @name("second"); }
        actions = { act; NoAction; }
        const entries = { (1, 2): act(); }
    }
    """
    assert tuple(result("t.apply();", local=table, declarations=BUMP)[:2]) == (2, 77)


def test_a_table_of_a_control_that_is_applied_twice_sees_the_same_arguments() -> None:
    control = """
    control C(inout bit<8> x) {
        action act() { x = x + 1; }
        table t { actions = { act; } default_action = act(); }
        apply { t.apply(); }
    }
    """
    same = "if (hdr.h.b == 2) { c.apply(hdr.h.a); } else { c.apply(hdr.h.a); }"
    assert result(same, local="C() c;", controls=control)[0] == 2
    other = "if (hdr.h.a == 2) { c.apply(hdr.h.a); } else { c.apply(hdr.h.b); }"
    with pytest.raises(p4compiler.P4Error, match="its actions use parameter 'x' of their control, which has different"):
        p4compiler.compile_text(around(other, local="C() c;", controls=control))


def test_a_copy_of_standard_metadata_does_not_drop() -> None:
    control = "control C(in standard_metadata_t s) { apply { standard_metadata_t t = s; mark_to_drop(t); } }"
    assert result("c.apply(std);", local="C() c;", controls=control) == bytes(range(1, 17))


def test_exit_in_a_table_action_ends_the_action_and_the_pipeline() -> None:
    table = """
    action act() { hdr.h.a = 5; if (hdr.h.b == 2) { exit; } hdr.h.c = 6; }
    table t { actions = { act; } default_action = act(); }
    """
    assert tuple(result("t.apply(); hdr.h.d = 7;", local=table)[:4]) == (5, 2, 3, 4)


def test_a_function_header_argument_that_is_out_begins_invalid() -> None:
    declarations = "header z_t { bit<8> x; bit<8> y; } bit<8> f(out z_t z) { return z.isValid() ? 8w1 : 8w2; }"
    assert result("z_t z; z.setValid(); hdr.h.a = f(z);", declarations=declarations)[0] == 2
