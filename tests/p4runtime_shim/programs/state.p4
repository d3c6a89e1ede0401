/* Registers, counters, meters, hash, random, digest, and the queue's metadata; the first byte says which. */
#include <core.p4>
#include <v1model.p4>

header request_t { bit<8> what; bit<8> index; bit<48> value; }
header report_t {
    bit<48> enq_timestamp;
    bit<32> deq_timedelta;
    bit<19> enq_qdepth;
    bit<19> deq_qdepth;
    bit<2>  padding;
}
struct headers_t { request_t request; report_t report; }
struct meta_t { bit<2> color; }
struct learned_t { bit<8> index; bit<48> value; bit<9> port; }

parser StateParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.request); transition accept; }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    register<bit<48>>(16) last;
    register<bit<129>>(4) wide;
    counter(8, CounterType.packets_and_bytes) seen;
    meter(4, MeterType.bytes) by_index;
    direct_meter<bit<2>>(MeterType.packets) by_entry;
    direct_counter(CounterType.packets_and_bytes) entries;

    action send(bit<9> port, bit<3> priority) {
        std.egress_spec = port;
        std.priority = priority;
        by_entry.read(meta.color);
    }
    table classes {
        key = { hdr.request.index : exact @name("index"); }
        actions = { send; NoAction; }
        default_action = NoAction();
        meters = by_entry;
        counters = entries;
    }
    apply {
        std.egress_spec = 1;
        if (hdr.request.what == 1) {            // swap with a register
            bit<48> old;
            last.read(old, (bit<32>) hdr.request.index);
            last.write((bit<32>) hdr.request.index, hdr.request.value);
            hdr.request.value = old;
        } else if (hdr.request.what == 2) {
            seen.count((bit<32>) hdr.request.index);
        } else if (hdr.request.what == 3) {
            by_index.execute_meter((bit<32>) hdr.request.index, meta.color);
            hdr.request.value = (bit<48>) meta.color;
        } else if (hdr.request.what == 4) {
            hash(hdr.request.value, HashAlgorithm.crc32, 32w100, { hdr.request.what, hdr.request.index }, 32w1000);
        } else if (hdr.request.what == 5) {
            random(hdr.request.value, 48w10, 48w19);
        } else if (hdr.request.what == 6) {
            digest<learned_t>(1, { hdr.request.index, hdr.request.value, std.ingress_port });
        } else if (hdr.request.what == 7) {     // classify: port, priority and color by entry
            classes.apply();
            hdr.request.value = (bit<48>) meta.color;
        } else if (hdr.request.what == 8) {     // 129 bits: shift in a bit, count what falls out
            bit<129> cell;
            wide.read(cell, (bit<32>) hdr.request.index);
            hdr.request.value = (bit<48>) (cell >> 128);
            cell = (cell << 40) | (bit<129>) hdr.request.value | 1;
            wide.write((bit<32>) hdr.request.index, cell);
        } else if (hdr.request.what == 9) {
            hash(hdr.request.value, HashAlgorithm.crc16, 16w0, { hdr.request.what, hdr.request.index }, 32w65536);
        }
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        hdr.report.setValid();
        hdr.report.enq_timestamp = (bit<48>) std.enq_timestamp;
        hdr.report.deq_timedelta = std.deq_timedelta;
        hdr.report.enq_qdepth = std.enq_qdepth;
        hdr.report.deq_qdepth = std.deq_qdepth;
        hdr.report.padding = 0;
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(StateParser(), Verify(), MyIngress(), MyEgress(), Compute(), Emit()) main;
