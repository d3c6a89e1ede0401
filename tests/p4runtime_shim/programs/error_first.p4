/* An error declared before core.p4's: p4c numbers it 0, and NoError 1. Packets say how they were parsed in their first byte. */
error { Mine }
#include <core.p4>
#include <v1model.p4>

header b_t { bit<8> v; bit<8> w; }
struct headers_t { b_t b; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.b);
        verify(h.b.w != 9, error.Mine);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (s.parser_error == error.NoError) {
            h.b.v = 0xaa;
        } else if (s.parser_error == error.Mine) {
            h.b.v = 0xbb;
        } else {
            h.b.v = 0xcc;
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.b); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
