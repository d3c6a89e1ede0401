/* Longest prefix match: a path-compressed binary trie.
 *
 * Every node stands for a prefix; a child's prefix extends its parent's, and which child is said by the first bit after the
 * parent's prefix. A node without an entry has two children. So lookup compares one prefix a node on a path whose length is
 * about the logarithm of the number of entries. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

static struct sw_trie_node *new_node(const struct sw_table *t, const uint64_t *key, uint32_t bits) {
    struct sw_trie_node *n = calloc(1, sizeof *n + t->desc->words * sizeof(uint64_t));
    if (n) {
        memcpy(n->prefix, key, t->desc->words * sizeof(uint64_t));
        n->bits = bits;
    }
    return n;
}

/* How many leading bits two keys share, at most `limit`. */
static uint32_t common_bits(const uint64_t *a, const uint64_t *b, uint32_t limit) {
    for (uint32_t i = 0; 64 * i < limit; i++)
        if (a[i] != b[i]) {
            uint32_t n = 64 * i + (uint32_t)__builtin_clzll(a[i] ^ b[i]);
            return n < limit ? n : limit;
        }
    return limit;
}

int sw_lpm_add(struct sw_table *t, struct sw_entry *e) {
    struct sw_trie_node **link = &t->trie;
    while (*link && (*link)->bits < e->prefix && sw_prefix_matches(e->key, (*link)->prefix, (*link)->bits))
        link = &(*link)->child[sw_key_bit(e->key, (*link)->bits)];
    struct sw_trie_node *below = *link;
    uint32_t limit = below && below->bits < e->prefix ? below->bits : e->prefix;
    uint32_t common = below ? common_bits(e->key, below->prefix, limit) : e->prefix;
    struct sw_trie_node *node;
    if (below && common == e->prefix && below->bits == e->prefix) { /* the node is there, without an entry */
        node = below;
    } else {
        node = new_node(t, e->key, e->prefix);
        if (!node)
            return -1;
        if (below && common == e->prefix) { /* between parent and below */
            node->child[sw_key_bit(below->prefix, node->bits)] = below;
            *link = node;
        } else if (below) { /* they part: a fork above both */
            struct sw_trie_node *fork = new_node(t, e->key, common);
            if (!fork) {
                free(node);
                return -1;
            }
            fork->child[sw_key_bit(e->key, common)] = node;
            fork->child[sw_key_bit(below->prefix, common)] = below;
            *link = fork;
        } else {
            *link = node;
        }
    }
    node->entry = e;
    return 0;
}

void sw_lpm_remove(struct sw_table *t, struct sw_entry *e) {
    struct sw_trie_node **link = &t->trie, **parent = NULL;
    while ((*link)->entry != e) {
        parent = link;
        link = &(*link)->child[sw_key_bit(e->key, (*link)->bits)];
    }
    struct sw_trie_node *node = *link;
    node->entry = NULL;
    if (node->child[0] && node->child[1])
        return;
    *link = node->child[0] ? node->child[0] : node->child[1];
    free(node);
    if (!*link && parent && !(*parent)->entry) { /* the fork above lost its reason */
        struct sw_trie_node *fork = *parent;
        *parent = fork->child[0] ? fork->child[0] : fork->child[1];
        free(fork);
    }
}
