/* Packets to and from the controller, with headers of their own that are no multiples of bytes by themselves. */
#include "net.inc"

const bit<9> CPU = 510;
@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<3> reason; bit<4> padding; bit<48> note; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<1> through; bit<6> padding; }
struct headers_t { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; ipv4_t ipv4; }
struct meta_t { bit<8> ttl; }

parser PacketIoParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { transition select(std.ingress_port) { CPU: from_controller; default: ethernet; } }
    state from_controller { packet.extract(hdr.packet_out); transition ethernet; }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { packet.extract(hdr.ipv4); transition accept; }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) decided;
    action to_controller(bit<3> reason) {
        std.egress_spec = CPU;
        hdr.packet_in.setValid();
        hdr.packet_in = { std.ingress_port, reason, 0, hdr.ethernet.src };
        decided.count();
    }
    action copy_to_controller(bit<9> port) {
        clone(CloneType.I2E, 7);
        std.egress_spec = port;
        decided.count();
    }
    action forward(bit<9> port) { std.egress_spec = port; decided.count(); }
    action discard() { mark_to_drop(std); decided.count(); }
    table decide {
        key = {
            std.ingress_port    : ternary @name("port");
            hdr.ethernet.isValid() : exact @name("ethernet");
            meta.ttl            : range @name("ttl");
            hdr.ipv4.isValid()  : optional @name("ipv4");
        }
        actions = { to_controller; copy_to_controller; forward; discard; }
        default_action = discard();
        counters = decided;
    }
    apply {
        if (hdr.packet_out.isValid() && hdr.packet_out.through == 0) {
            std.egress_spec = hdr.packet_out.egress_port;
        } else {
            if (hdr.ipv4.isValid()) { meta.ttl = hdr.ipv4.ttl; }
            decide.apply();
        }
        hdr.packet_out.setInvalid();
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 1) {
            hdr.packet_in.setValid();
            hdr.packet_in = { std.ingress_port, 7, 0, (bit<48>) std.packet_length };
        }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
REST_OF(PacketIoParser)
