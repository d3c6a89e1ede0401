/* Ports: which of them have become ready, when their links are free, and when something is due. */
#include "wire/wire.h"

#include <stdlib.h>
#include <unistd.h>

void sw_signal(int fd) {
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) {
        /* a full eventfd is signalled already */
    }
}

int sw_ports_make(struct sw_ports *ports, const struct sw_config *config) {
    ports->list = calloc(config->port_count + 1, sizeof *ports->list);
    ports->ready = calloc(config->port_count + 1, sizeof *ports->ready);
    if (!ports->list || !ports->ready)
        return -1;
    ports->count = config->port_count; /* not before: what is freed after a failure is counted by it */
    for (uint32_t i = 0; i < config->port_count; i++) {
        struct sw_port *port = &ports->list[i];
        if (config->ports[i] >= SW_DROP_PORT || ports->at[config->ports[i]])
            return -1;
        *port = (struct sw_port){.number = config->ports[i], .up = 1, .event = -1, .stats = {.up = 1}};
        ports->at[port->number] = port;
    }
    return 0;
}

void sw_ports_free(struct sw_ports *ports) {
    for (uint32_t i = 0; ports->list && i < ports->count; i++)
        sw_wires_lose(ports, &ports->list[i]);
    free(ports->list);
    free(ports->ready);
}

/* --- ports that are ready --- */

void sw_mark_ready(struct sw_ports *ports, struct sw_port *port) {
    sw_signal(port->event);
    if (port->in_ready_list)
        return;
    port->in_ready_list = 1;
    ports->ready[ports->ready_count++] = port->number;
    ports->outside_ready = 1;
}

size_t sw_ports_take_ready(struct sw_ports *ports, uint16_t *numbers, size_t cap) {
    size_t n = ports->ready_count < cap ? ports->ready_count : cap;
    for (size_t i = 0; i < n; i++) {
        numbers[i] = ports->ready[--ports->ready_count];
        ports->at[numbers[i]]->in_ready_list = 0;
    }
    return n;
}

/* --- links --- */

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
void sw_link_transmit(struct sw_port *port, int timing, int64_t since, int64_t now, uint32_t bytes) {
    if (timing)
        port->due = since;
    if (!port->rate)
        return;
    int64_t could = since > port->tx_link.free_at ? since : port->tx_link.free_at;
    if (port->resumed_at > could)
        could = port->resumed_at;
    int64_t start = could > now - port->slack ? could : now - port->slack;
    occupy(&port->tx_link, start, bytes, port->rate);
    if (timing) {
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

/* What is left of the frame on a line that becomes faster passes at the new rate. */
static void hasten(struct sw_tx_link *link, uint64_t before, uint64_t rate, int64_t now) {
    int64_t left = link->free_at - now;
    if (left > 0 && !rate)
        link->free_at = now;
    else if (left > 0 && rate > before)
        link->free_at = now + (int64_t)((u128)left * before / rate);
    link->remainder = 0;
}

void sw_link_set_rate(struct sw_ports *ports, struct sw_port *port, uint64_t bits_per_second, int64_t slack, int64_t now) {
    hasten(&port->tx_link, port->rate, bits_per_second, now);
    hasten(&port->ideal_link, port->rate, bits_per_second, now);
    port->rate = bits_per_second;
    port->slack = slack;
    if (port->waiting & ~port->pause.paused || port->pause.pending) /* a driver may be asleep until later, or for good */
        sw_mark_ready(ports, port);
}

void sw_ports_set_timing(struct sw_ports *ports, int on) {
    for (uint32_t i = 0; on && !ports->timing && i < ports->count; i++)
        ports->list[i].ideal_link = ports->list[i].tx_link;
    ports->timing = on;
}

/* --- time --- */

/* When the link of a port is free for what waits, in the queues of mask `waiting`, or to be sent as a PAUSE; or SW_NEVER. */
static int64_t link_wakeup(const struct sw_port *port, uint32_t waiting) {
    int can_send = waiting & ~port->pause.paused || port->pause.pending;
    return can_send && port->rate && port->up ? port->tx_link.free_at : SW_NEVER;
}

int64_t sw_ports_next_wakeup(const struct sw_ports *ports, int links) {
    int64_t best = SW_NEVER;
    for (uint32_t i = 0; i < ports->count; i++) {
        const struct sw_port *port = &ports->list[i];
        if (links || ports->pausing) /* a PAUSE waits for the link only, and the less the better */
            best = sw_earlier(best, link_wakeup(port, links ? port->waiting : 0));
        if (ports->pausing && (port->pause.asserted || port->pause.paused))
            best = sw_earlier(best, sw_pause_next_wakeup(port));
        if (ports->delaying)
            best = sw_earlier(best, sw_wires_next_wakeup(port));
    }
    return best;
}
