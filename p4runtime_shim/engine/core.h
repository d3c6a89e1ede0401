/* Inside the switch: packets, ports, state, and what a compiled program exports (struct sw_program).
 *
 * The engine knows nothing of the program but its tables' shapes and the functions below; the program knows the engine's
 * structs, so that table lookups, counters and registers compile to straight code. A packet keeps its parsed headers (the
 * "phv", a struct of the generated code) next to its bytes while it is queued, because egress continues where ingress ended. */
#ifndef SW_CORE_H
#define SW_CORE_H

#include <pthread.h>
#include <stdint.h>

#include "capture.h"
#include "hash.h"
#include "switch.h"
#include "table.h"
#include "wide.h"

#define SW_ABI 9
#define SW_MAX_QUEUES 8
#define SW_MAX_LOG_RECORD 1000 /* longest log record or trace line; longer ones are truncated */
#define SW_MAX_PASSES 64 /* resubmit, recirculate, egress clone: then the packet is dropped */

/* What one call of a verb may do, in steps of some nanoseconds, beyond one way of a packet through the program and what waited
 * when it was called: further passes of all packets, copies, egress towards dead ports, rounds of loops in the program. So a verb
 * returns after some ten milliseconds, whatever the program is (BMv2's thread loops for ever). */
#define SW_MAX_STEPS (1u << 22)
#define SW_MIN_PASS_STEPS 4096 /* steps that a pass costs at least: there are never more than 1024 */
#define SW_LOOP_LIMIT 2       /* sw_packet.failed: the loop limit, not an assertion */

enum sw_instance { SW_NORMAL, SW_INGRESS_CLONE, SW_EGRESS_CLONE, SW_COALESCED, SW_RECIRC, SW_REPLICATION, SW_RESUBMIT };

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

struct sw_queue {
    struct sw_packet *head, *tail;
    uint32_t packets, bytes, max_packets, max_bytes;
    uint32_t peak_packets, peak_bytes; /* highest since they were last set back */
    uint64_t drops;
};

/* Bytes in all queues of a port: now, the most since the last sample, and summed up over time. */
struct sw_depth {
    uint64_t bytes, peak;
    uint64_t byte_ns; /* up to `since` */
    int64_t since;    /* when `bytes` last changed */
};

/* Priority flow control of a port; masks have a bit a priority. See priority_flow_control.c. */
struct sw_pause {
    struct sw_pause_config config;
    uint8_t asserted; /* the neighbour has been, or will be, paused */
    uint8_t pending;  /* priorities for the next frame to the neighbour; 0 = no frame */
    uint8_t paused;   /* the neighbour paused us, until `paused_until` */
    uint32_t buffered[SW_MAX_QUEUES]; /* bytes that arrived here and have not left the switch */
    int64_t paused_until[SW_MAX_QUEUES];
    int64_t refresh_at; /* when to repeat the PAUSE of `asserted` */
    uint8_t silenced;   /* the last frame to the neighbour paused it */
    int64_t silenced_since[SW_MAX_QUEUES];
    uint64_t silenced_ns, silenced_times; /* over all priorities; without those of `silenced` */
};

/* From when on a line is free. */
struct sw_tx_link {
    int64_t free_at;
    uint64_t remainder; /* of free_at, in units of 1/rate ns */
};

/* A wire that takes time, in one direction (long_wire.c). */
struct sw_wire {
    int64_t delay;                     /* ns, 0: what is sent is there */
    struct sw_wire_frame *head, *tail; /* tail: of no meaning without a head */
};

SW_INLINE int sw_wire_used(const struct sw_wire *wire) { return wire->delay || wire->head; }

/* What every packet needs comes first (prefetch.c). */
struct sw_port {
    uint32_t waiting; /* bit q: queue q is not empty */
    uint16_t number;
    uint8_t up, in_ready_list;
    int event;
    uint64_t rate;
    int64_t slack;
    int64_t resumed_at; /* when flow control last resumed paused frames */
    struct sw_tx_link tx_link;
    struct sw_wire arriving, leaving;
    struct sw_depth depth;
    struct sw_port_stats stats;
    struct sw_pause pause;
    struct sw_queue queue[SW_MAX_QUEUES];
    struct sw_tx_link ideal_link; /* of a link whose driver is never late */
    int64_t due;                  /* when the last frame sent would have started on the ideal link */
    uint64_t idle_ns;             /* ns that the link was idle although a frame was queued, while timing was on */
};

struct sw_counter {
    uint64_t packets, bytes;
};

struct sw_replica {
    uint16_t port, instance;
    uint16_t backups; /* so many of those behind it replace it while its port is down, the first whose port is up */
};

struct sw_replicas { /* a multicast group or clone session */
    uint32_t id, count, truncate_to;
    struct sw_replica at[];
};

struct sw_digest {
    int64_t time;
    uint32_t list, words;
    struct sw_digest *next;
    uint64_t values[];
};

struct sw_log_record {
    int64_t time;
    struct sw_log_record *next;
    char text[];
};

struct sw_map { /* id -> replicas, open addressing by the table code's hash */
    struct sw_replicas **slots;
    uint32_t mask, count;
};

struct sw_register {
    uint8_t *cells;
};

/* What every packet needs comes before `port` (prefetch.c). */
struct sw {
    const struct sw_program *program;
    struct sw_table *tables;
    struct sw_counter **counters;
    struct sw_register *registers;
    struct sw_meter **meters;
    int64_t now, epoch;
    uint64_t now_us; /* of the program's clock */
    uint64_t random;
    uint32_t steps_left;      /* steps that the running verb has left */
    uint8_t logging, tracing; /* which of the two are wanted */
    uint64_t packet_ids;
    struct sw_packet *pool;
    uint32_t max_frame, buffer_packets, in_use;
    uint32_t headroom, room; /* bytes before a received frame; of the whole buffer */
    size_t first_byte;       /* of a received frame, from its struct sw_packet on */
    uint32_t port_count, queues;
    uint16_t *ready;
    uint32_t ready_count;
    int outside_ready;
    struct sw_capture *capture; /* NULL: no capture */
    sw_release_owner release; /* of payloads that are elsewhere */
    sw_copy_rest copy_rest;
    int pausing; /* some port has flow control */
    int timing;  /* ideal links are kept */
    int delaying; /* some port has a wire that takes time, or had one */
    pthread_mutex_t lock;

    struct sw_port *port[SW_MAX_PORTS];
    struct sw_port *port_list;
    int event, digest_event;
    size_t on_wires; /* bytes of memory */
    char **texts; /* the program's strings, for the log and the trace; the generated C has none of them */
    uint8_t *scratch; /* for long inputs of hashes: any packet's bytes, and program->scratch before them */
    uint8_t *slab;
    size_t slab_bytes;

    struct sw_map groups, sessions;
    struct sw_group *watching; /* groups of selectors with members that need ports */
    struct sw_digest *digests, **digests_end;
    uint32_t digest_count;
    uint64_t digests_lost;

    struct sw_log_record *log_records, **log_records_end; /* log_msg(), failed assertions, and the trace */
    uint32_t log_record_count;
    int log_event;
    uint64_t log_records_lost;
    uint64_t drops[SW_DROP_COUNT];
    uint64_t seed;
    uint32_t device_id;
    uint8_t loop_logged; /* the loop has been logged */
};

struct sw_register_desc {
    uint32_t size, cell_bytes;
};
struct sw_array_desc { /* counters; meters (packets: unit) */
    uint32_t size, packets;
};
struct sw_action_desc {
    uint32_t arg_words;
};
struct sw_param { /* of an action, for the trace */
    uint32_t name; /* among the texts */
    uint32_t bits;
};
struct sw_digest_desc {
    uint32_t id, words;
};

/* What the shared object of a program exports as `sw_program`. */
struct sw_program {
    uint32_t abi, phv_size, headroom; /* headroom: the most bytes that the deparser can emit */
    uint32_t texts;                   /* how many it prints */
    uint32_t pass_steps;                  /* steps of one way through it (codegen/cost.py) */
    uint32_t scratch;                 /* bytes that a calculation puts before a payload */
    uint32_t reads_payload;           /* some calculation does */
    uint32_t tables, counters, registers, meters, actions, digests, key_words;
    const struct sw_table_desc *table;
    const struct sw_array_desc *counter, *meter;
    const struct sw_register_desc *reg;
    const struct sw_action_desc *action;
    const struct sw_digest_desc *digest;

    void (*set_arrival)(void *phv, uint32_t port, uint32_t length, uint64_t now_us);
    void (*set_instance)(void *phv, uint32_t instance);
    void (*set_length)(void *phv, uint32_t length);
    void (*set_ingress_port)(void *phv, uint32_t port);
    void (*set_enqueue)(void *phv, uint64_t now_us, uint32_t depth);
    void (*set_rid)(void *phv, uint32_t rid);
    uint32_t (*get_priority)(const void *phv);
    void (*reset_metadata)(void *phv);
    void (*copy_list)(void *to, const void *from, uint32_t list);
    void (*read_digest)(const void *phv, uint32_t list, uint64_t *values);

    void (*parse)(struct sw *, struct sw_packet *);
    void (*ingress)(struct sw *, struct sw_packet *); /* sets egress_spec, mcast */
    /* Metadata of dequeue, then the pipeline; sets egress_spec. */
    void (*egress)(struct sw *, struct sw_packet *, uint64_t enqueued_us, uint32_t depth);
    uint32_t (*headers_size)(struct sw *, struct sw_packet *); /* also updates checksums */
    void (*emit)(const void *phv, uint8_t *to);
};

/* packet_pool.c */
int sw_pool_make(struct sw *sw);
void sw_pool_free(struct sw *sw);
struct sw_packet *sw_packet_new(struct sw *sw, size_t bytes); /* with room for so many, behind the headroom */
void sw_packet_free(struct sw *sw, struct sw_packet *p);
/* Have all bytes in the packet's own buffer. */
void sw_fill(struct sw *sw, struct sw_packet *p);
void sw_release(struct sw *sw, struct sw_packet *p); /* forget the payload that is elsewhere */
/* A copy with bytes (from the start of data, or of the parsed headers) and, when asked, phv. NULL, and a counted drop, when there
 * is no buffer or the bytes do not fit in one. */
struct sw_packet *sw_packet_copy(struct sw *sw, struct sw_packet *p, int with_phv, int from_start);

/* traffic_manager.c */
void sw_drop(struct sw *sw, struct sw_packet *p, enum sw_drop reason);
void sw_enqueue(struct sw *sw, struct sw_packet *p, unsigned port);
void sw_mark_ready(struct sw *sw, struct sw_port *port);
struct sw_packet *sw_dequeue(struct sw *sw, struct sw_port *port);
/* A frame queued since `since` is sent. */
void sw_link_transmit(struct sw *sw, struct sw_port *port, int64_t since, int64_t now, uint32_t bytes);
void sw_link_resume(struct sw_port *port, int64_t until); /* by flow control, which is no lateness */
void sw_drain_down_port(struct sw *sw, struct sw_port *port);

/* long_wire.c; of ports whose wires are in use */
void sw_wire_receive(struct sw *sw, struct sw_port *port, const void *data, size_t len, int64_t now);
size_t sw_wire_transmit(struct sw *sw, struct sw_port *port, int64_t now, void *buf, size_t cap);
void sw_wires_tick(struct sw *sw, int64_t now);
void sw_wires_lose(struct sw *sw, struct sw_port *port); /* the port is down */
int64_t sw_wires_next_wakeup(const struct sw_port *port);

/* priority_flow_control.c */
int sw_pause_charge(struct sw *sw, struct sw_packet *p); /* false: no headroom left, drop it */
void sw_pause_release(struct sw *sw, struct sw_packet *p);
void sw_pause_reset(struct sw *sw); /* all packets have been freed */
size_t sw_pause_emit(struct sw *sw, struct sw_port *port, uint8_t *frame, size_t cap);
int sw_pause_receive(struct sw *sw, struct sw_port *port, const uint8_t *frame, size_t len); /* true: it was a PAUSE */
void sw_pause_expire(struct sw *sw, struct sw_port *port);
void sw_pause_port_down(struct sw *sw, struct sw_port *port);
uint64_t sw_pause_silenced_ns(const struct sw_pause *pause, int64_t now);
void sw_pause_tick(struct sw *sw);
int64_t sw_pause_next_wakeup(const struct sw_port *port);

/* packet_path.c */
void sw_run_ingress(struct sw *sw, struct sw_packet *p);
/* Egress and deparser. The packet if it is to be sent, NULL when it went elsewhere. */
struct sw_packet *sw_run_egress(struct sw *sw, struct sw_packet *p, uint32_t depth);
void sw_set_now(struct sw *sw, int64_t now);
/* sw_receive() and sw_transmit() at the switch's end of a wire, for a port that is there; steps are the caller's. */
void sw_receive_now(struct sw *sw, struct sw_port *port, const void *data, size_t len, int64_t now);
size_t sw_transmit_now(struct sw *sw, struct sw_port *port, int64_t now, void *buf, size_t cap);

/* action_selector.c */
void sw_groups_port_changed(struct sw *sw);
void sw_groups_swap(struct sw *sw, struct sw *other); /* what watches ports; the slots of `sw` follow its ports */

/* state.c */
/* Color of a packet of so many bytes, of which the meter takes `amount` (1 where it counts packets). */
uint32_t sw_meter_run(struct sw_meter *m, uint64_t now_us, uint64_t amount, uint32_t bytes);
const struct sw_replicas *sw_map_find(const struct sw_map *map, uint32_t id);
int sw_map_set(struct sw_map *map, uint32_t id, const struct sw_replica *at, uint32_t count, uint32_t truncate_to);
int sw_map_delete(struct sw_map *map, uint32_t id);
void sw_map_clear(struct sw_map *map);
void sw_send_digest(struct sw *sw, struct sw_packet *p);
void sw_clear_digests(struct sw *sw);

/* log.c, trace.c; called by generated code too */
void sw_log_msg(struct sw *sw, const char *format, unsigned count, const i128 *values);
void sw_assertion_failed(struct sw *sw, struct sw_packet *p, const char *what);
void sw_log_loop_limit(struct sw *sw, const struct sw_packet *p); /* once per program */
void sw_trace(struct sw *sw, const struct sw_packet *p, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sw_trace_table(struct sw *sw, const struct sw_packet *p, const char *name, const struct sw_table *t,
                    const uint64_t *key, const struct sw_entry *e);
void sw_trace_action(struct sw *sw, const struct sw_packet *p, const char *name, const struct sw_param *params,
                     unsigned count, const uint64_t *args);
void sw_clear_log(struct sw *sw);

/* One trace line about a packet; costs a test when tracing is off. */
#define SW_TRACE(sw, p, ...)                                                                                            \
    do {                                                                                                                \
        if (__builtin_expect((sw)->tracing, 0))                                                                         \
            sw_trace(sw, p, __VA_ARGS__);                                                                               \
    } while (0)

/* False: the verb has done as much as it may. */
SW_INLINE int sw_spend(struct sw *sw, uint32_t steps) {
    if (__builtin_expect(sw->steps_left < steps, 0)) {
        sw->steps_left = 0;
        return 0;
    }
    sw->steps_left -= steps;
    return 1;
}

SW_INLINE uint64_t sw_random(struct sw *sw) { /* splitmix64 */
    uint64_t z = sw->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

SW_INLINE uint64_t sw_random_between(struct sw *sw, uint64_t low, uint64_t high) {
    uint64_t span = high - low + 1; /* 0: the whole range */
    uint64_t r = sw_random(sw);
    if (!span)
        return r;
    for (uint64_t limit = -span % span; ((u128)r * span & UINT64_MAX) < limit;)
        r = sw_random(sw);
    return low + (uint64_t)((u128)r * span >> 64);
}

SW_INLINE void sw_count(struct sw_counter *cells, uint32_t size, uint64_t index, const struct sw_packet *p) {
    if (index < size) {
        cells[index].packets++;
        cells[index].bytes += p->ingress_len;
    }
}

#endif
