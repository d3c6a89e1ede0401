"""A program that brings entries along, const and not, compiled from P4."""

from __future__ import annotations

from finsy.proto import p4i
from google.protobuf import text_format

import p4compiler

TEXT = """
#include <core.p4>
#include <v1model.p4>
header bytes_t { bit<8> a; bit<8> b; }
struct headers { bytes_t h; }
struct metadata { }
parser P(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { packet.extract(h.h); transition accept; }
}
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets) const_hits;
    direct_counter(CounterType.packets) initial_hits;
    direct_counter(CounterType.packets) plain_hits;
    action send(bit<9> port) { s.egress_spec = port; }
    table const_ {
        key = { h.h.a : exact; }
        actions = { send; }
        const entries = { 1 : send(1); 2 : send(2); }
        counters = const_hits;
        support_timeout = true;
    }
    table initial {
        key = { h.h.a : ternary; }
        actions = { send; }
        entries = { 1 : send(1); 2 : send(2); }
        counters = initial_hits;
    }
    table plain { key = { h.h.a : exact; } actions = { send; } counters = plain_hits; }
    apply { const_.apply(); initial.apply(); plain.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out packet, in headers h) { apply { packet.emit(h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"""


def compiled(old: str = "", new: str = "") -> tuple[bytes, p4i.P4Info]:
    """JSON and P4Info of the program, with something in it replaced."""
    assert old in TEXT
    found = p4compiler.compile_text(TEXT.replace(old, new) if old else TEXT)
    return found.json.encode(), text_format.Parse(found.p4info, p4i.P4Info())
