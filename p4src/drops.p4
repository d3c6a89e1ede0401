/*
 * Drops. An ingress stage that decides to drop a packet sets meta.drop_reason; this one counts and drops it. A packet whose hop
 * limit ran out is counted too, but goes to the controller, unchanged. Egress drops go to the same counter, so that it holds every
 * packet that this program drops; full queues of the traffic manager and ports without a link have counters of their own.
 *
 * port_drops counts each drop again by port, so that it can be attributed to a link: the port where the packet arrived, or the one
 * where it would have left if that port's queue or fault is the cause. The index is port << 4 | reason.
 */
#ifndef DROPS_P4
#define DROPS_P4

counter(DROP_REASONS, CounterType.packets_and_bytes) drop_reasons;
counter(PORT_DROPS, CounterType.packets_and_bytes) port_drops;

action count_drop(in DropReason reason, in port_t port) {
    bit<8> index = (bit<8>) reason;
    drop_reasons.count((bit<32>) index);
    port_drops.count((bit<32>) (port ++ index[3:0]));
}

control Drops(inout headers_t hdr, in metadata_t meta, inout standard_metadata_t std) {
    action to_controller() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = std.ingress_port;
        hdr.packet_in.reason = ((bit<8>) meta.drop_reason)[6:0];
        std.egress_spec = CPU_PORT;
    }

    apply {
        if (meta.drop_reason != DropReason.NONE) {
            if (meta.drop_reason == DropReason.QUEUE_FULL) {
                count_drop(meta.drop_reason, std.egress_spec);
            } else {
                count_drop(meta.drop_reason, std.ingress_port);
            }
            if (meta.drop_reason == DropReason.HOP_LIMIT) {
                to_controller();
            } else {
                mark_to_drop(std);
            }
        }
    }
}

#endif
