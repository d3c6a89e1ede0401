/* The queues, above the wire: packets, the pool that their buffers come from, and the traffic manager.
 *
 * What a packet is for, and whether one without place is dropped, is decided above: the traffic manager only says so. */
#ifndef SW_QUEUES_H
#define SW_QUEUES_H

#include "wire/wire.h"

/* What waits in all queues of a port together, without the frame that is being sent, and how long it has kept its neighbour
 * silent by priority flow control: from the PAUSE to the frame that ends it, each priority by itself. */
struct sw_port_sample {
    uint64_t bytes, peak_bytes; /* the peak since the last sample */
    uint64_t byte_ns;           /* bytes summed up over time: the difference of two samples over their time is the mean */
    uint64_t silenced_ns, silenced_times;
};

struct sw_packet {
    struct sw_packet *next; /* in a queue or the pool */
    uint8_t *data;          /* what follows the parsed headers */
    uint32_t len;           /* bytes from data */
    uint32_t parsed;        /* bytes before data that the parser took */
    uint32_t length;        /* as the program sees it: follows add_header and remove_header */
    uint32_t ingress_len;   /* as counters and meters see it */
    uint32_t truncate_to; /* truncate(): at most so many bytes are sent */
    uint32_t egress_spec, mcast;
    uint32_t parser_error;
    uint32_t clone_session, clone_list, resubmit_list, recirc_list, digest_list;
    uint16_t egress_port, arrival_port;
    uint8_t clone, resubmit, recirc; /* requested */
    uint8_t checksum_error, exited, failed, passes, queue;
    uint8_t charged; /* its bytes count against the port it came from (priority_flow_control.c) */
    uint32_t wire_len; /* bytes counted against the queue's limit */
    int64_t enqueued;
    uint64_t id; /* for the trace; copies get their own */
    uint8_t *base;  /* first byte of the buffer */
    uint8_t *whole; /* the one with room for a whole frame (packet_pool.c) */
    /* A payload that is elsewhere: `rest_len` bytes that belong to `absent` in the buffer; none if `owner` is NULL. */
    void *owner;
    const uint8_t *rest;
    uint8_t *absent;
    uint32_t rest_len;
    uint32_t present; /* bytes that the parser may read before sw_fill */
    void *phv;
};

struct sw_pool {
    struct sw_packet *free;
    uint64_t packet_ids;
    uint32_t max_frame, phv_size, buffer_packets, in_use;
    uint32_t headroom, room; /* bytes before a received frame; of the whole buffer */
    size_t first_byte;       /* of a received frame, from its struct sw_packet on */
    sw_release_owner release; /* of payloads that are elsewhere */
    sw_copy_rest copy_rest;
    uint8_t *slab;
    size_t slab_bytes;
};

/* packet_pool.c */
int sw_pool_make(struct sw_pool *pool, uint32_t phv_size, uint32_t headroom); /* max_frame and buffer_packets are set */
void sw_pool_free(struct sw_pool *pool);
/* With room for so many bytes, behind the headroom. NULL: all buffers are in use. */
struct sw_packet *sw_packet_new(struct sw_pool *pool, size_t bytes);
void sw_packet_free(struct sw_pool *pool, struct sw_packet *p);
/* Have all bytes in the packet's own buffer. */
void sw_fill(struct sw_pool *pool, struct sw_packet *p);
void sw_release(struct sw_pool *pool, struct sw_packet *p); /* forget the payload that is elsewhere */
/* A copy with the bytes from `back` before the data on, room - headroom at most, and, when asked, phv. NULL: as sw_packet_new(). */
struct sw_packet *sw_packet_copy(struct sw_pool *pool, struct sw_packet *p, int with_phv, uint32_t back);

/* traffic_manager.c */
#define SW_QUEUED SW_DROP_COUNT
/* Puts a packet, whose `queue` and `enqueued` are set, into that queue of a port: SW_QUEUED, or why it is to be dropped. */
enum sw_drop sw_enqueue(struct sw_ports *ports, struct sw_port *port, struct sw_packet *p);
struct sw_packet *sw_dequeue(struct sw_ports *ports, struct sw_port *port, int64_t now);
void sw_queues_limit(struct sw_ports *ports, uint32_t packets, uint32_t bytes); /* those of all ports */
uint64_t sw_queues_clear(struct sw_ports *ports, struct sw_pool *pool, int64_t now); /* so many packets are gone; the pool is not filled */
void sw_port_figures(const struct sw_port *port, struct sw_port_stats *out);
void sw_ports_sample(struct sw_ports *ports, int64_t now, int keep_peaks, struct sw_port_sample *out);

#endif
