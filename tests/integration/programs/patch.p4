/*
 * A patch panel with a controller: every frame goes from port to port as table `patch` says, whatever is in it; to a
 * multicast group; to the controller (packet-in with the port it came from); or from the controller to a port (packet-out).
 * Sources of frames are reported in digests, and frames are counted in a register. For tests of the port driver and of the
 * P4Runtime server.
 */
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
}

struct learn_t {
    bit<48> src;
    bit<9>  port;
}

struct metadata_t { }

parser PatchParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: from_controller;
            default: from_wire;
        }
    }
    state from_controller {
        packet.extract(hdr.packet_out);
        transition from_wire;
    }
    state from_wire {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control PatchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(512) frames;
    counter(512, CounterType.packets_and_bytes) received;
    direct_counter(CounterType.packets_and_bytes) patch_counter;

    action to_port(bit<9> port) {
        std.egress_spec = port;
        patch_counter.count();
    }

    action to_group(bit<16> group) {
        std.mcast_grp = group;
        patch_counter.count();
    }

    action to_controller() {
        std.egress_spec = CPU_PORT;
        patch_counter.count();
    }

    action learn() {
        digest<learn_t>(1, { hdr.ethernet.src, std.ingress_port });
        patch_counter.count();
        mark_to_drop(std);
    }

    action none() {
        mark_to_drop(std);
    }

    table patch {
        key = { std.ingress_port : exact @name("port"); }
        actions = { to_port; to_group; to_controller; learn; @defaultonly none; }
        const default_action = none();
        counters = patch_counter;
        size = 512;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            bit<32> count;
            frames.read(count, (bit<32>) std.ingress_port);
            frames.write((bit<32>) std.ingress_port, count + 1);
            received.count((bit<32>) std.ingress_port);
            patch.apply();
        }
    }
}

control PatchEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = std.ingress_port;
            hdr.packet_in.pad = 0;
        }
    }
}

control PatchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(PatchParser(), Nothing(), PatchIngress(), PatchEgress(), Nothing(), PatchDeparser()) main;
