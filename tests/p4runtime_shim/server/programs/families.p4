/*
 * One of everything that a P4Runtime client can write or read, with fixed ids. Nothing useful happens to packets. The order
 * of ids differs from the order of declaration on purpose: positions and ids must not be mixed up.
 */
#include <core.p4>
#include <v1model.p4>

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

header data_t {
    bit<8>  e;
    bit<32> l;
    bit<12> t;
    bit<16> r;
    bit<9>  o;
    bit<48> m;
    bit<3>  pad;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    data_t       data;
}

struct learn_t {
    bit<48> mac;
    bit<9>  port;
}

struct metadata_t {
    bit<2> color;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @id(0x13000001) direct_counter(CounterType.packets_and_bytes) kinds_counter;
    @id(0x13000002) direct_counter(CounterType.packets_and_bytes) exact_counter;
    @id(0x13000003) direct_counter(CounterType.packets_and_bytes) const_counter;
    @id(0x15000001) direct_meter<bit<2>>(MeterType.packets) kinds_meter;
    @id(0x12000001) counter(4, CounterType.packets_and_bytes) a_counter;
    @id(0x14000001) meter(3, MeterType.bytes) a_meter;
    @id(0x16000001) register<bit<20>>(5) a_register;
    @id(0x16000002) register<int<12>>(2) a_signed;
    @id(0x11000001) @max_group_size(8) action_selector(HashAlgorithm.crc16, 32, 16) selector;
    @id(0x11000002) action_profile(32) profile;

    @id(0x01000001) action drop() {
        mark_to_drop(std);
    }
    @id(0x01000002) action set(@id(2) bit<9> port, @id(1) bit<48> mac) {
        std.egress_spec = port;
        hdr.data.m = mac;
    }
    @id(0x01000003) action set_default() { }
    @id(0x01000004) action set_entry() { }
    @id(0x01000005) action set_metered(@id(2) bit<9> port) {
        std.egress_spec = port;
        kinds_meter.read(meta.color);
    }

    @id(0x02000001) table kinds {
        key = {
            hdr.data.e : exact @name("e") @id(1);
            hdr.data.l : lpm @name("l") @id(3);
            hdr.data.t : ternary @name("t") @id(2);
            hdr.data.r : range @name("r") @id(4);
            hdr.data.o : optional @name("o") @id(5);
        }
        actions = { drop; set; set_metered; }
        default_action = drop();
        counters = kinds_counter;
        meters = kinds_meter;
        size = 64;
    }
    @id(0x02000002) table exact_ {
        key = { hdr.data.m : exact @name("e") @id(1); }
        actions = { drop; set; @defaultonly set_default; @tableonly set_entry; }
        default_action = drop();
        counters = exact_counter;
        size = 64;
    }
    @id(0x02000003) table lpm_ {
        key = { hdr.data.l : lpm @name("l") @id(1); }
        actions = { drop; set; }
        const default_action = drop();
        size = 64;
    }
    @id(0x02000004) table indirect {
        key = {
            hdr.data.l : lpm @name("l") @id(1);
            hdr.data.m : selector;
        }
        actions = { drop; set; }
        implementation = selector;
        size = 64;
    }
    @id(0x02000005) table by_member {
        key = { hdr.data.l : exact @name("e") @id(1); }
        actions = { drop; set; }
        implementation = profile;
        size = 64;
    }
    @id(0x02000006) table const_ {
        key = { hdr.data.e : exact @name("e") @id(1); }
        actions = { drop; set; }
        const entries = {
            1 : drop();
            2 : set(2, 5);
        }
        default_action = drop();
        counters = const_counter;
        size = 4;
    }
    @id(0x02000007) table keyless {
        actions = { drop; set; }
        default_action = drop();
    }

    apply {
        bit<20> value;
        int<12> other;
        kinds.apply();
        exact_.apply();
        lpm_.apply();
        indirect.apply();
        by_member.apply();
        const_.apply();
        keyless.apply();
        a_counter.count(1);
        a_meter.execute_meter<bit<2>>(1, meta.color);
        a_register.read(value, 1);
        a_register.write(1, value + 1);
        a_signed.read(other, 1);
        a_signed.write(1, other + 1);
        digest<learn_t>(1, { hdr.data.m, std.ingress_port });
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.packet_out);
        packet.emit(hdr.data);
    }
}

V1Switch(P(), Nothing(), I(), E(), Nothing(), D()) main;
