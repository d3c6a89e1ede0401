/* A packet has left its queue: subtract its bytes from the register, before anything in egress may drop it. */
#ifndef DEPARTURE_P4
#define DEPARTURE_P4

#include "queue_bytes.p4"

control Departure(in metadata_t meta, in standard_metadata_t std) {
    apply {
        if (meta.queued_bytes != 0) {
            if (std.deq_qdepth == 0) {
                empty_queue(meta.queue);
            } else {
                remove_from_queue(meta.queue, meta.queued_bytes);
            }
        }
    }
}

#endif
