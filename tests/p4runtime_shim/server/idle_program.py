"""A program with idle timeouts, compiled from P4: a table by destination, one with priorities, one without timeouts."""

from __future__ import annotations

from functools import cache

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
    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table by_a { key = { h.h.a: exact; } actions = { send; drop; } default_action = drop(); support_timeout = true; }
    table by_b { key = { h.h.b: ternary; } actions = { NoAction; } support_timeout = true; }
    table plain { key = { h.h.b: exact; } actions = { NoAction; } }
    apply { by_a.apply(); by_b.apply(); plain.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out packet, in headers h) { apply { packet.emit(h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"""


@cache
def compiled() -> p4compiler.Compiled:
    """The program and its P4Info."""
    return p4compiler.compile_text(TEXT)


@cache
def p4info() -> p4i.P4Info:
    """Its P4Info, which no test changes."""
    return text_format.Parse(compiled().p4info, p4i.P4Info())


def ids() -> dict[str, int]:
    """Ids of tables and actions by name."""
    return {item.preamble.name: item.preamble.id for item in (*p4info().tables, *p4info().actions)}
