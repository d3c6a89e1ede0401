/* Congestion marks by queue depth, and multi-hop route inspection: every switch adds its number and queue to a stack. */
#include "net.inc"

#define HOPS 4
header option_t { bit<1> copy; bit<2> class; bit<5> number; bit<8> length; }
header count_t { bit<16> count; }
header trace_t { bit<32> device; bit<32> depth; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; option_t option; count_t count; trace_t[HOPS] traces; }
struct meta_t { bit<16> left; bit<4> failure; }

error { OptionTooShort }

parser TelemetryParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.ihl >= 5, error.OptionTooShort);
        transition select(hdr.ipv4.ihl) { 5: accept; default: option; }
    }
    state option {
        packet.extract(hdr.option);
        transition select(hdr.option.number) { 31: count; default: accept; }
    }
    state count {
        packet.extract(hdr.count);
        meta.left = hdr.count.count;
        transition select(meta.left) { 0: accept; default: trace; }
    }
    state trace {
        packet.extract(hdr.traces.next);
        meta.left = meta.left - 1;
        transition select(meta.left) { 0: accept; default: trace; }
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action discard() { mark_to_drop(std); }
    action forward(bit<9> port) {
        std.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl |-| 1;
    }
    table route {
        key = { hdr.ipv4.dst : lpm @name("dst"); meta.failure : exact @name("failure"); }
        actions = { forward; discard; }
        default_action = discard();
    }
    apply {
        if (std.parser_error == error.PacketTooShort) { meta.failure = 1; }
        else if (std.parser_error == error.StackOutOfBounds) { meta.failure = 3; }
        else if (std.parser_error == error.OptionTooShort) { meta.failure = 7; }
        else if (std.parser_error != error.NoError) { meta.failure = 9; }
        if (hdr.ipv4.isValid()) { route.apply(); } else { discard(); }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action note(bit<32> device) {
        hdr.count.count = hdr.count.count + 1;
        hdr.traces.push_front(1);
        hdr.traces[0].setValid();
        hdr.traces[0].device = device;
        hdr.traces[0].depth = (bit<32>) std.enq_qdepth;
        hdr.ipv4.ihl = hdr.ipv4.ihl + 2;
        hdr.option.length = hdr.option.length + 8;
        hdr.ipv4.total_length = hdr.ipv4.total_length + 8;
    }
    action mark_from(bit<19> depth) {
        if ((hdr.ipv4.ecn == 1 || hdr.ipv4.ecn == 2) && std.enq_qdepth >= depth) { hdr.ipv4.ecn = 3; }
    }
    table self { actions = { note; NoAction; } default_action = NoAction(); }
    table marking {
        key = { std.egress_port : exact @name("port"); }
        actions = { mark_from; NoAction; }
        default_action = NoAction();
    }
    apply {
        marking.apply();
        if (hdr.count.isValid()) { self.apply(); }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) {
    apply { update_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16); }
}
REST_OF(TelemetryParser)
