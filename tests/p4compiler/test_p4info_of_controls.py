"""P4Info as p4c writes it, where the programs whose P4Info is committed do not show it."""

from __future__ import annotations

from finsy.proto import p4i
from google.protobuf import text_format

import p4compiler
from tests.p4compiler.compiled import around


def p4info(code: str, *, local: str = "", controls: str = "", declarations: str = "") -> p4i.P4Info:
    text = around(code, local=local, controls=controls, declarations=declarations)
    return text_format.Parse(p4compiler.compile_text(text).p4info, p4i.P4Info())


def test_what_is_in_other_controls_follows_where_their_instances_stand() -> None:
    """Instances of ``C.apply()`` come after all that is declared, in the order of their first calls."""
    inner = """
        control {name}(inout bytes_t h) {{
            action {name}_a() {{ h.a = 1; }}
            table {name}_t {{ key = {{ h.b: exact; }} actions = {{ {name}_a; NoAction; }} }}
            apply {{ {body} {name}_t.apply(); }}
        }}
    """
    controls = "".join(
        inner.format(name=name, body=body)
        for name, body in (("Deep", ""), ("First", ""), ("Second", "Deep.apply(h);"), ("Third", ""))
    )
    local = """
        Third() third;
        action own_a() { hdr.h.c = 1; }
        table own_t { key = { hdr.h.c: exact; } actions = { own_a; } }
    """
    found = p4info("if (hdr.h.a == 0) { Second.apply(hdr.h); } First.apply(hdr.h); third.apply(hdr.h); own_t.apply();",
                   local=local, controls=controls)  # fmt: skip
    tables = [item.preamble.name for item in found.tables]
    assert tables == ["I.third.Third_t", "I.own_t", "I.Second.Second_t", "I.Second.Deep.Deep_t", "I.First.First_t"]
    actions = [item.preamble.name for item in found.actions]
    assert actions == [
        "NoAction", "I.third.Third_a", "I.own_a", "I.Second.Second_a", "I.Second.Deep.Deep_a", "I.First.First_a"
    ]  # fmt: skip


def test_a_control_that_is_applied_twice_has_one_instance_of_what_it_applies() -> None:
    controls = """
        control Inner(inout bytes_t h) {
            register<bit<8>>(4) cells;
            apply { bit<8> old; cells.read(old, 0); cells.write(0, old + 1); h.a = old; }
        }
        control Outer(inout bytes_t h) { apply { Inner.apply(h); } }
    """
    found = p4info("outer.apply(hdr.h); outer.apply(hdr.h);", local="Outer() outer;", controls=controls)
    assert [item.preamble.name for item in found.registers] == ["I.outer.Inner.cells"]


def test_a_property_that_makes_a_counter_names_it() -> None:
    local = """
        table t {
            key = { hdr.h.a: exact; }
            actions = { NoAction; }
            @name("mine") counters = direct_counter(CounterType.packets);
            meters = direct_meter<bit<2>>(MeterType.bytes);
        }
    """
    found = p4info("t.apply();", local=local)
    assert [item.preamble.name for item in found.direct_counters] == ["mine"]
    assert [item.preamble.name for item in found.direct_meters] == ["I.t.direct_meter"]


def test_annotations_have_a_space_between_all_tokens() -> None:
    local = """
        table t {
            key = { hdr.h.a: exact @name("a") @plain @empty() @of(@field(X), Y, 1..2) @text("with space"); }
            actions = { NoAction; }
        }
    """
    found = p4info("t.apply();", local=local)
    assert [*found.tables[0].match_fields[0].annotations] == [
        "@plain", "@empty", "@of(@ field ( X ) , Y , 1 .. 2)", '@text("with space")'
    ]  # fmt: skip
