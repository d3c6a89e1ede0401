/* Every way to make or redirect a packet. The first byte says what to do; egress reports what it saw in a trailer header:
 *   1 clone ingress to egress   2 clone egress to egress   3 multicast   4 resubmit   5 recirculate   6 truncate
 *   7 drop in egress            8 exit in ingress          9 resubmit for ever        0 plain
 */
#include <core.p4>
#include <v1model.p4>

header request_t { bit<8> what; bit<8> argument; bit<16> value; }
header report_t {
    bit<8>  instance;
    bit<8>  kept;
    bit<16> rid;
    bit<32> length;
    bit<8>  passes;
    bit<7>  padding;
    bit<9>  ingress_port;
}
struct headers_t { request_t request; report_t report; }
struct meta_t {
    @field_list(1, 2) bit<8> kept;
    @field_list(2)    bit<8> passes;
    bit<8> lost;
}

parser CopiesParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.request); transition accept; }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action leave() { exit; }
    apply {
        std.egress_spec = (bit<9>) hdr.request.argument;
        meta.lost = 77;
        meta.passes = meta.passes + 1;
        if (hdr.request.what == 1) {
            meta.kept = 11;
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            hdr.request.value = 0xaaaa;     // not in the clone
        } else if (hdr.request.what == 3) {
            std.mcast_grp = hdr.request.value;
        } else if (hdr.request.what == 4 && std.instance_type == 0) {
            meta.kept = 44;
            resubmit_preserving_field_list(2);
            hdr.request.value = 0xbbbb;     // undone by the resubmission
        } else if (hdr.request.what == 6) {
            truncate((bit<32>) hdr.request.value);
        } else if (hdr.request.what == 8) {
            leave();
            std.egress_spec = 511;
        } else if (hdr.request.what == 9) {
            resubmit_preserving_field_list(2);
        }
        if (hdr.request.what == 8) {
            mark_to_drop(std);
        }
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.request.what == 2 && std.instance_type == 0) {
            meta.kept = 22;
            hdr.request.value = 0xcccc;     // is in the clone
            clone_preserving_field_list(CloneType.E2E, 6, 1);
        } else if (hdr.request.what == 5 && meta.passes == 1) {
            meta.kept = 55;
            hdr.request.value = 0xdddd;     // stays: the packet goes round as it is deparsed
            recirculate_preserving_field_list(2);
        } else if (hdr.request.what == 7) {
            mark_to_drop(std);
        }
        if (!(hdr.request.what == 5 && meta.passes == 1)) {
            hdr.report.setValid();
            hdr.report.instance = (bit<8>) std.instance_type;
            hdr.report.kept = meta.kept;
            hdr.report.rid = std.egress_rid;
            hdr.report.length = std.packet_length;
            hdr.report.passes = meta.passes;
            hdr.report.padding = 0;
            hdr.report.ingress_port = std.ingress_port;
        }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(CopiesParser(), Verify(), MyIngress(), MyEgress(), Compute(), Emit()) main;
