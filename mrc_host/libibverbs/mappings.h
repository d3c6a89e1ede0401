/* Memory mappings of this process. Nothing here allocates memory. */
#ifndef MRC_MAPPINGS_H
#define MRC_MAPPINGS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping {
    uintptr_t start, end;
    int protection;
    int is_shared, has_huge_pages;
    dev_t device; /* of the file, 0 without one */
    uint64_t inode, offset;
};

struct mappings {
    int fd;
    size_t at, filled;    /* of the text that was read */
    uintptr_t before;     /* where the mapping before `last` ends */
    struct mapping last;  /* that was read; none if its end is 0 */
};

/* 0 or an errno. One at a time: there is one buffer. */
int mappings_open(struct mappings *mappings);
void mappings_close(struct mappings *mappings);

/* The first mapping that ends above an address, as it is now. 1, 0 if there is none, -1 if it cannot be known. */
int mapping_above(struct mappings *mappings, uintptr_t address, struct mapping *found);

#endif
