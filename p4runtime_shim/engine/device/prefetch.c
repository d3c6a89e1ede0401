/* Prefetching, for a caller who knows what comes next.
 *
 * In a fabric of many switches each one is called again when it has left the caches, and then waits for one cache line after
 * another: its own fields, the port's, the packet's. A caller with a list of what it will call next names each call a few calls
 * before, once for each step; what one step needs to know where things are, the step before has fetched. Nothing changes, and
 * nothing depends on it. */
#include "pipeline/pipeline.h"
#include "prefetch_lines.h"

#define MOST_OF_PACKET 2048 /* bytes; that of a program with more headers is prefetched in part */

/* A packet's fields, its phv, and its first bytes. */
static void prefetch_packet(const struct sw *sw, const struct sw_packet *packet) {
    size_t bytes = sw->pool.first_byte + CACHE_LINE;
    if (packet)
        prefetch_lines(packet, bytes < MOST_OF_PACKET ? bytes : MOST_OF_PACKET);
}

static const struct sw_packet *next_to_leave(const struct sw_port *port) {
    uint32_t waiting = port->waiting;
    return waiting ? port->queue[31 - __builtin_clz(waiting)].head : NULL;
}

void sw_prefetch(const struct sw *sw, unsigned number, int arrives, enum sw_prefetch_step step) {
    const struct sw_port *port = step > SW_PREFETCH_SWITCH ? sw_port_at(&sw->ports, number) : NULL;
    switch (step) {
    case SW_PREFETCH_SWITCH:
        prefetch_lines(sw, offsetof(struct sw, ports.at));
        prefetch_lines(&sw->ports.at[number % SW_MAX_PORTS], 1);
        break;
    case SW_PREFETCH_PORT:
        if (port)
            prefetch_lines(port, offsetof(struct sw_port, pause.buffered));
        if (port && !arrives)
            prefetch_lines(port->queue, sizeof port->queue);
        if (arrives)
            prefetch_packet(sw, sw->pool.free);
        break;
    case SW_PREFETCH_PACKET:
        if (port && !arrives)
            prefetch_packet(sw, next_to_leave(port));
        break;
    }
}
