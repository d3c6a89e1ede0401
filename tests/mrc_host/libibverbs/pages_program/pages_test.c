/* Pages that are shared with a NIC, without one: `pages_test CASE [SEED STEPS]`. What a NIC has of a region is read and
 * written through the memfd. System calls are counted (see the linker's --wrap in build_pages_program). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "shared_pages.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);                  \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

enum { PAGE = 4096 };

/* --- counting --- */

static unsigned long calls;
int __real_ioctl(int fd, unsigned long request, void *argument);
ssize_t __real_read(int fd, void *to, size_t size);
int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
ssize_t __wrap_read(int fd, void *to, size_t size);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);

static int without_query; /* as on kernels before 6.11 */

int __wrap_ioctl(int fd, unsigned long request, void *argument) {
    calls++;
    if (without_query) {
        errno = ENOTTY;
        return -1;
    }
    return __real_ioctl(fd, request, argument);
}

ssize_t __wrap_read(int fd, void *to, size_t size) {
    calls++;
    return __real_read(fd, to, size);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length) {
    calls++;
    return __real_fallocate(fd, mode, offset, length);
}

/* --- a NIC --- */

struct region {
    unsigned char *at;
    size_t length;
    int fd;
    uint64_t offset;
};

static struct region region(void *at, size_t length) {
    struct region made = {.at = at, .length = length};
    CHECK(!shared_pages_enter(at, length, 1, &made.fd, &made.offset));
    return made;
}

static void leave(struct region *gone) {
    shared_pages_leave(gone->at, gone->length);
}

static unsigned char nic_reads(const struct region *from, size_t at) {
    unsigned char byte;
    CHECK(pread(from->fd, &byte, 1, (off_t)(from->offset + at)) == 1);
    return byte;
}

static void nic_writes(const struct region *to, size_t at, unsigned char byte) {
    CHECK(pwrite(to->fd, &byte, 1, (off_t)(to->offset + at)) == 1);
}

static void check_shared(struct region *both) {
    volatile unsigned char *memory = both->at;
    for (int i = 0; i < 2; i++) {
        size_t at = i ? both->length - 1 : 0;
        memory[at] = 11;
        CHECK(nic_reads(both, at) == 11);
        nic_writes(both, at, 12);
        CHECK(memory[at] == 12);
    }
}

static long on_memfd(int fd) { /* bytes */
    struct stat status;
    CHECK(!fstat(fd, &status));
    return status.st_blocks * 512;
}

static void *pages(size_t count) {
    void *made = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(made != MAP_FAILED);
    return made;
}

/* --- many regions --- */

static unsigned long most(unsigned long before, unsigned long so_far) {
    return calls - before > so_far ? calls - before : so_far;
}

/* Every other page: calls that the dearest entry, and the dearest leaving, took. */
static void many(size_t count) {
    unsigned char *memory = pages(2 * count);
    struct region *regions = calloc(count, sizeof *regions);
    unsigned long entry = 0, leaving = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned long before = calls;
        memory[2 * i * PAGE] = (unsigned char)i;
        regions[i] = region(memory + 2 * i * PAGE, PAGE);
        entry = most(before, entry);
    }
    for (size_t i = 0; i < count; i++) {
        CHECK(nic_reads(regions + i, 0) == (unsigned char)i);
        unsigned long before = calls;
        leave(regions + i);
        leaving = most(before, leaving);
    }
    for (size_t i = 0; i < count; i++)
        CHECK(memory[2 * i * PAGE] == (unsigned char)i);
    munmap(memory, 2 * count * PAGE);
    /* what is unmapped is given back while others come and go */
    unsigned char *other = pages(1);
    long left = on_memfd(regions[0].fd);
    for (size_t i = 0; i < count && left > 8 * PAGE; i++) {
        unsigned long before = calls;
        struct region one = region(other, PAGE);
        leave(&one);
        leaving = most(before, leaving);
        left = on_memfd(one.fd);
    }
    CHECK(left <= 8 * PAGE);
    munmap(other, PAGE);
    free(regions);
    printf("%lu %lu\n", entry, leaving);
}

/* Use up all mappings that the system permits but so many; with pages of which every second one may be read. */
static size_t use_up_mappings(size_t but, unsigned char **filled) {
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    size_t permitted, used = 0;
    CHECK(file && fscanf(file, "%zu", &permitted) == 1);
    fclose(file);
    CHECK((file = fopen("/proc/self/maps", "r")));
    for (int c; (c = fgetc(file)) != EOF;)
        used += c == '\n';
    fclose(file);
    size_t count = permitted - but - used;
    *filled = mmap(NULL, count * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(*filled != MAP_FAILED);
    for (size_t i = 1; i < count; i += 2)
        CHECK(!mprotect(*filled + i * PAGE, PAGE, PROT_READ));
    return count;
}

/* More regions than the system permits mappings: the next is refused, and those there are stay as they are. Most
 * mappings are used up before, since before Linux 6.11 each region costs a look at all of them. */
static void too_many(void) {
    enum { LEFT = 48 };
    size_t count = 0;
    unsigned char *memory = pages(2 * LEFT), *filled;
    struct region *regions = calloc(LEFT, sizeof *regions), last = {0};
    size_t used_up = use_up_mappings(LEFT, &filled);
    int error = 0;
    for (; !error && count < LEFT; count++) {
        memory[2 * count * PAGE] = (unsigned char)count;
        regions[count] = (struct region){.at = memory + 2 * count * PAGE, .length = PAGE};
        error = shared_pages_enter(regions[count].at, PAGE, 1, &regions[count].fd, &regions[count].offset);
    }
    CHECK(error == ENOMEM && count-- > LEFT / 3);
    CHECK(shared_pages_enter(memory + 2 * count * PAGE, PAGE, 1, &last.fd, &last.offset) == ENOMEM);
    CHECK(memory[2 * count * PAGE] == (unsigned char)count);
    for (size_t i = 0; i < count; i += 7)
        CHECK(nic_reads(regions + i, 0) == (unsigned char)i);
    for (size_t i = 0; i < count; i++)
        leave(regions + i);
    munmap(memory, 2 * LEFT * PAGE);
    munmap(filled, used_up * PAGE);
    unsigned char *other = pages(1);
    struct region one = region(other, PAGE);
    check_shared(&one);
    leave(&one);
}

/* --- stacks --- */

static void expect_child(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        fprintf(stderr, "child: status %#x\n", status);
        _exit(1);
    }
}

/* Fork with a buffer on this stack that is shared, and with one that no longer is. */
static void __attribute__((noinline)) fork_here(size_t depth) {
    unsigned char buffer[3000];
    volatile unsigned char beside = 5;
    memset(buffer, 1, sizeof buffer);
    if (depth) {
        fork_here(depth - 1);
        return;
    }
    for (int round = 0; round < 6; round++) {
        struct region on_stack = region(buffer, sizeof buffer);
        check_shared(&on_stack);
        int left = round % 2;
        if (left)
            leave(&on_stack);
        beside = (unsigned char)round;
        buffer[7] = (unsigned char)(40 + round);
        pid_t child = fork();
        if (!child) {
            CHECK(beside == round && buffer[7] == 40 + round);
            memset(buffer, 99, sizeof buffer);
            beside = 77;
            _exit(buffer[2999] == 99 ? 0 : 1);
        }
        buffer[8] = 50;
        beside = 6;
        expect_child(child);
        CHECK(beside == 6 && buffer[7] == 40 + round && buffer[8] == 50);
        if (!left) {
            CHECK(nic_reads(&on_stack, 8) == 50);
            check_shared(&on_stack);
            leave(&on_stack);
        }
    }
}

static void *thread_forks(void *unused) {
    fork_here(0);
    fork_here(10);
    return unused;
}

static void in_thread(size_t stack_size) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(!pthread_attr_setstacksize(&attributes, stack_size));
    CHECK(!pthread_create(&thread, &attributes, thread_forks, NULL) && !pthread_join(thread, NULL));
}

static void on_signal(int number) {
    (void)number;
    fork_here(0);
}

static void on_signal_stack(void) {
    stack_t alternate = {.ss_sp = pages(16), .ss_size = 16 * PAGE};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(!sigaltstack(&alternate, NULL) && !sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    alternate.ss_flags = SS_DISABLE;
    CHECK(!sigaltstack(&alternate, NULL));
    munmap(alternate.ss_sp, 16 * PAGE);
}

static ucontext_t outside, inside;

static void coroutine(void) {
    fork_here(0);
}

static void in_coroutine(void) {
    void *stack = pages(16);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = 16 * PAGE;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    munmap(stack, 16 * PAGE);
}

/* A NIC that writes to a buffer on the stack while its thread forks: neither's writes are lost. */
struct writer {
    struct region to;
    volatile int stop;
    unsigned char last;
};

static void *writes(void *argument) {
    struct writer *writer = argument;
    while (!writer->stop)
        nic_writes(&writer->to, 1000, ++writer->last);
    return NULL;
}

static void fork_under_traffic(void) {
    unsigned char buffer[3000] = {0};
    struct writer *writer = calloc(1, sizeof *writer);
    pthread_t thread;
    writer->to = region(buffer, sizeof buffer);
    CHECK(!pthread_create(&thread, NULL, writes, writer));
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (!child)
            _exit(0);
        buffer[999] = (unsigned char)i;
        expect_child(child);
        CHECK(buffer[999] == (unsigned char)i && nic_reads(&writer->to, 999) == (unsigned char)i);
    }
    writer->stop = 1;
    CHECK(!pthread_join(thread, NULL));
    CHECK(*(volatile unsigned char *)(buffer + 1000) == writer->last);
    leave(&writer->to);
    free(writer);
}

/* A thread goes on running on its own stack, which is registered, while its neighbour in memory forks. */
static volatile int neighbours_stop;
static atomic_int neighbours_running;

/* Far below the page of the thread's first frame and of the C library's data. */
static void __attribute__((noinline)) runs_below(void) {
    unsigned char buffer[20000];
    volatile unsigned long *last = (volatile unsigned long *)(buffer + 3000 + (8 - (uintptr_t)buffer % 8));
    struct region whole = region(buffer, sizeof buffer);
    atomic_fetch_add(&neighbours_running, 1);
    for (unsigned long number = 1; !neighbours_stop; number++) {
        *last = number;
        sched_yield();
        CHECK(*last == number);
    }
    leave(&whole);
}

static void *runs_on_shared_stack(void *unused) {
    unsigned char buffer[10000];
    struct region whole = region(buffer, sizeof buffer), data = region((void *)pthread_self(), 8);
    runs_below();
    leave(&whole);
    leave(&data);
    return unused;
}

static void *forks_often(void *unused) {
    unsigned char buffer[3000] = {0};
    struct region here = region(buffer, sizeof buffer);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (!child)
            _exit(0);
        expect_child(child);
    }
    leave(&here);
    return unused;
}

static void neighbours(void) {
    enum { COUNT = 6 };
    pthread_t threads[COUNT], forker;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(!pthread_attr_setstacksize(&attributes, 1 << 16));
    for (int i = 0; i < COUNT; i++) {
        CHECK(!pthread_create(threads + i, &attributes, runs_on_shared_stack, NULL));
        while (atomic_load(&neighbours_running) <= i)
            sched_yield(); /* its pages have moved: nothing is lost when the next thread starts */
        if (i == COUNT / 2)
            CHECK(!pthread_create(&forker, &attributes, forks_often, NULL));
    }
    CHECK(!pthread_join(forker, NULL));
    neighbours_stop = 1;
    for (int i = 0; i < COUNT; i++)
        CHECK(!pthread_join(threads[i], NULL));
}

/* Threads register memory of their own, of every kind, while two of them fork. */
static void *registers(void *forks) {
    unsigned char *mapped = pages(8);
    for (int round = 0; round < 40; round++) {
        unsigned char local[2000];
        struct region regions[2] = {region(mapped, (size_t)(1 + round % 8) * PAGE - 7), region(local, sizeof local)};
        check_shared(regions);
        check_shared(regions + 1);
        if (forks) {
            pid_t child = fork();
            if (!child) {
                memset(mapped, 1, 8 * PAGE);
                memset(local, 1, sizeof local);
                _exit(0);
            }
            local[1000] = (unsigned char)round;
            expect_child(child);
            CHECK(local[1000] == (unsigned char)round && nic_reads(regions + 1, 1000) == (unsigned char)round);
        }
        leave(regions);
        leave(regions + 1);
        if (round % 5 == 0) {
            munmap(mapped, 8 * PAGE);
            mapped = pages(8);
        }
    }
    munmap(mapped, 8 * PAGE);
    return NULL;
}

static void crowd(void) {
    enum { COUNT = 5 };
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++)
        CHECK(!pthread_create(threads + i, NULL, registers, i < 2 ? threads : NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK(!pthread_join(threads[i], NULL));
}

/* Memory that was shared and is used for other things now is the child's own at once. */
static void fork_after_reuse(void) {
    size_t count = 16;
    unsigned char *memory = pages(count);
    struct region whole = region(memory, count * PAGE);
    leave(&whole);
    for (size_t i = 0; i < count; i++)
        memory[i * PAGE + 9] = 1;
    int go[2];
    CHECK(!pipe(go));
    pid_t child = fork();
    if (!child) {
        char byte;
        CHECK(read(go[0], &byte, 1) == 1);
        for (size_t i = 0; i < count; i++)
            CHECK(memory[i * PAGE + 9] == 1);
        _exit(0);
    }
    for (size_t i = 0; i < count; i++)
        memory[i * PAGE + 9] = 2;
    CHECK(write(go[1], "", 1) == 1);
    expect_child(child);
    munmap(memory, count * PAGE);
}

/* --- anything in any order --- */

enum { AREAS = 6, AREA_PAGES = 12, SLOTS = 24 };
static unsigned char *areas[AREAS];
static unsigned char expected[AREAS][AREA_PAGES * PAGE];
struct slot {
    struct region region;
    size_t area, from;
    int used;
};
static struct slot slots[SLOTS];
static uint64_t state;

static size_t chance(size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((state >> 33) % below);
}

static void compare(void) {
    for (size_t i = 0; i < AREAS; i++)
        for (size_t at = 0; at < AREA_PAGES * PAGE; at++)
            if (areas[i][at] != expected[i][at]) {
                fprintf(stderr, "area %zu, byte %zu: %d for %d\n", i, at, areas[i][at], expected[i][at]);
                _exit(1);
            }
}

static void random_step(void) {
    struct slot *slot = slots + chance(SLOTS);
    size_t area = chance(AREAS), at = chance(AREA_PAGES * PAGE);
    switch (chance(8)) {
    case 0:
    case 1:
        if (slot->used) {
            leave(&slot->region);
            slot->used = 0;
            break;
        }
        *slot = (struct slot){.area = area, .from = at, .used = 1};
        slot->region = region(areas[area] + at, 1 + chance(AREA_PAGES * PAGE - at));
        break;
    case 2:
    case 3:
        if (slot->used) { /* the NIC writes */
            at = chance(slot->region.length);
            unsigned char byte = (unsigned char)chance(256);
            nic_writes(&slot->region, at, byte);
            expected[slot->area][slot->from + at] = byte;
        }
        break;
    case 4:
        if (slot->used) {
            at = chance(slot->region.length);
            CHECK(nic_reads(&slot->region, at) == expected[slot->area][slot->from + at]);
        }
        break;
    case 5:
        expected[area][at] = areas[area][at] = (unsigned char)chance(256);
        break;
    case 6: { /* an area that no region uses is mapped anew */
        for (size_t i = 0; i < SLOTS; i++)
            if (slots[i].used && slots[i].area == area)
                return;
        if (area < 2)
            return; /* of the stack and the heap */
        size_t first = chance(AREA_PAGES), count = 1 + chance(AREA_PAGES - first);
        CHECK(mmap(areas[area] + first * PAGE, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0) != MAP_FAILED);
        memset(expected[area] + first * PAGE, 0, count * PAGE);
        break;
    }
    default:
        if (chance(6) == 0) {
            pid_t child = fork();
            if (!child) {
                compare();
                struct region own = region(areas[area] + at, 1); /* a child may do all of it, too */
                check_shared(&own);
                pid_t grandchild = fork();
                for (size_t i = 0; i < AREAS; i++)
                    memset(areas[i], 200, AREA_PAGES * PAGE);
                if (grandchild)
                    expect_child(grandchild);
                _exit(0);
            }
            expect_child(child);
        }
    }
}

static void anything(uint64_t seed, size_t steps) {
    unsigned char on_stack[AREA_PAGES * PAGE];
    memset(on_stack, 0, sizeof on_stack);
    state = seed;
    areas[0] = on_stack;
    areas[1] = calloc(AREA_PAGES, PAGE);
    for (size_t i = 2; i < AREAS; i++)
        areas[i] = pages(AREA_PAGES);
    for (size_t i = 0; i < steps; i++) {
        random_step();
        if (i % 16 == 0)
            compare();
    }
    compare();
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].used)
            leave(&slots[i].region);
    compare();
    free(areas[1]);
}

static void before(void) {
    shared_pages_before_fork();
}

static void in_parent(void) {
    shared_pages_after_fork(0);
}

static void in_child(void) {
    shared_pages_after_fork(1);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    pthread_atfork(before, in_parent, in_child);
    without_query = getenv("WITHOUT_QUERY") != NULL;
    if (!strcmp(name, "many"))
        many((size_t)atol(argv[2]));
    else if (!strcmp(name, "too_many"))
        too_many();
    else if (!strcmp(name, "stack"))
        fork_here(0), fork_here(40);
    else if (!strcmp(name, "thread"))
        in_thread(1 << 20), in_thread(1 << 16);
    else if (!strcmp(name, "signal_stack"))
        on_signal_stack();
    else if (!strcmp(name, "coroutine"))
        in_coroutine();
    else if (!strcmp(name, "traffic"))
        fork_under_traffic();
    else if (!strcmp(name, "neighbours"))
        neighbours();
    else if (!strcmp(name, "crowd"))
        crowd();
    else if (!strcmp(name, "reuse"))
        fork_after_reuse();
    else if (!strcmp(name, "anything"))
        anything(strtoull(argv[2], NULL, 10), (size_t)atol(argv[3]));
    else
        return 2;
    return 0;
}
