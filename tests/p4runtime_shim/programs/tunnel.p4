/* A tunnel: packets get a label at the edge, are switched by it, and lose it at the other edge. */
#include "net.inc"

const bit<16> LABELLED = 0x1212;

header label_t { bit<16> protocol; bit<16> id; }
struct headers_t { ethernet_t ethernet; label_t label; ipv4_t ipv4; }
struct meta_t { }

parser TunnelParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { LABELLED: label; 0x0800: ipv4; default: accept; }
    }
    state label {
        packet.extract(hdr.label);
        transition select(hdr.label.protocol) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { packet.extract(hdr.ipv4); transition accept; }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    counter(32, CounterType.packets_and_bytes) entered;
    counter(32, CounterType.packets_and_bytes) left;

    action discard() { mark_to_drop(std); }
    action forward(bit<9> port, bit<48> mac) {
        std.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action enter(bit<16> id) {
        hdr.label.setValid();
        hdr.label.id = id;
        hdr.label.protocol = hdr.ethernet.ether_type;
        hdr.ethernet.ether_type = LABELLED;
        entered.count((bit<32>) id[4:0]);
    }
    action pass_on(bit<9> port) { std.egress_spec = port; }
    action leave(bit<9> port) {
        std.egress_spec = port;
        left.count((bit<32>) hdr.label.id[4:0]);
        hdr.ethernet.ether_type = hdr.label.protocol;
        hdr.label.setInvalid();
    }
    table route {
        key = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { forward; enter; discard; }
        default_action = discard();
    }
    table labels {
        key = { hdr.label.id : exact @name("id"); }
        actions = { pass_on; leave; discard; }
        default_action = discard();
    }
    apply {
        if (hdr.ipv4.isValid() && !hdr.label.isValid()) { route.apply(); }
        if (hdr.label.isValid()) { labels.apply(); }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) {
    apply { update_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16); }
}
REST_OF(TunnelParser)
