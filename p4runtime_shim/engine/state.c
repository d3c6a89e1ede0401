/* Meters, replication lists, digests. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

#define MAX_DIGESTS 4096

/* --- meters: two rates, three colors (RFC 2698, color-blind); 0 green, 1 yellow, 2 red --- */

/* Tokens are counted from the start of time, so that rounding does not add up. A fast meter has issued more than 64 bits can
 * say after some seconds; a double says that too, without fractions from 2^52 on. */
static int take(struct sw_meter_rate *r, uint64_t now_us, uint64_t amount) {
    double issued = (double)now_us * r->per_us;
    if (issued < 0x1p63)
        issued = (double)(uint64_t)issued;
    if (issued > r->issued) {
        double fresh = issued - r->issued;
        uint64_t room = r->burst - r->tokens;
        r->tokens += fresh < (double)room ? (uint64_t)fresh : room;
        r->issued = issued;
    }
    if (r->tokens < amount)
        return 0;
    r->tokens -= amount;
    return 1;
}

static uint32_t color(struct sw_meter *m, uint64_t now_us, uint64_t amount) {
    if (!m->configured)
        return 0;
    if (!take(&m->peak, now_us, amount))
        return 2;
    return take(&m->committed, now_us, amount) ? 0 : 1;
}

uint32_t sw_meter_run(struct sw_meter *m, uint64_t now_us, uint64_t amount, uint32_t bytes) {
    uint32_t found = color(m, now_us, amount);
    m->colored[found][0]++;
    m->colored[found][1] += bytes;
    return found;
}

/* --- maps of replication lists --- */

static uint32_t home(const struct sw_map *map, uint32_t id) { return (uint32_t)sw_mix(1, id) & map->mask; }

const struct sw_replicas *sw_map_find(const struct sw_map *map, uint32_t id) {
    if (!map->count)
        return NULL;
    for (uint32_t i = home(map, id); map->slots[i]; i = (i + 1) & map->mask)
        if (map->slots[i]->id == id)
            return map->slots[i];
    return NULL;
}

static void put(struct sw_map *map, struct sw_replicas *r) {
    uint32_t i = home(map, r->id);
    while (map->slots[i])
        i = (i + 1) & map->mask;
    map->slots[i] = r;
    map->count++;
}

/* Rebuilds with room for one more: these maps change seldom. */
static int rebuild(struct sw_map *map) {
    uint32_t size = 16;
    while (size < 2 * (map->count + 1))
        size *= 2;
    struct sw_map fresh = {calloc(size, sizeof *fresh.slots), size - 1, 0};
    if (!fresh.slots)
        return -1;
    for (uint32_t i = 0; map->slots && i <= map->mask; i++)
        if (map->slots[i])
            put(&fresh, map->slots[i]);
    free(map->slots);
    *map = fresh;
    return 0;
}

int sw_map_delete(struct sw_map *map, uint32_t id) {
    for (uint32_t i = 0; map->count && i <= map->mask; i++)
        if (map->slots[i] && map->slots[i]->id == id) {
            free(map->slots[i]);
            map->slots[i] = NULL;
            map->count--;
            return rebuild(map); /* closes the gap in the probe run */
        }
    return -1;
}

int sw_map_set(struct sw_map *map, uint32_t id, const struct sw_replica *at, uint32_t count, uint32_t cut) {
    struct sw_replicas *r = malloc(sizeof *r + count * sizeof *at);
    if (!r)
        return -1;
    *r = (struct sw_replicas){.id = id, .count = count, .cut = cut};
    if (count)
        memcpy(r->at, at, count * sizeof *at);
    sw_map_delete(map, id);
    if (rebuild(map)) {
        free(r);
        return -1;
    }
    put(map, r);
    return 0;
}

void sw_map_clear(struct sw_map *map) {
    for (uint32_t i = 0; map->slots && i <= map->mask; i++)
        free(map->slots[i]);
    free(map->slots);
    *map = (struct sw_map){0};
}

/* --- digests: a bounded list that the control plane drains --- */

void sw_send_digest(struct sw *sw, struct sw_packet *p) {
    const struct sw_digest_desc *d = sw->program->digest;
    uint32_t i = 0;
    while (i < sw->program->digests && d[i].id != p->digest_list)
        i++;
    p->digest_list = 0;
    if (i == sw->program->digests)
        return;
    struct sw_digest *m = sw->digest_count < MAX_DIGESTS ? malloc(sizeof *m + d[i].words * sizeof(uint64_t)) : NULL;
    if (!m) {
        sw->digests_lost++;
        return;
    }
    *m = (struct sw_digest){.time = sw->now, .list = i, .words = d[i].words};
    sw->program->read_digest(p->phv, i, m->values);
    *sw->digests_end = m;
    sw->digests_end = &m->next;
    sw->digest_count++;
    uint64_t one = 1;
    if (sw->digest_event >= 0 && write(sw->digest_event, &one, sizeof one) < 0) {
        /* a full eventfd is signalled already */
    }
}

void sw_clear_digests(struct sw *sw) {
    for (struct sw_digest *m = sw->digests, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    sw->digests = NULL;
    sw->digests_end = &sw->digests;
    sw->digest_count = 0;
}
