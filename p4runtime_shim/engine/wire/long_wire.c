/* Wires that take time: what a port sends, and what arrives at it, is kept for a while before it goes on.
 *
 * A frame that leaves the queue is sent as always (its line is busy, it is counted and captured) and is then on the wire, from
 * which sw_transmit() returns it when its time has come; a frame that arrives is received when its time has come, by sw_tick().
 * Frames keep their order. A wire that becomes shorter lets none wait longer than a new frame would. When a port goes down, what
 * is on its wires is lost. How much a switch's wires hold is limited: beyond that frames wait in the queues, and those that
 * arrive are dropped (no_buffer). */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

#define WIRE_BYTES (64u << 20) /* on all wires of a switch */

static size_t bytes_of(size_t len) { return sizeof(struct sw_wire_frame) + len; }

int sw_wires_have_room(const struct sw_ports *ports, size_t len) { return ports->on_wires + bytes_of(len) <= WIRE_BYTES; }

static int put(struct sw_ports *ports, struct sw_wire *wire, const void *data, size_t len, int64_t now, int64_t ideal) {
    struct sw_wire_frame *frame = sw_wires_have_room(ports, len) ? malloc(bytes_of(len)) : NULL;
    if (!frame)
        return 0;
    *frame = (struct sw_wire_frame){.due = now + wire->delay, .ideal = ideal, .len = (uint32_t)len};
    memcpy(frame->data, data, len);
    if (wire->head)
        wire->tail->next = frame;
    else
        wire->head = frame;
    wire->tail = frame;
    ports->on_wires += bytes_of(len);
    return 1;
}

/* The caller frees it. */
static struct sw_wire_frame *take(struct sw_ports *ports, struct sw_wire *wire) {
    struct sw_wire_frame *frame = wire->head;
    wire->head = frame->next;
    ports->on_wires -= bytes_of(frame->len);
    return frame;
}

static void set_delay(struct sw_wire *wire, int64_t delay, int64_t now) {
    wire->delay = delay;
    for (struct sw_wire_frame *frame = wire->head; frame; frame = frame->next) {
        int64_t sooner = frame->due - (now + delay);
        if (sooner <= 0)
            continue;
        frame->due -= sooner;
        frame->ideal -= frame->ideal ? sooner : 0;
    }
}

void sw_wires_set_delay(struct sw_ports *ports, struct sw_port *port, int64_t arriving, int64_t leaving, int64_t now) {
    set_delay(&port->arriving, arriving, now);
    set_delay(&port->leaving, leaving, now);
    ports->delaying = 0;
    for (uint32_t i = 0; i < ports->count; i++)
        ports->delaying |= sw_wire_used(&ports->list[i].arriving) || sw_wire_used(&ports->list[i].leaving);
    if (sw_wires_next_wakeup(port) != SW_NEVER) /* a driver may be asleep until later */
        sw_mark_ready(ports, port);
}

int sw_wire_receive(struct sw_ports *ports, struct sw_port *port, const void *data, size_t len, int64_t now) {
    return put(ports, &port->arriving, data, len, now, 0);
}

int sw_wire_transmit(struct sw_ports *ports, struct sw_port *port, const void *data, size_t len, int64_t now) {
    int64_t ideal = ports->timing && port->due ? port->due + port->leaving.delay : 0; /* while it is off, that of an earlier frame */
    return put(ports, &port->leaving, data, len, now, ideal);
}

struct sw_wire_frame *sw_wire_received(struct sw_ports *ports, struct sw_port *port, int64_t now) {
    const struct sw_wire_frame *first = port->arriving.head;
    return first && first->due <= now ? take(ports, &port->arriving) : NULL;
}

struct sw_wire_frame *sw_wire_transmitted(struct sw_ports *ports, struct sw_port *port, int64_t now, size_t cap) {
    const struct sw_wire_frame *first = port->leaving.head;
    if (!first || first->due > now || first->len > cap)
        return NULL;
    port->due = first->ideal;
    return take(ports, &port->leaving);
}

static uint64_t lose(struct sw_ports *ports, struct sw_wire *wire) {
    uint64_t lost = 0;
    for (; wire->head; lost++)
        free(take(ports, wire));
    return lost;
}

uint64_t sw_wires_lose(struct sw_ports *ports, struct sw_port *port) {
    uint64_t lost = lose(ports, &port->arriving) + lose(ports, &port->leaving);
    port->stats.down_drops += lost;
    return lost;
}

int64_t sw_wires_next_wakeup(const struct sw_port *port) {
    int64_t arrives = port->arriving.head ? port->arriving.head->due : SW_NEVER;
    int64_t leaves = port->leaving.head ? port->leaving.head->due : SW_NEVER;
    return sw_earlier(arrives, leaves);
}
