/* Validity: a packet that is not IPv6, has a wrong version or is shorter than its header says is dropped. */
#ifndef CHECK_PACKET_P4
#define CHECK_PACKET_P4

control CheckPacket(in headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    apply {
        if (std.parser_error != error.NoError || !hdr.ipv6.isValid() || hdr.ipv6.version != 6) {
            meta.drop_reason = DropReason.MALFORMED;
        } else if (std.packet_length < ETHERNET_BYTES + IPV6_BYTES + (bit<32>) hdr.ipv6.payload_length) {
            meta.drop_reason = DropReason.MALFORMED;
        } else {
            meta.drop_reason = DropReason.NONE;
        }
    }
}

#endif
