/* Arithmetic by request, chosen with lookahead before the header is extracted; saturation, signs, slices, log and assert. */
#include <core.p4>
#include <v1model.p4>

header tag_t { bit<16> magic; }
header operation_t { bit<8> code; bit<32> a; bit<32> b; bit<64> result; }
struct headers_t { tag_t tag; operation_t operation; }
struct meta_t { bit<8> next; bit<12> odd; }

parser CalculatorParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        transition select(packet.lookahead<bit<16>>()) { 0x5034: tagged; default: reject; }
    }
    state tagged {
        packet.extract(hdr.tag);
        meta.next = packet.lookahead<bit<8>>();
        meta.odd = packet.lookahead<bit<12>>();
        transition select(meta.next) {
            0x00 &&& 0xf0: operation;
            0x7f: skip;
            default: accept;
        }
    }
    state skip { packet.advance(32); transition operation; }
    state operation { packet.extract(hdr.operation); transition accept; }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        bit<32> a = hdr.operation.a;
        bit<32> b = hdr.operation.b;
        if (!hdr.operation.isValid()) {
            mark_to_drop(std);
        } else if (hdr.operation.code == 1) {
            hdr.operation.result = (bit<64>) (a + b);
        } else if (hdr.operation.code == 2) {
            hdr.operation.result = (bit<64>) (a |-| b);
        } else if (hdr.operation.code == 3) {
            hdr.operation.result = (bit<64>) a * (bit<64>) b;
        } else if (hdr.operation.code == 4) {
            hdr.operation.result = 32w0 ++ (bit<32>) ((int<32>) a |+| (int<32>) b);
        } else if (hdr.operation.code == 5) {
            hdr.operation.result = (bit<64>) (bit<32>) ((int<32>) a >> (bit<8>) b[4:0]);
        } else if (hdr.operation.code == 6) {
            hdr.operation.result = a[31:8] ++ b[15:0] ++ a[23:0];
        } else if (hdr.operation.code == 7) {
            hdr.operation.result = (int<32>) a < (int<32>) b ? 64w1 : 64w2;
        } else if (hdr.operation.code == 8) {
            log_msg("a = {}, b = {}", {a, b});
        } else if (hdr.operation.code == 9) {
            assert(a != b);
        } else if (hdr.operation.code == 10) {
            hdr.operation.result = (bit<64>) meta.odd;
        } else if (hdr.operation.code == 11) {
            hdr.operation.result[47:16] = a;
        } else {
            hdr.operation.result = 0xdead;
        }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(CalculatorParser(), Verify(), MyIngress(), MyEgress(), Compute(), Emit()) main;
