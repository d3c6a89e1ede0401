/* The pipeline, above the queues: what happens to a packet in ingress and egress, and the state of the program that says so. What a
 * compiled program includes, and what it exports (struct sw_program).
 *
 * The engine knows nothing of the program but its tables' shapes and the functions below; the program knows the engine's
 * structs, so that table lookups, counters and registers compile to straight code. A packet keeps its parsed headers (the
 * "phv", a struct of the generated code) next to its bytes while it is queued, because egress continues where ingress ended. */
#ifndef SW_PIPELINE_H
#define SW_PIPELINE_H

#include <pthread.h>

#include "pipeline/hash.h"
#include "pipeline/table.h"
#include "queues/queues.h"

#define SW_ABI 11
#define SW_MAX_LOG_RECORD 1000 /* longest log record or trace line; longer ones are truncated */
#define SW_MAX_PASSES 64 /* resubmit, recirculate, egress clone: then the packet is dropped */

/* What one call of a verb may do, in steps of some nanoseconds, beyond one way of a packet through the program and what waited
 * when it was called: further passes of all packets, copies, egress towards dead ports, rounds of loops in the program. So a verb
 * returns after some ten milliseconds, whatever the program is (BMv2's thread loops for ever). */
#define SW_MAX_STEPS (1u << 22)
#define SW_MIN_PASS_STEPS 4096 /* steps that a pass costs at least: there are never more than 1024 */
#define SW_LOOP_LIMIT 2       /* sw_packet.failed: the loop limit, not an assertion */

enum sw_instance { SW_NORMAL, SW_INGRESS_CLONE, SW_EGRESS_CLONE, SW_COALESCED, SW_RECIRC, SW_REPLICATION, SW_RESUBMIT };

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

struct sw_record { /* for the control plane (records.c) */
    struct sw_record *next;
    int64_t time;
    uint32_t list, bytes; /* list: of a digest, its position in the program */
    uint64_t data[];
};

struct sw_records {
    struct sw_record *first, *last; /* last: of no meaning without a first */
    uint32_t count;
    int event; /* signalled when one is added; -1: none */
    uint64_t lost;
};

struct sw_map { /* id -> replicas, open addressing by the table code's hash */
    struct sw_replicas **slots;
    uint32_t mask, count;
};

struct sw_register {
    uint8_t *cells;
};

/* A switch. What every packet needs comes before `ports.at` (prefetch.c). */
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
    uint32_t queues;
    struct sw_capture *capture; /* NULL: no capture */
    pthread_mutex_t lock;
    struct sw_pool pool;
    struct sw_ports ports;

    int event;
    char **texts; /* the program's strings, for the log and the trace; the generated C has none of them */
    uint8_t *scratch; /* for long inputs of hashes: any packet's bytes, and program->scratch before them; or for a phv */

    struct sw_map groups, sessions;
    struct sw_group *watching; /* groups of selectors with members that need ports */
    struct sw_records digests, log; /* log: of log_msg(), failed assertions, and the trace */
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

/* packet_path.c */
void sw_set_now(struct sw *sw, int64_t now);
void sw_drop(struct sw *sw, struct sw_packet *p, enum sw_drop reason);
void sw_run_ingress(struct sw *sw, struct sw_packet *p);
/* Egress and deparser. The packet if it is to be sent, NULL when it went elsewhere. */
struct sw_packet *sw_run_egress(struct sw *sw, struct sw_packet *p, uint32_t depth);
void sw_drain_down_port(struct sw *sw, struct sw_port *port);

/* meter.c, replication.c, records.c */
/* Color of a packet of so many bytes, of which the meter takes `amount` (1 where it counts packets). */
uint32_t sw_meter_run(struct sw_meter *m, uint64_t now_us, uint64_t amount, uint32_t bytes);
const struct sw_replicas *sw_map_find(const struct sw_map *map, uint32_t id);
int sw_map_set(struct sw_map *map, uint32_t id, const struct sw_replica *at, uint32_t count, uint32_t truncate_to);
int sw_map_delete(struct sw_map *map, uint32_t id);
void sw_map_clear(struct sw_map *map);
void sw_send_digest(struct sw *sw, struct sw_packet *p);
/* With room for so many bytes; NULL, and counted as lost, when there are `most` or no memory. */
struct sw_record *sw_record_add(struct sw_records *records, uint32_t most, int64_t time, uint32_t bytes);
struct sw_record *sw_record_take(struct sw_records *records); /* the oldest, which the caller frees; NULL: none */
void sw_records_clear(struct sw_records *records);

/* log.c, trace.c; called by generated code too */
void sw_log_msg(struct sw *sw, const char *format, unsigned count, const i128 *values);
void sw_assertion_failed(struct sw *sw, struct sw_packet *p, const char *what);
void sw_log_loop_limit(struct sw *sw, const struct sw_packet *p); /* once per program */
void sw_trace(struct sw *sw, const struct sw_packet *p, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sw_trace_table(struct sw *sw, const struct sw_packet *p, const char *name, const struct sw_table *t,
                    const uint64_t *key, const struct sw_entry *e);
void sw_trace_action(struct sw *sw, const struct sw_packet *p, const char *name, const struct sw_param *params,
                     unsigned count, const uint64_t *args);

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
