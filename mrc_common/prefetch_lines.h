/* Fetching memory into the caches before it is needed, line by line; any address may be given. */
#ifndef PREFETCH_LINES_H
#define PREFETCH_LINES_H

#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE 64 /* bytes */

static inline void prefetch_lines(const void *from, size_t bytes)
{
    const char *at = (const char *)from;
#pragma GCC unroll 8 /* where the size is a constant, one instruction a line */
    for (size_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch(at + i, 1);
    __builtin_prefetch(at + bytes - 1, 1); /* the last line, unless both begin at the beginning of one */
}
#endif
