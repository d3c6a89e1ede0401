/* Frames from one process to another through shared memory, without system calls while both are awake.
 *
 * A link has two rings in one file (memfd), one a direction, each with one producer and one consumer. A ring is a circular
 * buffer of records: a header (length, time of sending) and the frame. Head and tail count bytes and never decrease. The
 * producer writes records, then moves `head` (frame_ring_publish); the consumer copies a frame out, then moves `tail`.
 *
 * Waking costs more than carrying a frame, so a consumer says when it sleeps (frame_ring_arm), and only then does publishing
 * ask for a doorbell, a pipe beside the ring. Both sides write one word and then read the other's, with a fence in
 * between, so that at least one of them sees the other. In the same way a producer that finds the ring full says that it waits
 * for room (frame_ring_await_room), and the consumer rings its doorbell when half of the ring is free.
 *
 * `aside` is set by a consumer whose interface is watched (tcpdump) or shaped (tc): frames of either direction then go
 * through the interfaces.
 *
 * The other end is not trusted. All that counts is kept in private copies; what is read from shared memory is read once and
 * checked, and a frame is copied out before anybody looks at it. A ring whose content makes no sense is emptied
 * (FRAME_RING_BROKEN). An end that stops, or dies at any instruction, leaves the other with a full or an empty ring: nothing
 * but the frames of this direction waits for it. Who attaches to the receiving side discards what it finds. A doorbell is a
 * pipe, whose two ends have flags of their own: of an eventfd, which both sides share, either could make the other's write
 * block.
 *
 * The file is sealed against shrinking by its maker (mrc_common/frame_rings.py), so that access cannot fault. */
#ifndef FRAME_RING_H
#define FRAME_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define FRAME_RING_CONTROL 4096u /* bytes of a ring before its data */
#define FRAME_RING_BROKEN SIZE_MAX
#define FRAME_RING_HOT (256u << 10) /* an empty ring is not filled beyond this, so that its memory stays in the cache */
#define FRAME_RING_WRAP UINT32_MAX

/* In shared memory, in cache lines by who writes them. */
struct frame_ring_control {
    _Alignas(64) uint64_t head; /* producer */
    uint32_t waiting;           /* for room: set by the producer, cleared by whoever wakes it */
    _Alignas(64) uint64_t tail; /* consumer */
    uint32_t asleep;            /* set by the consumer, cleared by whoever wakes it */
    uint32_t aside;             /* consumer */
};

struct frame_ring_record {
    uint32_t length; /* of the frame, or FRAME_RING_WRAP: go on at the start of the buffer */
    uint32_t unused;
    int64_t sent; /* ns, CLOCK_MONOTONIC */
};

/* One end of a ring. */
struct frame_ring {
    struct frame_ring_control *control;
    uint8_t *data;
    uint64_t size;      /* of the data, a power of two */
    uint64_t position;  /* ours: how far records are written or consumed */
    uint64_t published; /* ours, as the other end knows it */
    uint64_t other;     /* the other end's, as last read */
};

static inline uint64_t frame_ring_record_size(size_t length)
{
    return sizeof(struct frame_ring_record) + (((uint64_t)length + 15) & ~(uint64_t)15);
}

/* `ring` of a link (0 or 1) in its mapped file of `bytes`; false when that is no such file. */
static inline bool frame_ring_place(struct frame_ring *ring, void *memory, size_t bytes, unsigned which)
{
    size_t half = bytes / 2;
    if (bytes % 2 || half <= FRAME_RING_CONTROL)
        return false;
    uint64_t size = half - FRAME_RING_CONTROL;
    if (size < FRAME_RING_CONTROL || (size & (size - 1)))
        return false;
    uint8_t *start = (uint8_t *)memory + which * half;
    *ring = (struct frame_ring){.control = (struct frame_ring_control *)(void *)start,
                                .data = start + FRAME_RING_CONTROL,
                                .size = size};
    return true;
}

/* --- producer --- */

/* Continues after what an earlier producer published. The caller rings the doorbell then: the earlier one may have died after
 * it took note that the consumer sleeps, before it rang. */
static inline void frame_ring_attach_producer(struct frame_ring *ring)
{
    ring->position = __atomic_load_n(&ring->control->head, __ATOMIC_ACQUIRE) & ~(uint64_t)15;
    ring->published = ring->position;
    ring->other = __atomic_load_n(&ring->control->tail, __ATOMIC_ACQUIRE);
}

/* Whether so many bytes are free; reads the other end's position only when what is known of it does not suffice. */
static inline bool frame_ring_has_room(struct frame_ring *ring, uint64_t bytes)
{
    for (int fresh = 0; fresh < 2; fresh++) {
        uint64_t used = ring->position - ring->other;
        if (used <= ring->size && ring->size - used >= bytes)
            return true;
        if (!fresh)
            ring->other = __atomic_load_n(&ring->control->tail, __ATOMIC_ACQUIRE);
    }
    return false; /* full, or the other end's position is nonsense */
}

static inline void frame_ring_write_header(struct frame_ring *ring, uint64_t offset, uint32_t length, int64_t now)
{
    struct frame_ring_record record = {.length = length, .sent = now};
    memcpy(ring->data + offset, &record, sizeof record);
}

/* Skips the rest of the buffer; false when there is no room. */
static inline bool frame_ring_wrap(struct frame_ring *ring, uint64_t more)
{
    uint64_t offset = ring->position & (ring->size - 1);
    if (!frame_ring_has_room(ring, ring->size - offset + more))
        return false;
    frame_ring_write_header(ring, offset, FRAME_RING_WRAP, 0);
    ring->position += ring->size - offset;
    return true;
}

/* Whether the ring can hold such a frame at all, wherever it has to wrap. */
static inline bool frame_ring_fits(const struct frame_ring *ring, size_t length)
{
    return length && length < ring->size / 2 && frame_ring_record_size(length) <= ring->size / 2;
}

/* Writes a frame that fits, to be published later; false when the ring is full. */
static inline bool frame_ring_put(struct frame_ring *ring, const void *frame, size_t length, int64_t now)
{
    uint64_t bytes = frame_ring_record_size(length), offset = ring->position & (ring->size - 1);
    if (!frame_ring_fits(ring, length))
        return false;
    if (offset >= FRAME_RING_HOT && ring->position == ring->published) {
        ring->other = __atomic_load_n(&ring->control->tail, __ATOMIC_ACQUIRE);
        if (ring->other == ring->position)
            frame_ring_wrap(ring, bytes);
        offset = ring->position & (ring->size - 1);
    }
    if (bytes > ring->size - offset) {
        if (!frame_ring_wrap(ring, bytes))
            return false;
        offset = 0;
    } else if (!frame_ring_has_room(ring, bytes)) {
        return false;
    }
    frame_ring_write_header(ring, offset, (uint32_t)length, now);
    memcpy(ring->data + offset + sizeof(struct frame_ring_record), frame, length);
    ring->position += bytes;
    return true;
}

/* Passes on what was written; true when the consumer sleeps and its doorbell must be rung. */
static inline bool frame_ring_publish(struct frame_ring *ring)
{
    if (ring->published == ring->position)
        return false;
    ring->published = ring->position;
    __atomic_store_n(&ring->control->head, ring->position, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&ring->control->asleep, __ATOMIC_RELAXED) &&
           __atomic_exchange_n(&ring->control->asleep, 0, __ATOMIC_RELAXED);
}

/* Before waiting for room for a frame that fits, when all is published: asks for the doorbell. False when there is room by
 * now. */
static inline bool frame_ring_await_room(struct frame_ring *ring, size_t length)
{
    __atomic_store_n(&ring->control->waiting, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    ring->other = __atomic_load_n(&ring->control->tail, __ATOMIC_ACQUIRE);
    uint64_t bytes = frame_ring_record_size(length), to_end = ring->size - (ring->position & (ring->size - 1));
    bool full = !frame_ring_has_room(ring, bytes > to_end ? to_end + bytes : bytes);
    if (!full)
        __atomic_store_n(&ring->control->waiting, 0, __ATOMIC_RELAXED);
    return full;
}

/* Whether the consumer at the other end wants frames to go another way. */
static inline bool frame_ring_aside(const struct frame_ring *ring)
{
    return __atomic_load_n(&ring->control->aside, __ATOMIC_ACQUIRE) != 0;
}

/* --- consumer --- */

/* Discards what was sent to an earlier consumer. */
static inline void frame_ring_attach_consumer(struct frame_ring *ring)
{
    ring->position = ring->other = ring->published = __atomic_load_n(&ring->control->head, __ATOMIC_ACQUIRE);
    __atomic_store_n(&ring->control->asleep, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->control->tail, ring->position, __ATOMIC_RELEASE);
}

static inline bool frame_ring_pending(const struct frame_ring *ring)
{
    return ring->position != ring->other || __atomic_load_n(&ring->control->head, __ATOMIC_RELAXED) != ring->position;
}

/* Makes room for the producer; called after some frames. True when it waits and its doorbell must be rung: not for every frame
 * that is taken, but once half of the ring is free. */
static inline bool frame_ring_release(struct frame_ring *ring)
{
    if (ring->published == ring->position)
        return false;
    ring->published = ring->position;
    __atomic_store_n(&ring->control->tail, ring->position, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&ring->control->waiting, __ATOMIC_RELAXED) &&
           __atomic_load_n(&ring->control->head, __ATOMIC_RELAXED) - ring->position <= ring->size / 2 &&
           __atomic_exchange_n(&ring->control->waiting, 0, __ATOMIC_RELAXED);
}

static inline size_t frame_ring_discard(struct frame_ring *ring)
{
    ring->position = ring->other;
    return FRAME_RING_BROKEN;
}

/* Copies the next frame to `buffer` and its time of sending to `*sent`: its length, 0 when there is none, FRAME_RING_BROKEN
 * when the content makes no sense or a frame is longer than `capacity`: then all that was there is discarded. */
static inline size_t frame_ring_take(struct frame_ring *ring, void *buffer, size_t capacity, int64_t *sent)
{
    for (;;) {
        if (ring->position == ring->other) {
            ring->other = __atomic_load_n(&ring->control->head, __ATOMIC_ACQUIRE);
            if (ring->position == ring->other)
                return 0;
        }
        uint64_t available = ring->other - ring->position;
        uint64_t offset = ring->position & (ring->size - 1), to_end = ring->size - offset;
        if (available > ring->size || (ring->position | ring->other) & 15)
            return frame_ring_discard(ring);
        uint32_t length = __atomic_load_n((uint32_t *)(void *)(ring->data + offset), __ATOMIC_RELAXED);
        if (length == FRAME_RING_WRAP) {
            /* Never at the start, where it would lead to itself: a producer could keep us here for ever. */
            if (to_end > available || !offset)
                return frame_ring_discard(ring);
            ring->position += to_end;
            continue;
        }
        uint64_t bytes = frame_ring_record_size(length);
        if (!length || length > capacity || bytes > available || bytes > to_end)
            return frame_ring_discard(ring);
        const uint8_t *record = ring->data + offset;
        memcpy(sent, record + offsetof(struct frame_ring_record, sent), sizeof *sent);
        memcpy(buffer, record + sizeof(struct frame_ring_record), length);
        ring->position += bytes;
        return length;
    }
}

/* Before sleeping: asks for the doorbell. False when there is something by now: then do not sleep. */
static inline bool frame_ring_arm(struct frame_ring *ring)
{
    __atomic_store_n(&ring->control->asleep, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return !frame_ring_pending(ring);
}

/* Awake again. */
static inline void frame_ring_disarm(struct frame_ring *ring)
{
    __atomic_store_n(&ring->control->asleep, 0, __ATOMIC_RELAXED);
}

static inline void frame_ring_stand_aside(struct frame_ring *ring, bool aside)
{
    __atomic_store_n(&ring->control->aside, aside, __ATOMIC_RELEASE);
}

/* Wakes who waits at the other end of a doorbell. A full pipe rings already; a closed one belongs to nobody: Python, in whose
 * processes both ends are, ignores SIGPIPE. */
static inline void frame_ring_ring(int bell)
{
    (void)!write(bell, "", 1);
}

/* After waking, before looking into the ring: takes what rang. A pipe that a neighbour filled is emptied, too, or who comes
 * after it could not ring; false when that took so long that others shall have their turn first. */
static inline bool frame_ring_hear(int bell)
{
    char rung[4096];
    for (int reads = 0; reads < 16; reads++) /* a pipe's usual size */
        if (read(bell, rung, sizeof rung) < (ssize_t)sizeof rung)
            return true;
    return false;
}

#endif
