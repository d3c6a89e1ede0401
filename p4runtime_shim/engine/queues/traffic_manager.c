/* The traffic manager: strict priority queues, their limits, and what waits in them. */
#include "queues/queues.h"

static void depth_changes(struct sw_depth *depth, uint64_t bytes, int64_t now) {
    if (now > depth->since) {
        depth->byte_ns += depth->bytes * (uint64_t)(now - depth->since);
        depth->since = now;
    }
    depth->bytes = bytes;
    if (bytes > depth->peak)
        depth->peak = bytes;
}

enum sw_drop sw_enqueue(struct sw_ports *ports, struct sw_port *port, struct sw_packet *p) {
    struct sw_queue *q = &port->queue[p->queue];
    uint32_t length = p->length <= INT32_MAX ? p->length : 0; /* negative: headers that were copied, not added, were removed */
    p->wire_len = length < p->truncate_to ? length : p->truncate_to;
    if ((q->max_packets && q->packets >= q->max_packets) || (q->max_bytes && q->bytes + p->wire_len > q->max_bytes)) {
        port->stats.queue_drops++;
        q->drops++;
        return SW_DROP_queue_full;
    }
    if (ports->pausing) {
        int charged = sw_pause_charge(ports, ports->at[p->arrival_port], p->queue, p->wire_len);
        if (charged < 0)
            return SW_DROP_no_headroom;
        p->charged = (uint8_t)charged;
    }
    p->next = NULL;
    if (q->head)
        q->tail->next = p;
    else
        q->head = p;
    q->tail = p;
    q->packets++;
    q->bytes += p->wire_len;
    depth_changes(&port->depth, port->depth.bytes + p->wire_len, p->enqueued);
    if (q->packets > q->peak_packets)
        q->peak_packets = q->packets;
    if (q->bytes > q->peak_bytes)
        q->peak_bytes = q->bytes;
    int was_idle = !(port->waiting & ~port->pause.paused);
    port->waiting |= 1u << p->queue;
    if (was_idle && port->waiting & ~port->pause.paused)
        sw_mark_ready(ports, port);
    return SW_QUEUED;
}

struct sw_packet *sw_dequeue(struct sw_ports *ports, struct sw_port *port, int64_t now) {
    uint32_t open = port->up ? port->waiting & ~port->pause.paused : port->waiting; /* the queues of a port that is down are drained */
    if (!open)
        return NULL;
    struct sw_queue *q = &port->queue[31 - __builtin_clz(open)];
    struct sw_packet *p = q->head;
    q->head = p->next;
    q->packets--;
    q->bytes -= p->wire_len;
    depth_changes(&port->depth, port->depth.bytes - p->wire_len, now);
    if (!q->head)
        port->waiting &= ~(1u << p->queue);
    if (p->charged) {
        p->charged = 0;
        sw_pause_release(ports, ports->at[p->arrival_port], p->queue, p->wire_len);
    }
    return p;
}

void sw_queues_limit(struct sw_ports *ports, uint32_t packets, uint32_t bytes) {
    for (uint32_t i = 0; i < ports->count; i++)
        for (uint32_t q = 0; q < SW_MAX_QUEUES; q++) {
            ports->list[i].queue[q].max_packets = packets;
            ports->list[i].queue[q].max_bytes = bytes;
        }
}

uint64_t sw_queues_clear(struct sw_ports *ports, struct sw_pool *pool, int64_t now) {
    uint64_t gone = 0;
    for (uint32_t i = 0; i < ports->count; i++) {
        struct sw_port *port = &ports->list[i];
        for (uint32_t q = 0; q < SW_MAX_QUEUES; q++) {
            gone += port->queue[q].packets;
            for (struct sw_packet *p = port->queue[q].head; p; p = p->next)
                sw_release(pool, p);
            port->queue[q].head = port->queue[q].tail = NULL;
            port->queue[q].packets = port->queue[q].bytes = 0;
        }
        port->waiting = 0;
        depth_changes(&port->depth, 0, now);
    }
    sw_pause_reset(ports);
    return gone;
}

/* --- figures --- */

void sw_ports_sample(struct sw_ports *ports, int64_t now, int keep_peaks, struct sw_port_sample *out) {
    for (uint32_t i = 0; i < ports->count; i++) {
        struct sw_port *port = &ports->list[i];
        depth_changes(&port->depth, port->depth.bytes, now);
        out[i] = (struct sw_port_sample){port->depth.bytes, port->depth.peak, port->depth.byte_ns,
                                         sw_pause_silenced_ns(&port->pause, now), port->pause.silenced_times};
        if (!keep_peaks)
            port->depth.peak = port->depth.bytes;
    }
}

void sw_port_figures(const struct sw_port *port, struct sw_port_stats *out) {
    *out = port->stats;
    out->up = port->up;
    out->queued_packets = out->queued_bytes = 0;
    for (uint32_t q = 0; q < SW_MAX_QUEUES; q++) {
        out->queued_packets += port->queue[q].packets;
        out->queued_bytes += port->queue[q].bytes;
    }
}
