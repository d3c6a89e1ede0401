"""Small programs whose meaning P4 fixes and BMv2 does not: shifts, equality of headers, signed ranges, returns.

The frame is that of :mod:`tests.p4compiler.test_copies`: h.a to h.d are 1 to 4, h.e is 0x0506, p is 9, 10.
"""

from __future__ import annotations

import json

import pytest

import p4compiler
from tests.p4compiler.compiled import around, result, run


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # BMv2 shifts by the distance modulo 2^32
        ("hdr.h.a = hdr.h.b << hdr.h.e;", (0, 2)),
        ("hdr.h.e = hdr.h.e - 0x0503; hdr.h.a = hdr.h.b << hdr.h.e;", (16, 2)),
        ("bit<64> n = 0x100000001; hdr.h.a = hdr.h.b << n; hdr.h.b = hdr.h.b >> n;", (0, 0)),
        ("bit<64> n = 0x100000001; int<8> s = -2; hdr.h.a = (bit<8>) (s >> n);", (255, 2)),
        ("int<8> s = -2; hdr.h.a = (bit<8>) (s >> 0x100000001); hdr.h.b = hdr.h.b >> 0x100000001;", (255, 0)),
        # to BMv2 no invalid header is equal to another
        ("hdr.p.setInvalid(); hdr.h.a = hdr.p == hdr.q ? 8w7 : 8; hdr.h.b = hdr.p != hdr.q ? 8w7 : 8;", (7, 8)),
        ("hdr.h.a = hdr.p == hdr.q ? 8w7 : 8; hdr.q = hdr.p; hdr.h.b = hdr.p == hdr.q ? 8w7 : 8;", (8, 7)),
        ("hdr.h.a += 4; hdr.h.b <<= 2;", (5, 8)),
        ('for (@name("i") bit<8> i in 1..3) { hdr.h.a = hdr.h.a + i; }', (7, 2)),
        ('for (@name("i") bit<8> i = 1; i <= 3; i = i + 1) { hdr.h.a = hdr.h.a + i; }', (7, 2)),
    ],
)
def test_expressions(code: str, expected: tuple[int, ...]) -> None:
    assert tuple(result(code)[:2]) == expected


@pytest.mark.parametrize(("bounds", "first", "taken"), [("-5..5", 1, 7), ("-5..5", 8, 8), ("-5..-1", 1, 7)])
def test_ranges_of_signed_numbers_in_select(bounds: str, first: int, taken: int) -> None:
    declarations = f"""
    parser Sub(in bit<8> x, out bit<8> y) {{
        state start {{ y = 8; transition select((int<8>) x - 2) {{ {bounds}: inside; default: accept; }} }}
        state inside {{ y = 7; transition accept; }}
    }}
    """
    text = around("hdr.h.a = meta.m;", declarations=declarations)
    text = text.replace("state start {\n        packet.extract(hdr.h);", "Sub() sub;\n    state start {\n"
                        "        packet.extract(hdr.h); sub.apply(hdr.h.a, meta.m);")  # fmt: skip
    assert "sub.apply" in text
    out = run(text, bytes((first, *range(2, 17))))
    assert out is not None
    assert out[0] == taken


def test_a_range_of_negative_numbers_is_an_entry() -> None:
    table = """
    table t {
        key = { (int<8>) hdr.h.a - 2: range @name("k"); }
        actions = { act; }
        const entries = { -5..-1: act(3); }
        default_action = act(4);
    }
    """
    assert result("t.apply();", local=f"action act(bit<8> v) {{ hdr.h.b = v; }} {table}")[1] == 3


def test_signed_numbers_from_registers_and_lookahead_are_brought_to_their_sign() -> None:
    code = "r.write(0, -2); int<8> v; r.read(v, 0); hdr.h.a = v < 0 ? 8w7 : 8;"
    text = around(code, local="register<int<8>>(1) r;")
    text = text.replace("transition accept", "meta.m = (bit<8>) packet.lookahead<int<8>>(); transition accept", 1)
    loaded = json.loads(p4compiler.compile_text(text).json)
    signed = {name for kind in loaded["header_types"] for name, width, is_signed in kind["fields"] if is_signed}
    assert len(signed) == 2
    steps = [step for action in loaded["actions"] for step in action["primitives"]]
    steps += [op for parser in loaded["parsers"] for state in parser["parse_states"] for op in state["parser_ops"]]
    written = {step["parameters"][0]["value"][1]: step for step in steps if step["op"] in ("assign", "set")}
    for name in signed:
        assert written[name]["parameters"][1]["value"]["value"]["op"] == "two_comp_mod"
    assert not [step for step in steps if step["op"] == "register_read" and step["parameters"][0]["value"][1] in signed]
    out = run(text, bytes(range(1, 18)))
    assert out is not None
    assert out[0] == 7


@pytest.mark.parametrize("control", ["control U(", "control D("])
def test_a_return_before_checksums_or_headers_is_refused(control: str) -> None:
    before, marker, after = around("").partition(control)
    text = before + marker + after.replace("apply {", "apply { if (hdr.h.a == 1) { return; }", 1)
    with pytest.raises(p4compiler.P4Error, match="'return' in a control of checksums or a deparser is not supported"):
        p4compiler.compile_text(text)


def test_a_name_of_a_generic_type_with_its_arguments_is_a_type() -> None:
    declarations = "struct two<T> { T x; T y; } typedef two<bit<8>> bytes_two;"
    assert result("bytes_two v = { 5, 6 }; hdr.h.a = v.y;", declarations=declarations)[0] == 6


_TWO_TABLES = """
action set(bit<8> v) { hdr.h.a = v; }
table t { key = { hdr.h.b: exact; } actions = { set; NoAction; } const entries = { 2: set(7); } }
table u { key = { hdr.h.c: exact; } actions = { set; NoAction; } const entries = { 2: set(6); } }
"""


@pytest.mark.parametrize(
    "code",
    [
        "bool x = t.apply().hit; bool y = !u.apply().miss; hdr.h.c = x && !y ? 8w9 : 8;",
        "tuple<bool, bool> x = { t.apply().hit, u.apply().hit }; hdr.h.c = x == { true, false } ? 8w9 : 8;",
        "two_t x = { t.apply().hit, u.apply().hit }; hdr.h.c = x == { true, false } ? 8w9 : 8;",
        "two_t x; x = { y = !t.apply().hit, x = u.apply().miss }; hdr.h.c = x == { true, false } ? 8w9 : 8;",
        'log_msg("{}", { t.apply().hit }); if (u.apply().miss) { hdr.h.c = 9; }',
        "hash(hdr.h.e, HashAlgorithm.crc16, 16w0, { t.apply().hit, u.apply().hit }, 16w1); hdr.h.c = 9;",
        "digest<two_t>(1, { t.apply().hit, u.apply().hit }); hdr.h.c = 9;",
        "hdr.h.c = one(t.apply().hit, u.apply().hit);",
        "switch (t.apply().hit) { true: { if (u.apply().hit) { } else { hdr.h.c = 9; } } }",
    ],
)
def test_the_result_of_a_table_is_a_boolean_like_others(code: str) -> None:
    declarations = "struct two_t { bool x; bool y; } bit<8> one(in bool x, in bool y) { return x && !y ? 8w9 : 8; }"
    assert tuple(result(code, local=_TWO_TABLES, declarations=declarations)[:3]) == (7, 2, 9)


@pytest.mark.parametrize(
    "condition",
    [
        "t == { 8w1, 16w2 }",
        "{ 8w1, 16w2 } == t",
        "t == { 1, 2 }",
        "!(t != { hdr.h.a, 16w2 })",
        "{ hdr.h.a, hdr.h.b } == { 8w1, 8w2 }",
        "hdr.p == { 9, 10 }",
        "hdr.p != { 9, 11 }",
        "t != { 8w1, 16w3 }",
    ],
)
def test_a_list_is_compared_with_a_tuple_and_a_header(condition: str) -> None:
    code = f"tuple<bit<8>, bit<16>> t = {{ 1, 2 }}; hdr.h.c = {condition} ? (bit<8>) t[1] : 7;"
    assert result(code)[2] == 2


_ODD = "header odd_t { bit<3> x; bit<9> y; }"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("odd_t z; z.setValid(); z.x = 7; z.y = 300; hdr.h.a = (bit<8>) z.x; hdr.h.b = z.y[8:1];", (7, 150)),
        ("odd_t z = { 1, 2 }; odd_t w = z; hdr.h.a = w == z ? 8w7 : 8; hdr.h.b = (bit<8>) w.y;", (7, 2)),
        ("odd_t[2] z; z[1] = { 1, 9 }; meta.i = 1; hdr.h.a = z[meta.i].isValid() ? z[meta.i].y[7:0] : 0;"
         " meta.i = 0; hdr.h.b = z[meta.i].isValid() ? 8w1 : 0;", (9, 0)),
    ],
)  # fmt: skip
def test_a_header_that_is_no_part_of_packets_has_any_width(code: str, expected: tuple[int, ...]) -> None:
    assert tuple(result(code, declarations=_ODD)[:2]) == expected


@pytest.mark.parametrize("call", ["odd_t z; packet.extract(z)", "packet.emit(hdr.z)"])
def test_a_header_of_packets_has_whole_bytes(call: str) -> None:
    text = around("", declarations=_ODD).replace("pair_t[3] s;", "pair_t[3] s; odd_t z;")
    before = "packet.extract(hdr.h);" if "extract" in call else "packet.emit(hdr.h);"
    with pytest.raises(p4compiler.P4Error, match="header odd_t has 12 bits; this target parses and emits whole bytes"):
        p4compiler.compile_text(text.replace(before, f"{before} {call};"))


@pytest.mark.parametrize(
    "code",
    [
        "port_t p = 7; hdr.h.a = (bit<8>) p;",
        "port_t p; p = 7; hdr.h.a = (bit<8>) p;",
        "const port_t p = 7; port_t q = p; hdr.h.a = (bit<8>) q;",
        "box_t b = { 7 }; hdr.h.a = (bit<8>) b.port;",
        "hdr.h.a = number(7);",
        "port_t p = (port_t) hdr.h.b; switch (p) { 1: { hdr.h.a = 8; } 2: { hdr.h.a = 7; } }",
    ],
)
def test_a_number_without_width_is_of_a_new_type_where_that_is_wanted(code: str) -> None:
    declarations = "type bit<8> port_t; struct box_t { port_t port; } bit<8> number(in port_t p) { return (bit<8>) p; }"
    assert result(code, declarations=declarations)[0] == 7


@pytest.mark.parametrize(
    ("fields", "sum_"),
    [
        ("hdr.h.a ++ hdr.h.b, 8w0 ++ hdr.h.d", 0x0102 + 0x0004),
        ("(bit<16>) hdr.h.a, (bit<32>) (hdr.h.b ++ hdr.h.c)", 0x0001 + 0x0000 + 0x0203),
        ("{ hdr.h.a, hdr.h.b }, hdr.h.f, 16w7", 0x0102 + 0x0708 + 0x0007),
        ("hdr.p, (bit<16>) hdr.h.f", 0x090A + 0x0708),
    ],
)
def test_a_checksum_is_over_bits(fields: str, sum_: int) -> None:
    call = f"update_checksum(true, {{ {fields} }}, hdr.h.e, HashAlgorithm.csum16);"
    before, start, after = around("").partition("control U(")
    out = run(before + start + after.replace("apply { }", f"apply {{ {call} }}", 1), bytes(range(1, 17)))
    assert out is not None
    assert int.from_bytes(out[4:6], "big") == 0xFFFF - sum_


def test_a_stack_is_looked_ahead() -> None:
    declarations = "header two_t { bit<8> x; bit<8> y; } struct ahead_t { two_t[2] s; bit<8> z; }"
    text = around("hdr.h.a = meta.m; hdr.h.b = meta.n;", declarations=declarations)
    code = "packet.extract(hdr.h); ahead_t a = packet.lookahead<ahead_t>(); meta.m = a.s[1].x; meta.n = a.z;"
    out = run(text.replace("packet.extract(hdr.h);", code, 1), bytes(range(1, 17)))
    assert out is not None
    assert tuple(out[:2]) == (11, 13)


def test_the_last_index_of_a_stack_of_unions() -> None:
    """The second union is the last one when it is asked, so a third header follows."""
    text = """
        #include <core.p4>
        #include <v1model.p4>
        header a_t { bit<8> x; }
        header b_t { bit<8> y; }
        header_union u_t { a_t a; b_t b; }
        struct h_t { u_t[3] u; a_t tail; }
        struct m_t { }
        parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {
            state start { p.extract(h.u.next.a); transition more; }
            state more {
                p.extract(h.u.next.b);
                transition select(h.u.lastIndex) { 1: third; default: accept; }
            }
            state third { p.extract(h.tail); transition accept; }
        }
        control V(inout h_t h, inout m_t m) { apply { } }
        control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {
            apply { s.egress_spec = 1; if (h.tail.isValid()) { h.tail.x = 77; } }
        }
        control E(inout h_t h, inout m_t m, inout standard_metadata_t s) { apply { } }
        control D(packet_out p, in h_t h) { apply { p.emit(h.u); p.emit(h.tail); } }
        V1Switch(P(), V(), I(), E(), V(), D()) main;
    """
    frame = bytes(range(1, 21))
    assert run(text, frame) == frame[:2] + bytes([77]) + frame[3:]
