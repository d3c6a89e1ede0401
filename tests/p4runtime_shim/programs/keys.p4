/* One table of each match kind, chosen by the first byte; the entry's argument goes into the packet. */
#include <core.p4>
#include <v1model.p4>

header key_t { bit<8> table_id; bit<8> a; bit<16> b; bit<32> c; bit<128> d; bit<32> result; }
struct headers_t { key_t key; }
struct meta_t { }

parser KeyParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.key); transition accept; }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action_selector(HashAlgorithm.crc16, 128, 16) pick;
    action_profile(4) shared;

    action put(bit<32> value) { hdr.key.result = value; }
    action miss() { hdr.key.result = 0xffffffff; }

    table exact_t {
        key = { hdr.key.a : exact @name("a"); hdr.key.c : exact @name("c"); hdr.key.d : exact @name("d"); }
        actions = { put; miss; } default_action = miss(); size = 16384;
    }
    table lpm_t {
        key = { hdr.key.d : lpm @name("d"); hdr.key.a : exact @name("a"); }
        actions = { put; miss; } default_action = miss(); size = 16384;
    }
    table ternary_t {
        key = { hdr.key.a : exact @name("a"); hdr.key.c : ternary @name("c"); hdr.key.d : ternary @name("d"); }
        actions = { put; miss; } default_action = miss(); size = 16384;
    }
    table range_t {
        key = { hdr.key.a : optional @name("a"); hdr.key.b : range @name("b"); hdr.key.c : range @name("c");
                hdr.key.d : lpm @name("d"); }
        actions = { put; miss; } default_action = miss(); size = 16384;
    }
    table optional_t {
        key = { hdr.key.a : optional @name("a"); hdr.key.b : optional @name("b"); }
        actions = { put; miss; } default_action = miss(); size = 16384;
    }
    table fixed_t {
        key = { hdr.key.a : ternary @name("a"); hdr.key.b : range @name("b"); }
        actions = { put; miss; } const default_action = miss();
        const entries = {
            (0x10 &&& 0xf0, 0 .. 99)     : put(1);
            (0x10 &&& 0xf0, 50 .. 200)   : put(2);
            (_,             1000)        : put(3);
            (0x20,          _)           : put(4);
        }
    }
    table member_t {
        key = { hdr.key.a : exact @name("a"); hdr.key.c : selector; hdr.key.d : selector; }
        actions = { put; miss; } size = 64;
        implementation = pick;
    }
    table profile_t {
        key = { hdr.key.a : exact @name("a"); }
        actions = { put; miss; } size = 64;
        implementation = shared;
    }
    apply {
        std.egress_spec = 1;
        if (hdr.key.table_id == 0) { if (exact_t.apply().hit) { std.egress_spec = 2; } }
        else if (hdr.key.table_id == 1) { lpm_t.apply(); }
        else if (hdr.key.table_id == 2) { ternary_t.apply(); }
        else if (hdr.key.table_id == 3) { range_t.apply(); }
        else if (hdr.key.table_id == 4) { optional_t.apply(); }
        else if (hdr.key.table_id == 5) { fixed_t.apply(); }
        else if (hdr.key.table_id == 6) { if (member_t.apply().miss) { hdr.key.result = 0xeeeeeeee; } }
        else if (hdr.key.table_id == 7) {
            switch (profile_t.apply().action_run) { put: { std.egress_spec = 3; } miss: { std.egress_spec = 4; } }
        }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(KeyParser(), Verify(), MyIngress(), MyEgress(), Compute(), Emit()) main;
