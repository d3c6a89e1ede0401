/* Header stacks: source routing (parse until the bottom, pop the first), and a record that every switch pushes. */
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> count; }
header hop_t { bit<1> bottom; bit<6> reserved; bit<9> port; }
header record_t { bit<16> device; bit<32> depth; }
struct headers_t { kind_t kind; hop_t[4] hops; record_t[3] records; }
struct meta_t { bit<8> left; }

error { RecordLost }

parser StackParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.kind);
        meta.left = hdr.kind.count;
        transition select(hdr.kind.kind) { 1: hop; 2: records; default: accept; }
    }
    state hop {
        packet.extract(hdr.hops.next);
        transition select(hdr.hops.last.bottom) { 1: accept; default: hop; }
    }
    state records {
        transition select(meta.left) { 0: accept; default: record; }
    }
    state record {
        packet.extract(hdr.records.next);
        verify(hdr.records.last.device != 0, error.RecordLost);
        meta.left = meta.left - 1;
        transition records;
    }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action follow() {
        std.egress_spec = hdr.hops[0].port;
        hdr.hops.pop_front(1);
    }
    action note(bit<16> device) {
        hdr.records.push_front(1);
        hdr.records[0].setValid();
        hdr.records[0].device = device;
        hdr.records[0].depth = (bit<32>) hdr.kind.count;
        hdr.kind.count = hdr.kind.count + 1;
        std.egress_spec = 2;
    }
    table self {
        actions = { note; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (std.parser_error == error.StackOutOfBounds) {
            std.egress_spec = 5;
        } else if (std.parser_error == error.RecordLost) {
            std.egress_spec = 6;
        } else if (std.parser_error == error.PacketTooShort) {
            std.egress_spec = 7;
        } else if (hdr.hops[0].isValid()) {
            follow();
        } else if (hdr.kind.kind == 2) {
            self.apply();
        } else {
            mark_to_drop(std);
        }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(StackParser(), Verify(), MyIngress(), MyEgress(), Compute(), Emit()) main;
