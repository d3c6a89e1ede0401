/* Memory that frames have left goes back to the kernel.
 *
 * glibc keeps what is freed in the middle of its heap. In a large world a burst leaves a gigabyte of frames there, while the
 * memory regions that they are written to take as much again. So now and then it is looked whether much has become free, and
 * if so, its pages are given back. Other C libraries do as they like. */
#ifndef FREE_MEMORY_H
#define FREE_MEMORY_H

#include <malloc.h>
#include <stddef.h>

#define EVENTS_BETWEEN (1 << 18) /* a second of a large world; to look takes some milliseconds there */
#define MUCH_FREE ((size_t)64 << 20)

#if defined __GLIBC__ && __GLIBC_PREREQ(2, 33)
static void give_back_free_memory(void) {
    static size_t given_back; /* of what is free, which counts as free still */
    size_t free = mallinfo2().fordblks;
    if (free < given_back)
        given_back = free;
    if (free - given_back < MUCH_FREE)
        return;
    malloc_trim(0);
    given_back = free;
}
#else
static void give_back_free_memory(void) {}
#endif

#endif
