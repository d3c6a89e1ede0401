/* Ternary, range and optional keys: decision trees that cut on single bits, one tree for each set of specified fields.
 *
 * A node names a bit of the key; an entry that does not care about the bit lies on both sides. The bit is chosen so that the
 * larger side is smallest. Entries that leave a field open would be copied at every cut on that field, so entries are first
 * parted by which fields they mostly specify (EffiCuts' separable trees), and a tree stops cutting when copies outnumber its
 * entries too far. A leaf keeps its entries by falling priority: the first that matches wins. Ranges take part with the bits
 * that their ends share, and are compared in full in the leaf. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

#define LEAF_LIMIT 8   /* entries a leaf holds before it is cut */
#define MAX_TREES 32   /* further signatures share the first tree of signature 0 */
#define MAX_COPIES 24u /* references an entry of a tree, on average */

int sw_match_full(const struct sw_table_desc *d, const struct sw_entry *e, const uint64_t *key) {
    const uint64_t *mask = e->key + d->words, *high = e->key + 2 * d->words;
    uint64_t differ = 0;
    for (uint32_t w = 0; w < d->words; w++)
        differ |= (key[w] ^ e->key[w]) & mask[w];
    if (differ)
        return 0;
    for (uint32_t f = 0; f < d->fields; f++) {
        if (!d->field[f].range)
            continue;
        uint32_t first = d->field[f].word;
        int low = 0, above = 0; /* key compared with low end, with high end; most significant word first */
        for (uint32_t w = first + d->field[f].words; w-- > first;) {
            if (!low)
                low = (key[w] > e->key[w]) - (key[w] < e->key[w]);
            if (!above)
                above = (key[w] > high[w]) - (key[w] < high[w]);
        }
        if (low < 0 || above > 0)
            return 0;
    }
    return 1;
}

/* Bit f: field f has at least half of its bits specified. */
static uint64_t signature(const struct sw_table_desc *d, struct sw_entry *e) {
    const uint64_t *mask = sw_entry_mask(d, e);
    uint64_t result = 0;
    for (uint32_t f = 0; f < d->fields && f < 64; f++) {
        uint32_t bits = 0;
        for (uint32_t w = d->field[f].word; w < (uint32_t)d->field[f].word + d->field[f].words; w++)
            bits += (uint32_t)__builtin_popcountll(mask[w]);
        if (2 * bits >= d->field[f].bits)
            result |= (uint64_t)1 << f;
    }
    return result;
}

static void free_cut(struct sw_cut *n) {
    if (n->bit >= 0) {
        free_cut(n->child[0]);
        free_cut(n->child[1]);
    } else {
        free(n->items);
    }
    free(n);
}

static struct sw_cut *new_leaf(void) {
    struct sw_cut *n = calloc(1, sizeof *n);
    if (n)
        n->bit = -1;
    return n;
}

static int leaf_put(struct sw_cut *n, const struct sw_table_desc *d, struct sw_entry *e) {
    if (n->count == n->cap) {
        uint32_t cap = n->cap ? 2 * n->cap : 4;
        struct sw_item *items = realloc(n->items, cap * sizeof *items);
        if (!items)
            return -1;
        n->items = items;
        n->cap = cap;
    }
    uint32_t i = n->count++;
    for (; i && n->items[i - 1].priority < e->priority; i--)
        n->items[i] = n->items[i - 1];
    n->items[i] = (struct sw_item){0, 0, e, e->priority};
    if (n->count == 1) { /* the word in which the first entry specifies most is looked at before all else */
        const uint64_t *mask = sw_entry_mask(d, e);
        for (uint32_t w = 0; w < d->words; w++)
            if (__builtin_popcountll(mask[w]) > __builtin_popcountll(mask[n->word]))
                n->word = w;
    }
    n->items[i].mask = sw_entry_mask(d, e)[n->word];
    n->items[i].value = e->key[n->word] & n->items[i].mask;
    return 0;
}

/* The bit that makes the larger side smallest, or -1 when no cut helps enough. */
static int choose_bit(const struct sw_cut *n, const struct sw_table_desc *d) {
    int best = -1;
    uint32_t smallest = n->count - n->count / 8; /* a cut must take away an eighth */
    for (uint32_t w = 0; w < d->words; w++) {
        uint32_t ones[64] = {0}, zeros[64] = {0};
        for (uint32_t i = 0; i < n->count; i++) {
            struct sw_entry *e = n->items[i].entry;
            uint64_t mask = sw_entry_mask(d, e)[w];
            for (uint64_t m = mask & e->key[w]; m; m &= m - 1)
                ones[__builtin_ctzll(m)]++;
            for (uint64_t m = mask & ~e->key[w]; m; m &= m - 1)
                zeros[__builtin_ctzll(m)]++;
        }
        for (int b = 63; b >= 0; b--) {
            uint32_t either = n->count - ones[b] - zeros[b];
            uint32_t larger = (ones[b] > zeros[b] ? ones[b] : zeros[b]) + either;
            if (larger < smallest) {
                smallest = larger;
                best = (int)w * 64 + b;
            }
        }
    }
    return best;
}

static int cut(struct sw_tree *t, struct sw_cut *n, const struct sw_table_desc *d) {
    int bit = choose_bit(n, d);
    if (bit < 0)
        return 0;
    struct sw_cut *side[2] = {new_leaf(), new_leaf()};
    int failed = !side[0] || !side[1];
    for (uint32_t i = 0; i < n->count && !failed; i++) {
        struct sw_entry *e = n->items[i].entry;
        int cares = (int)(sw_entry_mask(d, e)[bit >> 6] >> (bit & 63) & 1);
        int value = (int)(e->key[bit >> 6] >> (bit & 63) & 1);
        for (int s = 0; s < 2 && !failed; s++)
            if (!cares || value == s)
                failed = leaf_put(side[s], d, e);
    }
    if (failed) { /* no memory for better: the leaf stays as it is */
        for (int s = 0; s < 2; s++)
            if (side[s])
                free_cut(side[s]);
        return 0;
    }
    t->references += side[0]->count + side[1]->count - n->count;
    free(n->items);
    *n = (struct sw_cut){.bit = bit, .child = {side[0], side[1]}};
    for (int s = 0; s < 2; s++)
        if (side[s]->count > LEAF_LIMIT && t->references < MAX_COPIES * t->count + 4096)
            cut(t, side[s], d);
    return 1;
}

static int put(struct sw_tree *t, struct sw_cut *n, const struct sw_table_desc *d, struct sw_entry *e) {
    while (n->bit >= 0) {
        if (sw_entry_mask(d, e)[n->bit >> 6] >> (n->bit & 63) & 1) {
            n = n->child[e->key[n->bit >> 6] >> (n->bit & 63) & 1];
        } else {
            if (put(t, n->child[0], d, e))
                return -1;
            n = n->child[1];
        }
    }
    if (leaf_put(n, d, e))
        return -1;
    t->references++;
    /* A leaf that could not be cut is tried again when it has doubled. */
    int due = n->count > LEAF_LIMIT && (n->count & (n->count - 1)) == 0;
    if ((n->count == LEAF_LIMIT + 1 || due) && t->references < MAX_COPIES * t->count + 4096)
        cut(t, n, d);
    return 0;
}

static void take(struct sw_tree *t, struct sw_cut *n, const struct sw_table_desc *d, struct sw_entry *e) {
    while (n->bit >= 0) {
        if (sw_entry_mask(d, e)[n->bit >> 6] >> (n->bit & 63) & 1) {
            n = n->child[e->key[n->bit >> 6] >> (n->bit & 63) & 1];
        } else {
            take(t, n->child[0], d, e);
            n = n->child[1];
        }
    }
    for (uint32_t i = 0; i < n->count; i++)
        if (n->items[i].entry == e) {
            memmove(&n->items[i], &n->items[i + 1], (--n->count - i) * sizeof *n->items);
            t->references--;
            return;
        }
}

/* Trees stay in order of their highest priority. */
static void sort(struct sw_table *t) {
    for (uint32_t i = 1; i < t->tree_count; i++)
        for (uint32_t j = i; j && t->trees[j]->best > t->trees[j - 1]->best; j--) {
            struct sw_tree *swap = t->trees[j];
            t->trees[j] = t->trees[j - 1];
            t->trees[j - 1] = swap;
        }
}

static struct sw_tree *tree_for(struct sw_table *t, uint64_t sign) {
    struct sw_tree *shared = NULL;
    for (uint32_t i = 0; i < t->tree_count; i++) {
        if (t->trees[i]->signature == sign)
            return t->trees[i];
        if (!t->trees[i]->signature)
            shared = t->trees[i];
    }
    if (t->tree_count >= MAX_TREES - 1) {
        if (shared)
            return shared;
        sign = 0;
    }
    struct sw_tree *u = calloc(1, sizeof *u);
    struct sw_tree **bigger = realloc(t->trees, (t->tree_count + 1) * sizeof *bigger);
    if (bigger)
        t->trees = bigger;
    if (!u || !bigger || !(u->root = new_leaf())) {
        free(u);
        return NULL;
    }
    u->signature = sign;
    u->best = INT32_MIN;
    t->trees[t->tree_count++] = u;
    return u;
}

static void drop_tree(struct sw_table *t, struct sw_tree *u) {
    uint32_t i = 0;
    while (t->trees[i] != u)
        i++;
    memmove(&t->trees[i], &t->trees[i + 1], (--t->tree_count - i) * sizeof *t->trees);
    free_cut(u->root);
    free(u);
}

int sw_ternary_add(struct sw_table *t, struct sw_entry *e) {
    struct sw_tree *u = tree_for(t, signature(t->desc, e));
    if (!u)
        return -1;
    e->place = u;
    u->count++;
    if (put(u, u->root, t->desc, e)) {
        take(u, u->root, t->desc, e);
        if (!--u->count)
            drop_tree(t, u);
        return -1;
    }
    if (e->priority > u->best) {
        u->best = e->priority;
        sort(t);
    }
    e->next = u->entries;
    e->before = &u->entries;
    if (u->entries)
        u->entries->before = &e->next;
    u->entries = e;
    return 0;
}

void sw_ternary_remove(struct sw_table *t, struct sw_entry *e) {
    struct sw_tree *u = e->place;
    take(u, u->root, t->desc, e);
    *e->before = e->next;
    if (e->next)
        e->next->before = e->before;
    if (--u->count == 0) {
        drop_tree(t, u);
        return;
    }
    if (e->priority < u->best)
        return;
    u->best = INT32_MIN;
    for (const struct sw_entry *i = u->entries; i; i = i->next)
        if (i->priority > u->best)
            u->best = i->priority;
    sort(t);
}

void sw_ternary_clear(struct sw_table *t) {
    for (uint32_t i = 0; i < t->tree_count; i++) {
        for (struct sw_entry *e = t->trees[i]->entries, *next; e; e = next) {
            next = e->next;
            sw_entry_free(e);
        }
        free_cut(t->trees[i]->root);
        free(t->trees[i]);
    }
    free(t->trees);
}
