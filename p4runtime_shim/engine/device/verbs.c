/* The verbs of the device: frames arrive from the wire and go to it, time passes, ports go up and down. */
#include "device/capture.h"
#include "device/control_plane.h"

#include <stdlib.h>
#include <string.h>

/* The bytes of a frame in one piece, which is the caller's; NULL if all are in its head, or there is no memory. */
static uint8_t *in_one_piece(const struct sw *sw, const struct sw_frame *frame) {
    uint8_t *whole = frame->rest_len ? malloc(frame->head_len + frame->rest_len) : NULL;
    if (whole) {
        memcpy(whole, frame->head, frame->head_len);
        sw->pool.copy_rest(frame->owner, frame->rest, whole + frame->head_len, frame->rest_len);
    }
    return whole;
}

static void capture(struct sw *sw, unsigned port, int direction, const struct sw_frame *frame, int64_t now) {
    uint8_t *whole = in_one_piece(sw, frame);
    size_t len = whole ? frame->head_len + frame->rest_len : frame->head_len;
    sw_capture_frame(sw, port, direction, whole ? whole : frame->head, len, now);
    free(whole);
}

/* A packet for an arriving frame, NULL if it is dropped at once. */
static struct sw_packet *arrive(struct sw *sw, struct sw_port *port, const struct sw_frame *frame, int64_t now) {
    size_t len = frame->head_len + frame->rest_len;
    if (__builtin_expect(sw->capture != NULL, 0))
        capture(sw, port->number, SW_IN, frame, now);
    port->stats.rx_packets++;
    port->stats.rx_bytes += len;
    if (port->pause.config.priorities && sw_pause_receive(&sw->ports, port, frame->head, frame->head_len, now))
        return NULL;
    if (!sw->program) {
        sw->drops[SW_DROP_no_pipeline]++;
        return NULL;
    }
    if (!len || len > sw->pool.max_frame) {
        sw->drops[SW_DROP_frame_size]++;
        return NULL;
    }
    struct sw_packet *p = sw_packet_new(&sw->pool, frame->head_len);
    if (!p)
        sw->drops[SW_DROP_no_buffer]++;
    return p;
}

static void receive_now(struct sw *sw, struct sw_port *port, const struct sw_frame *frame, int64_t now) {
    struct sw_packet *p = arrive(sw, port, frame, now);
    if (!p) {
        if (frame->owner)
            sw->pool.release(frame->owner);
        return;
    }
    size_t len = frame->head_len + frame->rest_len;
    memcpy(p->data, frame->head, frame->head_len);
    if (frame->owner) {
        p->owner = frame->owner;
        p->rest = frame->rest;
        p->absent = p->data + frame->head_len;
        p->rest_len = (uint32_t)frame->rest_len;
        p->present = (uint32_t)frame->head_len;
        if (sw->program->reads_payload)
            sw_fill(&sw->pool, p);
    }
    memset(p->phv, 0, sw->program->phv_size);
    p->len = p->length = p->ingress_len = (uint32_t)len;
    p->arrival_port = (uint16_t)port->number;
    SW_TRACE(sw, p, "arrived on port %u, %zu bytes", port->number, len);
    sw->program->set_arrival(p->phv, port->number, (uint32_t)len, sw->now_us);
    sw_run_ingress(sw, p);
}

static void receive_bytes_now(struct sw *sw, struct sw_port *port, const void *data, size_t len, int64_t now) {
    struct sw_frame frame = {data, NULL, len, 0, NULL};
    receive_now(sw, port, &frame, now);
}

void sw_receive(struct sw *sw, unsigned number, const void *data, size_t len, int64_t now) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    sw_set_now(sw, now);
    if (!port || !port->up)
        sw->drops[port ? SW_DROP_port_down : SW_DROP_no_port]++;
    else if (__builtin_expect(!sw_wire_used(&port->arriving), 1))
        receive_bytes_now(sw, port, data, len, now);
    else if (!sw_wire_receive(&sw->ports, port, data, len, now))
        sw->drops[SW_DROP_no_buffer]++;
}

void sw_receive_frame(struct sw *sw, unsigned number, const struct sw_frame *frame, int64_t now) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    if (port && port->up && !sw_wire_used(&port->arriving)) {
        sw_set_now(sw, now);
        receive_now(sw, port, frame, now);
        return;
    }
    uint8_t *whole = in_one_piece(sw, frame);
    sw_receive(sw, number, whole ? whole : frame->head, whole ? frame->head_len + frame->rest_len : frame->head_len, now);
    free(whole);
    if (frame->owner)
        sw->pool.release(frame->owner);
}

static void frame_sent(struct sw *sw, struct sw_port *port, const struct sw_frame *frame, int64_t since, int64_t now) {
    size_t len = frame->head_len + frame->rest_len;
    if (__builtin_expect(sw->capture != NULL, 0))
        capture(sw, port->number, SW_OUT, frame, now);
    sw_link_transmit(port, sw->ports.timing, since, now, (uint32_t)len);
    port->stats.tx_packets++;
    port->stats.tx_bytes += len;
}

/* The packet as a frame, which has the reference to its payload from now on. */
static struct sw_frame to_frame(struct sw *sw, struct sw_packet *p) {
    size_t here = p->owner ? (size_t)(p->absent - p->data) : p->len;
    if (p->len <= here) {
        sw_release(&sw->pool, p);
        return (struct sw_frame){p->data, NULL, p->len, 0, NULL};
    }
    struct sw_frame frame = {p->data, p->rest, here, p->len - here, p->owner};
    p->owner = NULL;
    return frame;
}

static size_t transmit_now(struct sw *sw, struct sw_port *port, int64_t now, size_t cap, sw_take take, void *context) {
    if (!(port->waiting || port->pause.pending))
        return 0;
    if (port->rate && now < port->tx_link.free_at)
        return 0;
    sw_set_now(sw, now);
    uint8_t pause[64];
    size_t room = cap < sizeof pause ? cap : sizeof pause;
    size_t pause_bytes = port->pause.pending ? sw_pause_emit(port, sw->device_id, now, pause, room) : 0;
    if (pause_bytes) {
        struct sw_frame frame = {pause, NULL, pause_bytes, 0, NULL};
        frame_sent(sw, port, &frame, now, now);
        take(context, &frame);
        return pause_bytes;
    }
    if (port->pause.paused)
        sw_pause_expire(&sw->ports, port, now);
    for (struct sw_packet *p; (p = sw_dequeue(&sw->ports, port, now));) {
        p = sw_run_egress(sw, p, port->queue[p->queue].packets);
        if (!p)
            continue;
        if (p->len > cap || !p->len) {
            sw_drop(sw, p, SW_DROP_frame_size);
            continue;
        }
        size_t len = p->len;
        int64_t since = p->enqueued;
        SW_TRACE(sw, p, "leaves port %u, %zu bytes", port->number, len);
        struct sw_frame frame = to_frame(sw, p);
        frame_sent(sw, port, &frame, since, now);
        take(context, &frame);
        sw_packet_free(&sw->pool, p);
        return len;
    }
    return 0;
}

struct copy {
    const struct sw_pool *pool;
    uint8_t *to;
};

static void take_copy(void *context, const struct sw_frame *frame) {
    struct copy *copy = context;
    memcpy(copy->to, frame->head, frame->head_len);
    if (!frame->owner)
        return;
    copy->pool->copy_rest(frame->owner, frame->rest, copy->to + frame->head_len, frame->rest_len);
    copy->pool->release(frame->owner);
}

static size_t transmit_bytes_now(struct sw *sw, struct sw_port *port, int64_t now, void *buf, size_t cap) {
    struct copy copy = {&sw->pool, buf};
    return transmit_now(sw, port, now, cap, take_copy, &copy);
}

/* A call that has many frames received or sent, as wires do: each frame may take all steps of a call, since it would be alone in one
 * without the wire, but what is behind it waits for the next call when together they have taken as many. */
static int has_steps_left(struct sw *sw, uint32_t *left) {
    uint32_t taken = SW_MAX_STEPS - sw->steps_left;
    *left -= taken < *left ? taken : *left;
    sw->steps_left = SW_MAX_STEPS;
    return *left != 0;
}

/* The same over a wire that takes time. What finds no room on it waits in the queues. Not inlined: it is rare. */
static __attribute__((noinline)) size_t transmit_over_wire(struct sw *sw, struct sw_port *port, int64_t now, void *buf, size_t cap) {
    uint32_t left = SW_MAX_STEPS;
    while (sw_wires_have_room(&sw->ports, sw->pool.max_frame)) {
        size_t len = transmit_bytes_now(sw, port, now, buf, cap);
        if (!len)
            break;
        if (!sw_wire_transmit(&sw->ports, port, buf, len, now))
            sw->drops[SW_DROP_no_buffer]++;
        if (!has_steps_left(sw, &left)) {
            sw_mark_ready(&sw->ports, port);
            break;
        }
    }
    struct sw_wire_frame *frame = sw_wire_transmitted(&sw->ports, port, now, cap);
    size_t len = frame ? frame->len : 0;
    if (frame)
        memcpy(buf, frame->data, len);
    free(frame);
    return len;
}

size_t sw_transmit(struct sw *sw, unsigned number, int64_t now, void *buf, size_t cap) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    if (!port || !port->up)
        return 0;
    if (__builtin_expect(sw_wire_used(&port->leaving), 0))
        return transmit_over_wire(sw, port, now, buf, cap);
    return transmit_bytes_now(sw, port, now, buf, cap);
}

size_t sw_transmit_frame(struct sw *sw, unsigned number, int64_t now, size_t cap, sw_take take, void *context) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    if (port && port->up && !sw_wire_used(&port->leaving))
        return transmit_now(sw, port, now, cap, take, context);
    uint8_t *buffer = port && port->up ? malloc(cap) : NULL;
    struct sw_frame frame = {buffer, NULL, buffer ? sw_transmit(sw, number, now, buffer, cap) : 0, 0, NULL};
    if (frame.head_len)
        take(context, &frame);
    free(buffer);
    return frame.head_len;
}

/* Frames whose time comes while others are received go on with them: there is an end, as now stays. 1: some are left. */
static int receive_from_wires(struct sw *sw, int64_t now) {
    uint32_t left = SW_MAX_STEPS;
    for (uint32_t i = 0; i < sw->ports.count; i++) {
        struct sw_port *port = &sw->ports.list[i];
        for (struct sw_wire_frame *frame; (frame = sw_wire_received(&sw->ports, port, now));) {
            receive_bytes_now(sw, port, frame->data, frame->len, now);
            free(frame);
            if (!has_steps_left(sw, &left))
                return 1;
        }
    }
    return 0;
}

int sw_tick(struct sw *sw, int64_t now) {
    sw_set_now(sw, now);
    int left = __builtin_expect(sw->ports.delaying, 0) ? receive_from_wires(sw, now) : 0;
    if (sw->ports.pausing)
        sw_pause_tick(&sw->ports, now);
    return left;
}

void sw_port_changed(struct sw *sw, unsigned number, int up, int64_t now) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    if (!port)
        return;
    sw_set_now(sw, now);
    port->up = up != 0;
    port->stats.up = port->up;
    sw_groups_port_changed(sw);
    if (!up) {
        sw->drops[SW_DROP_port_down] += sw_wires_lose(&sw->ports, port);
        sw_pause_port_down(port, now);
        sw_drain_down_port(sw, port);
    }
}

int64_t sw_next_wakeup(struct sw *sw) { return sw_ports_next_wakeup(&sw->ports, 1); }

int64_t sw_next_deadline(struct sw *sw) {
    return sw->ports.pausing || sw->ports.delaying ? sw_ports_next_wakeup(&sw->ports, 0) : SW_NEVER;
}

size_t sw_take_ready(struct sw *sw, uint16_t *ports, size_t cap) { return sw_ports_take_ready(&sw->ports, ports, cap); }

int sw_has_backlog(const struct sw *sw, unsigned number) {
    const struct sw_port *port = sw_port_at(&sw->ports, number);
    return port && (port->waiting || port->pause.pending || port->leaving.head);
}

void sw_set_timing(struct sw *sw, int on) { sw_ports_set_timing(&sw->ports, on); }

int64_t sw_transmit_due(const struct sw *sw, unsigned number) {
    const struct sw_port *port = sw_port_at(&sw->ports, number);
    return sw->ports.timing && port ? port->due : 0;
}

uint64_t sw_port_idle_ns(const struct sw *sw, unsigned number) {
    const struct sw_port *port = sw_port_at(&sw->ports, number);
    return port ? port->idle_ns : 0;
}

/* --- verbs with the lock, which also wake a driver when they made a port ready --- */

void sw_begin(struct sw *sw) {
    sw_lock(sw);
    sw->ports.outside_ready = 0;
}

/* Under the lock, or the driver could have closed the descriptor by then, and it be another file's. */
void sw_finish(struct sw *sw) {
    if (sw->ports.outside_ready)
        sw_signal(sw->event);
    sw_unlock(sw);
}

void sw_dev_receive(struct sw *sw, unsigned port, const void *data, size_t len, int64_t now) {
    sw_begin(sw);
    sw_receive(sw, port, data, len, now);
    sw_finish(sw);
}

size_t sw_dev_transmit(struct sw *sw, unsigned port, int64_t now, void *buf, size_t cap) {
    sw_begin(sw);
    size_t n = sw_transmit(sw, port, now, buf, cap);
    sw_finish(sw);
    return n;
}

size_t sw_dev_receive_frame(
    struct sw *sw, unsigned port, const struct sw_frame *frame, int64_t now, uint16_t *ready, size_t cap) {
    sw_begin(sw);
    sw_receive_frame(sw, port, frame, now);
    size_t n = sw_take_ready(sw, ready, cap);
    sw_finish(sw);
    return n;
}

size_t sw_dev_transmit_frame(struct sw *sw, unsigned port, int64_t now, size_t cap, sw_take take, void *context) {
    sw_begin(sw);
    size_t n = sw_transmit_frame(sw, port, now, cap, take, context);
    sw_finish(sw);
    return n;
}

void sw_dev_set_owners(struct sw *sw, sw_release_owner release, sw_copy_rest copy) {
    sw_lock(sw);
    sw->pool.release = release;
    sw->pool.copy_rest = copy;
    sw_unlock(sw);
}

void sw_dev_set_event(struct sw *sw, int fd) {
    sw_lock(sw);
    sw->event = fd;
    sw_unlock(sw);
}

int64_t sw_dev_next_wakeup(struct sw *sw) {
    sw_lock(sw);
    int64_t when = sw_next_wakeup(sw);
    sw_unlock(sw);
    return when;
}

void sw_dev_tick(struct sw *sw, int64_t now) {
    sw_begin(sw);
    sw_tick(sw, now);
    sw_finish(sw);
}

void sw_dev_port_changed(struct sw *sw, unsigned port, int up, int64_t now) {
    sw_begin(sw);
    sw_port_changed(sw, port, up, now);
    sw_finish(sw);
}

int sw_dev_set_port_delay(struct sw *sw, unsigned number, int64_t arriving, int64_t leaving, int64_t now) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    if (!port || arriving < 0 || leaving < 0)
        return -1;
    sw_begin(sw);
    sw_wires_set_delay(&sw->ports, port, arriving, leaving, now);
    sw_finish(sw);
    return 0;
}

size_t sw_dev_take_ready(struct sw *sw, uint16_t *ports, size_t cap) {
    sw_lock(sw);
    size_t n = sw_take_ready(sw, ports, cap);
    sw_unlock(sw);
    return n;
}
