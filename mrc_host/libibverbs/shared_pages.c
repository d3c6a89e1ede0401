/* One memfd holds all pages that this process shares with NICs: the page at address A of the process is the page at
 * offset A of the memfd, which is as large as an address space and holds only what was written to it. So regions may
 * overlap in any way, and be registered twice, and memory that was unmapped and mapped again at the same address is moved
 * once more: which pages are on the memfd is read from /proc/self/maps each time.
 *
 * Pages stay on the memfd when their last region ends: another thread may be writing to them. Those that the
 * application has unmapped since are given back when the next region begins or ends.
 *
 * What another thread writes to a page while it moves is lost. A buffer of whole pages shares none with other data; of
 * others the first and last page may hold some, so register them before other threads start, or align them.
 *
 * Nothing here allocates memory while pages move or after fork(): the heap's own pages may be among them. */
#define _GNU_SOURCE
#include "shared_pages.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK_MARGIN = 3 * 65536 };
static const uint64_t MEMFD_SIZE = 1ULL << 56;

/* One line of /proc/self/maps. */
struct mapping {
    uintptr_t start, end;
    int protection;
    int is_shared;
    int is_ours; /* on the memfd, in its place */
    char name[64];
};

/* Ranges of pages that are on the memfd: `users` regions lie in it; without any it stays until it is unmapped. */
struct range {
    uintptr_t start, end;
    unsigned int users;
    struct range *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int memfd = -1;
static struct stat memfd_status;
static struct range *ranges;

static uintptr_t page_size(void) {
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

static int open_memfd(void) {
    if (memfd >= 0)
        return 0;
    memfd = memfd_create("mrc-mr", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd < 0)
        return errno;
    if (!ftruncate(memfd, (off_t)MEMFD_SIZE) && !fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) &&
        !fstat(memfd, &memfd_status))
        return 0;
    int error = errno;
    close(memfd);
    memfd = -1;
    return error;
}

static int parse(const char *line, struct mapping *found) {
    unsigned long start, end, offset, inode;
    unsigned int major, minor;
    char rights[5], name[64] = "";
    if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %63[^\n]", &start, &end, rights, &offset, &major, &minor, &inode, name) < 7)
        return 0;
    *found = (struct mapping){.start = start, .end = end, .is_shared = rights[3] == 's'};
    found->protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) |
                        (rights[2] == 'x' ? PROT_EXEC : 0);
    found->is_ours =
        found->is_shared && memfd >= 0 && inode == memfd_status.st_ino && !strncmp(name, "/memfd:mrc-mr", 13) && offset == start;
    memcpy(found->name, name, sizeof name);
    return 1;
}

/* /proc/self/maps, line by line, without allocating. */
struct maps_reader {
    int fd;
    size_t at, filled;
};
static char maps_text[1 << 14]; /* guarded by `lock` */

static const char *next_line(struct maps_reader *reader) {
    for (;;) {
        char *line = maps_text + reader->at;
        char *end = memchr(line, '\n', reader->filled - reader->at);
        if (end) {
            *end = 0;
            reader->at = (size_t)(end + 1 - maps_text);
            return line;
        }
        memmove(maps_text, line, reader->filled - reader->at);
        reader->filled -= reader->at;
        reader->at = 0;
        if (reader->filled == sizeof maps_text) /* no line is so long */
            return NULL;
        ssize_t got = read(reader->fd, maps_text + reader->filled, sizeof maps_text - reader->filled);
        if (got <= 0)
            return NULL;
        reader->filled += (size_t)got;
    }
}

typedef int visitor(const struct mapping *found, void *argument);

/* Call `visit` for what is mapped in a range, in the order of addresses, until it returns other than 0. -1 if it cannot
 * be read. Mappings are read a few at a time, as the visitor may change them. */
static int visit_mappings(uintptr_t start, uintptr_t end, visitor *visit, void *argument) {
    enum { AT_A_TIME = 32 };
    uintptr_t next = start;
    for (size_t count = AT_A_TIME; next < end && count == AT_A_TIME;) {
        struct mapping found[AT_A_TIME];
        struct maps_reader reader = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
        if (reader.fd < 0)
            return -1;
        count = 0;
        for (const char *line; count < AT_A_TIME && (line = next_line(&reader));)
            if (parse(line, &found[count]) && found[count].end > next && found[count].start < end)
                count++;
        close(reader.fd);
        for (size_t i = 0; i < count; i++) {
            found[i].start = found[i].start < next ? next : found[i].start;
            found[i].end = found[i].end > end ? end : found[i].end;
            next = found[i].end;
            int result = visit(&found[i], argument);
            if (result)
                return result;
        }
    }
    return 0;
}

struct check {
    uintptr_t reached; /* mapped without a gap up to here */
    int protection;    /* that is needed */
};

static int check_mapping(const struct mapping *found, void *argument) {
    struct check *check = argument;
    if (found->start != check->reached || (found->protection & check->protection) != check->protection)
        return EFAULT;
    check->reached = found->end;
    const char *why = NULL;
    if (found->is_shared && !found->is_ours)
        why = "other processes or a file share it";
    else if (!strncmp(found->name, "/anon_hugepage", 14))
        why = "it has huge pages";
    if (!why)
        return 0;
    fprintf(stderr, "libibverbs (MRC): memory at %#lx cannot be registered: %s.\n", (unsigned long)found->start, why);
    return EOPNOTSUPP;
}

/* Move a mapping's pages onto the memfd. It must not run on them: see share(). */
static int __attribute__((noinline)) move(const struct mapping *found, void *argument) {
    (void)argument;
    if (found->is_ours)
        return 0;
    for (uintptr_t at = found->start; at < found->end;) {
        /* not pwrite(): in programs with AddressSanitizer that refuses what lies beside the buffer on its pages */
        long written = syscall(SYS_pwrite64, memfd, (void *)at, found->end - at, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written ? errno : ENOMEM;
        at += (uintptr_t)written;
    }
    void *place = (void *)found->start;
    if (mmap(place, found->end - found->start, found->protection, MAP_SHARED | MAP_FIXED, memfd, (off_t)found->start) ==
        MAP_FAILED)
        return errno;
    return 0;
}

static int __attribute__((noinline)) share(uintptr_t start, uintptr_t end) {
    int error = visit_mappings(start, end, move, NULL);
    return error < 0 ? EIO : error;
}

static int return_pages(const struct mapping *found, void *argument) {
    uintptr_t *reached = argument;
    if (!found->is_ours)
        return 0;
    if (found->start > *reached)
        fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)*reached, (off_t)(found->start - *reached));
    *reached = found->end;
    return 0;
}

static int overlaps_used(const struct range *range) {
    for (const struct range *other = ranges; other; other = other->next)
        if (other->users && other->start < range->end && range->start < other->end)
            return 1;
    return 0;
}

static int is_mapped(const struct mapping *found, void *argument) {
    (void)argument;
    return found->is_ours;
}

/* Give back pages that no region uses and that the application has unmapped. */
static void sweep(void) {
    for (struct range **place = &ranges; *place;) {
        struct range *range = *place;
        if (range->users || overlaps_used(range)) {
            place = &range->next;
            continue;
        }
        uintptr_t reached = range->start;
        if (!visit_mappings(range->start, range->end, return_pages, &reached) && reached < range->end)
            fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)reached, (off_t)(range->end - reached));
        if (visit_mappings(range->start, range->end, is_mapped, NULL)) {
            place = &range->next;
        } else {
            *place = range->next;
            free(range);
        }
    }
}

/* Ranges without users that touch become one, so that there are few however many regions come and go. */
static void merge_idle(struct range *range) {
    for (struct range **place = &ranges; *place;) {
        struct range *other = *place;
        if (other == range || other->users || other->end < range->start || range->end < other->start) {
            place = &other->next;
            continue;
        }
        range->start = other->start < range->start ? other->start : range->start;
        range->end = other->end > range->end ? other->end : range->end;
        *place = other->next;
        free(other);
        place = &ranges; /* it touches others now */
    }
}

static struct range *range_from(uintptr_t start, uintptr_t end) {
    for (struct range *range = ranges; range; range = range->next)
        if (range->start == start && range->end == end)
            return range;
    return NULL;
}

static void pages_around(const void *address, size_t length, uintptr_t *start, uintptr_t *end) {
    uintptr_t mask = page_size() - 1;
    *start = (uintptr_t)address & ~mask;
    *end = ((uintptr_t)address + length + mask) & ~mask;
}

/* With the lock held. */
static int enter(uintptr_t start, uintptr_t end, int writable) {
    int error = open_memfd();
    if (error)
        return error;
    sweep();
    struct check check = {.reached = start, .protection = PROT_READ | (writable ? PROT_WRITE : 0)};
    error = visit_mappings(start, end, check_mapping, &check);
    if (!error && check.reached != end)
        error = EFAULT;
    struct range *range = range_from(start, end);
    if (!error && !range) {
        range = calloc(1, sizeof *range);
        if (!range)
            return ENOMEM;
        *range = (struct range){.start = start, .end = end, .next = ranges};
        ranges = range;
    }
    if (!error) /* all that is allocated, on any page, is allocated now */
        error = share(start, end);
    if (error)
        return error < 0 ? EIO : error;
    range->users++;
    return 0;
}

int shared_pages_enter(const void *address, size_t length, int writable, int *fd, uint64_t *offset) {
    if (!length || (uintptr_t)address + length < (uintptr_t)address || (uintptr_t)address + length > MEMFD_SIZE)
        return EINVAL;
    uintptr_t start, end;
    pages_around(address, length, &start, &end);
    /* A buffer on the stack may share a page with the frames of its callers, which do not run while we do; so that none
     * of ours is on that page, ours begin further down. */
    volatile char *margin = alloca(STACK_MARGIN);
    margin[0] = 0;
    pthread_mutex_lock(&lock);
    int error = enter(start, end, writable);
    *fd = memfd;
    *offset = (uintptr_t)address;
    pthread_mutex_unlock(&lock);
    return error;
}

void shared_pages_leave(const void *address, size_t length) {
    uintptr_t start, end;
    pages_around(address, length, &start, &end);
    pthread_mutex_lock(&lock);
    struct range *range = range_from(start, end);
    if (range && range->users && !--range->users)
        merge_idle(range);
    sweep();
    pthread_mutex_unlock(&lock);
}

void shared_pages_before_fork(void) {
    pthread_mutex_lock(&lock);
}

/* Write a byte of a page, so that it becomes a copy of this process's own. */
static void __attribute__((no_sanitize("address"))) touch(uintptr_t page) {
    volatile char *byte = (volatile char *)page;
    *byte = *byte;
}

/* Pages without anything of neighbours become copies when they are written, and the others now. */
static int make_private(const struct mapping *found, void *argument) {
    (void)argument;
    uintptr_t size = found->end - found->start;
    if (!found->is_ours)
        return 0;
    mmap((void *)found->start, size, found->protection, MAP_PRIVATE | MAP_FIXED, memfd, (off_t)found->start);
    uintptr_t edges[2] = {found->start, found->end - page_size()};
    for (int i = 0; i < 2 && found->protection & PROT_WRITE; i++)
        touch(edges[i]);
    return 0;
}

void shared_pages_after_fork(int in_child) {
    if (in_child && memfd >= 0) {
        for (struct range *range = ranges; range; range = range->next)
            visit_mappings(range->start, range->end, make_private, NULL);
        close(memfd);
        memfd = -1;
        ranges = NULL;
    }
    pthread_mutex_unlock(&lock);
}
