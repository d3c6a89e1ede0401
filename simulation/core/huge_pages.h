/* Python's small objects in huge pages.
 *
 * In a large world NICs and applications have some hundred megabytes of small objects, each of which is met once in thousands of
 * events: the processor waits not only for the object, but also for the page table, in a virtual machine for two of them. Python
 * takes its memory in arenas of a megabyte or less; from the first world on these come from blocks that may have huge pages.
 * Where the kernel has none to give, nothing changes. Arenas from before, which Python maps too, are released like these. */
#ifndef HUGE_PAGES_H
#define HUGE_PAGES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define ARENA_BLOCK ((size_t)32 << 20) /* of address space; memory is taken by the page */

static struct {
    char *next;
    size_t left;
} arena_block;

static void *new_arena(void *Py_UNUSED(context), size_t size) {
    if (size > ARENA_BLOCK)
        return NULL;
    if (size > arena_block.left) {
        char *mapped = mmap(NULL, ARENA_BLOCK + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return NULL;
        size_t skipped = -(uintptr_t)mapped % HUGE_PAGE;
        if (skipped)
            munmap(mapped, skipped);
        munmap(mapped + skipped + ARENA_BLOCK, HUGE_PAGE - skipped);
        if (arena_block.left)
            munmap(arena_block.next, arena_block.left);
        arena_block.next = mapped + skipped;
        arena_block.left = ARENA_BLOCK;
        madvise(arena_block.next, ARENA_BLOCK, MADV_HUGEPAGE);
    }
    void *arena = arena_block.next;
    arena_block.next += size;
    arena_block.left -= size;
    return arena;
}

static void free_arena(void *Py_UNUSED(context), void *arena, size_t size) { munmap(arena, size); }

/* Called with the interpreter lock, as the allocator is. */
static void take_arenas_from_huge_pages(void) {
    PyObjectArenaAllocator allocator = {NULL, new_arena, free_arena};
    PyObject_SetArenaAllocator(&allocator);
}

#endif
