/* A learning bridge: unknown sources go to the controller as digests, unknown destinations to a multicast group. */
#include "net.inc"

struct headers_t { ethernet_t ethernet; }
struct meta_t { }
struct learned_t { bit<48> address; bit<9> port; }

parser LearningParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action learn() { digest<learned_t>(1, { hdr.ethernet.src, std.ingress_port }); }
    action forward(bit<9> port) { std.egress_spec = port; }
    action flood(bit<16> group) { std.mcast_grp = group; }
    table sources {
        key = { hdr.ethernet.src : exact @name("address"); }
        actions = { learn; NoAction; }
        default_action = learn();
    }
    table destinations {
        key = { hdr.ethernet.dst : ternary @name("address"); }
        actions = { forward; flood; NoAction; }
        default_action = flood(1);
    }
    apply {
        sources.apply();
        destinations.apply();
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == std.ingress_port) { mark_to_drop(std); }
        if (std.instance_type != 0) { hdr.ethernet.ether_type = std.egress_rid; }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
REST_OF(LearningParser)
