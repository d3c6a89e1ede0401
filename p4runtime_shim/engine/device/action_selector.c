/* Members and groups of action selectors, and the ports that members need.
 *
 * A packet uses one of a group's slots. Members whose port is down have none, so that a lookup need not check: when a port
 * changes, the slots of all groups that need a port are rebuilt from their members. */
#include <stdlib.h>
#include <string.h>

#include "device/control_plane.h"

struct sw_call *sw_call_new(uint32_t action, uint32_t words, const uint64_t *args) {
    struct sw_call *call = malloc(sizeof *call + words * sizeof(uint64_t));
    if (!call)
        return NULL;
    call->action = action;
    call->arg_words = words;
    if (words)
        memcpy(call->args, args, words * sizeof(uint64_t));
    return call;
}

struct sw_member *sw_ctl_member_add(struct sw *sw, uint32_t id, uint32_t action, uint32_t arg_words, const uint64_t *args) {
    (void)sw;
    struct sw_member *m = calloc(1, sizeof *m);
    if (m && !(m->call = sw_call_new(action, arg_words, args))) {
        free(m);
        m = NULL;
    }
    if (m)
        m->id = id;
    return m;
}

int sw_ctl_member_modify(struct sw *sw, struct sw_member *m, uint32_t action, uint32_t arg_words, const uint64_t *args) {
    struct sw_call *call = sw_call_new(action, arg_words, args);
    if (!call)
        return SW_NO_MEMORY;
    sw_lock(sw);
    struct sw_call *old = m->call;
    m->call = call;
    sw_unlock(sw);
    free(old);
    return SW_OK;
}

void sw_ctl_member_delete(struct sw *sw, struct sw_member *m) {
    (void)sw; /* nothing refers to it: the caller made sure */
    free(m->call);
    free(m);
}

/* --- groups --- */

static int is_up(const struct sw *sw, uint16_t port) {
    return port == SW_NO_PORT || (sw_port_at(&sw->ports, port) && sw->ports.at[port]->up);
}

static void choose_slots(const struct sw *sw, struct sw_group *g) {
    g->count = 0;
    for (uint32_t i = 0; i < g->all_count; i++)
        if (!g->watch || is_up(sw, g->watch[i]))
            g->slots[g->count++] = g->all[i];
}

void sw_groups_port_changed(struct sw *sw) {
    for (struct sw_group *g = sw->watching; g; g = g->next)
        choose_slots(sw, g);
}

void sw_groups_swap(struct sw *sw, struct sw *other) {
    struct sw_group *mine = sw->watching;
    sw->watching = other->watching;
    other->watching = mine;
    if (sw->watching)
        sw->watching->before = &sw->watching;
    if (mine)
        mine->before = &other->watching;
    sw_groups_port_changed(sw);
}

static void stop_watching(struct sw_group *g) {
    if (!g->before)
        return;
    *g->before = g->next;
    if (g->next)
        g->next->before = g->before;
    g->before = NULL;
}

static void start_watching(struct sw *sw, struct sw_group *g) {
    g->next = sw->watching;
    g->before = &sw->watching;
    if (g->next)
        g->next->before = &g->next;
    sw->watching = g;
}

static void free_slots(struct sw_group *g) {
    free(g->slots);
    free(g->all);
    free(g->watch);
}

/* The arrays of a group; without memory those that were made are in it, to be freed. */
static int make_slots(struct sw_group *g, uint32_t count, struct sw_member *const *slots, const uint16_t *watch) {
    int watches = 0;
    for (uint32_t i = 0; i < count; i++)
        watches |= watch[i] != SW_NO_PORT;
    g->all_count = count;
    g->slots = calloc((size_t)count + 1, sizeof *g->slots);
    g->all = calloc((size_t)count + 1, sizeof *g->all);
    g->watch = watches ? calloc(count, sizeof *g->watch) : NULL;
    if (!g->slots || !g->all || (watches && !g->watch))
        return SW_NO_MEMORY;
    if (count)
        memcpy(g->all, slots, count * sizeof *slots);
    if (watches)
        memcpy(g->watch, watch, count * sizeof *watch);
    return SW_OK;
}

int sw_ctl_group_modify(struct sw *sw, struct sw_group *g, uint32_t count, struct sw_member *const *slots,
                        const uint16_t *watch) {
    struct sw_group fresh = {.id = g->id};
    if (make_slots(&fresh, count, slots, watch)) {
        free_slots(&fresh);
        return SW_NO_MEMORY;
    }
    sw_lock(sw);
    choose_slots(sw, &fresh);
    stop_watching(g);
    struct sw_group old = *g;
    *g = fresh;
    if (g->watch)
        start_watching(sw, g);
    sw_unlock(sw);
    free_slots(&old);
    return SW_OK;
}

struct sw_group *sw_ctl_group_add(struct sw *sw, uint32_t id, uint32_t count, struct sw_member *const *slots,
                                  const uint16_t *watch) {
    struct sw_group *g = calloc(1, sizeof *g);
    if (g)
        g->id = id;
    if (g && sw_ctl_group_modify(sw, g, count, slots, watch)) {
        free(g);
        g = NULL;
    }
    return g;
}

void sw_ctl_group_delete(struct sw *sw, struct sw_group *g) {
    sw_lock(sw);
    stop_watching(g);
    sw_unlock(sw);
    free_slots(g);
    free(g);
}
