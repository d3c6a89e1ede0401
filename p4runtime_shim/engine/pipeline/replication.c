/* Packet replication: multicast groups and clone sessions by id, each a list of replicas. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/pipeline.h"

static uint32_t home(const struct sw_map *map, uint32_t id) { return (uint32_t)sw_mix(1, id) & map->mask; }

/* The slot that has the id, or the empty one where it would be. */
static uint32_t slot_of(const struct sw_map *map, uint32_t id) {
    uint32_t i = home(map, id);
    while (map->slots[i] && map->slots[i]->id != id)
        i = (i + 1) & map->mask;
    return i;
}

const struct sw_replicas *sw_map_find(const struct sw_map *map, uint32_t id) {
    return map->count ? map->slots[slot_of(map, id)] : NULL;
}

/* Room for one more: the map is at most half full. */
static int make_room(struct sw_map *map) {
    uint32_t size = map->slots ? map->mask + 1 : 0;
    if (2 * (map->count + 1) <= size)
        return 0;
    uint32_t bigger = size ? 2 * size : 16;
    struct sw_map fresh = {calloc(bigger, sizeof *fresh.slots), bigger - 1, map->count};
    if (!fresh.slots)
        return -1;
    for (uint32_t i = 0; i < size; i++)
        if (map->slots[i])
            fresh.slots[slot_of(&fresh, map->slots[i]->id)] = map->slots[i];
    free(map->slots);
    *map = fresh;
    return 0;
}

int sw_map_set(struct sw_map *map, uint32_t id, const struct sw_replica *at, uint32_t count, uint32_t truncate_to) {
    struct sw_replicas *r = malloc(sizeof *r + count * sizeof *at);
    if (!r || make_room(map)) {
        free(r);
        return -1;
    }
    *r = (struct sw_replicas){.id = id, .count = count, .truncate_to = truncate_to};
    if (count)
        memcpy(r->at, at, count * sizeof *at);
    uint32_t i = slot_of(map, id);
    map->count += !map->slots[i];
    free(map->slots[i]);
    map->slots[i] = r;
    return 0;
}

int sw_map_delete(struct sw_map *map, uint32_t id) {
    uint32_t gap = map->count ? slot_of(map, id) : 0;
    if (!map->count || !map->slots[gap])
        return -1;
    free(map->slots[gap]);
    map->count--;
    /* Close the gap: move back every later one of the run whose home is not after the gap. */
    for (uint32_t i = (gap + 1) & map->mask; map->slots[i]; i = (i + 1) & map->mask)
        if (((i - home(map, map->slots[i]->id)) & map->mask) >= ((i - gap) & map->mask)) {
            map->slots[gap] = map->slots[i];
            gap = i;
        }
    map->slots[gap] = NULL;
    return 0;
}

void sw_map_clear(struct sw_map *map) {
    for (uint32_t i = 0; map->slots && i <= map->mask; i++)
        free(map->slots[i]);
    free(map->slots);
    *map = (struct sw_map){0};
}
