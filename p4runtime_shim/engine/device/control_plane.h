/* The control plane of a switch in C, for ctypes: objects by position, keys and arguments as 64-bit words.
 *
 * Python knows the names and checks every value; these functions only store. Each takes the switch's lock itself, for
 * moments; one thread at a time may call them for a switch. Negative results are errors: SW_NO_MEMORY, SW_FULL, SW_BAD. */
#ifndef SW_CONTROL_PLANE_H
#define SW_CONTROL_PLANE_H

#include "pipeline/pipeline.h"

enum { SW_OK = 0, SW_NO_MEMORY = -1, SW_FULL = -2, SW_BAD = -3 };

/* Replace the program; all state starts empty, queued packets are dropped. NULL unloads. The texts are copied; SW_BAD when their
 * number is wrong. */
int sw_load(struct sw *sw, const struct sw_program *program, const char *const *texts, uint32_t text_count);
/* Replace the program by that of `staged`, with all its entries and cells; queued packets are dropped. It cannot fail.
 * `staged` is a switch of the same ports, buffers and frame size without a driver; it gets the old program. */
void sw_adopt(struct sw *sw, struct sw *staged);

/* verbs.c: what sw_dev_* functions do, and those here that may make a port ready: take the lock; give it back, and wake a driver. */
void sw_begin(struct sw *sw);
void sw_finish(struct sw *sw);

struct sw_call *sw_call_new(uint32_t action, uint32_t words, const uint64_t *args);

/* What an entry or member does: exactly one of the three. */
struct sw_target {
    uint32_t action, arg_words;
    const uint64_t *args;
    struct sw_member *member;
    struct sw_group *group;
};

/* `mask` and `high` (upper ends of ranges) count in ternary tables only; there the larger priority wins. */
struct sw_entry *sw_ctl_insert(struct sw *sw, uint32_t table, const uint64_t *key, const uint64_t *mask,
                               const uint64_t *high, int32_t priority, const struct sw_target *target);
int sw_ctl_modify(struct sw *sw, struct sw_entry *entry, const struct sw_target *target);
void sw_ctl_delete(struct sw *sw, uint32_t table, struct sw_entry *entry);
/* All members of a value set, which is a table behind those of the program: `count` times the words of key, mask and high. They take
 * the place of the old ones at once. */
int sw_ctl_members(struct sw *sw, uint32_t table, uint32_t count, const uint64_t *words);
/* arg_words UINT32_MAX: no default action. */
int sw_ctl_default(struct sw *sw, uint32_t table, uint32_t action, uint32_t arg_words, const uint64_t *args);
void sw_ctl_entry_counter(struct sw *sw, struct sw_entry *entry, int write, uint64_t *values);
/* When packets last hit `count` entries; SW_NEVER_HIT: none has. */
void sw_ctl_entry_hits(struct sw *sw, struct sw_entry *const *entries, uint32_t count, int64_t *hits);
void sw_ctl_entry_meter(struct sw *sw, struct sw_entry *entry, const double *config);
/* What a meter has colored: packets and bytes of green, of yellow, of red. */
void sw_ctl_entry_colors(struct sw *sw, struct sw_entry *entry, int write, uint64_t *values);

struct sw_member *sw_ctl_member_add(struct sw *sw, uint32_t id, uint32_t action, uint32_t arg_words, const uint64_t *args);
int sw_ctl_member_modify(struct sw *sw, struct sw_member *m, uint32_t action, uint32_t arg_words, const uint64_t *args);
void sw_ctl_member_delete(struct sw *sw, struct sw_member *m);
/* `watch` has for each slot the port without which it is left out, or SW_NO_PORT. */
struct sw_group *sw_ctl_group_add(struct sw *sw, uint32_t id, uint32_t count, struct sw_member *const *slots,
                                  const uint16_t *watch);
int sw_ctl_group_modify(struct sw *sw, struct sw_group *g, uint32_t count, struct sw_member *const *slots,
                        const uint16_t *watch);
void sw_ctl_group_delete(struct sw *sw, struct sw_group *g);

/* `count` cells from `first` on, read or written; the caller checked the indices. Many at a time, but not too many: packets wait. */
void sw_ctl_counters(struct sw *sw, uint32_t counter, uint32_t first, uint32_t count, int write, uint64_t *values);
void sw_ctl_registers(struct sw *sw, uint32_t reg, uint32_t first, uint32_t count, int write, void *cells);
void sw_ctl_colors(struct sw *sw, uint32_t meter, uint32_t first, uint32_t count, int write, uint64_t *values);
/* config, for all alike: committed per microsecond, committed burst, peak, peak burst; NULL = unconfigured. */
void sw_ctl_meters(struct sw *sw, uint32_t meter, uint32_t first, uint32_t count, const double *config);

int sw_ctl_replicas(struct sw *sw, int sessions, uint32_t id, uint32_t count, const struct sw_replica *at, uint32_t truncate_to);
int sw_ctl_replicas_delete(struct sw *sw, int sessions, uint32_t id);

struct sw_queue_stats {
    uint64_t drops; /* because a limit was reached */
    uint32_t packets, bytes, max_packets, max_bytes, peak_packets, peak_bytes;
};
/* With `reset`, the peaks start again from what waits now. */
void sw_ctl_queue_stats(struct sw *sw, unsigned port, unsigned queue, int reset, struct sw_queue_stats *out);
void sw_ctl_queue_limits(struct sw *sw, unsigned port, unsigned queue, uint32_t packets, uint32_t bytes);
/* The oldest digest: words written to `values`, or -1 when there is none. One that is longer than `cap` is lost, and counted. */
int sw_ctl_digest(struct sw *sw, uint32_t *list, int64_t *time, uint64_t *values, uint32_t cap);
/* Which records to add, and the eventfd written when one is added (-1 = none). */
void sw_ctl_logging(struct sw *sw, int messages, int trace, int event);
/* The oldest record, truncated to `cap` bytes with its NUL; its length, or -1 when there is none. */
int sw_ctl_log_record(struct sw *sw, int64_t *time, char *text, uint32_t cap);
uint64_t sw_ctl_records_lost(struct sw *sw, int log); /* of the log, or digests */
void sw_ctl_stats(struct sw *sw, uint64_t *drops);
int sw_ctl_port_stats(struct sw *sw, unsigned port, struct sw_port_stats *out);
/* A sample of every port at `now`, in the order in which they were given. */
void sw_ctl_sample_ports(struct sw *sw, int64_t now, int keep_peaks, struct sw_port_sample *out);
/* Rate of a port's link: 0 = no limit. With a rate, frame n+1 starts when frame n has left, bit-exact without drift. `slack` ns lets
 * a late caller make up for link time that was lost while a frame was queued, at most so much at a time (0 = never, for virtual
 * time; some ms for a real-time driver, whose thread is not always scheduled in time). */
int sw_ctl_port_rate(struct sw *sw, unsigned port, uint64_t rate, int64_t slack);
/* NULL turns it off. Fails (-1) when there is no such port, or no rate. */
int sw_ctl_pause(struct sw *sw, unsigned port, const struct sw_pause_config *config);

/* Eventfd descriptors that the engine writes an 8-byte 1 to (-1 = none): whenever `port` becomes ready, for any reason, for a
 * packet-in reader of the CPU port; whenever a digest is queued. */
void sw_ctl_port_event(struct sw *sw, unsigned port, int fd);
void sw_ctl_digest_event(struct sw *sw, int fd);
/* The zero of the P4 timestamps (microseconds since then). Default 0. */
void sw_ctl_epoch(struct sw *sw, int64_t epoch);

/* action_selector.c, for the switch itself */
void sw_groups_port_changed(struct sw *sw);
void sw_groups_swap(struct sw *sw, struct sw *other); /* what watches ports; the slots of `sw` follow its ports */

/* shutdown_timer.c: so many milliseconds after SIGTERM or SIGINT, for which Python must have set its handlers, the process and
 * its children are killed, whatever they do. Once per process; 0 or a negative errno. */
int sw_exit_within(uint32_t milliseconds);

#endif
