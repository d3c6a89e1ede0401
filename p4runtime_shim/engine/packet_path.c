/* The path of a packet: arrival, ingress and its verdict, the queue, egress and its verdict, the wire.
 *
 * The order of verdicts is BMv2's (simple_switch.md, "Pseudocode for what happens at the end of ingress and egress
 * processing"): after ingress clone, digest, then one of resubmit, multicast, drop, unicast; after egress clone, then one of
 * drop, recirculate, send. Copies made with reset metadata keep only their field list and instance_type, as in BMv2. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

void sw_set_now(struct sw *sw, int64_t now) {
    sw->steps_left = SW_MAX_STEPS;
    sw->now = now;
    sw->now_us = now > sw->epoch ? (uint64_t)(now - sw->epoch) / 1000 : 0;
}

static int may_pass_again(struct sw *sw, struct sw_packet *p) {
    uint32_t weight = sw->program->pass_steps;
    if (p->passes < SW_MAX_PASSES && sw_spend(sw, weight > SW_MIN_PASS_STEPS ? weight : SW_MIN_PASS_STEPS)) {
        p->passes++;
        return 1;
    }
    sw_drop(sw, p, SW_DROP_loop_limit);
    return 0;
}

/* What became of a packet that its pipeline gave up. */
static void drop_failed(struct sw *sw, struct sw_packet *p) {
    sw_drop(sw, p, p->failed == SW_LOOP_LIMIT ? SW_DROP_loop_limit : SW_DROP_assertion);
}

static void clear_requests(struct sw_packet *p) {
    p->clone = p->resubmit = p->recirc = 0;
    p->clone_list = p->resubmit_list = p->recirc_list = p->digest_list = 0;
    p->exited = p->failed = 0;
}

/* A replica, or the first of its backups whose port is up while its own is not; the replica itself if none is. */
static const struct sw_replica *available(const struct sw *sw, const struct sw_replica *at) {
    for (uint32_t i = 0; i <= at->backups; i++)
        if (sw->port[at[i].port] && sw->port[at[i].port]->up)
            return &at[i];
    return at;
}

/* One copy to each replica; the last may be the packet itself. */
static void replicate(struct sw *sw, struct sw_packet *p, const struct sw_replicas *to) {
    for (uint32_t i = 0, next; i < to->count; i = next) {
        const struct sw_replica *at = available(sw, &to->at[i]);
        next = i + 1 + to->at[i].backups;
        struct sw_packet *copy = next < to->count ? sw_packet_copy(sw, p, 1, 0) : p;
        if (!copy)
            continue;
        if (copy != p)
            SW_TRACE(sw, p, "copied as packet %llu", (unsigned long long)copy->id);
        clear_requests(copy);
        copy->truncate_to = to->truncate_to ? to->truncate_to : UINT32_MAX;
        sw->program->set_rid(copy->phv, at->instance);
        sw_enqueue(sw, copy, at->port);
    }
    if (!to->count)
        sw_drop(sw, p, SW_DROP_no_group);
}

static void clone_from_ingress(struct sw *sw, struct sw_packet *p) {
    const struct sw_replicas *session = sw_map_find(&sw->sessions, p->clone_session);
    if (!session) {
        sw->drops[SW_DROP_no_session]++;
        return;
    }
    struct sw_packet *copy = sw_packet_copy(sw, p, 0, 1);
    if (!copy)
        return;
    copy->length = copy->ingress_len = copy->len;
    sw->program->set_ingress_port(copy->phv, p->arrival_port);
    sw->program->parse(sw, copy);
    sw->program->reset_metadata(copy->phv);
    sw->program->copy_list(copy->phv, p->phv, p->clone_list);
    sw->program->set_instance(copy->phv, SW_INGRESS_CLONE);
    SW_TRACE(sw, p, "cloned at ingress as packet %llu", (unsigned long long)copy->id);
    replicate(sw, copy, session);
}

static void clone_from_egress(struct sw *sw, struct sw_packet *p) {
    const struct sw_replicas *session = sw_map_find(&sw->sessions, p->clone_session);
    if (!session) {
        sw->drops[SW_DROP_no_session]++;
        return;
    }
    struct sw_packet *copy = sw_packet_copy(sw, p, 1, 0);
    if (!copy)
        return;
    sw->program->reset_metadata(copy->phv);
    sw->program->copy_list(copy->phv, p->phv, p->clone_list);
    sw->program->set_instance(copy->phv, SW_EGRESS_CLONE);
    SW_TRACE(sw, p, "cloned at egress as packet %llu", (unsigned long long)copy->id);
    if (may_pass_again(sw, copy))
        replicate(sw, copy, session);
}

/* The packet as it is at the start of ingress, with a field list kept: for resubmit and recirculate. Its metadata are zero,
 * ingress_port and timestamps too, as in BMv2 (whose document promises more than its code keeps). */
static int restart_at_ingress(struct sw *sw, struct sw_packet *p, uint32_t list, enum sw_instance instance) {
    struct sw_packet *keep = sw_packet_new(sw, 0); /* a buffer whose phv holds the old values for a moment */
    if (!keep) {
        sw_drop(sw, p, SW_DROP_no_buffer);
        return 0;
    }
    memcpy(keep->phv, p->phv, sw->program->phv_size);
    memset(p->phv, 0, sw->program->phv_size);
    sw->program->copy_list(p->phv, keep->phv, list);
    sw_packet_free(sw, keep);
    clear_requests(p);
    p->parsed = 0;
    p->truncate_to = UINT32_MAX;
    p->length = p->len;
    sw->program->set_instance(p->phv, instance);
    sw->program->set_length(p->phv, p->len);
    return 1;
}

void sw_run_ingress(struct sw *sw, struct sw_packet *p) {
    const struct sw_program *program = sw->program;
    for (;;) {
        program->parse(sw, p);
        program->ingress(sw, p);
        if (p->failed) {
            drop_failed(sw, p);
            return;
        }
        p->exited = 0;
        if (p->clone) {
            p->clone = 0;
            clone_from_ingress(sw, p);
        }
        if (p->digest_list)
            sw_send_digest(sw, p);
        if (!p->resubmit)
            break;
        if (!may_pass_again(sw, p))
            return;
        SW_TRACE(sw, p, "resubmitted");
        sw_fill(sw, p);
        p->data -= p->parsed;
        p->len += p->parsed;
        if (!restart_at_ingress(sw, p, p->resubmit_list, SW_RESUBMIT))
            return;
    }
    if (p->mcast) {
        const struct sw_replicas *group = sw_map_find(&sw->groups, p->mcast);
        if (!group) {
            sw_drop(sw, p, SW_DROP_no_group);
            return;
        }
        program->set_instance(p->phv, SW_REPLICATION);
        replicate(sw, p, group);
    } else if (p->egress_spec == SW_DROP_PORT) {
        sw_drop(sw, p, SW_DROP_ingress);
    } else {
        program->set_instance(p->phv, SW_NORMAL);
        sw_enqueue(sw, p, p->egress_spec);
    }
}

/* Put the headers in front of the payload; the payload moves only when they outgrow the headroom. */
static int deparse(struct sw *sw, struct sw_packet *p) {
    uint32_t size = sw->program->headers_size(sw, p);
    if ((size_t)(p->data - p->base) < size) {
        if ((size_t)size + p->len > sw->room)
            return -1;
        sw_fill(sw, p);
        memmove(p->base + size, p->data, p->len);
        p->data = p->base + size;
    }
    p->data -= size;
    p->len += size;
    p->parsed = 0;
    sw->program->emit(p->phv, p->data);
    return 0;
}

struct sw_packet *sw_run_egress(struct sw *sw, struct sw_packet *p, uint32_t depth) {
    const struct sw_program *program = sw->program;
    SW_TRACE(sw, p, "egress for port %u after %lld us", p->egress_port, (long long)(sw->now - p->enqueued) / 1000);
    int64_t since = p->enqueued > sw->epoch ? p->enqueued - sw->epoch : 0;
    program->egress(sw, p, (uint64_t)since / 1000, depth);
    if (p->failed) {
        drop_failed(sw, p);
        return NULL;
    }
    p->exited = 0;
    if (p->clone) {
        p->clone = 0;
        clone_from_egress(sw, p);
    }
    if (p->egress_spec == SW_DROP_PORT) {
        sw_drop(sw, p, SW_DROP_egress);
        return NULL;
    }
    if (deparse(sw, p)) {
        sw_drop(sw, p, SW_DROP_frame_size);
        return NULL;
    }
    if (p->recirc) {
        if (p->len > sw->max_frame) { /* as if it had arrived: it may have grown in egress, but not with every pass */
            sw_drop(sw, p, SW_DROP_frame_size);
            return NULL;
        }
        if (!may_pass_again(sw, p))
            return NULL;
        SW_TRACE(sw, p, "recirculated");
        sw_fill(sw, p);
        p->ingress_len = p->len;
        if (restart_at_ingress(sw, p, p->recirc_list, SW_RECIRC))
            sw_run_ingress(sw, p);
        return NULL;
    }
    if (p->truncate_to < p->len)
        p->len = p->truncate_to;
    return p;
}

/* --- verbs --- */

/* The bytes of a frame in one piece, which is the caller's; NULL if all are in its head, or there is no memory. */
static uint8_t *in_one_piece(const struct sw *sw, const struct sw_frame *frame) {
    uint8_t *whole = frame->rest_len ? malloc(frame->head_len + frame->rest_len) : NULL;
    if (whole) {
        memcpy(whole, frame->head, frame->head_len);
        sw->copy_rest(frame->owner, frame->rest, whole + frame->head_len, frame->rest_len);
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
    if (port->pause.config.priorities && sw_pause_receive(sw, port, frame->head, frame->head_len))
        return NULL;
    if (!sw->program) {
        sw->drops[SW_DROP_no_pipeline]++;
        return NULL;
    }
    if (!len || len > sw->max_frame) {
        sw->drops[SW_DROP_frame_size]++;
        return NULL;
    }
    struct sw_packet *p = sw_packet_new(sw, frame->head_len);
    if (!p)
        sw->drops[SW_DROP_no_buffer]++;
    return p;
}

static void receive_now(struct sw *sw, struct sw_port *port, const struct sw_frame *frame, int64_t now) {
    struct sw_packet *p = arrive(sw, port, frame, now);
    if (!p) {
        if (frame->owner)
            sw->release(frame->owner);
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
            sw_fill(sw, p);
    }
    memset(p->phv, 0, sw->program->phv_size);
    p->len = p->length = p->ingress_len = (uint32_t)len;
    p->arrival_port = (uint16_t)port->number;
    SW_TRACE(sw, p, "arrived on port %u, %zu bytes", port->number, len);
    sw->program->set_arrival(p->phv, port->number, (uint32_t)len, sw->now_us);
    sw_run_ingress(sw, p);
}

void sw_receive_now(struct sw *sw, struct sw_port *port, const void *data, size_t len, int64_t now) {
    struct sw_frame frame = {data, NULL, len, 0, NULL};
    receive_now(sw, port, &frame, now);
}

void sw_receive(struct sw *sw, unsigned number, const void *data, size_t len, int64_t now) {
    struct sw_port *port = number < SW_MAX_PORTS ? sw->port[number] : NULL;
    sw_set_now(sw, now);
    if (!port || !port->up)
        sw->drops[port ? SW_DROP_port_down : SW_DROP_no_port]++;
    else if (__builtin_expect(sw_wire_used(&port->arriving), 0))
        sw_wire_receive(sw, port, data, len, now);
    else
        sw_receive_now(sw, port, data, len, now);
}

void sw_receive_frame(struct sw *sw, unsigned number, const struct sw_frame *frame, int64_t now) {
    struct sw_port *port = number < SW_MAX_PORTS ? sw->port[number] : NULL;
    if (port && port->up && !sw_wire_used(&port->arriving)) {
        sw_set_now(sw, now);
        receive_now(sw, port, frame, now);
        return;
    }
    uint8_t *whole = in_one_piece(sw, frame);
    sw_receive(sw, number, whole ? whole : frame->head, whole ? frame->head_len + frame->rest_len : frame->head_len, now);
    free(whole);
    if (frame->owner)
        sw->release(frame->owner);
}

static void frame_sent(struct sw *sw, struct sw_port *port, const struct sw_frame *frame, int64_t since, int64_t now) {
    size_t len = frame->head_len + frame->rest_len;
    if (__builtin_expect(sw->capture != NULL, 0))
        capture(sw, port->number, SW_OUT, frame, now);
    sw_link_transmit(sw, port, since, now, (uint32_t)len);
    port->stats.tx_packets++;
    port->stats.tx_bytes += len;
}

/* The packet as a frame, which has the reference to its payload from now on. */
static struct sw_frame to_frame(struct sw *sw, struct sw_packet *p) {
    size_t here = p->owner ? (size_t)(p->absent - p->data) : p->len;
    if (p->len <= here) {
        sw_release(sw, p);
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
    size_t pause_bytes = port->pause.pending ? sw_pause_emit(sw, port, pause, cap < sizeof pause ? cap : sizeof pause) : 0;
    if (pause_bytes) {
        struct sw_frame frame = {pause, NULL, pause_bytes, 0, NULL};
        frame_sent(sw, port, &frame, now, now);
        take(context, &frame);
        return pause_bytes;
    }
    if (port->pause.paused)
        sw_pause_expire(sw, port);
    for (struct sw_packet *p; (p = sw_dequeue(sw, port));) {
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
        sw_packet_free(sw, p);
        return len;
    }
    return 0;
}

struct copy {
    struct sw *sw;
    uint8_t *to;
};

static void take_copy(void *context, const struct sw_frame *frame) {
    struct copy *copy = context;
    memcpy(copy->to, frame->head, frame->head_len);
    if (!frame->owner)
        return;
    copy->sw->copy_rest(frame->owner, frame->rest, copy->to + frame->head_len, frame->rest_len);
    copy->sw->release(frame->owner);
}

size_t sw_transmit_now(struct sw *sw, struct sw_port *port, int64_t now, void *buf, size_t cap) {
    struct copy copy = {sw, buf};
    return transmit_now(sw, port, now, cap, take_copy, &copy);
}

size_t sw_transmit(struct sw *sw, unsigned number, int64_t now, void *buf, size_t cap) {
    struct sw_port *port = number < SW_MAX_PORTS ? sw->port[number] : NULL;
    if (!port || !port->up)
        return 0;
    if (__builtin_expect(sw_wire_used(&port->leaving), 0))
        return sw_wire_transmit(sw, port, now, buf, cap);
    return sw_transmit_now(sw, port, now, buf, cap);
}

size_t sw_transmit_frame(struct sw *sw, unsigned number, int64_t now, size_t cap, sw_take take, void *context) {
    struct sw_port *port = number < SW_MAX_PORTS ? sw->port[number] : NULL;
    if (port && port->up && !sw_wire_used(&port->leaving))
        return transmit_now(sw, port, now, cap, take, context);
    uint8_t *buffer = port && port->up ? malloc(cap) : NULL;
    struct sw_frame frame = {buffer, NULL, buffer ? sw_transmit(sw, number, now, buffer, cap) : 0, 0, NULL};
    if (frame.head_len)
        take(context, &frame);
    free(buffer);
    return frame.head_len;
}

void sw_tick(struct sw *sw, int64_t now) {
    sw_set_now(sw, now);
    if (__builtin_expect(sw->delaying, 0))
        sw_wires_tick(sw, now);
    if (sw->pausing)
        sw_pause_tick(sw);
}

void sw_port_changed(struct sw *sw, unsigned number, int up, int64_t now) {
    struct sw_port *port = number < SW_MAX_PORTS ? sw->port[number] : NULL;
    if (!port)
        return;
    sw_set_now(sw, now);
    port->up = up != 0;
    port->stats.up = port->up;
    sw_groups_port_changed(sw);
    if (!up) {
        sw_wires_lose(sw, port);
        sw_pause_port_down(sw, port);
        sw_drain_down_port(sw, port);
    }
}

void sw_set_epoch(struct sw *sw, int64_t epoch) { sw->epoch = epoch; }
uint64_t sw_drops(const struct sw *sw, enum sw_drop reason) { return sw->drops[reason]; }
