/* Memory fetched ahead, for a caller who knows what comes next.
 *
 * In a fabric of many switches each one is called again when the caches have forgotten it, and then waits for one line after
 * another: its own fields, the port's, the packet's. A caller with a list of what it will call next names each call a few calls
 * before, once for each step; what one step needs to know where things are, the step before has fetched. Nothing changes, and
 * nothing depends on it. */
#include "core.h"

#define LINE 64

static void fetch(const void *from, size_t bytes) {
    for (uintptr_t at = (uintptr_t)from / LINE * LINE; at < (uintptr_t)from + bytes; at += LINE)
        __builtin_prefetch((const void *)at, 1);
}

/* A packet's fields and its first bytes; those in between, its phv, at once. */
static void fetch_packet(const struct sw *sw, const struct sw_packet *packet) {
    if (packet)
        fetch(packet, sw->first_byte + LINE);
}

static const struct sw_packet *next_to_leave(const struct sw_port *port) {
    return port->waiting ? port->queue[31 - __builtin_clz(port->waiting)].head : NULL;
}

void sw_fetch_ahead(const struct sw *sw, unsigned number, int arrives, enum sw_fetch_step step) {
    const struct sw_port *port = number < SW_MAX_PORTS && step > SW_FETCH_SWITCH ? sw->port[number] : NULL;
    switch (step) {
    case SW_FETCH_SWITCH:
        fetch(sw, offsetof(struct sw, port));
        fetch(&sw->port[number % SW_MAX_PORTS], 1);
        break;
    case SW_FETCH_PORT:
        if (port)
            fetch(port, offsetof(struct sw_port, pause.buffered));
        if (port && !arrives)
            fetch(port->queue, sizeof port->queue);
        if (arrives)
            fetch_packet(sw, sw->pool);
        break;
    case SW_FETCH_PACKET:
        if (port && !arrives)
            fetch_packet(sw, next_to_leave(port));
        break;
    }
}
