/* The kernel is asked for one mapping at a time where it can be (Linux 6.11 and newer). Elsewhere /proc/self/maps is read
 * from its beginning to the address, and on from there if the next address is higher, so that a walk reads it once. */
#define _GNU_SOURCE
#include "mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* As in linux/fs.h, which older systems have without it. */
struct query {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};
enum { IS_READABLE = 1, IS_WRITABLE = 2, IS_EXECUTABLE = 4, IS_SHARED = 8, COVERING_OR_NEXT = 16 };
#define QUERY _IOWR('f', 17, struct query)

static int cannot_query;
static char text[1 << 14];

int mappings_open(struct mappings *mappings) {
    *mappings = (struct mappings){.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    return mappings->fd < 0 ? errno : 0;
}

void mappings_close(struct mappings *mappings) {
    close(mappings->fd);
}

/* 2 where the kernel has no such query. */
static int ask(const struct mappings *mappings, uintptr_t address, struct mapping *found) {
    struct query query = {.size = sizeof query, .flags = COVERING_OR_NEXT, .address = address};
    if (ioctl(mappings->fd, QUERY, &query))
        return errno == ENOENT ? 0 : errno == EINTR ? ask(mappings, address, found) : 2;
    *found = (struct mapping){
        .start = query.start,
        .end = query.end,
        .protection = (query.vma_flags & IS_READABLE ? PROT_READ : 0) | (query.vma_flags & IS_WRITABLE ? PROT_WRITE : 0) |
                      (query.vma_flags & IS_EXECUTABLE ? PROT_EXEC : 0),
        .is_shared = (query.vma_flags & IS_SHARED) != 0,
        .has_huge_pages = query.page_size > (uint64_t)sysconf(_SC_PAGESIZE),
        .device = makedev(query.major, query.minor),
        .inode = query.inode,
        .offset = query.offset,
    };
    return 1;
}

static int parse(const char *line, struct mapping *found) {
    unsigned long start, end, offset, inode;
    unsigned int major, minor;
    char rights[5], name[64] = "";
    if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %63[^\n]", &start, &end, rights, &offset, &major, &minor, &inode, name) < 7)
        return 0;
    *found = (struct mapping){
        .start = start,
        .end = end,
        .protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) |
                      (rights[2] == 'x' ? PROT_EXEC : 0),
        .is_shared = rights[3] == 's',
        .has_huge_pages = !strncmp(name, "/anon_hugepage", 14),
        .device = makedev(major, minor),
        .inode = inode,
        .offset = offset,
    };
    return 1;
}

static const char *next_line(struct mappings *mappings) {
    for (;;) {
        char *line = text + mappings->at;
        char *end = memchr(line, '\n', mappings->filled - mappings->at);
        if (end) {
            *end = 0;
            mappings->at = (size_t)(end + 1 - text);
            return line;
        }
        memmove(text, line, mappings->filled - mappings->at);
        mappings->filled -= mappings->at;
        mappings->at = 0;
        if (mappings->filled == sizeof text) /* no line is so long */
            return NULL;
        ssize_t got = read(mappings->fd, text + mappings->filled, sizeof text - mappings->filled);
        if (got <= 0)
            return NULL;
        mappings->filled += (size_t)got;
    }
}

static int read_to(struct mappings *mappings, uintptr_t address, struct mapping *found) {
    if (address < mappings->before) { /* back to the beginning */
        if (lseek(mappings->fd, 0, SEEK_SET) < 0)
            return -1;
        *mappings = (struct mappings){.fd = mappings->fd};
    }
    while (mappings->last.end <= address) {
        struct mapping next;
        const char *line = next_line(mappings);
        if (!line)
            return mappings->last.end ? 0 : -1; /* a process has mappings */
        if (!parse(line, &next))
            continue;
        mappings->before = mappings->last.end;
        mappings->last = next;
    }
    *found = mappings->last;
    return 1;
}

int mapping_above(struct mappings *mappings, uintptr_t address, struct mapping *found) {
    if (!cannot_query) {
        int result = ask(mappings, address, found);
        if (result != 2)
            return result;
        cannot_query = 1;
    }
    return read_to(mappings, address, found);
}
