/* The path of a packet: ingress and its verdict, into a queue, egress and its verdict.
 *
 * The order of verdicts is BMv2's (simple_switch.md, "Pseudocode for what happens at the end of ingress and egress
 * processing"): after ingress clone, digest, then one of resubmit, multicast, drop, unicast; after egress clone, then one of
 * drop, recirculate, send. Copies made with reset metadata keep only their field list and instance_type, as in BMv2. */
#include "pipeline/pipeline.h"

#include <string.h>

void sw_set_now(struct sw *sw, int64_t now) {
    sw->steps_left = SW_MAX_STEPS;
    sw->now = now;
    sw->now_us = now > sw->epoch ? (uint64_t)(now - sw->epoch) / 1000 : 0;
}

static const char *const reason_text[] = {
#define TEXT(name, text) text,
    SW_DROP_REASONS(TEXT)
#undef TEXT
};

void sw_drop(struct sw *sw, struct sw_packet *p, enum sw_drop reason) {
    sw->drops[reason]++;
    if (reason == SW_DROP_loop_limit)
        sw_log_loop_limit(sw, p);
    if (p) {
        SW_TRACE(sw, p, "dropped: %s", reason_text[reason]);
        sw_packet_free(&sw->pool, p);
    }
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

/* NULL, and a counted drop, when there is no buffer or the bytes do not fit in one. */
static struct sw_packet *copy_of(struct sw *sw, struct sw_packet *p, int with_phv, uint32_t back) {
    uint32_t bytes = p->len + back;
    struct sw_packet *copy = NULL;
    if (bytes > sw->pool.room - sw->pool.headroom)
        sw_drop(sw, NULL, SW_DROP_frame_size);
    else if (!sw_spend(sw, 16 + bytes / 64))
        sw_drop(sw, NULL, SW_DROP_loop_limit);
    else if (!(copy = sw_packet_copy(&sw->pool, p, with_phv, back)))
        sw_drop(sw, NULL, SW_DROP_no_buffer);
    return copy;
}

/* A port that does not exist or has no carrier: egress still runs, as its effects (registers, counters) are part of the
 * program, and what it would send is dropped. */
static void egress_to_down_port(struct sw *sw, struct sw_packet *p, struct sw_port *port) {
    sw->program->set_enqueue(p->phv, sw->now_us, 0);
    if (port)
        port->stats.down_drops++;
    if (sw_spend(sw, sw->program->pass_steps))
        p = sw_run_egress(sw, p, 0);
    if (p)
        sw_drop(sw, p, port ? SW_DROP_port_down : SW_DROP_no_port);
}

static void send_to(struct sw *sw, struct sw_packet *p, unsigned number) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    uint32_t priority = sw->program->get_priority(p->phv);
    p->egress_port = (uint16_t)number;
    if (priority >= sw->queues) {
        sw_drop(sw, p, SW_DROP_bad_priority);
        return;
    }
    p->queue = (uint8_t)priority;
    p->enqueued = sw->now;
    if (!port || !port->up) {
        egress_to_down_port(sw, p, port);
        return;
    }
    uint32_t depth = port->queue[priority].packets;
    enum sw_drop reason = sw_enqueue(&sw->ports, port, p);
    if (reason != SW_QUEUED) {
        sw_drop(sw, p, reason);
        return;
    }
    sw->program->set_enqueue(p->phv, sw->now_us, depth);
    SW_TRACE(sw, p, "queued for port %u, priority %u, behind %u packets", number, priority, depth);
}

/* A replica, or the first of its backups whose port is up while its own is not; the replica itself if none is. */
static const struct sw_replica *available(const struct sw *sw, const struct sw_replica *at) {
    for (uint32_t i = 0; i <= at->backups; i++)
        if (sw->ports.at[at[i].port] && sw->ports.at[at[i].port]->up)
            return &at[i];
    return at;
}

/* One copy to each replica; the last may be the packet itself. */
static void replicate(struct sw *sw, struct sw_packet *p, const struct sw_replicas *to) {
    for (uint32_t i = 0, next; i < to->count; i = next) {
        const struct sw_replica *at = available(sw, &to->at[i]);
        next = i + 1 + to->at[i].backups;
        struct sw_packet *copy = next < to->count ? copy_of(sw, p, 1, 0) : p;
        if (!copy)
            continue;
        if (copy != p)
            SW_TRACE(sw, p, "copied as packet %llu", (unsigned long long)copy->id);
        clear_requests(copy);
        copy->truncate_to = to->truncate_to ? to->truncate_to : UINT32_MAX;
        sw->program->set_rid(copy->phv, at->instance);
        send_to(sw, copy, at->port);
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
    struct sw_packet *copy = copy_of(sw, p, 0, p->parsed);
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
    struct sw_packet *copy = copy_of(sw, p, 1, 0);
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
static void restart_at_ingress(struct sw *sw, struct sw_packet *p, uint32_t list, enum sw_instance instance) {
    memcpy(sw->scratch, p->phv, sw->program->phv_size);
    memset(p->phv, 0, sw->program->phv_size);
    sw->program->copy_list(p->phv, sw->scratch, list);
    clear_requests(p);
    p->parsed = 0;
    p->truncate_to = UINT32_MAX;
    p->length = p->len;
    sw->program->set_instance(p->phv, instance);
    sw->program->set_length(p->phv, p->len);
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
        sw_fill(&sw->pool, p);
        p->data -= p->parsed;
        p->len += p->parsed;
        restart_at_ingress(sw, p, p->resubmit_list, SW_RESUBMIT);
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
        send_to(sw, p, p->egress_spec);
    }
}

/* Put the headers in front of the payload; the payload moves only when they outgrow the headroom. */
static int deparse(struct sw *sw, struct sw_packet *p) {
    uint32_t size = sw->program->headers_size(sw, p);
    if ((size_t)(p->data - p->base) < size) {
        if ((size_t)size + p->len > sw->pool.room)
            return -1;
        sw_fill(&sw->pool, p);
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
    /* Another thread's clock may have been ahead of this one's when the packet was queued: it has waited for no time then. */
    int64_t queued = p->enqueued < sw->now ? p->enqueued : sw->now;
    int64_t since = queued > sw->epoch ? queued - sw->epoch : 0;
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
        if (p->len > sw->pool.max_frame) { /* as if it had arrived: it may have grown in egress, but not with every pass */
            sw_drop(sw, p, SW_DROP_frame_size);
            return NULL;
        }
        if (!may_pass_again(sw, p))
            return NULL;
        SW_TRACE(sw, p, "recirculated");
        sw_fill(&sw->pool, p);
        p->ingress_len = p->len;
        restart_at_ingress(sw, p, p->recirc_list, SW_RECIRC);
        sw_run_ingress(sw, p);
        return NULL;
    }
    if (p->truncate_to < p->len)
        p->len = p->truncate_to;
    return p;
}

void sw_drain_down_port(struct sw *sw, struct sw_port *port) {
    struct sw_packet *p;
    while ((p = sw_dequeue(&sw->ports, port, sw->now))) {
        port->stats.down_drops++;
        p = sw_run_egress(sw, p, port->queue[p->queue].packets);
        if (p)
            sw_drop(sw, p, SW_DROP_port_down);
    }
}
