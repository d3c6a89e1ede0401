/*
 * Packet trimming: when the queue of the egress port holds more bytes than its threshold, a packet is trimmed to its headers and
 * forwarded in the control queue, so that the receiver learns at once what was lost (docs/protocol.md section 1.10). Data that may
 * not be trimmed is queued up to the port's limit and dropped beyond it.
 *
 * The decision is made in ingress, where the queue can still be chosen, from the register of queue_bytes.p4. The queues
 * themselves must have room for more than the limit. Control traffic is not counted, trimmed or limited here.
 */
#ifndef TRIMMING_P4
#define TRIMMING_P4

#include "queue_bytes.p4"

const bit<3>  PRIORITY_CONTROL = 7;
const bit<16> ENCAPSULATED_HEADERS = 80;    // both IPv6 headers; what is kept after them is UDP's length

control Trimming(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) queue_profile_counter;
    direct_counter(CounterType.packets_and_bytes) trimmable_counter;
    counter(PORTS, CounterType.packets_and_bytes) trimmed_packets;
    bool    may_trim = false;
    bit<32> trim_threshold = 0;
    bit<32> data_limit = 0;
    bit<6>  trimmed_dscp = 0;
    bit<16> udp_bytes = 0;
    bit<32> kept_bytes = 0;
    bit<32> queued = 0;

    action unlimited() {
        queue_profile_counter.count();
    }

    /* Data is dropped when the queue would exceed `limit` bytes. */
    action tail_drop(bit<32> limit) {
        data_limit = limit;
        queue_profile_counter.count();
    }

    /* From `threshold` queued bytes on, trimmable data is trimmed: it gets `dscp` and keeps `keep` bytes after Ethernet,
     * including the outer header (a packet without one keeps 40 less). Other data is dropped beyond `limit`. */
    action trim(bit<32> threshold, bit<32> limit, bit<6> dscp, bit<16> keep) {
        may_trim = true;
        trim_threshold = threshold;
        data_limit = limit;
        trimmed_dscp = dscp;
        udp_bytes = keep - ENCAPSULATED_HEADERS;
        queue_profile_counter.count();
    }

    table queue_profile {
        key = { std.egress_spec : exact @name("port"); }
        actions = { trim; tail_drop; @defaultonly unlimited; }
        const default_action = unlimited();
        counters = queue_profile_counter;
        size = PORTS;
    }

    action trimmable_data() {
        trimmable_counter.count();
    }

    action other_data() {
        trimmable_counter.count();
    }

    table trimmable {
        key = {
            hdr.ipv6.dscp    : exact @name("dscp");
            meta.l4_dst_port : exact @name("udp_port");
        }
        actions = { trimmable_data; @defaultonly other_data; }
        const default_action = other_data();
        counters = trimmable_counter;
        size = TRIMMABLE_SIZE;
    }

    action trim_to_headers() {
        hdr.ipv6.dscp = trimmed_dscp;
        hdr.udp.length = udp_bytes;
        hdr.udp.checksum = 0;       // it covered the removed payload
        std.priority = PRIORITY_CONTROL;
        truncate(ETHERNET_BYTES + kept_bytes);
    }

    apply {
        meta.queued_bytes = 0;
        if (std.priority != PRIORITY_CONTROL && queue_profile.apply().hit) {
            meta.queue = std.egress_spec ++ std.priority;
            meta.queued_bytes = std.packet_length;
            add_to_queue(meta.queue, meta.queued_bytes, queued);
            bool is_full = queued + std.packet_length > data_limit;
            bool is_trimmed = false;
            if (may_trim && queued >= trim_threshold && hdr.udp.isValid()) {
                kept_bytes = (bit<32>) udp_bytes + IPV6_BYTES;
                if (hdr.inner_ipv6.isValid()) {
                    kept_bytes = kept_bytes + IPV6_BYTES;
                }
                if (std.packet_length > ETHERNET_BYTES + kept_bytes) {
                    is_trimmed = trimmable.apply().hit;
                }
            }
            if (is_trimmed || is_full) {
                remove_from_queue(meta.queue, meta.queued_bytes);
                meta.queued_bytes = 0;
            }
            if (is_trimmed) {
                hdr.ipv6.payload_length = (bit<16>) (kept_bytes - IPV6_BYTES);
                if (hdr.inner_ipv6.isValid()) {
                    hdr.inner_ipv6.payload_length = udp_bytes;
                }
                trim_to_headers();
                trimmed_packets.count((bit<32>) std.egress_spec);
            } else if (is_full) {
                meta.drop_reason = DropReason.QUEUE_FULL;
            }
        }
    }
}

#endif
