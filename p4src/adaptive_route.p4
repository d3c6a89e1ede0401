/*
 * Adaptive routing of plain IPv6: packets whose traffic class asks for it are not kept on one path. Of two members of the group,
 * drawn at random for each packet, the one with fewer bytes of this class queued is taken (Mitzenmacher, "The power of two choices
 * in randomized load balancing", 2001; Ghorbani et al., "DRILL", SIGCOMM 2017). The first draw is ipv6_route's, this table has the
 * second; it has entries for destinations that are reached by a group.
 */
#ifndef ADAPTIVE_ROUTE_P4
#define ADAPTIVE_ROUTE_P4

#include "queue_bytes.p4"

control AdaptiveRoute(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) adaptive_route_counter;
    action_selector(HashAlgorithm.crc32, ECMP_MEMBERS, ECMP_HASH_WIDTH) uplinks;
    port_t first_port = 0;
    mac_t first_dmac = 0;
    mac_t first_smac = 0;
    bit<32> first_queued = 0;
    bit<32> queued = 0;

    action set_egress(port_t port, mac_t dmac, mac_t smac) {
        std.egress_spec = port;
        hdr.ethernet.src = smac;
        hdr.ethernet.dst = dmac;
        adaptive_route_counter.count();
    }

    table adaptive_route {
        key = {
            hdr.ipv6.dst   : lpm @name("dst");
            meta.flow_hash : selector;
        }
        actions = { set_egress; }
        implementation = uplinks;
        counters = adaptive_route_counter;
        size = ADAPTIVE_ROUTE_SIZE;
    }

    apply {
        first_port = std.egress_spec;
        first_dmac = hdr.ethernet.dst;
        first_smac = hdr.ethernet.src;
        random(meta.flow_hash, 32w0, 32w0xffffffff);
        if (adaptive_route.apply().hit) {
            queue_bytes.read(first_queued, (bit<32>) (first_port ++ std.priority));
            queue_bytes.read(queued, (bit<32>) (std.egress_spec ++ std.priority));
            if (first_queued <= queued) {
                std.egress_spec = first_port;
                hdr.ethernet.dst = first_dmac;
                hdr.ethernet.src = first_smac;
            }
        }
    }
}

#endif
