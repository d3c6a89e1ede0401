/* Wires past the kernel: between two switches of this process, and to other processes (frame_ring.h).
 *
 * Every port keeps its interface. Carrier is the interface's, and frames pass through it while somebody captures there or a
 * queueing discipline shapes it (port_driver_link.c notices both), and always if they are for the kernel of a host: a NIC
 * takes RoCEv2 and flow control from its ring, anything else is not for it.
 *
 * A frame for a switch of this process is handed to it on the spot, from the transmit batch; that switch has its turn when
 * the current one is done. */
#include "driver/port_driver_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ROCE_PORT 4791 /* UDP, RoCEv2 */
#define ETHERNET_BYTES 14

static unsigned word(const uint8_t *bytes)
{
    return (unsigned)bytes[0] << 8 | bytes[1];
}

/* Whether a NIC takes the frame: RoCEv2, tunnelled (SRv6) or not, or a PAUSE. */
static bool for_nic(const uint8_t *frame, uint32_t length)
{
    if (length < 34)
        return length >= ETHERNET_BYTES && word(frame + 12) == 0x8808;
    switch (word(frame + 12)) {
    case 0x8808:
        return true;
    case 0x86dd: /* next header: IPv6, routing header, UDP */
        return frame[20] == 41 || frame[20] == 43 || (frame[20] == 17 && length >= 58 && word(frame + 56) == ROCE_PORT);
    case 0x0800: {
        uint32_t udp = ETHERNET_BYTES + 4u * (frame[14] & 15);
        return frame[23] == 17 && length >= udp + 4 && word(frame + udp + 2) == ROCE_PORT;
    }
    default:
        return false;
    }
}

bool wire_used(const struct drv_port *port)
{
    const struct drv_wire *wire = port->wire;
    return !wire->aside && !(wire->peer ? wire->peer->wire->aside : frame_ring_aside(&wire->send));
}

void wire_set_aside(struct drv_port *port, bool on)
{
    struct drv_wire *wire = port->wire;
    if (!wire || wire->aside == on)
        return;
    wire->aside = on;
    if (!wire->peer)
        frame_ring_stand_aside(&wire->receive, on);
    if (wire->counters)
        __atomic_store_n(&wire->counters->aside, on, __ATOMIC_RELEASE);
}

/* --- counting: bytes first, so that who waits for packets reads their bytes too --- */

static void count_received(struct drv_port *port, uint64_t packets, uint64_t bytes)
{
    bump(&port->stats.rx_bytes, bytes);
    bump(&port->stats.rx_packets, packets);
    if (port->wire->counters) {
        bump(&port->wire->counters->rx_bytes, bytes);
        bump(&port->wire->counters->rx_packets, packets);
    }
}

static void count_sent(struct drv_port *port, uint64_t packets, uint64_t bytes)
{
    bump(&port->stats.tx_bytes, bytes);
    bump(&port->stats.tx_packets, packets);
    if (port->wire->counters) {
        bump(&port->wire->counters->tx_bytes, bytes);
        bump(&port->wire->counters->tx_packets, packets);
    }
}

/* As the kernel does with what an interface cannot carry. */
static bool too_long(struct drv_port *port, const struct tx_slot *slot)
{
    bool fits = port->wire->peer || frame_ring_fits(&port->wire->send, slot->length);
    if (fits && (!port->mtu || slot->length <= port->mtu + ETHERNET_BYTES))
        return false;
    bump(&port->stats.tx_errors, 1);
    bump(&port->stats.tx_too_long, 1);
    return true;
}

/* --- sending --- */

static void hand_over(struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count, int64_t now)
{
    struct drv_port *peer = port->wire->peer;
    uint64_t packets = 0, bytes = 0;
    sw_lock(peer->owner->sw);
    for (unsigned i = 0; i < count && !drv_stopping(drv); i++) {
        if (too_long(port, &slots[i]))
            continue;
        if (slots[i].length > drv->options.max_frame)
            bump(&peer->stats.rx_too_long, 1);
        sw_receive(peer->owner->sw, peer->number, slots[i].data, slots[i].length, now);
        packets++;
        bytes += slots[i].length;
    }
    sw_unlock(peer->owner->sw);
    peer->owner->unfinished = true;
    count_sent(port, packets, bytes);
    count_received(peer, packets, bytes);
    if (drv_measuring(drv)) {
        delay_departures(port, slots, count, now, drv_now());
        for (unsigned i = 0; i < count; i++)
            delay_arrival(peer, 0);
    }
}

/* Puts one frame into the ring; false when it has to wait for room. What was put before is published then, or the other end
 * could not make room. */
static bool ring_put(struct drv_port *port, const struct tx_slot *slot, int64_t now)
{
    struct drv_wire *wire = port->wire;
    if (frame_ring_put(&wire->send, slot->data, slot->length, now))
        return true;
    if (frame_ring_publish(&wire->send))
        frame_ring_ring(wire->other_bell);
    return !frame_ring_await_room(&wire->send, slot->length) && frame_ring_put(&wire->send, slot->data, slot->length, now);
}

static unsigned ring_send(const struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count, int64_t now)
{
    struct drv_wire *wire = port->wire;
    uint64_t packets = 0, bytes = 0;
    unsigned done = 0;
    for (; done < count; done++) {
        if (too_long(port, &slots[done]))
            continue;
        if (!ring_put(port, &slots[done], now)) {
            port->for_ring = true;
            break;
        }
        packets++;
        bytes += slots[done].length;
    }
    if (frame_ring_publish(&wire->send))
        frame_ring_ring(wire->other_bell);
    count_sent(port, packets, bytes);
    if (drv_measuring(drv) && done)
        delay_departures(port, slots, done, now, drv_now());
    return done;
}

/* What a NIC takes goes into the ring, and all else to the kernel of its host; in order. */
static unsigned send_outside(struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count, int64_t now)
{
    for (unsigned first = 0, last; first < count; first = last) {
        bool nic = for_nic(slots[first].data, slots[first].length);
        for (last = first + 1; last < count && for_nic(slots[last].data, slots[last].length) == nic;)
            last++;
        unsigned done = nic ? ring_send(drv, port, &slots[first], last - first, now)
                            : socket_send(drv, port, &slots[first], last - first);
        if (done < last - first)
            return first + done;
    }
    return count;
}

unsigned wire_send(struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count)
{
    int64_t now = drv_now();
    if (!port->wire->peer)
        return send_outside(drv, port, slots, count, now);
    hand_over(drv, port, slots, count, now);
    return count;
}

/* --- receiving --- */

int wire_receive(struct drv *drv, struct drv_port *port, int64_t *now)
{
    struct frame_ring *ring = &port->wire->receive;
    if (!frame_ring_pending(ring))
        return 0;
    bool measuring = drv_measuring(drv);
    uint64_t bytes = 0;
    int count = 0;
    *now = drv_now();
    sw_lock(port->owner->sw);
    while (count < RX_BATCH && !drv_stopping(drv)) {
        int64_t sent;
        size_t length = frame_ring_take(ring, drv->rx_memory, drv->options.max_frame, &sent);
        if (length == FRAME_RING_BROKEN)
            bump(&port->stats.rx_errors, 1);
        if (!length || length == FRAME_RING_BROKEN)
            break;
        if (measuring)
            delay_arrival(port, (int64_t)((uint64_t)*now - (uint64_t)sent));
        sw_receive(port->owner->sw, port->number, drv->rx_memory, length, *now);
        bytes += length;
        count++;
    }
    if (frame_ring_release(ring))
        frame_ring_ring(port->wire->other_bell);
    count_received(port, (uint64_t)count, bytes);
    if (!count)
        sw_unlock(port->owner->sw);
    return count;
}

bool wires_pending(const struct drv *drv)
{
    for (unsigned i = 0; i < drv->ringed_count; i++)
        if (frame_ring_pending(&drv->ringed[i]->wire->receive))
            return true;
    return false;
}

bool wires_arm(struct drv *drv)
{
    bool idle = true;
    for (unsigned i = 0; i < drv->ringed_count; i++) {
        struct drv_port *port = drv->ringed[i];
        idle &= frame_ring_arm(&port->wire->receive);
        if (port->blocked && port->for_ring)
            idle &= frame_ring_await_room(&port->wire->send, port->stash_lengths[port->stash_next]);
    }
    return idle;
}

void wires_disarm(struct drv *drv)
{
    for (unsigned i = 0; i < drv->ringed_count; i++)
        frame_ring_disarm(&drv->ringed[i]->wire->receive);
}

/* --- making and unmaking --- */

static int wire_new(struct drv *drv, unsigned index)
{
    if (index >= drv->port_count || drv->ports[index]->wire)
        return -EINVAL;
    struct drv_port *port = drv->ports[index];
    port->wire = calloc(1, sizeof *port->wire);
    if (!port->wire)
        return -ENOMEM;
    port->wire->aside = true;
    port->wire->bell = port->wire->other_bell = -1;
    link_watch_disciplines(drv);
    port_close(drv, port); /* its socket made the interface promiscuous */
    return port_open(drv, port);
}

int drv_join(struct drv *drv, unsigned index, unsigned other)
{
    int error = index == other ? -EINVAL : wire_new(drv, index);
    if (!error)
        error = wire_new(drv, other);
    if (error)
        return error;
    drv->ports[index]->wire->peer = drv->ports[other];
    drv->ports[other]->wire->peer = drv->ports[index];
    return 0;
}

#define BELL_EVENTS (EPOLLIN | EPOLLET) /* edge-triggered: a pipe that the other end closes wakes us once */

/* All rings are looked at after the events. */
static void on_bell(struct drv *drv, void *of, uint32_t events)
{
    (void)events;
    struct drv_wire *wire = of;
    struct epoll_event again = {.events = BELL_EVENTS, .data.ptr = &wire->bell_watch};
    if (!frame_ring_hear(wire->bell))
        epoll_ctl(drv->epoll_fd, EPOLL_CTL_MOD, wire->bell, &again); /* reports it again */
}

int drv_attach_rings(struct drv *drv, unsigned index, void *memory, size_t bytes, unsigned receiving, int bell, int other_bell)
{
    struct frame_ring receive, send;
    if (receiving > 1 || !frame_ring_place(&receive, memory, bytes, receiving) ||
        !frame_ring_place(&send, memory, bytes, 1 - receiving))
        return -EINVAL;
    struct drv_port **grown = realloc(drv->ringed, (drv->ringed_count + 1) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    drv->ringed = grown;
    int error = wire_new(drv, index);
    if (error)
        return error;
    struct drv_port *port = drv->ports[index];
    port->wire->receive = receive;
    port->wire->send = send;
    port->wire->bell = bell;
    port->wire->other_bell = other_bell;
    port->wire->bell_watch = (struct drv_watch){on_bell, port->wire};
    frame_ring_attach_consumer(&port->wire->receive);
    frame_ring_attach_producer(&port->wire->send);
    frame_ring_stand_aside(&port->wire->receive, true);
    frame_ring_ring(other_bell);
    drv->ringed[drv->ringed_count++] = port;
    return drv_watch(drv, bell, BELL_EVENTS, &port->wire->bell_watch);
}

int drv_count_wire(struct drv *drv, unsigned index, struct drv_wire_counters *counters)
{
    if (index >= drv->port_count || !drv->ports[index]->wire)
        return -EINVAL;
    drv->ports[index]->wire->counters = counters;
    __atomic_store_n(&counters->aside, drv->ports[index]->wire->aside, __ATOMIC_RELEASE);
    return 0;
}

void wire_free(struct drv_port *port)
{
    free(port->wire);
}
