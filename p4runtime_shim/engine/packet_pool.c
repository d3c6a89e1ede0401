/* The packet pool: fixed buffers in one mapping, handed out last-in first-out so that few pages are ever touched.
 *
 * A buffer is a struct sw_packet, its phv, and room for a short frame, or for the head of one whose payload is elsewhere: those of
 * all packets lie close together. In the second part of the mapping each has room for a whole frame, which is used, and takes
 * memory, only when needed. The address sanitizer sees one mapping and no limits in it, so under it there is a gap behind
 * each of the four, and gaps and what is not in use are poisoned: access one byte too far, or to a freed packet,
 * is reported. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"

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
static size_t bytes_at(const struct sw *sw) { return phv_at() + round_up(sw->program->phv_size, 64) + GAP; }
static size_t short_room(const struct sw *sw) { return sw->room < sw->headroom + SHORT ? sw->room : sw->headroom + SHORT; }
static size_t stride(const struct sw *sw) { return round_up(bytes_at(sw) + short_room(sw), 64) + GAP; }
static size_t whole_stride(const struct sw *sw) { return round_up(sw->room, 64) + GAP; }

static uint8_t *short_base(const struct sw *sw, struct sw_packet *p) { return (uint8_t *)p + bytes_at(sw); }

/* A buffer that was never used. */
static struct sw_packet *first_use(struct sw *sw) {
    size_t number = sw->in_use++;
    struct sw_packet *p = (struct sw_packet *)(void *)(sw->slab + number * stride(sw));
    UNPOISON(p, sizeof *p);
    p->whole = sw->slab + stride(sw) * sw->buffer_packets + number * whole_stride(sw);
    return p;
}

int sw_pool_make(struct sw *sw) {
    sw->headroom = (uint32_t)round_up(sw->program->headroom, 64);
    sw->room = sw->headroom + sw->max_frame + sw->headroom;
    sw->first_byte = bytes_at(sw) + sw->headroom;
    sw->slab_bytes = (stride(sw) + whole_stride(sw)) * sw->buffer_packets;
    sw->slab = mmap(NULL, sw->slab_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sw->slab == MAP_FAILED) {
        sw->slab = NULL;
        return -1;
    }
    POISON(sw->slab, sw->slab_bytes);
    sw->pool = NULL;
    sw->in_use = 0;
    return 0;
}

void sw_pool_free(struct sw *sw) {
    if (sw->slab) {
        UNPOISON(sw->slab, sw->slab_bytes);
        munmap(sw->slab, sw->slab_bytes);
    }
    sw->slab = NULL;
    sw->pool = NULL;
}

/* Buffers that were never used are taken in order from the mapping; `in_use` counts those ever taken. */
struct sw_packet *sw_packet_new(struct sw *sw, size_t bytes) {
    struct sw_packet *p = sw->pool;
    if (p) {
        sw->pool = p->next;
    } else {
        if (sw->in_use == sw->buffer_packets)
            return NULL;
        p = first_use(sw);
    }
    UNPOISON(p, sizeof *p);
    uint8_t *whole = p->whole;
    memset(p, 0, sizeof *p);
    p->whole = whole;
    p->phv = (uint8_t *)p + phv_at();
    p->base = bytes <= SHORT ? short_base(sw, p) : whole;
    UNPOISON(p->phv, sw->program->phv_size);
    UNPOISON(p->base, bytes <= SHORT ? short_room(sw) : sw->room);
    p->data = p->base + sw->headroom;
    p->truncate_to = p->present = UINT32_MAX;
    p->id = ++sw->packet_ids;
    return p;
}

void sw_release(struct sw *sw, struct sw_packet *p) {
    if (p->owner)
        sw->release(p->owner);
    p->owner = NULL;
    p->present = UINT32_MAX;
}

/* From now on there is room for a whole frame. */
static void make_whole(struct sw *sw, struct sw_packet *p) {
    uint8_t *from = p->base;
    if (from != short_base(sw, p))
        return;
    p->base = p->whole;
    UNPOISON(p->base, sw->room);
    memcpy(p->base, from, short_room(sw));
    p->data = p->base + (p->data - from);
    if (p->owner)
        p->absent = p->base + (p->absent - from);
    POISON(from, short_room(sw));
}

void sw_fill(struct sw *sw, struct sw_packet *p) {
    make_whole(sw, p);
    if (p->owner)
        sw->copy_rest(p->owner, p->rest, p->absent, p->rest_len);
    sw_release(sw, p);
}

void sw_packet_free(struct sw *sw, struct sw_packet *p) {
    sw_release(sw, p);
    if (p->base != short_base(sw, p))
        POISON(p->base, whole_stride(sw));
    p->next = sw->pool;
    sw->pool = p;
    POISON(p, stride(sw));
    UNPOISON(&p->next, sizeof p->next);
}

struct sw_packet *sw_packet_copy(struct sw *sw, struct sw_packet *p, int with_phv, int from_start) {
    sw_fill(sw, p);
    uint32_t back = from_start ? p->parsed : 0;
    if (p->len + back > sw->room - sw->headroom) {
        sw->drops[SW_DROP_frame_size]++;
        return NULL;
    }
    if (!sw_spend(sw, 16 + (p->len + back) / 64)) {
        sw_drop(sw, NULL, SW_DROP_loop_limit);
        return NULL;
    }
    struct sw_packet *copy = sw_packet_new(sw, p->len + back);
    if (!copy) {
        sw->drops[SW_DROP_no_buffer]++;
        return NULL;
    }
    copy->len = p->len + back;
    copy->length = p->length;
    copy->ingress_len = p->ingress_len;
    copy->passes = p->passes;
    copy->arrival_port = p->arrival_port;
    memcpy(copy->data, p->data - back, copy->len);
    if (with_phv)
        memcpy(copy->phv, p->phv, sw->program->phv_size);
    else
        memset(copy->phv, 0, sw->program->phv_size);
    return copy;
}
