/* Ranges of addresses, in order and apart, with the number of regions that use each. */
#ifndef MRC_SEGMENTS_H
#define MRC_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

struct segment {
    uintptr_t start, end;
    unsigned int users; /* 0: idle */
};

struct segments {
    struct segment *items;
    size_t count, capacity;
};

/* Position of the first segment that ends above an address. */
size_t segment_above(const struct segments *segments, uintptr_t address);

/* Have segments for all of a range, and none that crosses its ends. New ones are idle. 0 or ENOMEM, then nothing changed. */
int segments_cover(struct segments *segments, uintptr_t start, uintptr_t end);

/* One user more (1) or less (-1) of a range that is covered so. Idle neighbours become one. Allocates nothing. */
void segments_use(struct segments *segments, uintptr_t start, uintptr_t end, int change);

/* Cut one in two. Whether there was memory for it. */
int segment_split(struct segments *segments, size_t position, uintptr_t at);
void segment_remove(struct segments *segments, size_t position);
void segments_forget(struct segments *segments);

#endif
