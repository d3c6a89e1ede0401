/* The hop limit of the outer header (RFC 8200 section 3). A packet whose hop limit runs out goes to the controller (traceroute). */
#ifndef HOP_LIMIT_P4
#define HOP_LIMIT_P4

control HopLimit(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (hdr.ipv6.hop_limit <= 1) {
            meta.drop_reason = DropReason.HOP_LIMIT;
        } else {
            hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
        }
    }
}

#endif
