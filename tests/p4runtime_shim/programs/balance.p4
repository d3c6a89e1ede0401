/* Load balancing in two ways: a hash chooses the number of a next hop, or an action selector chooses a member. */
#include "net.inc"

struct headers_t { ethernet_t ethernet; ipv4_t ipv4; ports_t ports; }
struct meta_t { bit<14> choice; bit<16> sum; bit<8> short_hash; }

parser BalanceParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { 0x0800: ipv4; default: reject; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { 6: ports; 17: ports; default: accept; }
    }
    state ports { packet.extract(hdr.ports); transition accept; }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) chosen;
    action_selector(HashAlgorithm.crc16, 64, 16) spread;

    action discard() { mark_to_drop(std); }
    action choose(bit<16> base, bit<32> count) {
        hash(meta.choice, HashAlgorithm.crc16, base,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.ports.src, hdr.ports.dst }, count);
        hash(meta.sum, HashAlgorithm.csum16, 16w0, { hdr.ipv4.src, hdr.ports.src }, 32w65536);
        hash(meta.short_hash, HashAlgorithm.xor16, 8w3, { hdr.ipv4.dst, hdr.ipv4.ttl }, 16w200);
    }
    action forward(bit<48> mac, bit<9> port) {
        hdr.ethernet.dst = mac;
        std.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        chosen.count();
    }
    action send(bit<9> port) { std.egress_spec = port; }
    table groups {
        key = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { choose; discard; }
        default_action = discard();
    }
    table next_hops {
        key = { meta.choice : exact @name("choice"); }
        actions = { forward; @defaultonly NoAction; }
        counters = chosen;
    }
    table members {
        key = { hdr.ipv4.dst : lpm @name("dst"); hdr.ipv4.src : selector; hdr.ports.src : selector;
                hdr.ports.dst : selector; }
        actions = { send; discard; }
        implementation = spread;
    }
    apply {
        if (!hdr.ipv4.isValid() || !hdr.ports.isValid() || hdr.ipv4.ttl == 0) {
            discard();
        } else if (hdr.ipv4.protocol == 17) {
            members.apply();
        } else {
            groups.apply();
            next_hops.apply();
        }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        hdr.ethernet.src = meta.sum ++ 8w0 ++ meta.short_hash ++ (bit<16>) meta.choice;
        if (std.egress_port == std.ingress_port) { mark_to_drop(std); }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
REST_OF(BalanceParser)
