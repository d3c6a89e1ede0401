/* Frames of fast ports in memory shared with the kernel (packet_ring.h).
 *
 * The kernel copies a frame there while its sender has it in the cache, and no system call fetches it. In return each takes a
 * slot for the longest, so that there is room for fewer short ones than in a socket: ports of slow links, whose frames can wait
 * for longer, receive from sockets. Frames go from their slots into the switch, which copies them. */
#include "driver/port_driver_internal.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <string.h>

void shared_open(const struct drv *drv, struct drv_port *port, int fd)
{
    if (port->shared_slots)
        packet_ring_map(&port->shared, fd, port->shared_slots, drv->options.max_frame);
}

/* The kernel has moved an outer VLAN tag from the frame to the slot; there is no room for it before the frame. */
static const uint8_t *tagged(struct drv *drv, const struct tpacket2_hdr *slot, size_t length)
{
    uint8_t *copy = drv->rx_memory + RX_HEADROOM;
    memcpy(copy, packet_ring_frame(slot), length);
    uint16_t tpid = slot->tp_status & TP_STATUS_VLAN_TPID_VALID ? slot->tp_vlan_tpid : ETH_P_8021Q;
    return restore_tag(copy, htons(tpid), htons(slot->tp_vlan_tci));
}

/* Returns the length of the frame. */
static size_t receive_slot(struct drv *drv, struct drv_port *port, const struct tpacket2_hdr *slot, int64_t now)
{
    const uint8_t *frame = packet_ring_frame(slot);
    size_t length = slot->tp_snaplen, longest = drv->options.max_frame;
    if (length > longest)
        length = longest + 1; /* as a longer one arrives from a socket */
    if ((slot->tp_status & TP_STATUS_VLAN_VALID) && length >= 2 * ETH_ALEN) {
        frame = tagged(drv, slot, length);
        length += RX_HEADROOM;
    }
    if (slot->tp_status & TP_STATUS_CSUMNOTREADY)
        bump(&port->stats.rx_no_checksum, 1);
    if (length > longest)
        bump(&port->stats.rx_too_long, 1);
    sw_receive(port->owner->sw, port->number, frame, length, now);
    return length;
}

/* Why the socket is ready without a frame; it would be so again and again if nobody asked. */
static int take_error(struct drv_port *port)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(port->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
        bump(&port->stats.rx_errors, 1);
    return -error;
}

int shared_receive(struct drv *drv, struct drv_port *port, int64_t *now)
{
    struct tpacket2_hdr *slot = packet_ring_next(&port->shared);
    if (!slot)
        return take_error(port);
    *now = drv_now();
    int64_t offset = 0;
    bool measured = drv_measuring(drv) && delay_clock(drv, *now, &offset);
    uint64_t bytes = 0;
    int count = 0;
    sw_lock(port->owner->sw);
    do {
        if (measured)
            delay_arrival(port, *now + offset - packet_ring_stamp(slot));
        bytes += receive_slot(drv, port, slot, *now);
        packet_ring_release(&port->shared, slot);
    } while (++count < RX_BATCH && !drv_stopping(drv) && (slot = packet_ring_next(&port->shared)));
    bump(&port->stats.rx_packets, (uint64_t)count);
    bump(&port->stats.rx_bytes, bytes);
    return count;
}
