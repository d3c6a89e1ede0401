/* Pages that this process shares with NICs. One memfd holds all of them: the page at address A of the process is the page at
 * offset A of the memfd, which is as large as an address space and holds only what was written to it. So regions may
 * overlap in any way, and be registered twice, and memory that was unmapped and mapped again at the same address is moved
 * once more: which pages are on the memfd is asked from the kernel each time (mappings.c).
 *
 * Pages stay on the memfd when their last region ends: another thread may be writing to them. Those that the
 * application has unmapped since are given back as regions begin and end: each time a few idle pages are looked at, so
 * that a region costs the same however many there are.
 *
 * What another thread writes to a page while it moves is lost. A buffer of whole pages shares none with other data; of
 * others the first and last page may hold some, so register them before other threads start, or align them. The
 * caller's own stack may be among them: what moves pages runs on a stack of its own.
 *
 * Nothing here allocates memory while pages move or after fork(): the heap's own pages may be among them. */
#define _GNU_SOURCE
#include "shared_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fork_pages.h"
#include "mappings.h"
#include "safe_stack.h"
#include "segments.h"

enum { STACK_MARGIN = 3 * 65536, SWEPT_AT_A_TIME = 32, PASSED_AT_A_TIME = 256 }; /* mappings, and segments */
static const uint64_t MEMFD_SIZE = 1ULL << 56;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memfd memfd = {.fd = -1};
static struct segments segments; /* all that is on the memfd; idle ones until they are unmapped */
static uintptr_t swept;          /* up to this address; the next sweep goes on there */

static uintptr_t page_size(void) {
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

static int open_memfd(void) {
    if (memfd.fd >= 0)
        return 0;
    int error = safe_stack_open();
    if (error)
        return error;
    memfd.fd = memfd_create("mrc-mr", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd.fd < 0)
        return errno;
    struct stat status;
    if (!ftruncate(memfd.fd, (off_t)MEMFD_SIZE) && !fcntl(memfd.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) &&
        !fstat(memfd.fd, &status)) {
        memfd.device = status.st_dev;
        memfd.inode = status.st_ino;
        return 0;
    }
    error = errno;
    close(memfd.fd);
    memfd.fd = -1;
    return error;
}

static void punch(uintptr_t start, uintptr_t end) {
    fallocate(memfd.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start, (off_t)(end - start));
}

/* Of the idle segment at a position, give back the pages before the first that is still mapped here, and keep a segment
 * of those that follow in one piece. The position becomes that of the next to look at. Returns how many mappings were
 * looked at. */
static int sweep_segment(struct mappings *mappings, size_t *position) {
    struct segment *segment = segments.items + *position;
    uintptr_t end = segment->end, reached = segment->start; /* nothing of ours up to there */
    struct mapping found;
    int looked = 0, result = 0, is_ours = 0;
    while (reached < end && !is_ours && looked < SWEPT_AT_A_TIME) {
        looked++;
        result = mapping_above(mappings, reached, &found);
        if (result < 0)
            break;
        is_ours = result && found.start < end && is_on_memfd(&memfd, &found);
        uintptr_t next = !result || found.start >= end ? end : is_ours ? found.start : found.end;
        reached = next > end ? end : next > reached ? next : reached;
    }
    if (reached > segment->start)
        punch(segment->start, reached);
    segment->start = reached;
    if (reached == end) {
        segment_remove(&segments, *position);
        return looked;
    }
    if (is_ours && found.end < end)
        segment_split(&segments, *position, found.end);
    *position += is_ours || result < 0;
    return looked;
}

/* Give back pages that no region uses and that the application has unmapped: of a few segments at a time, in turn. */
static void sweep(struct mappings *mappings) {
    size_t position = segment_above(&segments, swept);
    size_t most = segments.count < PASSED_AT_A_TIME ? segments.count : PASSED_AT_A_TIME;
    int looked = 0;
    for (size_t passed = 0; passed < most && segments.count && looked < SWEPT_AT_A_TIME; passed++) {
        if (position >= segments.count)
            position = 0;
        if (segments.items[position].users)
            position++;
        else
            looked += sweep_segment(mappings, &position);
    }
    swept = position < segments.count ? segments.items[position].start : 0;
}

struct entry {
    struct mappings mappings;
    uintptr_t start, end;
    int protection; /* that is needed */
    int error;
};

static int refuse(uintptr_t at, const char *why) {
    fprintf(stderr, "libibverbs (MRC): memory at %#lx cannot be registered: %s.\n", (unsigned long)at, why);
    return EOPNOTSUPP;
}

/* Whether all of it is mapped, may be used so, and is this process's own. */
static int check(struct entry *entry) {
    struct mapping found;
    for (uintptr_t at = entry->start; at < entry->end; at = found.end) {
        int result = mapping_above(&entry->mappings, at, &found);
        if (result < 0)
            return EIO;
        if (!result || found.start > at || (found.protection & entry->protection) != entry->protection)
            return EFAULT;
        if (found.is_shared && !is_on_memfd(&memfd, &found))
            return refuse(at, "other processes or a file share it");
        if (found.has_huge_pages)
            return refuse(at, "it has huge pages");
    }
    return 0;
}

/* Move pages of one mapping onto the memfd. */
static int move(uintptr_t start, uintptr_t end, int protection) {
    for (uintptr_t at = start; at < end;) {
        /* not pwrite(): in programs with AddressSanitizer that refuses what lies beside the buffer on its pages */
        long written = syscall(SYS_pwrite64, memfd.fd, (void *)at, end - at, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written ? errno : ENOMEM;
        at += (uintptr_t)written;
    }
    if (mmap((void *)start, end - start, protection, MAP_SHARED | MAP_FIXED, memfd.fd, (off_t)start) != MAP_FAILED)
        return 0;
    if (errno == ENOMEM)
        fprintf(stderr, "libibverbs (MRC): memory at %#lx cannot be registered: the process has as many mappings as the"
                        " system's vm.max_map_count permits. Raise that, or register fewer and larger regions.\n",
                (unsigned long)start);
    return errno;
}

/* What is below a mapping may be where the first thread's stack will grow, which it can as long as some of its own mapping is
 * there. The kernel reads below, since it fails, if it is no stack, without a signal; page 0 of the memfd is nobody's. */
static void grow_stack_above(uintptr_t start) {
    if (start > STACK_MARGIN)
        (void)!syscall(SYS_pwrite64, memfd.fd, (void *)(start - STACK_MARGIN), 1, (off_t)0);
}

/* On the safe stack: what is moved may be the caller's. */
static void move_all(void *argument) {
    struct entry *entry = argument;
    struct mapping found = {0};
    for (uintptr_t at = entry->start; at < entry->end && !entry->error; at = found.end) {
        if (mapping_above(&entry->mappings, at, &found) <= 0)
            entry->error = EIO;
        if (entry->error || is_on_memfd(&memfd, &found))
            continue;
        if (at == found.start)
            grow_stack_above(at);
        entry->error = move(at, found.end < entry->end ? found.end : entry->end, found.protection);
    }
}

static void pages_around(const void *address, size_t length, uintptr_t *start, uintptr_t *end) {
    uintptr_t mask = page_size() - 1;
    *start = (uintptr_t)address & ~mask;
    *end = ((uintptr_t)address + length + mask) & ~mask;
}

/* With the lock held, and not on the stack, whose pages may move: what an entry needs. */
static struct entry entering;

static int enter(uintptr_t start, uintptr_t end, int writable) {
    int error = open_memfd();
    if (error)
        return error;
    entering = (struct entry){.start = start, .end = end, .protection = PROT_READ | (writable ? PROT_WRITE : 0)};
    error = mappings_open(&entering.mappings);
    if (error)
        return error;
    sweep(&entering.mappings);
    error = check(&entering);
    if (!error)
        error = segments_cover(&segments, start, end); /* all that is allocated, on any page, is allocated now */
    if (!error) {
        fork_pages_note(start, end);
        on_safe_stack(move_all, &entering);
        error = entering.error;
    }
    if (!error)
        segments_use(&segments, start, end, 1);
    mappings_close(&entering.mappings);
    return error;
}

int shared_pages_enter(const void *address, size_t length, int writable, int *fd, uint64_t *offset) {
    if (!length || (uintptr_t)address + length < (uintptr_t)address || (uintptr_t)address + length > MEMFD_SIZE)
        return EINVAL;
    uintptr_t start, end;
    pages_around(address, length, &start, &end);
    pthread_mutex_lock(&lock);
    int error = enter(start, end, writable);
    *fd = memfd.fd;
    *offset = (uintptr_t)address;
    pthread_mutex_unlock(&lock);
    return error;
}

void shared_pages_leave(const void *address, size_t length) {
    uintptr_t start, end;
    struct mappings mappings;
    pages_around(address, length, &start, &end);
    pthread_mutex_lock(&lock);
    segments_use(&segments, start, end, -1);
    if (!mappings_open(&mappings)) {
        sweep(&mappings);
        mappings_close(&mappings);
    }
    pthread_mutex_unlock(&lock);
}

void shared_pages_before_fork(void) {
    pthread_mutex_lock(&lock);
    if (memfd.fd >= 0)
        fork_pages_before(&memfd, __builtin_frame_address(0));
}

void shared_pages_after_fork(int in_child) {
    if (memfd.fd >= 0) {
        if (in_child) {
            fork_pages_in_child(&memfd, &segments);
            close(memfd.fd);
            memfd.fd = -1;
            segments_forget(&segments);
        } else {
            fork_pages_in_parent(&memfd);
        }
    }
    pthread_mutex_unlock(&lock);
}
