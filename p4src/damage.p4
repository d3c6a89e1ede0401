/*
 * Bit corruption: one random bit of 128 is flipped. Behind UDP these are the first 16 bytes, which MRC's and RoCE's own CRC
 * covers; elsewhere the bits of the (inner) source address, which the checksums of ICMPv6, TCP and UDP cover.
 */
#ifndef DAMAGE_P4
#define DAMAGE_P4

control Damage(inout headers_t hdr) {
    bit<8> position = 0;

    apply {
        random(position, 8w0, 8w127);
        bit<128> flip = 128w1 << position;
        if (hdr.transport.isValid()) {
            hdr.transport.bits = hdr.transport.bits ^ flip;
        } else if (hdr.inner_ipv6.isValid()) {
            hdr.inner_ipv6.src = hdr.inner_ipv6.src ^ flip;
        } else {
            hdr.ipv6.src = hdr.ipv6.src ^ flip;
        }
    }
}

#endif
