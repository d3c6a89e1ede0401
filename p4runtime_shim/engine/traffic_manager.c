/* The traffic manager: strict priority queues, their limits, the line of a port, and which ports have become ready. */
#include <unistd.h>

#include "core.h"

static const char *const reason_text[] = {
#define TEXT(name, text) text,
    SW_DROP_REASONS(TEXT)
#undef TEXT
};

static void signal_fd(int fd) {
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) {
        /* a full eventfd is signalled already */
    }
}

void sw_drop(struct sw *sw, struct sw_packet *p, enum sw_drop reason) {
    sw->drops[reason]++;
    if (reason == SW_DROP_loop_limit)
        sw_log_loop_limit(sw, p);
    if (p) {
        SW_TRACE(sw, p, "dropped: %s", reason_text[reason]);
        sw_packet_free(sw, p);
    }
}

/* Notify the transmitting thread that the port has something to send. */
void sw_mark_ready(struct sw *sw, struct sw_port *port) {
    signal_fd(port->event);
    if (port->in_ready_list)
        return;
    port->in_ready_list = 1;
    sw->ready[sw->ready_count++] = port->number;
    sw->outside_ready = 1;
}

/* A port that does not exist or has no carrier: egress still runs, as its effects (registers, counters) are part of the
 * program, and what it would send is dropped. */
static void egress_to_down_port(struct sw *sw, struct sw_packet *p, enum sw_drop reason) {
    if (sw_spend(sw, sw->program->pass_steps))
        p = sw_run_egress(sw, p, 0);
    if (p)
        sw_drop(sw, p, reason);
}

static void depth_changes(struct sw_depth *depth, uint64_t bytes, int64_t now) {
    if (now > depth->since) {
        depth->byte_ns += depth->bytes * (uint64_t)(now - depth->since);
        depth->since = now;
    }
    depth->bytes = bytes;
    if (bytes > depth->peak)
        depth->peak = bytes;
}

void sw_enqueue(struct sw *sw, struct sw_packet *p, unsigned number) {
    struct sw_port *port = number < SW_MAX_PORTS ? sw->port[number] : NULL;
    uint32_t priority = sw->program->get_priority(p->phv);
    p->egress_port = (uint16_t)number;
    if (priority >= sw->queues) {
        sw_drop(sw, p, SW_DROP_bad_priority);
        return;
    }
    p->queue = (uint8_t)priority;
    p->enqueued = sw->now;
    if (!port || !port->up) {
        sw->program->set_enqueue(p->phv, sw->now_us, 0);
        if (port)
            port->stats.down_drops++;
        egress_to_down_port(sw, p, port ? SW_DROP_port_down : SW_DROP_no_port);
        return;
    }
    struct sw_queue *q = &port->queue[priority];
    p->wire_len = p->length < p->truncate_to ? p->length : p->truncate_to;
    if ((q->max_packets && q->packets >= q->max_packets) || (q->max_bytes && q->bytes + p->wire_len > q->max_bytes)) {
        port->stats.queue_drops++;
        q->drops++;
        sw_drop(sw, p, SW_DROP_queue_full);
        return;
    }
    if (sw->pausing && !sw_pause_charge(sw, p)) {
        sw_drop(sw, p, SW_DROP_no_headroom);
        return;
    }
    SW_TRACE(sw, p, "queued for port %u, priority %u, behind %u packets", number, priority, q->packets);
    sw->program->set_enqueue(p->phv, sw->now_us, q->packets);
    p->next = NULL;
    if (q->head)
        q->tail->next = p;
    else
        q->head = p;
    q->tail = p;
    q->packets++;
    q->bytes += p->wire_len;
    depth_changes(&port->depth, port->depth.bytes + p->wire_len, sw->now);
    if (q->packets > q->peak_packets)
        q->peak_packets = q->packets;
    if (q->bytes > q->peak_bytes)
        q->peak_bytes = q->bytes;
    int was_idle = !(port->waiting & ~port->pause.paused);
    port->waiting |= 1u << priority;
    if (was_idle && port->waiting & ~port->pause.paused)
        sw_mark_ready(sw, port);
}

struct sw_packet *sw_dequeue(struct sw *sw, struct sw_port *port) {
    uint32_t open = port->up ? port->waiting & ~port->pause.paused : port->waiting; /* the queues of a port that is down are drained */
    if (!open)
        return NULL;
    struct sw_queue *q = &port->queue[31 - __builtin_clz(open)];
    struct sw_packet *p = q->head;
    q->head = p->next;
    q->packets--;
    q->bytes -= p->wire_len;
    depth_changes(&port->depth, port->depth.bytes - p->wire_len, sw->now);
    if (!q->head)
        port->waiting &= ~(1u << p->queue);
    if (p->charged)
        sw_pause_release(sw, p);
    return p;
}

/* A line is busy for bytes * 8 / rate seconds; the fraction of a nanosecond is carried over while frames are back to back. */
static void occupy(struct sw_tx_link *link, int64_t start, uint32_t bytes, uint64_t rate) {
    if (start != link->free_at)
        link->remainder = 0;
    u128 units = (u128)bytes * 8 * 1000000000u + link->remainder;
    link->free_at = start + (int64_t)(units / rate);
    link->remainder = (uint64_t)(units % rate);
}

/* A frame starts when it was queued and the link was free and not paused, but at most `slack` ago: a later caller loses link
 * time, and an idle link gains none. On the ideal link it starts at that time, however late the caller is. A frame that
 * overtook others may delay the ideal link, but never advances it. */
void sw_link_transmit(struct sw *sw, struct sw_port *port, int64_t since, int64_t now, uint32_t bytes) {
    if (sw->timing)
        port->due = since;
    if (!port->rate)
        return;
    int64_t could = since > port->tx_link.free_at ? since : port->tx_link.free_at;
    if (port->resumed_at > could)
        could = port->resumed_at;
    int64_t start = could > now - port->slack ? could : now - port->slack;
    occupy(&port->tx_link, start, bytes, port->rate);
    if (sw->timing) {
        port->idle_ns += (uint64_t)(start - could);
        port->due = since > port->ideal_link.free_at ? since : port->ideal_link.free_at;
        occupy(&port->ideal_link, port->due, bytes, port->rate);
    }
}

void sw_link_resume(struct sw_port *port, int64_t until) {
    port->resumed_at = until;
    if (until > port->ideal_link.free_at)
        port->ideal_link = (struct sw_tx_link){until, 0};
}

void sw_set_timing(struct sw *sw, int on) {
    for (uint32_t i = 0; on && !sw->timing && i < sw->port_count; i++)
        sw->port_list[i].ideal_link = sw->port_list[i].tx_link;
    sw->timing = on;
}

uint64_t sw_port_idle_ns(const struct sw *sw, unsigned port) {
    return port < SW_MAX_PORTS && sw->port[port] ? sw->port[port]->idle_ns : 0;
}

int64_t sw_transmit_due(const struct sw *sw, unsigned port) {
    return sw->timing && port < SW_MAX_PORTS && sw->port[port] ? sw->port[port]->due : 0;
}

void sw_drain_down_port(struct sw *sw, struct sw_port *port) {
    struct sw_packet *p;
    while ((p = sw_dequeue(sw, port))) {
        port->stats.down_drops++;
        p = sw_run_egress(sw, p, port->queue[p->queue].packets);
        if (p)
            sw_drop(sw, p, SW_DROP_port_down);
    }
}

size_t sw_take_ready(struct sw *sw, uint16_t *ports, size_t cap) {
    size_t n = sw->ready_count < cap ? sw->ready_count : cap;
    for (size_t i = 0; i < n; i++) {
        ports[i] = sw->ready[--sw->ready_count];
        sw->port[ports[i]]->in_ready_list = 0;
    }
    return n;
}

int sw_has_backlog(const struct sw *sw, unsigned port) {
    return port < SW_MAX_PORTS && sw->port[port] && (sw->port[port]->waiting || sw->port[port]->pause.pending || sw->port[port]->leaving.head);
}

int sw_set_port_rate(struct sw *sw, unsigned port, uint64_t bits_per_second, int64_t slack) {
    if (port >= SW_MAX_PORTS || !sw->port[port])
        return -1;
    sw->port[port]->rate = bits_per_second;
    sw->port[port]->slack = slack;
    sw->port[port]->tx_link.remainder = sw->port[port]->ideal_link.remainder = 0;
    return 0;
}

int64_t sw_port_free_at(const struct sw *sw, unsigned port) {
    return port < SW_MAX_PORTS && sw->port[port] && sw->port[port]->rate ? sw->port[port]->tx_link.free_at : INT64_MIN;
}

/* When the link of a port is free for what waits, in the queues of mask `waiting`, or to be sent as a PAUSE; or SW_NEVER. */
static int64_t link_wakeup(const struct sw_port *port, uint32_t waiting) {
    int can_send = waiting & ~port->pause.paused || port->pause.pending;
    return can_send && port->rate && port->up ? port->tx_link.free_at : SW_NEVER;
}

/* When something is due; with `links`, also when a link is free for packets that wait in a queue. */
static int64_t earliest(const struct sw *sw, int links) {
    int64_t best = SW_NEVER;
    for (uint32_t i = 0; i < sw->port_count; i++) {
        const struct sw_port *port = &sw->port_list[i];
        if (links || sw->pausing) /* a PAUSE waits for the link only, and the less the better */
            best = sw_earlier(best, link_wakeup(port, links ? port->waiting : 0));
        if (sw->pausing && (port->pause.asserted || port->pause.paused))
            best = sw_earlier(best, sw_pause_next_wakeup(port));
        if (sw->delaying)
            best = sw_earlier(best, sw_wires_next_wakeup(port));
    }
    return best;
}

int64_t sw_next_deadline(struct sw *sw) { return sw->pausing || sw->delaying ? earliest(sw, 0) : SW_NEVER; }

int64_t sw_next_wakeup(struct sw *sw) { return earliest(sw, 1); }

void sw_sample_ports(struct sw *sw, int64_t now, int keep_peaks, struct sw_port_sample *out) {
    for (uint32_t i = 0; i < sw->port_count; i++) {
        struct sw_port *port = &sw->port_list[i];
        depth_changes(&port->depth, port->depth.bytes, now);
        out[i] = (struct sw_port_sample){port->depth.bytes, port->depth.peak, port->depth.byte_ns,
                                         sw_pause_silenced_ns(&port->pause, now), port->pause.silenced_times};
        if (!keep_peaks)
            port->depth.peak = port->depth.bytes;
    }
}

int sw_port_stats(const struct sw *sw, unsigned port, struct sw_port_stats *out) {
    if (port >= SW_MAX_PORTS || !sw->port[port])
        return -1;
    const struct sw_port *p = sw->port[port];
    *out = p->stats;
    out->up = p->up;
    out->queued_packets = out->queued_bytes = 0;
    for (uint32_t q = 0; q < sw->queues; q++) {
        out->queued_packets += p->queue[q].packets;
        out->queued_bytes += p->queue[q].bytes;
    }
    return 0;
}
