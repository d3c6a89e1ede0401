/* Keys of P4's type error, which have no width in the P4Info: exact, ternary and optional. */
#include <core.p4>
#include <v1model.p4>

error { OddType }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> ether_type; }
header word_t { bit<32> word; }
struct headers_t { ethernet_t ethernet; word_t word; }
struct meta_t { error kept; }

parser ErrorsParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        verify(hdr.ethernet.ether_type & 1 == 0, error.OddType);
        packet.extract(hdr.word);
        transition accept;
    }
}

control VerifyNothing(inout headers_t hdr, inout meta_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action discard() { mark_to_drop(std); }
    action forward(bit<9> port) { std.egress_spec = port; }
    table exact_ {
        key = { std.parser_error : exact; std.ingress_port : exact; }
        actions = { forward; discard; }
        default_action = discard();
    }
    table ternary_ {
        key = { meta.kept : ternary; }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }
    table optional_ {
        key = { std.parser_error : optional; }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }
    apply {
        meta.kept = std.parser_error;
        exact_.apply();
        ternary_.apply();
        optional_.apply();
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ErrorsParser(), VerifyNothing(), MyIngress(), MyEgress(), Compute(), Emit()) main;
