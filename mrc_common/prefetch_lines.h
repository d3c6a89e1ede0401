/* Fetching memory into the caches before it is needed, line by line; any address may be given. */
#ifndef PREFETCH_LINES_H
#define PREFETCH_LINES_H

#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE 64 /* bytes */

static inline void prefetch_lines(const void *from, size_t bytes)
{
    for (uintptr_t at = (uintptr_t)from / CACHE_LINE * CACHE_LINE; at < (uintptr_t)from + bytes; at += CACHE_LINE)
        __builtin_prefetch((const void *)at, 1);
}
#endif
