"""Programs compiled once, and small ones around a piece of code, on the embedded switch."""

from __future__ import annotations

import functools
from pathlib import Path

import p4compiler
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs

SOURCES: dict[str, Path] = {name: programs.FOLDER / f"{name}.p4" for name in programs.NAMES}
SOURCES["fabric"] = programs.FABRIC.parents[1] / "fabric.p4"

_FRAME = """
#include <core.p4>
#include <v1model.p4>

{declarations}

header bytes_t {{ bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<16> e; bit<16> f; }}
header pair_t {{ bit<8> x; bit<8> y; }}
struct headers_t {{ bytes_t h; pair_t p; pair_t q; pair_t[3] s; }}
struct metadata_t {{ bit<8> m; bit<8> n; bit<2> i; pair_s pair; }}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
    state start {{
        packet.extract(hdr.h);
        packet.extract(hdr.p);
        packet.extract(hdr.s.next);
        packet.extract(hdr.s.next);
        packet.extract(hdr.s.next);
        transition accept;
    }}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
{controls}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
    {locals}
    apply {{
        std.egress_spec = 1;
        {code}
    }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{ apply {{ }} }}
control U(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{
    apply {{ packet.emit(hdr.h); packet.emit(hdr.p); packet.emit(hdr.q); packet.emit(hdr.s); }}
}}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"""
HEADER = ("a", "b", "c", "d", "e", "f")


@functools.cache
def compiled(name: str) -> p4compiler.Compiled:
    """A test program, or the fabric's, compiled."""
    return p4compiler.compile(SOURCES[name])


@functools.cache
def pipeline(name: str) -> Pipeline:
    """The compiled program, loaded."""
    return Pipeline.load(compiled(name).json)


def around(code: str, *, local: str = "", controls: str = "", declarations: str = "") -> str:
    """A whole program whose ingress runs `code` on headers h (8 bytes), p (2), s (3 of 2), and an invalid q (2)."""
    declarations = f"struct pair_s {{ bit<8> x; bit<8> y; }}\n{declarations}"
    return _FRAME.format(code=code, locals=local, controls=controls, declarations=declarations)


def run(text: str, frame: bytes) -> bytes | None:
    """What a program makes of a frame; None if it is dropped."""
    loaded = Pipeline.load(p4compiler.compile_text(text).json)
    with EmbeddedSwitch(loaded, ports=(1, 2), seed=1) as switch:
        switch.receive(1, frame, 0)
        out = [switch.transmit(port, 0) for port in switch.ready()]
    return out[0] if out else None


def result(code: str, *, local: str = "", controls: str = "", declarations: str = "", frame: bytes = b"") -> bytes:
    """The 16 bytes (8 of h, 2 of p, 6 of s) that leave after `code`, if the headers stay as they are."""
    frame = frame or bytes(range(1, 17))
    text = around(code, local=local, controls=controls, declarations=declarations)
    out = run(text, frame)
    assert out is not None
    return out
