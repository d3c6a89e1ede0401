/* Match tables: two structures behind one entry type, and the lookups that generated code inlines.
 *
 * A key is an array of 64-bit words. Each field takes ceil(width / 64) words, least significant first, in the table's key
 * order.
 *
 *   exact    open addressing with linear probing on a 64-bit hash, at most half full
 *   ternary  (and lpm, whose priorities are the prefix lengths; range; optional) decision trees whose nodes index an array of
 *            children with some bits of the key, with short leaves sorted by priority: a few steps, however many entries and
 *            different masks there are (ternary.c)
 *
 * Entries are owned by the table; the address of one is its handle for the control plane. The switch's lock covers all. */
#ifndef SW_TABLE_H
#define SW_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "wide.h"

#define SW_NO_PORT UINT16_MAX
#define SW_CACHE_LINE 64 /* bytes */

#define SW_NEVER_HIT INT64_MIN

enum sw_table_kind { SW_EXACT, SW_TERNARY };

struct sw_call { /* an action with its arguments */
    uint32_t action;
    uint32_t arg_words;
    uint64_t args[];
};

struct sw_member {
    struct sw_call *call;
    uint32_t id;
};

struct sw_group {
    uint32_t id, count;
    struct sw_member **slots; /* one a unit of weight, by rising member id, without those whose port is down */
    uint32_t all_count;
    struct sw_member **all; /* those included */
    uint16_t *watch;        /* for each of `all` the port it needs, or SW_NO_PORT; NULL: none needs any */
    struct sw_group *next, **before; /* in the switch's list of groups that need ports */
};

struct sw_meter_rate {
    double per_us; /* tokens a microsecond */
    uint64_t burst, tokens;
    double issued; /* whole tokens that there have been since the start of time */
};

struct sw_meter {
    int configured;
    struct sw_meter_rate peak, committed;
    uint64_t colored[3][2]; /* by color: packets, bytes */
};

/* What a hit needs comes last, and begins a cache line. */
struct sw_entry {
    struct sw_entry *next, **before; /* in the list of its tree (ternary) */
    struct sw_tree *tree;            /* its tree (ternary) */
    uint64_t hash;
    int64_t rank; /* ternary: priority, then age: of equal priorities the entry that came first wins */
    int32_t priority; /* larger wins */
    struct sw_meter *meter; /* behind the key; NULL where the table has none */
    int64_t hit; /* when a packet last hit it, SW_NEVER_HIT before; of tables with idle timeouts */
    struct sw_call *call __attribute__((aligned(SW_CACHE_LINE))); /* of a simple table */
    struct sw_member *member;
    struct sw_group *group;
    uint64_t packets, bytes;
    uint64_t key[]; /* then, in ternary tables: mask words, high words */
};

struct sw_field_desc {
    uint16_t word, words; /* position in the key */
    uint16_t bits;        /* width */
    uint8_t range;        /* compared as low <= k <= high */
    uint32_t name;        /* among the texts of the switch */
};

struct sw_table_desc {
    uint32_t kind, words, fields, max_size, ranges; /* ranges: how many of the fields are ranges */
    uint32_t metered;                               /* entries have meters */
    const struct sw_field_desc *field;
};

struct sw_slot {
    uint64_t hash;
    struct sw_entry *entry;
};

struct sw_exact {
    struct sw_slot *slots;
    uint32_t mask; /* slots - 1, or 0 with slots == NULL */
};

struct sw_item { /* an entry in a leaf, with one word of it at hand */
    uint64_t mask, value;
    struct sw_entry *entry;
    int64_t rank;
};

struct sw_tree_node { /* a node: with bits, an array of 1 << bits children; without, a leaf of `count` items */
    uint32_t count;
    uint16_t word; /* of the key: that of the bits, or that of the items */
    uint8_t bits, shift;
    union {
        struct sw_tree_node *child;
        struct sw_item *items;
    };
};

struct sw_tree {
    struct sw_tree_node root;
    struct sw_entry *entries;
    uint32_t count, references;
    uint32_t limit; /* references beyond which leaves are not split; 0: the default */
    int64_t best;     /* highest rank inside, or a higher one */
    uint32_t removed; /* entries, since it may be a higher one */
};

struct sw_class { /* entries that specify the same words of the key, and where they are */
    uint64_t signature;
    struct sw_tree *tree;
};

/* What a lookup needs is in the first cache line. */
struct sw_table {
    const struct sw_table_desc *desc __attribute__((aligned(SW_CACHE_LINE)));
    struct sw_call *default_action; /* default action, or NULL */
    uint32_t count, tree_count;
    struct sw_exact exact;
    struct sw_tree **trees; /* by falling best */
    struct sw_class *classes;
    struct sw_tree *overflow; /* among the trees: a plain list of entries that would be copied too often elsewhere */
    uint32_t class_count, inserts;
    uint32_t built; /* entries when the trees were last built from scratch */
    int due;        /* it is time to do so again */
};

/* --- hashing of keys --- */

SW_INLINE uint64_t sw_mix(uint64_t h, uint64_t w) {
    u128 m = (u128)(h ^ w ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

SW_INLINE uint64_t sw_hash_key(const uint64_t *key, unsigned words) {
    uint64_t h = 0x2545f4914f6cdd1du;
    for (unsigned i = 0; i < words; i++)
        h = sw_mix(h, key[i]);
    return h;
}

/* --- lookups; `words` is a constant where they are inlined --- */

SW_INLINE struct sw_entry *sw_find_exact(const struct sw_table *t, const uint64_t *key, unsigned words) {
    const struct sw_exact *x = &t->exact;
    if (!t->count)
        return NULL;
    uint64_t h = sw_hash_key(key, words);
    for (uint32_t i = (uint32_t)h & x->mask;; i = (i + 1) & x->mask) {
        struct sw_entry *e = x->slots[i].entry;
        if (!e)
            return NULL;
        if (x->slots[i].hash == h) {
            unsigned w = 0;
            while (w < words && e->key[w] == key[w])
                w++;
            if (w == words)
                return e;
        }
    }
}

int sw_match_ranges(const struct sw_table_desc *desc, const struct sw_entry *e, const uint64_t *key);

SW_INLINE int sw_match_full(const struct sw_table_desc *d, const struct sw_entry *e, const uint64_t *key, unsigned words) {
    uint64_t differ = 0;
    for (unsigned w = 0; w < words; w++)
        differ |= (key[w] ^ e->key[w]) & e->key[words + w];
    return !differ && (!d->ranges || sw_match_ranges(d, e, key));
}

SW_INLINE struct sw_entry *sw_find_ternary(const struct sw_table *t, const uint64_t *key, unsigned words) {
    struct sw_entry *best = NULL;
    int64_t rank = INT64_MIN;
    for (uint32_t i = 0; i < t->tree_count && t->trees[i]->best > rank; i++) {
        const struct sw_tree_node *n = &t->trees[i]->root;
        while (n->bits)
            n = &n->child[key[n->word] >> n->shift & ((1u << n->bits) - 1)];
        uint64_t word = key[n->word];
        for (uint32_t k = 0; k < n->count && n->items[k].rank > rank; k++)
            if ((word & n->items[k].mask) == n->items[k].value && sw_match_full(t->desc, n->items[k].entry, key, words)) {
                best = n->items[k].entry;
                rank = n->items[k].rank;
                break;
            }
    }
    return best;
}

/* --- control plane --- */

/* Zeroed memory that begins a cache line, NULL if there is none; free() frees it. */
void *sw_new_lines(size_t bytes);
struct sw_entry *sw_entry_new(const struct sw_table_desc *desc);
void sw_entry_free(struct sw_entry *e);
/* Puts the entry (key, mask and high words, priority filled in) into the table. 0, or -1 without memory. */
int sw_table_add(struct sw_table *t, struct sw_entry *e);
void sw_table_remove(struct sw_table *t, struct sw_entry *e);
void sw_table_clear(struct sw_table *t);

int sw_exact_add(struct sw_table *t, struct sw_entry *e);
void sw_exact_remove(struct sw_table *t, struct sw_entry *e);
int sw_ternary_add(struct sw_table *t, struct sw_entry *e);
void sw_ternary_remove(struct sw_table *t, struct sw_entry *e);
void sw_ternary_clear(struct sw_table *t);
/* Builds new trees for a table that is due for it, in `fresh`. Packets may use the table meanwhile; its entries must not change
 * before sw_ternary_swap(), which leaves the old trees in `fresh` for sw_ternary_drop(). -1 when out of memory: the table keeps
 * its trees. */
int sw_ternary_rebuild(struct sw_table *t, struct sw_table *fresh);
void sw_ternary_swap(struct sw_table *t, struct sw_table *fresh);
void sw_ternary_drop(struct sw_table *old);

SW_INLINE uint64_t *sw_entry_mask(const struct sw_table_desc *d, struct sw_entry *e) { return e->key + d->words; }
SW_INLINE uint64_t *sw_entry_high(const struct sw_table_desc *d, struct sw_entry *e) { return e->key + 2 * d->words; }

#endif
