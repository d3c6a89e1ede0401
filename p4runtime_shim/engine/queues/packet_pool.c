/* The packet pool: fixed buffers in one mapping, handed out last-in first-out so that few pages are ever touched.
 *
 * A buffer is a struct sw_packet, its phv, and room for a short frame, or for the head of one whose payload is elsewhere: those of
 * all packets lie close together. In the second part of the mapping each has room for a whole frame, which is used, and takes
 * memory, only when needed. The address sanitizer sees one mapping and no limits in it, so under it there is a gap behind
 * each of the four, and gaps and what is not in use are poisoned: access one byte too far, or to a freed packet,
 * is reported. */
#include "queues/queues.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define GAP 128
#define POISON(at, n) ASAN_POISON_MEMORY_REGION(at, n)
#define UNPOISON(at, n) ASAN_UNPOISON_MEMORY_REGION(at, n)
#else
#define GAP 0
#define POISON(at, n) ((void)(at), (void)(n))
#define UNPOISON(at, n) ((void)(at), (void)(n))
#endif

#define SHORT (SW_HEAD + 64) /* bytes of a frame that needs no more room than all buffers have */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Where phv and bytes begin in a buffer, and where the next buffer does; how far whole frames are from each other. */
static size_t phv_at(void) { return round_up(sizeof(struct sw_packet), 64) + GAP; }
static size_t bytes_at(const struct sw_pool *pool) { return phv_at() + round_up(pool->phv_size, 64) + GAP; }
static size_t short_room(const struct sw_pool *pool) { return pool->room < pool->headroom + SHORT ? pool->room : pool->headroom + SHORT; }
static size_t stride(const struct sw_pool *pool) { return round_up(bytes_at(pool) + short_room(pool), 64) + GAP; }
static size_t whole_stride(const struct sw_pool *pool) { return round_up(pool->room, 64) + GAP; }

static uint8_t *short_base(const struct sw_pool *pool, struct sw_packet *p) { return (uint8_t *)p + bytes_at(pool); }

/* A buffer that was never used. */
static struct sw_packet *first_use(struct sw_pool *pool) {
    size_t number = pool->in_use++;
    struct sw_packet *p = (struct sw_packet *)(void *)(pool->slab + number * stride(pool));
    UNPOISON(p, sizeof *p);
    p->whole = pool->slab + stride(pool) * pool->buffer_packets + number * whole_stride(pool);
    return p;
}

int sw_pool_make(struct sw_pool *pool, uint32_t phv_size, uint32_t headroom) {
    pool->phv_size = phv_size;
    pool->headroom = (uint32_t)round_up(headroom, 64);
    pool->room = pool->headroom + pool->max_frame + pool->headroom;
    pool->first_byte = bytes_at(pool) + pool->headroom;
    pool->slab_bytes = (stride(pool) + whole_stride(pool)) * pool->buffer_packets;
    pool->slab = mmap(NULL, pool->slab_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool->slab == MAP_FAILED) {
        pool->slab = NULL;
        return -1;
    }
    POISON(pool->slab, pool->slab_bytes);
    pool->free = NULL;
    pool->in_use = 0;
    return 0;
}

void sw_pool_free(struct sw_pool *pool) {
    if (pool->slab) {
        UNPOISON(pool->slab, pool->slab_bytes);
        munmap(pool->slab, pool->slab_bytes);
    }
    pool->slab = NULL;
    pool->free = NULL;
}

/* Buffers that were never used are taken in order from the mapping; `in_use` counts those ever taken. */
struct sw_packet *sw_packet_new(struct sw_pool *pool, size_t bytes) {
    struct sw_packet *p = pool->free;
    if (p) {
        pool->free = p->next;
    } else {
        if (pool->in_use == pool->buffer_packets)
            return NULL;
        p = first_use(pool);
    }
    UNPOISON(p, sizeof *p);
    uint8_t *whole = p->whole;
    memset(p, 0, sizeof *p);
    p->whole = whole;
    p->phv = (uint8_t *)p + phv_at();
    p->base = bytes <= SHORT ? short_base(pool, p) : whole;
    UNPOISON(p->phv, pool->phv_size);
    UNPOISON(p->base, bytes <= SHORT ? short_room(pool) : pool->room);
    p->data = p->base + pool->headroom;
    p->truncate_to = p->present = UINT32_MAX;
    p->id = ++pool->packet_ids;
    return p;
}

void sw_release(struct sw_pool *pool, struct sw_packet *p) {
    if (p->owner)
        pool->release(p->owner);
    p->owner = NULL;
    p->present = UINT32_MAX;
}

/* From now on there is room for a whole frame. */
static void make_whole(struct sw_pool *pool, struct sw_packet *p) {
    uint8_t *from = p->base;
    if (from != short_base(pool, p))
        return;
    p->base = p->whole;
    UNPOISON(p->base, pool->room);
    memcpy(p->base, from, short_room(pool));
    p->data = p->base + (p->data - from);
    if (p->owner)
        p->absent = p->base + (p->absent - from);
    POISON(from, short_room(pool));
}

void sw_fill(struct sw_pool *pool, struct sw_packet *p) {
    make_whole(pool, p);
    if (p->owner)
        pool->copy_rest(p->owner, p->rest, p->absent, p->rest_len);
    sw_release(pool, p);
}

void sw_packet_free(struct sw_pool *pool, struct sw_packet *p) {
    sw_release(pool, p);
    if (p->base != short_base(pool, p))
        POISON(p->base, whole_stride(pool));
    p->next = pool->free;
    pool->free = p;
    POISON(p, stride(pool));
    UNPOISON(&p->next, sizeof p->next);
}

struct sw_packet *sw_packet_copy(struct sw_pool *pool, struct sw_packet *p, int with_phv, uint32_t back) {
    sw_fill(pool, p);
    struct sw_packet *copy = sw_packet_new(pool, p->len + back);
    if (!copy)
        return NULL;
    copy->len = p->len + back;
    copy->length = p->length;
    copy->ingress_len = p->ingress_len;
    copy->passes = p->passes;
    copy->arrival_port = p->arrival_port;
    memcpy(copy->data, p->data - back, copy->len);
    if (with_phv)
        memcpy(copy->phv, p->phv, pool->phv_size);
    else
        memset(copy->phv, 0, pool->phv_size);
    return copy;
}
