/* The switch as a C object: the device verbs, for a driver (driver/, ctypes).
 *
 * A `struct sw` is one switch: ports, queues, a packet pool, and the tables and state of the P4 program loaded into it.
 * It reads no clock and opens no socket: every verb takes `now` (nanoseconds, monotonic, of the caller's choosing), and
 * frames go in and come out by value. Parser and ingress run inside sw_receive(), egress and deparser inside
 * sw_transmit(), as in BMv2.
 *
 * Locking: one mutex a switch. Functions marked [locked] expect the caller to hold it, so that a driver can take it once a
 * batch; the sw_dev_* functions take it themselves. No function blocks on anything else.
 *
 * The functions are in device/, above the layers pipeline/, queues/ and wire/, each of which knows only those below it. What all
 * layers share is here too: constants, the form of a frame, and reasons to drop one. */
#ifndef SWITCH_H
#define SWITCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SW_NEVER INT64_MAX /* "no time": nothing to do until there is input */
#define SW_MAX_PORTS 512   /* port numbers are 9 bits wide; 511 is the drop port */
#define SW_DROP_PORT 511

static inline int64_t sw_earlier(int64_t a, int64_t b) { return a < b ? a : b; }

struct sw;

/* Creation. `ports` lists the port numbers that exist (0..510). Returns NULL when memory is short or a number is wrong. */
struct sw_config {
    uint32_t device_id;
    uint32_t queues;         /* strict priority queues a port, 1..8; the highest number goes first */
    uint32_t queue_packets;  /* limit of each queue in packets, 0 = none */
    uint32_t queue_bytes;    /* limit of each queue in bytes, 0 = none */
    uint32_t buffer_packets; /* packets the whole switch can hold */
    uint32_t max_frame;      /* longest frame taken or sent, in bytes */
    uint64_t seed;           /* of random(), and nothing else */
    const uint16_t *ports;
    uint32_t port_count;
};

struct sw *sw_create(const struct sw_config *config);
void sw_destroy(struct sw *sw);

void sw_lock(struct sw *sw);
void sw_unlock(struct sw *sw);

/* --- device verbs [locked] --- */

/* A frame arrived on `port`. The bytes are copied. Unknown ports, down ports and frames that are empty or longer than
 * max_frame are counted drops. */
void sw_receive(struct sw *sw, unsigned port, const void *data, size_t len, int64_t now);

/* The next frame of `port`, copied to `buf`; its length, or 0 when there is none now (queue empty, line not free, port
 * down). A frame longer than `cap` is dropped and counted; cap >= max_frame never drops. */
size_t sw_transmit(struct sw *sw, unsigned port, int64_t now, void *buf, size_t cap);

/* The same for a caller who keeps payloads and knows owners of them: a frame whose bytes after the first `head_len` stay where they
 * are. Whoever has the frame has one reference to its `owner`, NULL if all bytes are in `head`: sw_receive_frame takes it over,
 * and `take` gets it, with a `head` that is gone when it returns. The engine gives up references, and copies the payload only if the
 * program reads it, or a packet is copied or passes again: both with the functions set by sw_dev_set_owners. */
struct sw_frame {
    const void *head, *rest;
    size_t head_len, rest_len;
    void *owner;
};
#define SW_HEAD 192 /* bytes that a caller should put into `head`: more than the headers of a packet */
typedef void (*sw_take)(void *context, const struct sw_frame *frame);
void sw_receive_frame(struct sw *sw, unsigned port, const struct sw_frame *frame, int64_t now);
size_t sw_transmit_frame(struct sw *sw, unsigned port, int64_t now, size_t cap, sw_take take, void *context);
typedef void (*sw_release_owner)(void *owner);
typedef void (*sw_copy_rest)(void *owner, const void *rest, void *to, size_t len); /* the first `len` bytes of it */

/* Prefetches what sw_receive_frame (`arrives`) or sw_transmit_frame will need for a port, a step for each call; the caller lets some
 * time pass between steps (prefetch.c). It takes no lock: what another thread changes meanwhile makes it useless, not wrong. */
enum sw_prefetch_step { SW_PREFETCH_SWITCH, SW_PREFETCH_PORT, SW_PREFETCH_PACKET };
void sw_prefetch(const struct sw *sw, unsigned port, int arrives, enum sw_prefetch_step step);

/* Earliest time at which sw_tick() or sw_transmit() may have something to do without further input; SW_NEVER when none.
 * It covers ports with a rate and a backlog (the time their line is free), frames on long wires, and what flow control has to do; a port without a
 * rate has no line of its own, so its backlog is announced by sw_take_ready() only. */
int64_t sw_next_wakeup(struct sw *sw);
/* The same without links that become free: these can make up for a late caller, a frame on a long wire cannot. */
int64_t sw_next_deadline(struct sw *sw);

/* Time passes: pauses end, and are repeated; frames on long wires arrive. 1: some are left for the next call, because the program
 * took so many steps for those before; sw_next_wakeup() is past then. */
int sw_tick(struct sw *sw, int64_t now);

/* Carrier. Frames queued for a port that goes down run through egress and are then dropped and counted (port_down). */
void sw_port_changed(struct sw *sw, unsigned port, int up, int64_t now);

/* Ports that went from "nothing to send" to "something to send" since the last call, by any verb on any port (egress clones and
 * recirculation reach other ports too). Writes at most `cap` numbers, returns how many; call again while it returns cap. */
size_t sw_take_ready(struct sw *sw, uint16_t *ports, size_t cap);

/* True when the port has a frame to send (sw_transmit may still return 0: link busy, priority paused, dropped in egress). */
int sw_has_backlog(const struct sw *sw, unsigned port);

/* Measures how late the caller is: with timing on, each link has an ideal one, which starts each frame as soon as the frame is
 * queued and the link is free, and pauses only for flow control. [locked] */
void sw_set_timing(struct sw *sw, int on);
/* When the last frame of sw_transmit() would have started on the ideal link, at the time of that call or before it.
 * 0 while timing is off. [locked] */
int64_t sw_transmit_due(const struct sw *sw, unsigned port);

/* How long (ns) the link of the port was idle although a frame was queued, beyond what slack made up for. [locked] */
uint64_t sw_port_idle_ns(const struct sw *sw, unsigned port);

/* --- the same verbs, taking the lock themselves --- */
void sw_dev_receive(struct sw *sw, unsigned port, const void *data, size_t len, int64_t now);
size_t sw_dev_transmit(struct sw *sw, unsigned port, int64_t now, void *buf, size_t cap);
/* And the ports that are ready then, as sw_dev_take_ready: one turn of the lock. */
size_t sw_dev_receive_frame(
    struct sw *sw, unsigned port, const struct sw_frame *frame, int64_t now, uint16_t *ready, size_t cap);
size_t sw_dev_transmit_frame(struct sw *sw, unsigned port, int64_t now, size_t cap, sw_take take, void *context);
void sw_dev_set_owners(struct sw *sw, sw_release_owner release, sw_copy_rest copy);
/* An eventfd (-1 = none) that the sw_dev_* functions (control plane packet-out, port_changed ...) write an 8-byte 1 to when they
 * left a port ready: for a driver asleep in epoll. The driver's own sw_* calls never write it. */
void sw_dev_set_event(struct sw *sw, int fd);
int64_t sw_dev_next_wakeup(struct sw *sw);
void sw_dev_tick(struct sw *sw, int64_t now);
void sw_dev_port_changed(struct sw *sw, unsigned port, int up, int64_t now);
/* Makes the wires of a port longer: what arrives at it, and what it sends, takes so many ns more (0: the start). Frames on a wire
 * that becomes shorter take what is left of the new time at most. How it is done: long_wire.c. Fails (-1) when there is no such port. */
int sw_dev_set_port_delay(struct sw *sw, unsigned port, int64_t arriving, int64_t leaving, int64_t now);
size_t sw_dev_take_ready(struct sw *sw, uint16_t *ports, size_t cap);

/* Why packets are dropped. */
#define SW_DROP_REASONS(X)                                                                                              \
    X(ingress, "the program dropped it in ingress")                                                                     \
    X(egress, "the program dropped it in egress")                                                                       \
    X(queue_full, "the queue was at its limit")                                                                         \
    X(no_buffer, "the packet pool was empty")                                                                           \
    X(no_port, "sent to or received from a port that does not exist")                                                   \
    X(port_down, "sent to or received from a port without carrier")                                                     \
    X(no_pipeline, "no program is loaded")                                                                              \
    X(frame_size, "empty, or longer than a frame may be")                                                                        \
    X(no_headroom, "beyond the headroom of priority flow control")                                                      \
    X(bad_priority, "priority at or above the number of queues")                                                        \
    X(no_group, "multicast group without replicas, or unknown")                                                         \
    X(no_session, "clone to a session that is not configured")                                                          \
    X(loop_limit, "a loop that does not end, or too many passes or copies")                                                      \
    X(assertion, "an assert or assume of the program failed")
enum sw_drop {
#define SW_DROP_ENUM(name, text) SW_DROP_##name,
    SW_DROP_REASONS(SW_DROP_ENUM)
#undef SW_DROP_ENUM
    SW_DROP_COUNT
};

#ifdef __cplusplus
}
#endif
#endif
