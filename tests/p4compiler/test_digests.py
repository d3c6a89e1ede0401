"""Digests: what a control plane gets, and under which name."""

from __future__ import annotations

import json

import p4compiler
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4compiler.compiled import around


def digests(code: str, *, local: str = "", declarations: str = "") -> list[tuple[str, tuple[int, ...]]]:
    """The names and values of the digests of the frame of bytes 1 to 16."""
    text = around(code, local=local, declarations=declarations)
    with EmbeddedSwitch(Pipeline.load(p4compiler.compile_text(text).json), ports=(1, 2), seed=1) as switch:
        switch.receive(1, bytes(range(1, 17)), 0)
        switch.transmit(1, 0)
        return [(item.name, item.values) for item in switch.control_plane.take_digests()]


def test_calls_for_one_struct_are_one_digest() -> None:
    for first, values in ((1, (1, 2)), (2, (3, 7))):
        code = f"""
        if (hdr.h.a == {first}) {{ digest<pair_s>(1, {{ hdr.h.a, hdr.h.b }}); }}
        else {{ meta.pair = {{ hdr.h.c, 7 }}; digest(1, meta.pair); meta.pair.x = 9; }}
        """
        assert digests(code) == [("pair_s", values)]


def test_an_action_of_two_tables_has_one_digest() -> None:
    local = """
    action learn(bit<8> x) { digest<pair_s>(1, { hdr.h.a, x }); }
    table t { actions = { learn; } default_action = learn(5); }
    table u { actions = { learn; } default_action = learn(6); }
    """
    assert digests("if (hdr.h.a == 2) { t.apply(); } else { u.apply(); }", local=local) == [("pair_s", (1, 6))]


def test_each_call_with_a_tuple_is_a_digest() -> None:
    code = "if (hdr.h.a == 2) { digest(1, { hdr.h.a }); } else { digest(1, { hdr.h.b, 8w3 }); }"
    assert digests(code) == [("digest_1", (2, 3))]


def test_instances_of_a_generic_struct_are_digests_of_their_own() -> None:
    code = "digest<box<bit<16>>>(1, { hdr.h.e }); digest<box<bit<8>>>(1, { hdr.h.a });"
    text = around(code, declarations="struct box<T> { T x; }")
    lists = json.loads(p4compiler.compile_text(text).json)["learn_lists"]
    assert [item["name"] for item in lists] == ["box", "box_0"]
