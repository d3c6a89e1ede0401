/* Wires that take time: what a port sends, and what arrives at it, is kept for a while before it goes on.
 *
 * A frame that leaves the queue is sent as always (its line is busy, it is counted and captured) and is then on the wire, from
 * which sw_transmit() returns it when its time has come; a frame that arrives is received when its time has come, by sw_tick().
 * Frames keep their order. A wire that becomes shorter lets none wait longer than a new frame would. When a port goes down, what
 * is on its wires is lost. How much a switch's wires hold is limited: beyond that frames wait in the queues, and those that
 * arrive are dropped (no_buffer). */
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define WIRE_BYTES (64u << 20) /* on all wires of a switch */

struct sw_wire_frame {
    struct sw_wire_frame *next;
    int64_t due;   /* when it goes on */
    int64_t ideal; /* sw_transmit_due() */
    uint32_t len;
    uint8_t data[];
};

static size_t bytes_of(size_t len) { return sizeof(struct sw_wire_frame) + len; }

static int put(struct sw *sw, struct sw_wire *wire, const void *data, size_t len, int64_t due, int64_t ideal) {
    struct sw_wire_frame *frame = sw->on_wires + bytes_of(len) > WIRE_BYTES ? NULL : malloc(bytes_of(len));
    if (!frame)
        return 0;
    *frame = (struct sw_wire_frame){.due = due, .ideal = ideal, .len = (uint32_t)len};
    memcpy(frame->data, data, len);
    if (wire->head)
        wire->tail->next = frame;
    else
        wire->head = frame;
    wire->tail = frame;
    sw->on_wires += bytes_of(len);
    return 1;
}

/* The caller frees it. */
static struct sw_wire_frame *take(struct sw *sw, struct sw_wire *wire) {
    struct sw_wire_frame *frame = wire->head;
    wire->head = frame->next;
    sw->on_wires -= bytes_of(frame->len);
    return frame;
}

static void set_delay(struct sw_wire *wire, int64_t delay, int64_t now) {
    wire->delay = delay;
    for (struct sw_wire_frame *frame = wire->head; frame; frame = frame->next)
        if (frame->due > now + delay)
            frame->due = now + delay;
}

int sw_set_port_delay(struct sw *sw, unsigned port, int64_t arriving, int64_t leaving, int64_t now) {
    if (port >= SW_MAX_PORTS || !sw->port[port] || arriving < 0 || leaving < 0)
        return -1;
    set_delay(&sw->port[port]->arriving, arriving, now);
    set_delay(&sw->port[port]->leaving, leaving, now);
    sw->delaying = 0;
    for (uint32_t i = 0; i < sw->port_count; i++)
        sw->delaying |= sw_wire_used(&sw->port_list[i].arriving) || sw_wire_used(&sw->port_list[i].leaving);
    if (sw_wires_next_wakeup(sw->port[port]) != SW_NEVER) /* a driver may be asleep until later */
        sw_mark_ready(sw, sw->port[port]);
    return 0;
}

void sw_wire_receive(struct sw *sw, struct sw_port *port, const void *data, size_t len, int64_t now) {
    if (!put(sw, &port->arriving, data, len, now + port->arriving.delay, 0))
        sw->drops[SW_DROP_no_buffer]++;
}

size_t sw_wire_transmit(struct sw *sw, struct sw_port *port, int64_t now, void *buf, size_t cap) {
    struct sw_wire *wire = &port->leaving;
    while (sw->on_wires + bytes_of(sw->max_frame) <= WIRE_BYTES) {
        size_t len = sw_transmit_now(sw, port, now, buf, cap);
        if (!len)
            break;
        if (!put(sw, wire, buf, len, now + wire->delay, port->due ? port->due + wire->delay : 0))
            sw->drops[SW_DROP_no_buffer]++;
    }
    if (!wire->head || wire->head->due > now || wire->head->len > cap)
        return 0;
    struct sw_wire_frame *frame = take(sw, wire);
    size_t len = frame->len;
    memcpy(buf, frame->data, len);
    port->due = frame->ideal;
    free(frame);
    return len;
}

/* Frames whose time comes while others are received go on with them: there is an end, as now stays. */
void sw_wires_tick(struct sw *sw, int64_t now) {
    for (uint32_t i = 0; i < sw->port_count; i++) {
        struct sw_port *port = &sw->port_list[i];
        while (port->arriving.head && port->arriving.head->due <= now) {
            struct sw_wire_frame *frame = take(sw, &port->arriving);
            sw_receive_now(sw, port, frame->data, frame->len, now);
            free(frame);
        }
    }
}

static void lose(struct sw *sw, struct sw_port *port, struct sw_wire *wire) {
    while (wire->head) {
        free(take(sw, wire));
        sw->drops[SW_DROP_port_down]++;
        port->stats.down_drops++;
    }
}

void sw_wires_lose(struct sw *sw, struct sw_port *port) {
    lose(sw, port, &port->arriving);
    lose(sw, port, &port->leaving);
}

int64_t sw_wires_next_wakeup(const struct sw_port *port) {
    int64_t arrives = port->arriving.head ? port->arriving.head->due : SW_NEVER;
    int64_t leaves = port->leaving.head ? port->leaving.head->due : SW_NEVER;
    return arrives < leaves ? arrives : leaves;
}
