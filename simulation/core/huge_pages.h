/* Python's small objects in huge pages.
 *
 * In a large world NICs and applications have some hundred megabytes of small objects, each of which is met once in thousands of
 * events: the processor waits not only for the object, but also for the page table, in a virtual machine for two of them. Python
 * takes its memory in arenas of a megabyte or less; from the first world on these come from blocks that may have huge pages.
 * Where the kernel has none to give, nothing changes. Arenas from before, which Python maps too, are released like these. Pieces
 * of Python's stack, which are small and come and go, stay in small pages. */
#ifndef HUGE_PAGES_H
#define HUGE_PAGES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define ARENA_BLOCK ((size_t)32 << 20) /* of address space; memory is taken by the page */
#define LEAST_ARENA ((size_t)256 << 10)

static struct {
    char *next;
    size_t left;
} arena_block;

static void *map_pages(size_t size) {
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static void *new_arena(void *Py_UNUSED(context), size_t size) {
    if (size < LEAST_ARENA || size > ARENA_BLOCK)
        return map_pages(size);
    if (size > arena_block.left) {
        char *mapped = map_pages(ARENA_BLOCK + HUGE_PAGE);
        if (!mapped)
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

/* The allocator is called with the interpreter lock, so a Python that has none keeps its own. */
static void take_arenas_from_huge_pages(void) {
#ifndef Py_GIL_DISABLED
    PyObjectArenaAllocator allocator = {NULL, new_arena, free_arena};
    PyObject_SetArenaAllocator(&allocator);
#else
    (void)new_arena;
    (void)free_arena;
#endif
}

#endif
