/*
 * Plain IPv6: longest-prefix match, then ECMP among the members of a group. RoCE, MRC with structured entropy values, and the
 * hosts' kernels use it; the hash covers what a sender may vary (flow label, UDP source port) and what names the flow. Packets that
 * are routed adaptively take any member, one of two.
 *
 * A CRC alone is not enough: with different seeds, two switches' hashes of the same fields differ by a constant, so flows that
 * share a path at one switch would share it at the next. Multiplying by a seed of the switch makes the choices independent.
 */
#ifndef IPV6_ROUTE_P4
#define IPV6_ROUTE_P4

#include "adaptive_route.p4"

control Ipv6Route(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) ipv6_route_counter;
    direct_counter(CounterType.packets_and_bytes) ecmp_seed_counter;
    action_selector(HashAlgorithm.crc32, ECMP_MEMBERS, ECMP_HASH_WIDTH) ecmp;
    AdaptiveRoute() adaptive;
    direct_counter(CounterType.packets_and_bytes) adaptive_class_counter;
    bit<32> flow = 0;
    bit<32> factor = 1;

    action set_seed(bit<32> seed) {
        factor = seed | 1;
        ecmp_seed_counter.count();
    }

    action no_seed() {
        ecmp_seed_counter.count();
    }

    /* Holds one entry, for all destinations: it is written, read back and repaired like any other. */
    table ecmp_seed {
        key = { hdr.ipv6.dst : lpm @name("dst"); }
        actions = { set_seed; @defaultonly no_seed; }
        const default_action = no_seed();
        counters = ecmp_seed_counter;
        size = ECMP_SEED_SIZE;
    }

    action route_adaptively() {
        adaptive_class_counter.count();
    }

    action keep_the_path() {
        adaptive_class_counter.count();
    }

    /* Traffic classes whose packets take any member of a group, one of two. */
    table adaptive_class {
        key = { hdr.ipv6.dscp : exact @name("dscp"); }
        actions = { route_adaptively; @defaultonly keep_the_path; }
        const default_action = keep_the_path();
        counters = adaptive_class_counter;
        size = TRAFFIC_CLASS_SIZE;
    }

    action set_egress(port_t port, mac_t dmac, mac_t smac) {
        std.egress_spec = port;
        hdr.ethernet.src = smac;
        hdr.ethernet.dst = dmac;
        ipv6_route_counter.count();
    }

    table ipv6_route {
        key = {
            hdr.ipv6.dst   : lpm @name("dst");
            meta.flow_hash : selector;
        }
        actions = { set_egress; }
        implementation = ecmp;
        counters = ipv6_route_counter;
        size = IPV6_ROUTE_SIZE;
    }

    apply {
        bool is_adaptive = adaptive_class.apply().hit;
        if (is_adaptive) {
            random(meta.flow_hash, 32w0, 32w0xffffffff);
        } else {
            ecmp_seed.apply();
            hash(flow, HashAlgorithm.crc32, 32w0,
                 { hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.flow_label, hdr.ipv6.next_header, meta.l4_src_port, meta.l4_dst_port },
                 64w0x100000000);
            meta.flow_hash = flow * factor;
        }
        // v1model runs no default action on a table with a selector, so a miss is handled here.
        if (!ipv6_route.apply().hit) {
            meta.drop_reason = DropReason.NO_ROUTE;
        } else if (is_adaptive) {
            adaptive.apply(hdr, meta, std);
        }
    }
}

#endif
