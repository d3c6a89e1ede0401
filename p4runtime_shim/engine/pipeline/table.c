/* Operations that both table structures share, and the exact one. */
#include "pipeline/table.h"

#include <stdlib.h>
#include <string.h>

void *sw_new_lines(size_t bytes) {
    size_t whole = (bytes + SW_CACHE_LINE - 1) / SW_CACHE_LINE * SW_CACHE_LINE;
    void *memory = aligned_alloc(SW_CACHE_LINE, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

struct sw_entry *sw_entry_new(const struct sw_table_desc *desc) {
    size_t words = (size_t)desc->words * (desc->kind == SW_TERNARY ? 3 : 1);
    size_t meter = desc->metered ? sizeof(struct sw_meter) : 0;
    struct sw_entry *e = sw_new_lines(offsetof(struct sw_entry, key) + words * sizeof(uint64_t) + meter);
    if (e)
        e->hit = SW_NEVER_HIT;
    if (e && meter)
        e->meter = (struct sw_meter *)(e->key + words);
    return e;
}

void sw_entry_free(struct sw_entry *e) {
    if (e)
        free(e->call);
    free(e);
}

int sw_table_add(struct sw_table *t, struct sw_entry *e) {
    int status = t->desc->kind == SW_EXACT ? sw_exact_add(t, e) : sw_ternary_add(t, e);
    if (status == 0)
        t->count++;
    return status;
}

void sw_table_remove(struct sw_table *t, struct sw_entry *e) {
    if (t->desc->kind == SW_EXACT)
        sw_exact_remove(t, e);
    else
        sw_ternary_remove(t, e);
    t->count--;
    sw_entry_free(e);
}

void sw_table_clear(struct sw_table *t) {
    if (t->exact.slots)
        for (uint32_t i = 0; i <= t->exact.mask; i++)
            sw_entry_free(t->exact.slots[i].entry);
    free(t->exact.slots);
    sw_ternary_clear(t);
    free(t->default_action);
    *t = (struct sw_table){.desc = t->desc};
}

/* --- exact --- */

static void insert_slot(struct sw_exact *x, struct sw_slot slot) {
    uint32_t i = (uint32_t)slot.hash & x->mask;
    while (x->slots[i].entry)
        i = (i + 1) & x->mask;
    x->slots[i] = slot;
}

static int grow(struct sw_exact *x) {
    uint32_t size = x->slots ? 2 * (x->mask + 1) : 16;
    struct sw_exact bigger = {calloc(size, sizeof(struct sw_slot)), size - 1};
    if (!bigger.slots)
        return -1;
    if (x->slots)
        for (uint32_t i = 0; i <= x->mask; i++)
            if (x->slots[i].entry)
                insert_slot(&bigger, x->slots[i]);
    free(x->slots);
    *x = bigger;
    return 0;
}

int sw_exact_add(struct sw_table *t, struct sw_entry *e) {
    if ((!t->exact.slots || 2 * (t->count + 1) > t->exact.mask + 1) && grow(&t->exact))
        return -1;
    e->hash = sw_hash_key(e->key, t->desc->words);
    insert_slot(&t->exact, (struct sw_slot){e->hash, e});
    return 0;
}

void sw_exact_remove(struct sw_table *t, struct sw_entry *e) {
    struct sw_exact *x = &t->exact;
    uint32_t i = (uint32_t)e->hash & x->mask;
    while (x->slots[i].entry != e)
        i = (i + 1) & x->mask;
    /* Close the gap: move back every later entry of the run whose home is not after the gap. */
    for (uint32_t j = (i + 1) & x->mask; x->slots[j].entry; j = (j + 1) & x->mask) {
        uint32_t home = (uint32_t)x->slots[j].hash & x->mask;
        if (((j - home) & x->mask) >= ((j - i) & x->mask)) {
            x->slots[i] = x->slots[j];
            i = j;
        }
    }
    x->slots[i].entry = NULL;
}
