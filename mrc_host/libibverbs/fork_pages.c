/* The child of a fork gets copies of the pages that its parent shares with the NIC. Until it has them, parent and child
 * would run on the same pages, if some are of the stack of the thread that forks, or hold what the C library has for it.
 * So those are made private before the fork, by copies that take their place, and go back onto the memfd in the parent:
 * of them what the thread has changed meanwhile, as the NIC may have written there, too.
 *
 * The same is done to what the C library has for other threads, since the child's C library writes there: it lies above a
 * thread's stack, on the page of its first function's frame. Such a thread must not be writing to that page meanwhile.
 *
 * The parent waits until the child has its copies, by a pipe that also ends if the child does: the parent would otherwise
 * write to pages that are still the child's as well. */
#define _GNU_SOURCE
#include "fork_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "safe_stack.h"

/* What is written to between the two ends of a fork, in bytes: the frames of fork() and of what it calls, with handlers of
 * other libraries; and of the C library's data on a thread, which is not twice as large. */
enum { BELOW_FRAME = 1 << 15, ABOVE_FRAME = 1 << 13, THREAD_DATA = 1 << 12, NEAR_ERRNO = 1 << 9 };
enum { MAX_PIECES = 256, MAX_THREADS = 128 };

struct piece {
    uintptr_t start, end;
    int protection;
    unsigned char *snapshot; /* what it held before */
};

/* Guarded by the caller's lock. Not on a stack, whose pages may move. */
static struct piece pieces[MAX_PIECES];
static size_t piece_count;
static uintptr_t threads[MAX_THREADS]; /* whose data was on the memfd at some time */
static size_t thread_count;
static const struct memfd *current;
static uintptr_t near_start, near_end;
static struct mappings mappings;
static int done[2] = {-1, -1};

static uintptr_t page_size(void) {
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Whether what the memfd has for a range was copied. */
static int copy_out(uintptr_t start, uintptr_t end, unsigned char *to) {
    for (uintptr_t at = start; at < end;) {
        /* not pread(), which writes to the thread's data, on a page that may be the one that is read */
        long got = syscall(SYS_pread64, current->fd, to + (at - start), end - at, (off_t)at);
        if (got > 0)
            at += (uintptr_t)got;
        else if (!got || errno != EINTR)
            return 0;
    }
    return 1;
}

static void make_piece_private(uintptr_t start, uintptr_t end, int protection) {
    size_t size = end - start;
    unsigned char *both = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED)
        return;
    unsigned char *snapshot = both, *copy = both + size;
    if (copy_out(start, end, snapshot)) {
        memcpy(copy, snapshot, size); /* not what the NIC has written since */
        if (!mprotect(copy, size, protection) &&
            mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) != MAP_FAILED) {
            pieces[piece_count++] = (struct piece){start, end, protection, snapshot};
            return;
        }
    }
    munmap(both, 2 * size);
}

static void make_near_private(void *unused) {
    (void)unused;
    struct mapping found;
    for (uintptr_t at = near_start; at < near_end && piece_count < MAX_PIECES; at = found.end) {
        if (mapping_above(&mappings, at, &found) <= 0 || found.start >= near_end)
            return;
        if (is_on_memfd(current, &found))
            make_piece_private(found.start > at ? found.start : at, found.end < near_end ? found.end : near_end, found.protection);
    }
}

/* Make the range no larger than what is writable around an address without a gap: beyond is another's stack. */
static void stay_around(uintptr_t address) {
    struct mapping found = {0};
    for (uintptr_t at = near_start; at < near_end; at = found.end) {
        int result = mapping_above(&mappings, at, &found);
        int is_gap = result <= 0 || found.start > at, is_writable = result > 0 && found.protection & PROT_WRITE;
        if (!is_gap && is_writable)
            continue;
        if (at > address || result <= 0) { /* the end of what is around it */
            near_end = at;
            return;
        }
        near_start = is_writable ? found.start : found.end;
    }
}

static void make_private_near(uintptr_t address, uintptr_t below, uintptr_t above) {
    uintptr_t mask = page_size() - 1;
    near_start = (address < below ? 0 : address - below) & ~mask;
    near_end = (address + above + mask) & ~mask;
    stay_around(address);
    on_safe_stack(make_near_private, NULL);
}

void fork_pages_note(uintptr_t start, uintptr_t end) {
    uintptr_t self = (uintptr_t)pthread_self();
    if (self + THREAD_DATA <= start || end <= self || thread_count == MAX_THREADS)
        return;
    for (size_t i = 0; i < thread_count; i++)
        if (threads[i] == self)
            return;
    threads[thread_count++] = self;
}

void fork_pages_before(const struct memfd *memfd, const void *frame) {
    current = memfd;
    piece_count = 0;
    if (!mappings_open(&mappings)) {
        make_private_near((uintptr_t)frame, BELOW_FRAME, ABOVE_FRAME);
        make_private_near((uintptr_t)pthread_self(), 0, THREAD_DATA);
        make_private_near((uintptr_t)&errno, NEAR_ERRNO, NEAR_ERRNO);
        for (size_t i = 0; i < thread_count; i++)
            make_private_near(threads[i], 0, THREAD_DATA);
        mappings_close(&mappings);
    }
    if (pipe2(done, O_CLOEXEC))
        done[0] = done[1] = -1; /* no descriptors left: the parent does not wait */
}

/* Write a byte of a page, so that it becomes a copy of this process's own. */
static void __attribute__((no_sanitize("address"))) touch(uintptr_t page) {
    volatile char *byte = (volatile char *)page;
    *byte = *byte;
}

/* Of an idle range all pages may hold something else by now; of one in use the pages at its ends. The others become copies
 * when they are written. */
static void copy_pages(const struct memfd *memfd, uintptr_t start, uintptr_t end, int all) {
    uintptr_t size = page_size();
    if (!all) {
        touch(start);
        touch(end - size);
        return;
    }
    for (uintptr_t at = start; at < end;) {
        off_t data = lseek(memfd->fd, (off_t)at, SEEK_DATA), hole = data < 0 ? data : lseek(memfd->fd, data, SEEK_HOLE);
        if (data < 0 || hole < 0 || (uintptr_t)data >= end)
            return;
        for (at = (uintptr_t)data & ~(size - 1); at < end && at < (uintptr_t)hole; at += size)
            touch(at);
    }
}

static void make_segment_private(const struct memfd *memfd, const struct segment *segment) {
    struct mapping found;
    for (uintptr_t at = segment->start; at < segment->end; at = found.end) {
        if (mapping_above(&mappings, at, &found) <= 0 || found.start >= segment->end)
            return;
        if (!is_on_memfd(memfd, &found))
            continue;
        uintptr_t start = found.start > at ? found.start : at, end = found.end < segment->end ? found.end : segment->end;
        mmap((void *)start, end - start, found.protection, MAP_PRIVATE | MAP_FIXED, memfd->fd, (off_t)start);
        if (found.protection & PROT_WRITE)
            copy_pages(memfd, start, end, !segment->users);
    }
}

static void close_end(int which) {
    if (done[which] >= 0)
        close(done[which]);
    done[which] = -1;
}

void fork_pages_in_child(const struct memfd *memfd, const struct segments *segments) {
    if (!mappings_open(&mappings)) {
        for (size_t i = 0; i < segments->count; i++)
            make_segment_private(memfd, segments->items + i);
        mappings_close(&mappings);
    }
    for (size_t i = 0; i < piece_count; i++)
        munmap(pieces[i].snapshot, pieces[i].end - pieces[i].start);
    if (done[1] >= 0 && write(done[1], "", 1) < 0) /* the parent is gone */
        errno = 0;
    close_end(0);
    close_end(1);
}

/* Write to the memfd what has changed since the snapshot. Neither memcmp() nor pwrite(): in programs with AddressSanitizer
 * they refuse what lies between variables. */
static void __attribute__((no_sanitize("address"))) write_changes(const struct piece *piece) {
    const volatile unsigned char *now = (const volatile unsigned char *)piece->start;
    size_t size = piece->end - piece->start;
    for (size_t at = 0; at < size;) {
        size_t from = at;
        while (at < size && now[at] != piece->snapshot[at])
            at++;
        for (size_t written = from; written < at;) {
            uintptr_t place = piece->start + written;
            long count = syscall(SYS_pwrite64, current->fd, (const void *)place, at - written, (off_t)place);
            if (count < 0 && errno != EINTR)
                return;
            written += count > 0 ? (size_t)count : 0;
        }
        at += at == from;
    }
}

static void share_again(void *unused) {
    (void)unused;
    for (size_t i = 0; i < piece_count; i++) {
        struct piece *piece = pieces + i;
        size_t size = piece->end - piece->start;
        write_changes(piece);
        mmap((void *)piece->start, size, piece->protection, MAP_SHARED | MAP_FIXED, current->fd, (off_t)piece->start);
        munmap(piece->snapshot, size);
    }
}

void fork_pages_in_parent(const struct memfd *memfd) {
    char byte;
    current = memfd;
    close_end(1);
    while (done[0] >= 0 && read(done[0], &byte, 1) < 0 && errno == EINTR)
        ;
    close_end(0);
    if (piece_count)
        on_safe_stack(share_again, NULL);
    piece_count = 0;
}
