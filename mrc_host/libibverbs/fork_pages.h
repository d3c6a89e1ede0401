/* Pages on the memfd around fork(): see fork_pages.c. */
#ifndef MRC_FORK_PAGES_H
#define MRC_FORK_PAGES_H

#include "mappings.h"
#include "segments.h"

struct memfd {
    int fd;
    dev_t device;
    ino_t inode;
};

/* Whether pages are on it, in their place. */
static inline int is_on_memfd(const struct memfd *memfd, const struct mapping *found) {
    return found->is_shared && found->inode == memfd->inode && found->device == memfd->device && found->offset == found->start;
}

/* Pages are about to be moved, some of which may hold the C library's data on the calling thread. */
void fork_pages_note(uintptr_t start, uintptr_t end);

/* `frame` is an address on the stack of the thread that forks. */
void fork_pages_before(const struct memfd *memfd, const void *frame);
void fork_pages_in_child(const struct memfd *memfd, const struct segments *segments);
void fork_pages_in_parent(const struct memfd *memfd);

#endif
