/*
 * Random ECN marking of data in egress (RFC 3168): the probability depends on the queue depth that the packet found and
 * rises linearly from 0 at `start` packets to 1 at `start` + `width`. Ports towards a NIC get no entry; control traffic is never
 * marked (docs/protocol.md section 1.10).
 */
#ifndef ECN_P4
#define ECN_P4

const bit<2> ECN_NOT_CAPABLE = 0;
const bit<2> ECN_CONGESTION = 3;

control Ecn(inout headers_t hdr, in standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) ecn_profile_counter;
    counter(PORTS, CounterType.packets_and_bytes) marked_packets;
    bit<19> low = 0;
    bit<19> span = 0;
    bit<19> draw = 0;

    action mark_between(bit<19> start, bit<19> width) {
        low = start;
        span = width;
        ecn_profile_counter.count();
    }

    action never_mark() {
        ecn_profile_counter.count();
    }

    /* `width` is at least 1. */
    table ecn_profile {
        key = { std.egress_port : exact @name("port"); }
        actions = { mark_between; @defaultonly never_mark; }
        const default_action = never_mark();
        counters = ecn_profile_counter;
        size = PORTS;
    }

    apply {
        if (hdr.ipv6.isValid() && hdr.ipv6.ecn != ECN_NOT_CAPABLE && std.priority != PRIORITY_CONTROL) {
            if (ecn_profile.apply().hit && std.enq_qdepth > low) {
                random(draw, 19w0, span - 1);
                if (draw < std.enq_qdepth - low) {
                    hdr.ipv6.ecn = ECN_CONGESTION;
                    marked_packets.count((bit<32>) std.egress_port);
                }
            }
        }
    }
}

#endif
