/* How long packets occupy a NIC: its packet rate and PCIe's bandwidth, in each direction.
 *
 * An engine takes one frame at a time. Outwards it makes the NIC answer "nothing" until it is free, and then has ports asked again,
 * the one that has waited longest first, so that what leaves is still decided at the last moment. Inwards frames queue before the
 * NIC sees them; PAUSE frames do not, since the MAC itself obeys them. */
#ifndef PACKET_ENGINE_H
#define PACKET_ENGINE_H

#include "channel.h"

#define MAX_NIC_PORTS 62 /* bits of a mask of ports */
#define ETHERTYPE_AT 12
#define PAUSE_ETHERTYPE 0x8808

typedef struct {
    int64_t packet, pcie_rate;           /* ns a packet; b/s, 0 for no limit */
    int64_t transmit_free, receive_free; /* ns */
    int count;                           /* ports that wait */
    uint8_t waiting[MAX_NIC_PORTS];      /* in turn */
    char asking;                         /* it is scheduled when they are asked */
} PacketEngine;

/* Whether packets occupy the NIC at all. */
static int occupies(const PacketEngine *engine) { return engine->packet || engine->pcie_rate; }

/* How long a frame of `size` bytes occupies a direction of the NIC. */
static int64_t occupancy(const PacketEngine *engine, Py_ssize_t size) {
    if (!engine->pcie_rate)
        return engine->packet;
    unsigned __int128 units = (unsigned __int128)size * BITS + (unsigned __int128)engine->pcie_rate - 1;
    int64_t pcie = (int64_t)(units / (unsigned __int128)engine->pcie_rate);
    return pcie > engine->packet ? pcie : engine->packet;
}

static int place_in_turn(const PacketEngine *engine, int64_t port) {
    int at = 0;
    while (at < engine->count && engine->waiting[at] != port)
        at++;
    return at;
}

/* The port waits until it is asked; who waits already keeps its place. */
static void wait_for_turn(PacketEngine *engine, int64_t port) {
    if (place_in_turn(engine, port) == engine->count)
        engine->waiting[engine->count++] = (uint8_t)port;
}

/* The port is asked: it waits no more. */
static void end_waiting(PacketEngine *engine, int64_t port) {
    int at = place_in_turn(engine, port);
    if (at < engine->count)
        memmove(engine->waiting + at, engine->waiting + at + 1, (size_t)(--engine->count - at));
}

static int is_pause(PyObject *frame) {
    FramePieces pieces = pieces_of(frame);
    return pieces.head_length >= ETHERTYPE_AT + 2
           && (pieces.head[ETHERTYPE_AT] << 8 | pieces.head[ETHERTYPE_AT + 1]) == PAUSE_ETHERTYPE;
}

#endif
