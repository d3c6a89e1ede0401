"""A program that selects on parser value sets, compiled from P4: one of plain numbers, one with every kind of match."""

from __future__ import annotations

from functools import cache

import p4compiler
from p4runtime_shim.pipeline import Pipeline

TEXT = """
#include <core.p4>
#include <v1model.p4>
header key_t { bit<8> e; bit<12> t; bit<70> l; bit<65> r; bit<5> o; }
header type_t { bit<16> number; }
struct headers { type_t type; key_t key; }
struct metadata { bit<9> port; }
struct member_t {
    bit<8> e;
    @match(ternary) bit<12> t;
    @match(lpm) bit<70> l;
    @match(range) bit<65> r;
    @match(optional) bit<5> o;
}
parser P(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {
    value_set<member_t>(60) kinds;
    value_set<bit<16>>(4) types;
    state start {
        packet.extract(h.type);
        packet.extract(h.key);
        m.port = 1;
        transition select(h.key.e, h.key.t, h.key.l, h.key.r, h.key.o) {
            (7, _, _, _, _): first;
            kinds: member;
            default: other;
        }
    }
    state first { m.port = 3; transition accept; }
    state member { m.port = 2; transition accept; }
    state other { transition select(h.type.number) { types: typed; default: accept; } }
    state typed { m.port = 4; transition accept; }
}
control I(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { s.egress_spec = m.port; } }
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out packet, in headers h) { apply { packet.emit(h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"""
WIDTHS = (8, 12, 70, 65, 5)
FIRST, MEMBER, TYPED, NONE = 3, 2, 4, 1  # the ports of packets


@cache
def compiled() -> p4compiler.Compiled:
    """The program and its P4Info."""
    return p4compiler.compile_text(TEXT)


@cache
def pipeline() -> Pipeline:
    """The loaded program."""
    return Pipeline.load(compiled().json)


def frame(values: tuple[int, ...], number: int = 0) -> bytes:
    """A packet with these values of the key."""
    bits = 0
    for width, value in zip(WIDTHS, values, strict=True):
        bits = bits << width | value
    return number.to_bytes(2, "big") + bits.to_bytes(sum(WIDTHS) // 8, "big")
