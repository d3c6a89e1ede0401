/*
 * SRv6 endpoint with NEXT-CSID, flavour uN, F3216 (RFC 8986 section 4.1, RFC 9800 section 4.1.1).
 *
 *   dst = | block 32 | own uSID 16 | next uSID 16 | ... | 0 |      match the first 48 bits
 *      -> | block 32 | next uSID 16 | ...         | 0   | 0 |      shift the last 80 bits left by 16, zero-fill
 *
 * The new first 48 bits are then looked up in a static table of neighbours. The last uSID is the NIC's, which decapsulates.
 */
#ifndef USID_P4
#define USID_P4

control UsidEndpoint(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) usid_local_counter;
    direct_counter(CounterType.packets_and_bytes) usid_next_counter;

    action usid_shift() {
        meta.is_usid = true;
        hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;
        usid_local_counter.count();
    }

    action not_local() {
        meta.is_usid = false;
        usid_local_counter.count();
    }

    table usid_local {
        key = { hdr.ipv6.dst[127:80] : exact @name("locator"); }
        actions = { usid_shift; @defaultonly not_local; }
        const default_action = not_local();
        counters = usid_local_counter;
        size = USID_LOCAL_SIZE;
    }

    action set_egress(port_t port, mac_t dmac, mac_t smac) {
        std.egress_spec = port;
        hdr.ethernet.src = smac;
        hdr.ethernet.dst = dmac;
        usid_next_counter.count();
    }

    action no_neighbour() {
        meta.drop_reason = DropReason.NO_USID;
        usid_next_counter.count();
    }

    table usid_next {
        key = { hdr.ipv6.dst[127:80] : exact @name("locator"); }
        actions = { set_egress; @defaultonly no_neighbour; }
        const default_action = no_neighbour();
        counters = usid_next_counter;
        size = USID_NEXT_SIZE;
    }

    apply {
        if (usid_local.apply().hit) {
            usid_next.apply();
        }
    }
}

#endif
