/* A stateful firewall: connections opened from inside (ports 1 and 2) set bits in a Bloom filter that lets answers in. */
#include "net.inc"

#define CELLS 64
header tcp_t {
    bit<16> src; bit<16> dst; bit<32> sequence; bit<32> acknowledgement;
    bit<4> offset; bit<6> reserved; bit<1> urg; bit<1> ack; bit<1> psh; bit<1> rst; bit<1> syn; bit<1> fin;
    bit<16> window; bit<16> checksum; bit<16> urgent;
}
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; tcp_t tcp; }
struct meta_t { bit<32> first; bit<32> second; }

parser FirewallParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { 6: tcp; default: accept; }
    }
    state tcp { packet.extract(hdr.tcp); transition accept; }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    register<bit<1>>(CELLS) bloom_a;
    register<bit<1>>(CELLS) bloom_b;
    register<bit<32>>(8) blocked;

    action discard() { mark_to_drop(std); }
    action positions(bit<32> one, bit<32> other, bit<16> one_port, bit<16> other_port) {
        hash(meta.first, HashAlgorithm.crc16, 32w0, { one, other, one_port, other_port, hdr.ipv4.protocol }, 32w64);
        hash(meta.second, HashAlgorithm.crc32, 32w0, { one, other, one_port, other_port, hdr.ipv4.protocol }, 32w64);
    }
    action forward(bit<9> port) { std.egress_spec = port; }
    table route {
        key = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { forward; discard; }
        default_action = discard();
    }
    apply {
        if (hdr.ipv4.isValid()) {
            route.apply();
            if (hdr.tcp.isValid()) {
                bit<1> a = 0;
                bit<1> b = 0;
                if (std.ingress_port <= 2) {
                    positions(hdr.ipv4.src, hdr.ipv4.dst, hdr.tcp.src, hdr.tcp.dst);
                    if (hdr.tcp.syn == 1) {
                        bloom_a.write(meta.first, 1);
                        bloom_b.write(meta.second, 1);
                    }
                } else {
                    positions(hdr.ipv4.dst, hdr.ipv4.src, hdr.tcp.dst, hdr.tcp.src);
                    bloom_a.read(a, meta.first);
                    bloom_b.read(b, meta.second);
                    if (a != 1 || b != 1) {
                        bit<32> sum;
                        blocked.read(sum, (bit<32>) std.ingress_port);
                        blocked.write((bit<32>) std.ingress_port, sum + 1);
                        discard();
                    }
                }
            }
        }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) {
    apply { update_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16); }
}
REST_OF(FirewallParser)
