/*
 * DSCP to queue. Control traffic (SACK, NACK, ACK, endpoint responses) overtakes data in a strict-priority queue; the
 * DSCP values are a deployment's choice, so they are table entries. A DSCP without an entry is data, in queue 0.
 */
#ifndef TRAFFIC_CLASS_P4
#define TRAFFIC_CLASS_P4

control TrafficClass(in headers_t hdr, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) traffic_class_counter;

    action set_priority(bit<3> priority) {
        std.priority = priority;
        traffic_class_counter.count();
    }

    action best_effort() {
        traffic_class_counter.count();
    }

    table traffic_class {
        key = { hdr.ipv6.dscp : exact @name("dscp"); }
        actions = { set_priority; @defaultonly best_effort; }
        const default_action = best_effort();
        counters = traffic_class_counter;
        size = TRAFFIC_CLASS_SIZE;
    }

    apply {
        traffic_class.apply();
    }
}

#endif
