/* Lpm, ternary, range and optional keys: decision trees with arrays of children.
 *
 * A node names a window, some adjacent bits of the key, and has a child for each value of them; an entry that does not care
 * about a bit of the window is in several children. The window starts from the bit that divides the entries best, and grows
 * to about as many children as there are entries while few entries are copied: a lookup is mostly one array, one short leaf
 * and one entry. The entries of a leaf are sorted by falling priority: the first match wins. A range counts with the leading
 * bits that its ends share, and is compared in full in the leaf.
 *
 * Entries with a wildcard field would be copied by every split on that field. They are therefore divided into classes by the
 * words of the key that they mostly specify (the separable trees of EffiCuts); classes share a tree where that makes few
 * copies, and a tree is not split further when its copies outnumber its entries too far. An entry that would be copied to
 * too many leaves of an existing tree is added to the overflow list. When the number of entries has doubled, all trees are
 * rebuilt (ternary_build.c) while packets use the old ones, and then swapped in. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/ternary.h"

#define MAX_SPREAD 256 /* leaves that an entry may be added to */
#define MAX_OVERFLOW 64   /* entries in the overflow list before a rebuild, if they are a sixteenth of all */

int sw_match_ranges(const struct sw_table_desc *d, const struct sw_entry *e, const uint64_t *key) {
    const uint64_t *high = e->key + 2 * d->words;
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

uint64_t ternary_signature(const struct sw_table_desc *d, struct sw_entry *e) {
    const uint64_t *mask = sw_entry_mask(d, e);
    uint64_t result = 0;
    for (uint32_t f = 0; f < d->fields; f++) {
        int left = d->field[f].bits;
        for (uint32_t w = d->field[f].word; left > 0 && w < 64; w++, left -= 64)
            if (2 * __builtin_popcountll(mask[w]) >= (left < 64 ? left : 64))
                result |= (uint64_t)1 << w;
    }
    return result;
}

void ternary_free_below(struct sw_tree_node *n) {
    for (uint32_t i = 0; n->bits && i < 1u << n->bits; i++)
        ternary_free_below(&n->child[i]);
    if (n->bits)
        free(n->child);
    else
        free(n->items);
}

/* --- one entry in, one entry out --- */

int ternary_leaf_put(struct sw_tree_node *n, const struct sw_table_desc *d, struct sw_entry *e) {
    if (!n->count || (n->count >= 4 && !(n->count & (n->count - 1)))) { /* room for 4, 8, 16 ... */
        struct sw_item *items = realloc(n->items, (n->count ? 2 * (size_t)n->count : 4) * sizeof *items);
        if (!items)
            return -1;
        n->items = items;
    }
    uint32_t i = n->count++;
    for (; i && n->items[i - 1].rank < e->rank; i--)
        n->items[i] = n->items[i - 1];
    n->items[i] = (struct sw_item){0, 0, e, e->rank};
    if (n->count == 1) { /* the word in which the first entry specifies most is compared first */
        const uint64_t *mask = sw_entry_mask(d, e);
        n->word = 0;
        for (uint16_t w = 0; w < d->words; w++)
            if (__builtin_popcountll(mask[w]) > __builtin_popcountll(mask[n->word]))
                n->word = w;
    }
    n->items[i].mask = sw_entry_mask(d, e)[n->word];
    n->items[i].value = e->key[n->word] & n->items[i].mask;
    return 0;
}

static void leaf_take(struct sw_tree_node *n, const struct sw_entry *e, struct sw_tree *t) {
    for (uint32_t i = 0; i < n->count; i++)
        if (n->items[i].entry == e) {
            memmove(&n->items[i], &n->items[i + 1], (--n->count - i) * sizeof *n->items);
            t->references--;
            if (!n->count) {
                free(n->items);
                n->items = NULL;
            }
            return;
        }
}

/* The number of leaves that have or would have an entry, at most `most`. */
static uint32_t spread(const struct sw_tree_node *n, const struct sw_table_desc *d, struct sw_entry *e, uint32_t most) {
    if (!n->bits)
        return 1;
    uint32_t leaves = 0;
    struct ternary_children of = ternary_children(n, d, e);
    do
        leaves += spread(&n->child[of.now], d, e, most - leaves);
    while (leaves < most && ternary_next_child(&of));
    return leaves;
}

static int put(struct sw_tree *t, struct sw_tree_node *n, const struct sw_table_desc *d, struct sw_entry *e) {
    if (n->bits) {
        struct ternary_children of = ternary_children(n, d, e);
        do
            if (put(t, &n->child[of.now], d, e))
                return -1;
        while (ternary_next_child(&of));
        return 0;
    }
    if (ternary_leaf_put(n, d, e))
        return -1;
    t->references++;
    /* A leaf that could not be split is tried again at twice its size. */
    if (n->count == LEAF_LIMIT + 1 || (n->count > LEAF_LIMIT && !(n->count & (n->count - 1))))
        ternary_split(t, n, d);
    return 0;
}

static void take(struct sw_tree *t, struct sw_tree_node *n, const struct sw_table_desc *d, struct sw_entry *e) {
    if (n->bits) {
        struct ternary_children of = ternary_children(n, d, e);
        do
            take(t, &n->child[of.now], d, e);
        while (ternary_next_child(&of));
    } else {
        leaf_take(n, e, t);
    }
}

/* --- the trees of a table --- */

void ternary_sort(struct sw_table *t) {
    for (uint32_t i = 1; i < t->tree_count; i++)
        for (uint32_t j = i; j && t->trees[j]->best > t->trees[j - 1]->best; j--) {
            struct sw_tree *swap = t->trees[j];
            t->trees[j] = t->trees[j - 1];
            t->trees[j - 1] = swap;
        }
}

struct sw_tree *ternary_new_tree(struct sw_table *t) {
    struct sw_tree *u = calloc(1, sizeof *u);
    struct sw_tree **bigger = realloc(t->trees, (t->tree_count + 1) * sizeof(struct sw_tree *));
    if (bigger)
        t->trees = bigger;
    if (!u || !bigger) {
        free(u);
        return NULL;
    }
    u->best = INT64_MIN;
    t->trees[t->tree_count++] = u;
    return u;
}

static void drop_tree(struct sw_table *t, struct sw_tree *u) {
    uint32_t i = 0, kept = 0;
    while (t->trees[i] != u)
        i++;
    memmove(&t->trees[i], &t->trees[i + 1], (--t->tree_count - i) * sizeof(struct sw_tree *));
    for (uint32_t c = 0; c < t->class_count; c++)
        if (t->classes[c].tree != u)
            t->classes[kept++] = t->classes[c];
    t->class_count = kept;
    if (t->overflow == u)
        t->overflow = NULL;
    ternary_free_below(&u->root);
    free(u);
}

static struct sw_tree *overflow_of(struct sw_table *t) {
    if (!t->overflow)
        t->overflow = ternary_new_tree(t);
    return t->overflow;
}

/* The tree of a class; classes beyond a limit go to the overflow list until the next rebuild. */
static struct sw_tree *tree_for(struct sw_table *t, uint64_t sign) {
    for (uint32_t i = 0; i < t->class_count; i++)
        if (t->classes[i].signature == sign)
            return t->classes[i].tree;
    if (t->class_count >= MAX_TREES)
        return overflow_of(t);
    struct sw_class *classes = realloc(t->classes, (t->class_count + 1) * sizeof *classes);
    if (!classes)
        return NULL;
    t->classes = classes;
    struct sw_tree *u = ternary_new_tree(t);
    if (u)
        t->classes[t->class_count++] = (struct sw_class){sign, u};
    return u;
}

void ternary_link(struct sw_tree *u, struct sw_entry *e) {
    e->tree = u;
    e->next = u->entries;
    e->before = &u->entries;
    if (u->entries)
        u->entries->before = &e->next;
    u->entries = e;
    u->count++;
    if (e->rank > u->best)
        u->best = e->rank;
}

static int add_to(struct sw_table *t, struct sw_tree *u, struct sw_entry *e) {
    const struct sw_table_desc *d = t->desc;
    int failed = u == t->overflow ? ternary_leaf_put(&u->root, d, e) : put(u, &u->root, d, e);
    if (failed) {
        take(u, &u->root, d, e);
        if (!u->count)
            drop_tree(t, u);
        return -1;
    }
    if (u == t->overflow)
        u->references++;
    ternary_link(u, e);
    ternary_sort(t);
    return 0;
}

int sw_ternary_add(struct sw_table *t, struct sw_entry *e) {
    e->rank = (int64_t)e->priority * ((int64_t)1 << 32) + (UINT32_MAX - t->inserts++);
    struct sw_tree *u = tree_for(t, ternary_signature(t->desc, e));
    if (u && u != t->overflow && spread(&u->root, t->desc, e, MAX_SPREAD + 1) > MAX_SPREAD)
        u = overflow_of(t);
    if (!u || add_to(t, u, e))
        return -1;
    uint32_t count = t->count + 1, listed = t->overflow ? t->overflow->count : 0;
    uint32_t due = t->built < 2 * LEAF_LIMIT ? 4 * LEAF_LIMIT : 2 * t->built;
    int crowded = listed > MAX_OVERFLOW && listed > count / 16 && count - t->built > t->built / 8;
    t->due = count >= due || crowded;
    return 0;
}

/* Looks at all entries, so not whenever the best one is removed: until then lookups only look at the tree more often. */
static void find_best(struct sw_table *t, struct sw_tree *u) {
    u->best = INT64_MIN;
    u->removed = 0;
    for (const struct sw_entry *e = u->entries; e; e = e->next)
        if (e->rank > u->best)
            u->best = e->rank;
    ternary_sort(t);
}

void sw_ternary_remove(struct sw_table *t, struct sw_entry *e) {
    struct sw_tree *u = e->tree;
    take(u, &u->root, t->desc, e);
    *e->before = e->next;
    if (e->next)
        e->next->before = e->before;
    if (--u->count == 0)
        drop_tree(t, u);
    else if ((e->rank == u->best || u->removed) && ++u->removed > u->count / 8)
        find_best(t, u);
    if (t->count - 1 < t->built / 4) /* the next entries cause a rebuild */
        t->built = t->count - 1;
}

void ternary_free_trees(struct sw_table *t) {
    for (uint32_t i = 0; i < t->tree_count; i++) {
        ternary_free_below(&t->trees[i]->root);
        free(t->trees[i]);
    }
    free(t->trees);
    free(t->classes);
}

void sw_ternary_clear(struct sw_table *t) {
    for (uint32_t i = 0; i < t->tree_count; i++)
        for (struct sw_entry *e = t->trees[i]->entries, *next; e; e = next) {
            next = e->next;
            sw_entry_free(e);
        }
    ternary_free_trees(t);
}
