/* Tables that no packet reaches, which p4c takes out of the JSON after it has written the P4Info. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> ether_type; }
struct headers_t { ethernet_t ethernet; }
struct meta_t { }

parser EthernetParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control VerifyNothing(inout headers_t hdr, inout meta_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets) hits;
    action_selector(HashAlgorithm.crc16, 32w16, 32w16) ways;
    action discard() { mark_to_drop(std); }
    action forward(bit<9> port) { std.egress_spec = port; }
    action count(bit<9> port) { hits.count(); std.egress_spec = port; }
    table ports {
        key = { std.ingress_port : exact; }
        actions = { forward; discard; }
        default_action = discard();
    }
    table counted {
        key = { hdr.ethernet.dst : exact @name("dst"); }
        actions = { count; NoAction; }
        default_action = NoAction();
        counters = hits;
    }
    table spread {
        key = { hdr.ethernet.dst : exact @name("dst"); hdr.ethernet.src : selector; }
        actions = { forward; NoAction; }
        implementation = ways;
    }
    apply {
        ports.apply();
        bit<8> way = 1;
        if (way == 2) {
            counted.apply();
            spread.apply();
        }
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(EthernetParser(), VerifyNothing(), MyIngress(), MyEgress(), Compute(), Emit()) main;
