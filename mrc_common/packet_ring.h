/* Receive rings of packet sockets, in memory that the kernel and this process share (packet(7), PACKET_RX_RING).
 *
 * The kernel copies each frame into a slot as it arrives, so that its own buffer is free again while it is in the sender's
 * cache, and no system call is needed to receive. Slots are as long as the longest frame (TPACKET_V2): each frame is there at
 * once, where TPACKET_V3 would wait for more of them. When all slots are full frames are lost and counted, as with a full
 * receive buffer. */
#ifndef PACKET_RING_H
#define PACKET_RING_H

#include <errno.h>
#include <linux/if_packet.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define PACKET_RING_BLOCK (1u << 16) /* bytes that the kernel allocates at a time, in which it puts whole slots */

struct packet_ring {
    uint8_t *memory; /* NULL: there is no ring */
    size_t size;
    unsigned slots, slot_size, slots_in_block, block, next;
};

static inline int packet_ring_request(int fd, unsigned block, unsigned blocks, unsigned slot_size, unsigned slots)
{
    struct tpacket_req ring = {block, blocks, slot_size, slots};
    return setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring);
}

/* A ring of at least `slots` for frames of up to `longest` bytes; longer ones are cut somewhere behind that. 0, or -errno. What
 * the socket has received before is lost. */
static inline int packet_ring_map(struct packet_ring *ring, int fd, unsigned slots, unsigned longest)
{
    *ring = (struct packet_ring){.block = PACKET_RING_BLOCK};
    ring->slot_size = (unsigned)TPACKET_ALIGN(TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + longest + 1);
    while (ring->block < ring->slot_size)
        ring->block *= 2;
    ring->slots_in_block = ring->block / ring->slot_size;
    unsigned blocks = (slots + ring->slots_in_block - 1) / ring->slots_in_block;
    ring->slots = blocks * ring->slots_in_block;
    ring->size = (size_t)blocks * ring->block;
    int version = TPACKET_V2;
    if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
        packet_ring_request(fd, ring->block, blocks, ring->slot_size, ring->slots))
        return -errno;
    void *memory = mmap(NULL, ring->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        int error = errno;
        packet_ring_request(fd, 0, 0, 0, 0);
        return -error;
    }
    ring->memory = (uint8_t *)memory;
    return 0;
}

static inline void packet_ring_unmap(struct packet_ring *ring)
{
    if (ring->memory)
        munmap(ring->memory, ring->size);
    ring->memory = NULL;
}

/* The oldest frame that is not released yet; NULL when there is none. */
static inline struct tpacket2_hdr *packet_ring_next(const struct packet_ring *ring)
{
    if (!ring->memory)
        return NULL;
    uint8_t *block = ring->memory + (size_t)(ring->next / ring->slots_in_block) * ring->block;
    struct tpacket2_hdr *slot = (struct tpacket2_hdr *)(void *)(block + (size_t)(ring->next % ring->slots_in_block) * ring->slot_size);
    return __atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER ? slot : NULL;
}

static inline const uint8_t *packet_ring_frame(const struct tpacket2_hdr *slot)
{
    return (const uint8_t *)slot + slot->tp_mac;
}

/* When the kernel received it, ns of CLOCK_REALTIME. */
static inline int64_t packet_ring_stamp(const struct tpacket2_hdr *slot)
{
    return slot->tp_sec * 1000000000LL + slot->tp_nsec;
}

/* Gives the slot back to the kernel. */
static inline void packet_ring_release(struct packet_ring *ring, struct tpacket2_hdr *slot)
{
    __atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    ring->next = ring->next + 1 < ring->slots ? ring->next + 1 : 0;
}

#endif
