/* Match tables: three structures behind one entry type, and the lookups that generated code inlines.
 *
 * A key is an array of 64-bit words. In exact and ternary tables each field takes ceil(width / 64) words, least significant
 * first, in the table's key order. In lpm tables the words form one bit string, most significant first: exact fields, then the
 * lpm field, each left-justified in its words; a prefix length counts bits of that string.
 *
 *   exact    open addressing with linear probing on a 64-bit hash, at most half full
 *   lpm      path-compressed binary trie, so the cost follows the logarithm of the entries and not their lengths
 *   ternary  decision trees that cut on single bits, with short leaves sorted by priority: the cost follows the logarithm of the
 *            entries however many different masks they have (ternary.c)
 *
 * Entries are owned by the table; the address of one is its handle for the control plane. The switch's lock covers all. */
#ifndef SW_TABLE_H
#define SW_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "wide.h"

#define SW_MAX_KEY_WORDS 64

enum sw_table_kind { SW_EXACT, SW_LPM, SW_TERNARY };

struct sw_call { /* an action with its arguments */
    uint32_t action;
    uint32_t arg_words;
    uint64_t args[];
};

struct sw_member {
    struct sw_call *call;
    uint32_t id, references;
};

struct sw_group {
    uint32_t id, count, references;
    struct sw_member **slots; /* one a unit of weight, by rising member id */
};

struct sw_meter_rate {
    double per_us; /* tokens a microsecond */
    uint64_t burst, tokens, issued;
};

struct sw_meter {
    int configured;
    struct sw_meter_rate peak, committed;
};

struct sw_entry {
    struct sw_call *call; /* of a simple table */
    struct sw_member *member;
    struct sw_group *group;
    uint64_t packets, bytes;
    struct sw_meter meter;
    struct sw_entry *next, **before; /* in the list of its tree (ternary) */
    void *place;                     /* its tree (ternary) */
    uint64_t hash;
    int32_t priority; /* larger wins */
    uint32_t prefix;  /* lpm: bits of the whole key */
    uint64_t key[];   /* then, in ternary tables: mask words, high words */
};

struct sw_field_desc {
    uint16_t word, words; /* place in the key */
    uint16_t bits;        /* width */
    uint8_t range;        /* compared as low <= k <= high */
};

struct sw_table_desc {
    const char *name;
    uint32_t kind, words, fields, max_size;
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

struct sw_trie_node {
    struct sw_trie_node *child[2];
    struct sw_entry *entry;
    uint32_t bits; /* length of the prefix */
    uint64_t prefix[];
};

struct sw_item { /* an entry in a leaf, with one word of it at hand */
    uint64_t mask, value;
    struct sw_entry *entry;
    int32_t priority;
};

struct sw_cut {
    int32_t bit; /* of the key; -1: a leaf */
    uint32_t word, count, cap;
    union {
        struct sw_cut *child[2];
        struct sw_item *items;
    };
};

struct sw_tree {
    struct sw_cut *root;
    struct sw_entry *entries;
    uint64_t signature;
    uint32_t count, references;
    int32_t best; /* highest priority inside */
};

struct sw_table {
    const struct sw_table_desc *desc;
    struct sw_call *fallback; /* default action, or NULL */
    uint32_t count, tree_count;
    struct sw_exact exact;
    struct sw_trie_node *trie;
    struct sw_tree **trees; /* by falling best */
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

SW_INLINE int sw_prefix_matches(const uint64_t *a, const uint64_t *b, uint32_t bits) {
    uint32_t w = bits >> 6, rest = bits & 63;
    for (uint32_t i = 0; i < w; i++)
        if (a[i] != b[i])
            return 0;
    return !rest || !((a[w] ^ b[w]) >> (64 - rest));
}

SW_INLINE unsigned sw_key_bit(const uint64_t *key, uint32_t bit) {
    return (unsigned)(key[bit >> 6] >> (63 - (bit & 63))) & 1;
}

SW_INLINE struct sw_entry *sw_find_lpm(const struct sw_table *t, const uint64_t *key, unsigned words) {
    struct sw_entry *best = NULL;
    for (const struct sw_trie_node *n = t->trie; n && sw_prefix_matches(key, n->prefix, n->bits);) {
        if (n->entry)
            best = n->entry;
        if (n->bits >= 64 * words)
            break;
        n = n->child[sw_key_bit(key, n->bits)];
    }
    return best;
}

int sw_match_full(const struct sw_table_desc *desc, const struct sw_entry *e, const uint64_t *key);

SW_INLINE struct sw_entry *sw_find_ternary(const struct sw_table *t, const uint64_t *key, unsigned words) {
    struct sw_entry *best = NULL;
    int32_t rank = INT32_MIN;
    (void)words;
    for (uint32_t i = 0; i < t->tree_count && t->trees[i]->best > rank; i++) {
        const struct sw_cut *n = t->trees[i]->root;
        while (n->bit >= 0)
            n = n->child[key[n->bit >> 6] >> (n->bit & 63) & 1];
        uint64_t word = key[n->word];
        for (uint32_t k = 0; k < n->count && n->items[k].priority > rank; k++)
            if ((word & n->items[k].mask) == n->items[k].value && sw_match_full(t->desc, n->items[k].entry, key)) {
                best = n->items[k].entry;
                rank = best->priority;
                break;
            }
    }
    return best;
}

/* --- control plane --- */

struct sw_entry *sw_entry_new(const struct sw_table_desc *desc);
void sw_entry_free(struct sw_entry *e);
/* Puts the entry (key, mask and high words, prefix, priority filled in) into the table. 0, or -1 without memory. */
int sw_table_add(struct sw_table *t, struct sw_entry *e);
void sw_table_remove(struct sw_table *t, struct sw_entry *e);
void sw_table_clear(struct sw_table *t);

int sw_exact_add(struct sw_table *t, struct sw_entry *e);
void sw_exact_remove(struct sw_table *t, struct sw_entry *e);
int sw_lpm_add(struct sw_table *t, struct sw_entry *e);
void sw_lpm_remove(struct sw_table *t, struct sw_entry *e);
int sw_ternary_add(struct sw_table *t, struct sw_entry *e);
void sw_ternary_remove(struct sw_table *t, struct sw_entry *e);
void sw_ternary_clear(struct sw_table *t);

SW_INLINE uint64_t *sw_entry_mask(const struct sw_table_desc *d, struct sw_entry *e) { return e->key + d->words; }
SW_INLINE uint64_t *sw_entry_high(const struct sw_table_desc *d, struct sw_entry *e) { return e->key + 2 * d->words; }

#endif
