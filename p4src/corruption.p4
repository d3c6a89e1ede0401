/*
 * Bit corruption: flips one random bit of 128. Where at least 16 bytes follow UDP it is in the first 16, which the CRC of MRC
 * and RoCE covers; elsewhere it is in the (inner) source address, which the checksums of ICMPv6, TCP and UDP cover.
 */
#ifndef CORRUPTION_P4
#define CORRUPTION_P4

control Corruption(inout headers_t hdr) {
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
