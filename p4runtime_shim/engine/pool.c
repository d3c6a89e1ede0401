/* The packet pool: fixed buffers in one mapping, handed out last-in first-out so that few pages are ever touched. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

int sw_pool_make(struct sw *sw) {
    size_t phv = sw->program ? sw->program->phv_size : 0;
    sw->headroom = (uint32_t)round_up(sw->program ? sw->program->headroom : 0, 64);
    sw->room = sw->headroom + sw->max_frame + sw->headroom;
    size_t head = round_up(sizeof(struct sw_packet), 64) + round_up(phv, 64);
    size_t stride = round_up(head + sw->room, 64);
    sw->slab_bytes = stride * sw->buffer_packets;
    sw->slab = mmap(NULL, sw->slab_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sw->slab == MAP_FAILED) {
        sw->slab = NULL;
        return -1;
    }
    sw->pool = NULL;
    sw->in_use = 0;
    return 0;
}

void sw_pool_free(struct sw *sw) {
    if (sw->slab)
        munmap(sw->slab, sw->slab_bytes);
    sw->slab = NULL;
    sw->pool = NULL;
}

/* Buffers that were never used are taken in order from the mapping; `in_use` counts those ever taken. */
struct sw_packet *sw_packet_new(struct sw *sw) {
    struct sw_packet *p = sw->pool;
    size_t head = round_up(sizeof *p, 64), phv = round_up(sw->program->phv_size, 64);
    if (p) {
        sw->pool = p->next;
    } else {
        if (sw->in_use == sw->buffer_packets)
            return NULL;
        p = (struct sw_packet *)(void *)(sw->slab + sw->in_use++ * (sw->slab_bytes / sw->buffer_packets));
    }
    memset(p, 0, sizeof *p);
    p->phv = (uint8_t *)p + head;
    p->base = (uint8_t *)p + head + phv;
    p->data = p->base + sw->headroom;
    p->cut = UINT32_MAX;
    p->id = ++sw->packet_ids;
    return p;
}

void sw_packet_free(struct sw *sw, struct sw_packet *p) {
    p->next = sw->pool;
    sw->pool = p;
}

struct sw_packet *sw_packet_copy(struct sw *sw, const struct sw_packet *p, int with_phv, int from_start) {
    struct sw_packet *copy = sw_packet_new(sw);
    if (!copy)
        return NULL;
    uint32_t back = from_start ? p->parsed : 0;
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
