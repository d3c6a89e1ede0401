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
#define LOOKS_TO_FORGET 8

#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
#define CAN_GIVE_BACK
#endif
#endif

static int memory_is_kept; /* by so many, who will need it again */

static void give_back_free_memory(void) {
#ifdef CAN_GIVE_BACK
    static size_t given_back; /* of what is free, which counts as free still, unless it was used meanwhile */
    static unsigned looks;
    if (memory_is_kept)
        return;
    size_t free = mallinfo2().fordblks;
    if (++looks % LOOKS_TO_FORGET == 0)
        given_back = 0;
    else if (free < given_back)
        given_back = free;
    if (free - given_back < MUCH_FREE)
        return;
    malloc_trim(0);
    given_back = free;
#endif
}

#endif
