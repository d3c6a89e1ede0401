/* Priority flow control (IEEE 802.1Q clause 36, frames of 802.3 annex 31D): a port that receives more than the switch can
 * forward pauses its neighbour, per priority, and is paused by it in the same way.
 *
 * Buffered bytes are charged to the port where they arrived: each port counts, for each priority under flow control, the
 * bytes that arrived there and have not left. Above `xoff` the port sends PAUSE, at or below `xon` it cancels it. Frames that
 * arrive before the neighbour has stopped may use `headroom` more bytes; beyond that they are dropped. A priority is the
 * queue that the program chose, the same at every port.
 *
 * A PAUSE is valid for a time. While a port is above its threshold, it repeats the PAUSE after half of that time, and in every
 * frame for another priority; a received PAUSE expires by itself. Frames of other priorities pass a paused one; frames of the
 * same priority wait behind it, whichever port they came from or go to: head-of-line blocking is part of it. PAUSE frames
 * themselves are never paused, queued or forwarded. */
#include "wire/wire.h"

#include <string.h>

#define FRAME_BYTES 60 /* without FCS */
#define QUANTUM_BITS 512
#define TIMES 18 /* where the eight times begin in a frame; the class enable vector is before them */

static const uint8_t group_address[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};

static int64_t quanta_ns(const struct sw_pause *pause, uint32_t quanta) {
    uint64_t rate = pause->config.rate; /* none when flow control has just been turned off */
    return rate ? (int64_t)((u128)quanta * QUANTUM_BITS * 1000000000u / rate) : 0;
}

void sw_pause_set(struct sw_ports *ports, struct sw_port *port, const struct sw_pause_config *config, int64_t now) {
    static const struct sw_pause_config off;
    struct sw_pause *pause = &port->pause;
    pause->config = config ? *config : off;
    memset(pause->paused_until, 0, sizeof pause->paused_until);
    if (pause->paused)
        sw_link_resume(port, now);
    int resumed = (port->waiting & pause->paused) != 0;
    pause->paused = 0;
    pause->pending |= pause->asserted; /* resume the neighbour; the next frame pauses it again below if necessary */
    pause->asserted = 0;
    if (pause->pending || resumed)
        sw_mark_ready(ports, port);
    ports->pausing = 0;
    for (uint32_t i = 0; i < ports->count; i++)
        ports->pausing |= ports->list[i].pause.config.priorities != 0;
}

/* --- telling the neighbour --- */

int sw_pause_charge(struct sw_ports *ports, struct sw_port *port, unsigned queue, uint32_t bytes) {
    uint32_t bit = 1u << queue;
    if (!port || !(port->pause.config.priorities & bit))
        return 0;
    struct sw_pause *pause = &port->pause;
    uint64_t used = (uint64_t)pause->buffered[queue] + bytes;
    if (used > (uint64_t)pause->config.xoff + pause->config.headroom) {
        port->stats.headroom_drops++;
        return -1;
    }
    pause->buffered[queue] = (uint32_t)used;
    if (used > pause->config.xoff && !(pause->asserted & bit)) {
        pause->asserted |= bit;
        pause->pending |= bit;
        sw_mark_ready(ports, port);
    }
    return 1;
}

void sw_pause_release(struct sw_ports *ports, struct sw_port *port, unsigned queue, uint32_t bytes) {
    uint32_t bit = 1u << queue;
    struct sw_pause *pause = &port->pause;
    pause->buffered[queue] -= bytes;
    if (pause->asserted & bit && pause->buffered[queue] <= pause->config.xon) {
        pause->asserted &= ~bit;
        pause->pending |= bit;
        sw_mark_ready(ports, port);
    }
}

void sw_pause_reset(struct sw_ports *ports) {
    for (uint32_t i = 0; i < ports->count; i++) {
        struct sw_pause *pause = &ports->list[i].pause;
        memset(pause->buffered, 0, sizeof pause->buffered);
        pause->pending |= pause->asserted;
        pause->asserted = 0;
        if (pause->pending)
            sw_mark_ready(ports, &ports->list[i]);
    }
}

static void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* For how long the neighbour has been silent. Threads tell the switch the time, and one may be late. */
static uint64_t since(const struct sw_pause *pause, unsigned q, int64_t now) {
    return now > pause->silenced_since[q] ? (uint64_t)(now - pause->silenced_since[q]) : 0;
}

/* The neighbour is silent, or goes on, in the priorities of `mask`. */
static void silence(struct sw_pause *pause, uint32_t mask, int64_t now) {
    for (unsigned q = 0; q < SW_MAX_QUEUES; q++) {
        uint32_t bit = 1u << q;
        if (mask & ~pause->silenced & bit) {
            pause->silenced_since[q] = now;
            pause->silenced_times++;
        } else if (pause->silenced & ~mask & bit) {
            pause->silenced_ns += since(pause, q, now);
        }
    }
    pause->silenced = (uint8_t)mask;
}

uint64_t sw_pause_silenced_ns(const struct sw_pause *pause, int64_t now) {
    uint64_t total = pause->silenced_ns;
    for (unsigned q = 0; q < SW_MAX_QUEUES; q++)
        if (pause->silenced & 1u << q)
            total += since(pause, q, now);
    return total;
}

size_t sw_pause_emit(struct sw_port *port, uint32_t device_id, int64_t now, uint8_t *frame, size_t cap) {
    struct sw_pause *pause = &port->pause;
    if (cap < FRAME_BYTES)
        return 0;
    memset(frame, 0, FRAME_BYTES);
    memcpy(frame, group_address, 6);
    frame[6] = 0x02; /* locally administered: the engine has no addresses, and receivers ignore this one */
    put16(frame + 8, device_id);
    put16(frame + 10, port->number);
    put16(frame + 12, 0x8808);
    put16(frame + 14, 0x0101);
    put16(frame + 16, pause->pending | pause->asserted); /* all that are paused, since there is one time of the next refresh */
    for (unsigned q = 0; q < SW_MAX_QUEUES; q++)
        if (pause->asserted & 1u << q)
            put16(frame + TIMES + 2 * q, pause->config.quanta);
    silence(pause, pause->asserted, now);
    pause->pending = 0;
    int64_t half = quanta_ns(pause, pause->config.quanta) / 2;
    pause->refresh_at = now + (half ? half : 1); /* or time would stand still for who waits for it */
    port->stats.pauses_sent++;
    return FRAME_BYTES;
}

/* --- received PAUSE frames --- */

int sw_pause_receive(struct sw_ports *ports, struct sw_port *port, const uint8_t *frame, size_t len, int64_t now) {
    struct sw_pause *pause = &port->pause;
    if (len < TIMES + 2 * SW_MAX_QUEUES || frame[12] != 0x88 || frame[13] != 0x08 || frame[14] != 0x01 ||
        frame[15] != 0x01 || memcmp(frame, group_address, 6))
        return 0;
    port->stats.pauses_received++;
    uint32_t named = frame[17] & pause->config.priorities;
    for (unsigned q = 0; q < SW_MAX_QUEUES; q++) {
        if (!(named & 1u << q))
            continue;
        uint32_t quanta = (uint32_t)frame[TIMES + 2 * q] << 8 | frame[TIMES + 2 * q + 1];
        pause->paused_until[q] = now + quanta_ns(pause, quanta);
        pause->paused |= 1u << q;
    }
    sw_pause_expire(ports, port, now);
    return 1;
}

void sw_pause_expire(struct sw_ports *ports, struct sw_port *port, int64_t now) {
    struct sw_pause *pause = &port->pause;
    uint32_t before = pause->paused;
    for (unsigned q = 0; q < SW_MAX_QUEUES; q++)
        if (pause->paused & 1u << q && pause->paused_until[q] <= now) {
            pause->paused &= ~(1u << q);
            sw_link_resume(port, pause->paused_until[q]);
        }
    if (port->waiting & before & ~pause->paused)
        sw_mark_ready(ports, port);
}

void sw_pause_port_down(struct sw_port *port, int64_t now) {
    port->pause.paused = 0;
    silence(&port->pause, 0, now);
    port->pause.pending = port->pause.asserted = 0; /* the neighbour forgets too; the next frame above the threshold sends PAUSE again */
}

/* --- time --- */

void sw_pause_tick(struct sw_ports *ports, int64_t now) {
    for (uint32_t i = 0; i < ports->count; i++) {
        struct sw_port *port = &ports->list[i];
        struct sw_pause *pause = &port->pause;
        if (pause->paused)
            sw_pause_expire(ports, port, now);
        if (pause->asserted && !pause->pending && pause->refresh_at <= now) {
            pause->pending = pause->asserted;
            sw_mark_ready(ports, port);
        }
    }
}

int64_t sw_pause_next_wakeup(const struct sw_port *port) {
    const struct sw_pause *pause = &port->pause;
    int64_t best = pause->asserted && !pause->pending ? pause->refresh_at : SW_NEVER;
    for (uint32_t held = port->waiting & pause->paused; held; held &= held - 1) {
        unsigned q = (unsigned)__builtin_ctz(held);
        if (pause->paused_until[q] < best)
            best = pause->paused_until[q];
    }
    return best;
}
