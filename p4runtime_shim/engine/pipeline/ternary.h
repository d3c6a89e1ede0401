/* Declarations for both parts of the ternary tables: ternary.c (adding and removing entries), ternary_build.c (splitting). */
#ifndef SW_TERNARY_H
#define SW_TERNARY_H

#include "pipeline/table.h"

#define LEAF_LIMIT 8 /* entries in a leaf before it is split */
#define MAX_TREES 32

/* The children of a node that have an entry: one for each value of its wildcard bits. */
struct ternary_children {
    uint32_t fixed, open, now;
};

static inline struct ternary_children ternary_children(const struct sw_tree_node *n, const struct sw_table_desc *d,
                                                       struct sw_entry *e) {
    uint32_t all = (1u << n->bits) - 1;
    uint32_t mask = (uint32_t)(sw_entry_mask(d, e)[n->word] >> n->shift) & all;
    uint32_t fixed = (uint32_t)(e->key[n->word] >> n->shift) & mask;
    return (struct ternary_children){fixed, all & ~mask, fixed};
}

/* The next one; 0 after the last. */
static inline int ternary_next_child(struct ternary_children *of) {
    uint32_t varied = ((of->now & of->open) - of->open) & of->open;
    of->now = of->fixed | varied;
    return varied != 0;
}

/* Bit w: of the bits that a field has in word w, at least half are specified. */
uint64_t ternary_signature(const struct sw_table_desc *d, struct sw_entry *e);
int ternary_leaf_put(struct sw_tree_node *n, const struct sw_table_desc *d, struct sw_entry *e);
/* Puts the entry on the tree's list of entries (not into its nodes). */
void ternary_link(struct sw_tree *u, struct sw_entry *e);
/* Trees stay in order of their highest priority. */
void ternary_sort(struct sw_table *t);
/* A tree without entries, added to the table; NULL without memory. */
struct sw_tree *ternary_new_tree(struct sw_table *t);
void ternary_free_below(struct sw_tree_node *n);
void ternary_free_trees(struct sw_table *t);

/* Turns a leaf into a node if that helps, and so on for its children. Changes nothing when out of memory. */
void ternary_split(struct sw_tree *t, struct sw_tree_node *n, const struct sw_table_desc *d);
#endif
