/* Packet replication: multicast groups and clone sessions by id, each a list of replicas. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/pipeline.h"

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

int sw_map_set(struct sw_map *map, uint32_t id, const struct sw_replica *at, uint32_t count, uint32_t truncate_to) {
    struct sw_replicas *r = malloc(sizeof *r + count * sizeof *at);
    if (!r)
        return -1;
    *r = (struct sw_replicas){.id = id, .count = count, .truncate_to = truncate_to};
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
