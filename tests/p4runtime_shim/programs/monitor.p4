/* A link monitor: probes follow a list of ports and collect bytes and packets that went out of each since the last probe. */
#include "net.inc"

#define HOPS 4
header probe_t { bit<8> hops; }
header data_t { bit<1> bottom; bit<7> device; bit<8> port; bit<32> bytes; bit<32> packets; }
header forward_t { bit<8> port; }
struct headers_t { ethernet_t ethernet; probe_t probe; data_t[HOPS] data; forward_t[HOPS] forward; ipv4_t ipv4; }
struct meta_t { bit<8> port; bit<8> left; }

parser MonitorParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { 0x0800: ipv4; 0x0812: probe; default: accept; }
    }
    state probe {
        packet.extract(hdr.probe);
        meta.left = hdr.probe.hops + 1;
        transition select(hdr.probe.hops) { 0: forward; default: data; }
    }
    state data {
        packet.extract(hdr.data.next);
        transition select(hdr.data.last.bottom) { 1: forward; default: data; }
    }
    state forward {
        packet.extract(hdr.forward.next);
        meta.left = meta.left - 1;
        meta.port = hdr.forward.last.port;
        transition select(meta.left) { 0: accept; default: forward; }
    }
    state ipv4 { packet.extract(hdr.ipv4); transition accept; }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action discard() { mark_to_drop(std); }
    action forward(bit<9> port) { std.egress_spec = port; }
    table route {
        key = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { forward; discard; }
        default_action = discard();
    }
    apply {
        if (hdr.ipv4.isValid()) {
            route.apply();
        } else if (hdr.probe.isValid()) {
            std.egress_spec = (bit<9>) meta.port;
            hdr.probe.hops = hdr.probe.hops + 1;
        } else {
            discard();
        }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    register<bit<32>>(8) bytes_out;
    register<bit<32>>(8) packets_out;
    action note(bit<7> device) { hdr.data[0].device = device; }
    table self { actions = { note; NoAction; } default_action = NoAction(); }
    apply {
        bit<32> bytes;
        bit<32> packets;
        bytes_out.read(bytes, (bit<32>) std.egress_port);
        packets_out.read(packets, (bit<32>) std.egress_port);
        bytes = bytes + std.packet_length;
        packets = packets + 1;
        bytes_out.write((bit<32>) std.egress_port, hdr.probe.isValid() ? 32w0 : bytes);
        packets_out.write((bit<32>) std.egress_port, hdr.probe.isValid() ? 32w0 : packets);
        if (hdr.probe.isValid()) {
            hdr.data.push_front(1);
            hdr.data[0].setValid();
            hdr.data[0].bottom = hdr.probe.hops == 1 ? 1w1 : 1w0;
            self.apply();
            hdr.data[0].port = (bit<8>) std.egress_port;
            hdr.data[0].bytes = bytes;
            hdr.data[0].packets = packets;
        }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
REST_OF(MonitorParser)
