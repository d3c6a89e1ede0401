/* A sorted array. What a used range begins or ends at stays the end of a segment, as only idle neighbours are joined, so a
 * user can leave without memory. */
#include "segments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t segment_above(const struct segments *segments, uintptr_t address) {
    size_t low = 0, high = segments->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (segments->items[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int reserve(struct segments *segments, size_t more) {
    size_t needed = segments->count + more;
    if (needed <= segments->capacity)
        return 1;
    size_t capacity = needed < 32 ? 64 : 2 * needed;
    struct segment *items = realloc(segments->items, capacity * sizeof *items);
    if (!items)
        return 0;
    segments->items = items;
    segments->capacity = capacity;
    return 1;
}

static void insert(struct segments *segments, size_t position, struct segment made) {
    struct segment *place = segments->items + position;
    memmove(place + 1, place, (segments->count - position) * sizeof *place);
    *place = made;
    segments->count++;
}

void segment_remove(struct segments *segments, size_t position) {
    struct segment *place = segments->items + position;
    segments->count--;
    memmove(place, place + 1, (segments->count - position) * sizeof *place);
}

int segment_split(struct segments *segments, size_t position, uintptr_t at) {
    if (!reserve(segments, 1))
        return 0;
    struct segment upper = segments->items[position];
    segments->items[position].end = upper.start = at;
    insert(segments, position + 1, upper);
    return 1;
}

/* What lies on both sides of an address is cut there. There is room for it. */
static void cut(struct segments *segments, uintptr_t at) {
    size_t position = segment_above(segments, at);
    if (position < segments->count && segments->items[position].start < at)
        segment_split(segments, position, at);
}

int segments_cover(struct segments *segments, uintptr_t start, uintptr_t end) {
    size_t first = segment_above(segments, start), within = 0;
    while (first + within < segments->count && segments->items[first + within].start < end)
        within++;
    if (!reserve(segments, within + 3)) /* a gap before each and after the last, and two cuts */
        return ENOMEM;
    cut(segments, start);
    cut(segments, end);
    uintptr_t reached = start;
    for (size_t i = segment_above(segments, start); reached < end; i++) {
        uintptr_t next = i < segments->count && segments->items[i].start < end ? segments->items[i].start : end;
        if (next > reached)
            insert(segments, i, (struct segment){.start = reached, .end = next});
        reached = segments->items[i].end;
    }
    return 0;
}

void segments_use(struct segments *segments, uintptr_t start, uintptr_t end, int change) {
    size_t first = segment_above(segments, start), last = first;
    for (; last < segments->count && segments->items[last].start < end; last++)
        segments->items[last].users += (unsigned int)change;
    /* join idle neighbours, those outside too */
    size_t from = first ? first - 1 : 0, to = from;
    size_t behind = last < segments->count ? last + 1 : last;
    for (size_t i = from + 1; i < behind; i++) {
        struct segment *left = segments->items + to, right = segments->items[i];
        if (!left->users && !right.users && left->end == right.start)
            left->end = right.end;
        else
            segments->items[++to] = right;
    }
    if (from < behind && to + 1 < behind) {
        memmove(segments->items + to + 1, segments->items + behind, (segments->count - behind) * sizeof *segments->items);
        segments->count -= behind - to - 1;
    }
}

void segments_forget(struct segments *segments) {
    segments->count = 0;
}
