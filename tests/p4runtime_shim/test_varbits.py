"""Varbit fields on the engine, in programs compiled from P4: headers of any length compared with a plain model."""

from __future__ import annotations

import random
from functools import cache

import pytest

import p4compiler
from p4runtime_shim.errors import InvalidProgram, Unsupported
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import load_program
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim.builder import Builder, call, const, expression, extract, field, header, send_to, wrapped

_TEXT = """
#include <core.p4>
#include <v1model.p4>
header size_t {{ bit<16> one; bit<16> two; bit<8> mode; }}
header options_t {{ {fields} }}
header sum_t {{ bit<16> sum; bit<8> failure; bit<8> equal; }}
struct headers {{ size_t size; options_t one; options_t two; options_t copy; sum_t sum; }}
struct metadata {{ varbit<{bits}> kept; }}
parser P(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {{
    state start {{
        packet.extract(h.size);
        packet.extract(h.one, (bit<32>)h.size.one);
        packet.extract(h.two, (bit<32>)h.size.two);
        transition accept;
    }}
}}
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {{
    apply {{
        s.egress_spec = 1;
        h.sum.setValid();
        h.sum.failure = h.size.isValid() ? 8w0 : 8w1;
        if (s.parser_error == error.PacketTooShort) {{ h.sum.failure = 1; }}
        if (s.parser_error == error.HeaderTooShort) {{ h.sum.failure = 4; }}
        if (s.parser_error == error.ParserInvalidArgument) {{ h.sum.failure = 6; }}
        if (h.one.options == h.two.options) {{ h.sum.equal = 1; }}
        if (h.one == h.two) {{ h.sum.equal = h.sum.equal + 2; }}
        if (h.size.mode == 1) {{ h.copy = h.one; }}
        if (h.size.mode == 2) {{
            m.kept = h.one.options;
            h.one.options = h.two.options;
            h.two.options = m.kept;
        }}
        if (h.size.mode == 3) {{ h.one.setInvalid(); h.one.setValid(); }}
        if (h.size.mode == 4) {{ h.two.setInvalid(); }}
        if (h.size.mode == 5) {{ h.one.options = m.kept; }}
    }}
}}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) {{ apply {{ }} }}
control V(inout headers h, inout metadata m) {{ apply {{ }} }}
control U(inout headers h, inout metadata m) {{
    apply {{
        update_checksum(
            h.two.isValid(), {{ h.two.before, h.two.options, h.two.after }}, h.sum.sum, HashAlgorithm.csum16);
    }}
}}
control D(packet_out packet, in headers h) {{
    apply {{ packet.emit(h.sum); packet.emit(h.one); packet.emit(h.two); packet.emit(h.copy); }}
}}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"""
MOST = 40  # bytes of a field
# Widths before and behind the field: at a byte, and within one.
SHAPES = [(16, 8), (4, 4), (13, 35)]


def compiled(before: int, after: int) -> str:
    """The program with so many bits before and behind the varbit fields, as JSON."""
    fields = f"bit<{before}> before; varbit<{8 * MOST}> options; bit<{after}> after;"
    return p4compiler.compile_text(_TEXT.format(fields=fields, bits=8 * MOST)).json


@cache
def pipeline(before: int, after: int) -> Pipeline:
    """It, loaded."""
    return Pipeline.load(compiled(before, after))


class Options:
    """The model of one header: the fields around, and the bytes of the varbit one."""

    def __init__(self, shape: tuple[int, int], before: int, options: bytes, after: int) -> None:
        self.shape, self.before, self.options, self.after = shape, before, options, after

    def wire(self) -> bytes:
        before, after = self.shape
        options = int.from_bytes(self.options, "big")
        bits = (self.before << 8 * len(self.options) | options) << after | self.after
        return bits.to_bytes((before + after) // 8 + len(self.options), "big")


def csum16(data: bytes) -> int:
    """RFC 1071."""
    data += bytes(len(data) % 2)
    total = sum(int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def expected(one: Options, two: Options, mode: int, payload: bytes) -> bytes:
    """What leaves for two headers that were parsed."""
    equal = (one.options == two.options) + 2 * (one.wire() == two.wire() and one.options == two.options)
    copy = one.wire() if mode == 1 else b""
    if mode == 2:
        one.options, two.options = two.options, one.options
    if mode == 3:
        one = Options(one.shape, 0, b"", 0)
    if mode == 5:
        one.options = b""
    second = b"" if mode == 4 else two.wire()
    checksum = csum16(second) if second else 0
    return checksum.to_bytes(2, "big") + bytes([0, equal]) + one.wire() + second + copy + payload


def through(switch: EmbeddedSwitch, frame: bytes) -> bytes:
    switch.receive(0, frame, 0)
    out = switch.transmit(1, 0)
    assert out is not None
    return out


def random_options(rng: random.Random, shape: tuple[int, int]) -> Options:
    size = rng.choice([0, 0, 1, 2, 3, 7, 8, 20, MOST - 1, MOST])
    filler = rng.choice([b"\x00", b"\xff", None])
    options = rng.randbytes(size) if filler is None else filler * size
    return Options(shape, rng.getrandbits(shape[0]) & rng.choice([0, -1]), options, rng.choice([0, 1]))


@pytest.mark.parametrize("shape", SHAPES)
def test_headers_of_any_length_do_what_a_model_says(shape: tuple[int, int]) -> None:
    seed = sum(shape)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with EmbeddedSwitch(pipeline(*shape), ports=(0, 1), seed=0) as switch:
        for _ in range(300):
            one, two = random_options(rng, shape), random_options(rng, shape)
            if rng.random() < 0.2:
                two = Options(shape, one.before, one.options, one.after)
            mode, payload = rng.randrange(6), rng.randbytes(rng.randrange(4))
            sizes = (8 * len(one.options)).to_bytes(2, "big") + (8 * len(two.options)).to_bytes(2, "big")
            frame = sizes + bytes([mode]) + one.wire() + two.wire() + payload
            assert through(switch, frame) == expected(one, two, mode, payload)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("bits", "spare", "error"),
    [
        (8 * MOST + 8, 0, 4),
        (8 * MOST + 8, -1, 1),  # the packet's end comes first
        (0xFFF8, 0, 1),
        (16, -1, 1),
        (12, 0, 6),
        (8 * MOST + 1, -1, 6),  # what is no whole byte comes before all
    ],
)
def test_errors_leave_the_rest_in_the_packet(shape: tuple[int, int], bits: int, spare: int, error: int) -> None:
    body = b"\xab" * (sum(shape) // 8 + bits // 8 % 64 + spare)
    with EmbeddedSwitch(pipeline(*shape), ports=(0, 1), seed=0) as switch:
        out = through(switch, bits.to_bytes(2, "big") + bytes(3) + body)
    assert out == bytes([0, 0, error, 3]) + body  # two invalid headers are equal


def test_a_header_with_options_is_as_long_as_them_in_packet_length() -> None:
    """Headers that go take their options' bytes from the packet's length."""
    builder = Builder()
    builder.header_type("h_t", [("n", 8)])
    builder.data["header_types"][-1] |= {"fields": [["n", 8], ["v", "*"]], "max_length": 9}
    builder.header("h", "h_t")
    length = {"op": "extract_VL", "parameters": [{"type": "regular", "value": "h"}, wrapped(const(24))]}
    builder.state("start", [length])
    builder.emit("h")
    keep = call("assign", field("standard_metadata", "egress_spec"), field("standard_metadata", "packet_length"))
    builder.run(builder.action("drop_it", [call("remove_header", header("h")), send_to(0)]))
    builder.run(builder.action("show", [keep]), pipeline="ingress")
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=range(16), seed=0) as switch:
        switch.receive(0, bytes(9), 0)
        (port,) = switch.ready()
        assert switch.transmit(port, 0) == bytes(5)


def varbits(**more: object) -> Builder:
    """A program with a varbit field."""
    builder = Builder()
    builder.header_type("h_t", [("n", 8)])
    builder.data["header_types"][-1] |= {"fields": [["n", 8], ["v", "*"]], "max_length": 9} | more
    builder.header("h", "h_t")
    return builder


def _assigned(builder: Builder) -> None:
    builder.action("a", [call("assign", field("h", "v"), const(1))])


def _used(builder: Builder) -> None:
    builder.action("a", [call("assign", field("h", "n"), wrapped(expression("+", field("h", "v"), const(1))))])


def _compared(builder: Builder) -> None:
    tree = expression("b2d", None, expression("==", field("h", "v"), const(1)))
    builder.action("a", [call("assign", field("h", "n"), wrapped(tree))])


def _extracted(builder: Builder) -> None:
    builder.state("start", [extract("h")])


def _key(builder: Builder) -> None:
    builder.table("t", [("exact", field("h", "v"))], [builder.action("a", [])])


def _digest(builder: Builder) -> None:
    builder.data["learn_lists"].append({"id": 1, "name": "d", "elements": [field("h", "v")]})


@pytest.mark.parametrize("change", [_assigned, _used, _compared, _extracted, _key, _digest])
def test_a_varbit_field_is_no_number(change: object) -> None:
    builder = varbits()
    change(builder)  # type: ignore[operator]
    with pytest.raises(Unsupported, match="varbit"):
        load_program(builder.text())


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"fields": [["a", "*"], ["b", "*"]]}, Unsupported),
        ({"length_exp": {}}, Unsupported),
        ({"max_length": 1}, InvalidProgram),
        ({"max_length": 1 << 30}, InvalidProgram),
    ],
)
def test_headers_that_cannot_be_are_refused(more: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        load_program(varbits(**more).text())
