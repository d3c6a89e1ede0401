/* Splitting leaves of ternary tables, and building all trees of a table from scratch. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/ternary.h"

#define TARGET_CHILD_ENTRIES 2     /* entries that a child should hold */
#define MAX_BITS 12     /* of a window */
#define MAX_COPIES 24u  /* references an entry of a tree, on average */
#define SAMPLE 256u     /* entries that are looked at to choose a window */
#define DENSE 2         /* classes share a tree if its entries meet at most so many times LEAF_LIMIT others in a leaf */

struct window {
    uint16_t word;
    uint8_t bits, shift; /* bits 0: no split helps */
};

/* --- choosing a window --- */

static uint32_t sample_size(const struct sw_tree_node *n) { return n->count < SAMPLE ? n->count : SAMPLE; }

/* The i-th of the entries looked at: all, or some in an order that has nothing to do with theirs. */
static struct sw_entry *sample(const struct sw_tree_node *n, uint32_t i) {
    return n->items[n->count <= SAMPLE ? i : (uint32_t)((uint64_t)i * 2654435761u % n->count)].entry;
}

/* For each bit of a word, how many of the sampled entries the larger of its two sides would have. */
static uint32_t weigh_bits(const struct sw_tree_node *n, const struct sw_table_desc *d, uint16_t word, uint32_t *larger) {
    uint32_t ones[64] = {0}, zeros[64] = {0}, seen = sample_size(n);
    for (uint32_t i = 0; i < seen; i++) {
        struct sw_entry *e = sample(n, i);
        uint64_t mask = sw_entry_mask(d, e)[word];
        for (uint64_t m = mask & e->key[word]; m; m &= m - 1)
            ones[__builtin_ctzll(m)]++;
        for (uint64_t m = mask & ~e->key[word]; m; m &= m - 1)
            zeros[__builtin_ctzll(m)]++;
    }
    for (int b = 0; b < 64; b++)
        larger[b] = seen - (ones[b] < zeros[b] ? ones[b] : zeros[b]);
    return seen;
}

/* Copies that a window makes of an entry. */
static uint64_t copies(const struct sw_table_desc *d, struct sw_entry *e, struct window w) {
    uint64_t open = ~(sw_entry_mask(d, e)[w.word] >> w.shift) & ((1u << w.bits) - 1);
    return ((uint64_t)1 << __builtin_popcountll(open)) - 1;
}

static int copies_few_sampled(const struct sw_tree_node *n, const struct sw_table_desc *d, struct window w) {
    uint64_t made = 0;
    for (uint32_t i = 0; i < sample_size(n); i++)
        made += copies(d, sample(n, i), w);
    return made <= sample_size(n) / 4;
}

static int copies_few(const struct sw_tree_node *n, const struct sw_table_desc *d, struct window w) {
    uint64_t made = 0;
    for (uint32_t i = 0; i < n->count; i++)
        made += copies(d, n->items[i].entry, w);
    return made <= n->count / 4;
}

static int wanted_bits(uint32_t count) {
    int bits = 1;
    while (bits < MAX_BITS && (uint32_t)TARGET_CHILD_ENTRIES << bits < count)
        bits++;
    return bits;
}

/* The bit with the smallest larger side, and adjacent bits that divide the entries well, while few are copied. */
static struct window choose(const struct sw_tree_node *n, const struct sw_table_desc *d) {
    struct window best = {0};
    uint32_t larger[64], at_best[64], smallest = UINT32_MAX, seen = 0;
    for (uint16_t w = 0; w < d->words; w++) {
        seen = weigh_bits(n, d, w, larger);
        for (int b = 63; b >= 0; b--)
            if (larger[b] < smallest) {
                smallest = larger[b];
                best = (struct window){w, 1, (uint8_t)b};
                memcpy(at_best, larger, sizeof larger);
            }
    }
    if (!best.bits || smallest >= seen - seen / 8) /* a split must remove an eighth */
        return (struct window){0};
    for (int wanted = wanted_bits(n->count); best.bits < wanted;) {
        int low = best.shift - 1, high = best.shift + best.bits;
        uint32_t below = low >= 0 ? at_best[low] : UINT32_MAX, above = high < 64 ? at_best[high] : UINT32_MAX;
        if ((below < above ? below : above) > seen - seen / 4)
            break;
        struct window wider = {best.word, (uint8_t)(best.bits + 1), (uint8_t)(below < above ? low : best.shift)};
        if (!copies_few_sampled(n, d, wider))
            break;
        best = wider;
    }
    while (best.bits > 1 && !copies_few(n, d, best)) /* the sample was not representative */
        best.bits--;
    return best;
}

/* --- splitting --- */

void ternary_split(struct sw_tree *t, struct sw_tree_node *n, const struct sw_table_desc *d) {
    if (t->references >= (t->limit ? t->limit : MAX_COPIES * t->count + 4096))
        return;
    struct window w = choose(n, d);
    if (!w.bits)
        return;
    uint32_t size = 1u << w.bits, references = 0;
    struct sw_tree_node inner = {.word = w.word, .bits = w.bits, .shift = w.shift, .child = calloc(size, sizeof *inner.child)};
    int failed = !inner.child;
    for (uint32_t i = 0; i < n->count && !failed; i++) {
        struct ternary_children of = ternary_children(&inner, d, n->items[i].entry);
        do {
            failed = ternary_leaf_put(&inner.child[of.now], d, n->items[i].entry);
            references++;
        } while (!failed && ternary_next_child(&of));
    }
    if (failed) {
        if (inner.child)
            ternary_free_below(&inner);
        return;
    }
    t->references += references - n->count;
    free(n->items);
    *n = inner;
    for (uint32_t i = 0; i < size; i++)
        if (n->child[i].count > LEAF_LIMIT)
            ternary_split(t, &n->child[i], d);
}

/* --- building --- */

struct member { /* an entry and its class */
    struct sw_entry *entry;
    uint64_t signature;
};

static int by_falling_rank(const void *a, const void *b) {
    int64_t x = ((const struct member *)a)->entry->rank, y = ((const struct member *)b)->entry->rank;
    return (x < y) - (x > y);
}

/* The entries by falling priority, so that leaves are filled at their ends. */
static struct member *collect(struct sw_table *t, uint32_t count) {
    struct member *all = malloc(count * sizeof *all);
    uint32_t n = 0;
    for (uint32_t i = 0; all && i < t->tree_count; i++)
        for (struct sw_entry *e = t->trees[i]->entries; e; e = e->next)
            all[n++] = (struct member){e, ternary_signature(t->desc, e)};
    if (all)
        qsort(all, n, sizeof *all, by_falling_rank);
    return all;
}

/* A tree of the entries of one class, or of all; they are not put on its list yet. */
static int grow(struct sw_table *to, const struct member *all, uint32_t count, const uint64_t *only, uint32_t limit) {
    struct sw_tree *u = ternary_new_tree(to);
    if (!u)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        if (!only || all[i].signature == *only) {
            if (ternary_leaf_put(&u->root, to->desc, all[i].entry))
                return -1;
            u->count++;
        }
    u->references = u->count;
    u->limit = limit;
    if (u->root.count > LEAF_LIMIT)
        ternary_split(u, &u->root, to->desc);
    u->limit = 0;
    return 0;
}

/* Sum over the leaves of the square of their entries. */
static uint64_t density(const struct sw_tree_node *n) {
    if (!n->bits)
        return (uint64_t)n->count * n->count;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 1u << n->bits; i++)
        sum += density(&n->child[i]);
    return sum;
}

/* All classes in one tree, if that is about as good as a tree for each: few copies, short leaves. */
static int shared(struct sw_table *to, const struct member *all, uint32_t count) {
    uint32_t limit = count + count / 4;
    if (grow(to, all, count, NULL, limit) == 0) {
        const struct sw_tree *u = to->trees[0];
        if (u->references <= limit && density(&u->root) <= (uint64_t)u->references * LEAF_LIMIT * DENSE)
            return 1;
    }
    ternary_free_trees(to);
    *to = (struct sw_table){.desc = to->desc};
    return 0;
}

static int add_class(struct sw_table *to, uint64_t signature) {
    struct sw_class *classes = realloc(to->classes, (to->class_count + 1) * sizeof *classes);
    if (!classes)
        return -1;
    to->classes = classes;
    to->classes[to->class_count++] = (struct sw_class){signature, NULL};
    return 0;
}

/* The classes of all entries, or none when there are more than trees may be. */
static int classify(struct sw_table *to, const struct member *all, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t c = 0;
        while (c < to->class_count && to->classes[c].signature != all[i].signature)
            c++;
        if (c < to->class_count)
            continue;
        if (c == MAX_TREES) {
            to->class_count = 0;
            return 0;
        }
        if (add_class(to, all[i].signature))
            return -1;
    }
    return 0;
}

static int make_trees(struct sw_table *to, const struct member *all, uint32_t count) {
    if (!to->trees && shared(to, all, count)) {
        if (classify(to, all, count))
            return -1;
        for (uint32_t c = 0; c < to->class_count; c++)
            to->classes[c].tree = to->trees[0];
        return 0;
    }
    if (classify(to, all, count))
        return -1;
    if (!to->class_count) { /* too many: one tree has them all, and new ones go to the list */
        return grow(to, all, count, NULL, 0);
    }
    for (uint32_t c = 0; c < to->class_count; c++) {
        if (grow(to, all, count, &to->classes[c].signature, 0))
            return -1;
        to->classes[c].tree = to->trees[c];
    }
    return 0;
}

static struct sw_tree *tree_of(const struct sw_table *t, uint64_t signature) {
    for (uint32_t c = 0; c < t->class_count; c++)
        if (t->classes[c].signature == signature)
            return t->classes[c].tree;
    return t->trees[0];
}

int sw_ternary_rebuild(struct sw_table *t, struct sw_table *fresh) {
    struct member *all = collect(t, t->count);
    *fresh = (struct sw_table){.desc = t->desc};
    t->built = t->count;
    t->due = 0;
    if (!all || make_trees(fresh, all, t->count)) {
        ternary_free_trees(fresh);
        free(all);
        return -1;
    }
    for (uint32_t i = 0; i < fresh->tree_count; i++)
        fresh->trees[i]->count = 0;
    for (uint32_t i = 0; i < t->count; i++)
        ternary_link(tree_of(fresh, all[i].signature), all[i].entry);
    ternary_sort(fresh);
    free(all);
    return 0;
}

void sw_ternary_swap(struct sw_table *t, struct sw_table *fresh) {
    struct sw_table old = *t;
    t->trees = fresh->trees;
    t->tree_count = fresh->tree_count;
    t->classes = fresh->classes;
    t->class_count = fresh->class_count;
    t->overflow = NULL;
    *fresh = old;
}

void sw_ternary_drop(struct sw_table *old) { ternary_free_trees(old); }
