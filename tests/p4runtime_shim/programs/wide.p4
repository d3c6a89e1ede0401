/* Fields and keys wider than a machine word, up to the widest; checksums that cover the payload; return, assume, clocks. */
#include <core.p4>
#include <v1model.p4>

header head_t { bit<8> what; bit<8> seen; bit<16> checksum; bit<32> crc; bit<256> key; }
header wide_t { bit<2048> a; bit<512> b; int<520> c; bit<8> shift; }
struct headers_t { head_t head; wide_t wide; }
struct meta_t { bit<300> odd; }

parser WideParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.head);
        transition select(hdr.head.what, packet.lookahead<bit<65>>()) {
            (0, _): accept;
            (_, 65w1 &&& 65w1): wide;
            default: wide;
        }
    }
    state wide { packet.extract(hdr.wide); transition accept; }
}
control Verify(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum_with_payload(hdr.head.isValid(), { hdr.head.what, hdr.head.seen, hdr.head.key },
                                     hdr.head.checksum, HashAlgorithm.csum16);
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    bool known = false;

    action send(bit<9> port) { std.egress_spec = port; known = true; }
    action mask(bit<256> with) {
        hdr.head.key = hdr.head.key & with;
        known = true;
        if (with == 0) { return; }
        std.egress_spec = 2;
    }
    table exactly { key = { hdr.head.key : exact @name("key"); } actions = { send; mask; NoAction; } default_action = NoAction(); }
    table longest { key = { hdr.head.key : lpm @name("key"); } actions = { send; mask; NoAction; } default_action = NoAction(); }
    table masked { key = { hdr.head.key : ternary @name("key"); } actions = { send; mask; NoAction; } default_action = NoAction(); }
    table between { key = { hdr.head.key : range @name("key"); } actions = { send; mask; NoAction; } default_action = NoAction(); }

    apply {
        std.egress_spec = 1;
        hdr.head.seen = hdr.head.seen + (bit<8>) std.checksum_error;
        if (std.parser_error != error.NoError || !hdr.head.isValid()) {
            mark_to_drop(std);
            return;
        }
        assume(hdr.head.what != 255);
        if (hdr.head.what == 0) {
            exactly.apply();
            if (!known) { longest.apply(); }
            if (!known) { masked.apply(); }
            if (!known) { between.apply(); }
            return;
        }
        bit<2048> a = hdr.wide.a;
        bit<512> b = hdr.wide.b;
        int<520> c = hdr.wide.c;
        if (hdr.head.what == 1) { a = a + (bit<2048>) b; }
        else if (hdr.head.what == 2) { a = a << hdr.wide.shift; b = b >> hdr.wide.shift; }
        else if (hdr.head.what == 3) { a = (a ^ ~a) & (a | (bit<2048>) b); }
        else if (hdr.head.what == 4) { a[250:111] = b[139:0]; }
        else if (hdr.head.what == 5) { b = 372w0 ++ a[300:161]; }
        else if (hdr.head.what == 6) { b = b |+| a[511:0]; }
        else if (hdr.head.what == 7) { b = b |-| a[511:0]; }
        else if (hdr.head.what == 8) { b = a < (bit<2048>) b ? 512w1 : 512w2; }
        else if (hdr.head.what == 9) { a = a * (bit<2048>) b; }
        else if (hdr.head.what == 10) { b = -b; c = -c; }
        else if (hdr.head.what == 11) { c = c >> hdr.wide.shift; }
        else if (hdr.head.what == 12) { c = c |+| c; }
        else if (hdr.head.what == 13) { b = c < 0 ? 512w3 : (bit<512>) ((bit<520>) c)[511:0]; }
        else if (hdr.head.what == 14) { meta.odd = a[299:0]; b = 212w0 ++ (meta.odd + 1); }
        hdr.wide.a = a;
        hdr.wide.b = b;
        hdr.wide.c = c;
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 2) {
            hdr.head.seen = 0x77;
        } else if (hdr.head.what == 15) {
            clone(CloneType.E2E, 5);
        }
        if (std.ingress_global_timestamp > std.egress_global_timestamp) {
            hdr.head.seen = 0xee;
        }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum_with_payload(hdr.head.isValid(), { hdr.head.what, hdr.head.key }, hdr.head.crc, HashAlgorithm.crc32);
    }
}
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(WideParser(), Verify(), MyIngress(), MyEgress(), Compute(), Emit()) main;
