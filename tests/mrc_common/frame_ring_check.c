/* Checks mrc_common/frame_ring.h: `frame_ring_check MODE SEED`. It is compiled with the sanitizers; 0 = all was well.
 *
 *   model    one thread puts and takes at random, and compares with a list
 *   hostile  the other end writes anything anywhere, also while we read
 *   wrap     records that lead to the start from there, which would keep us reading for ever
 *   full     a producer that waits for room, asleep, gets all frames through to a consumer that sleeps, too
 *   crash    two processes; either is killed at any instruction and started again */
#define _GNU_SOURCE
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frame_ring.h"

#define RING 4096u
#define BYTES (2 * (FRAME_RING_CONTROL + RING))
#define LONGEST 1500u
#undef assert
#define assert(what) ((what) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #what), exit(1)))

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16) % below;
}

/* A frame says how long it is and which one, and the rest follows from that. */
static size_t make(uint8_t *frame, uint32_t number, size_t length)
{
    for (size_t i = 0; i < length; i++)
        frame[i] = (uint8_t)(number * 31 + i);
    memcpy(frame, &number, sizeof number);
    return length;
}

static void check(const uint8_t *frame, size_t length)
{
    uint32_t number;
    assert(length >= sizeof number);
    memcpy(&number, frame, sizeof number);
    for (size_t i = sizeof number; i < length; i++)
        assert(frame[i] == (uint8_t)(number * 31 + i));
}

static void model(void)
{
    void *memory = aligned_alloc(64, BYTES);
    memset(memory, 0, BYTES);
    struct frame_ring in, out;
    assert(frame_ring_place(&out, memory, BYTES, 1) && frame_ring_place(&in, memory, BYTES, 1));
    frame_ring_attach_producer(&out);
    frame_ring_attach_consumer(&in);
    static size_t lengths[1 << 20];
    uint32_t put = 0, published = 0, taken = 0, released = 0;
    uint8_t frame[LONGEST], got[LONGEST];
    for (int step = 0; step < 200000; step++) {
        int64_t sent = 0;
        switch (draw(8)) {
        case 0: case 1: case 2: {
            size_t length = 4 + draw(draw(2) ? 60 : LONGEST - 4);
            if (frame_ring_put(&out, frame, make(frame, put, length), put))
                lengths[put++] = length;
            else /* an empty ring has room for it, and for the end of the buffer that it may have to skip */
                assert(put != released);
            break;
        }
        case 3:
            frame_ring_publish(&out);
            published = put;
            break;
        case 4:
            frame_ring_release(&in);
            released = taken;
            break;
        case 5:
            if (draw(50) == 0) { /* the consumer is started again: what was published is gone */
                frame_ring_attach_consumer(&in);
                taken = released = published;
            }
            break;
        default: {
            size_t length = frame_ring_take(&in, got, sizeof got, &sent);
            assert((length != 0) == (taken < published));
            assert(frame_ring_pending(&in) == (taken + (length != 0) < published));
            if (!length)
                break;
            make(frame, taken, lengths[taken]);
            assert(length == lengths[taken] && sent == taken && !memcmp(got, frame, length));
            taken++;
        }
        }
    }
    assert(taken > 10000);
    uint8_t large[RING] = {0};
    assert(!frame_ring_put(&out, large, 0, 0) && !frame_ring_put(&out, large, RING / 2, 0));
    free(memory);
}

static void *scribble(void *memory)
{
    for (int i = 0; i < 200000; i++) {
        uint64_t *word = (uint64_t *)memory + (draw(3) ? draw(16) : draw(BYTES / 2 / 8));
        uint64_t value = draw(3) ? draw(3 * RING) & ~15u : draw(2) ? UINT64_MAX - draw(64) : (uint64_t)draw(1 << 30) << draw(34);
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void hostile(void)
{
    uint8_t *memory = aligned_alloc(64, BYTES / 2 + 64), *whole = memory; /* exactly one ring, so that any step outside is seen */
    memset(memory, 0, BYTES / 2);
    uint8_t frame[LONGEST];
    for (int round = 0; round < 20; round++) {
        struct frame_ring in = {.control = (void *)whole, .data = whole + FRAME_RING_CONTROL, .size = RING}, out = in;
        frame_ring_attach_producer(&out);
        frame_ring_attach_consumer(&in);
        pthread_t other;
        assert(!pthread_create(&other, NULL, scribble, memory));
        for (int i = 0; i < 100000; i++) {
            int64_t sent;
            size_t length = frame_ring_take(&in, frame, sizeof frame, &sent);
            assert(length <= sizeof frame || length == FRAME_RING_BROKEN);
            if (!length || length == FRAME_RING_BROKEN)
                frame_ring_release(&in);
            frame_ring_put(&out, frame, 1 + (size_t)i % LONGEST, i);
            frame_ring_publish(&out);
            frame_ring_await_room(&out, 1 + (size_t)i % LONGEST);
            frame_ring_arm(&in);
            frame_ring_disarm(&in);
        }
        pthread_join(other, NULL);
    }
    free(memory);
}

static void wrap(void)
{
    uint8_t *memory = aligned_alloc(64, BYTES / 2);
    memset(memory, 0, BYTES / 2);
    struct frame_ring in = {.control = (void *)memory, .data = memory + FRAME_RING_CONTROL, .size = RING};
    uint8_t frame[LONGEST];
    int64_t sent;
    uint32_t record = FRAME_RING_WRAP;
    frame_ring_attach_consumer(&in);
    for (int round = 0; round < 100; round++) {
        uint64_t offset = round ? draw(RING / 16) * 16u : 0;
        memcpy(in.data, &record, sizeof record);
        memcpy(in.data + offset, &record, sizeof record);
        in.position = in.other = in.published = offset;
        __atomic_store_n(&in.control->head, offset + RING, __ATOMIC_RELEASE);
        assert(frame_ring_take(&in, frame, sizeof frame, &sent) == FRAME_RING_BROKEN);
        assert(!frame_ring_take(&in, frame, sizeof frame, &sent));
    }
    free(memory);
}

static void publish(struct frame_ring *out, int bell)
{
    uint64_t one = 1;
    if (frame_ring_publish(out))
        (void)!write(bell, &one, sizeof one);
}

static void produce(void *memory, int bell, uint32_t from)
{
    struct frame_ring out;
    uint8_t frame[LONGEST];
    frame_ring_place(&out, memory, BYTES, 0);
    frame_ring_attach_producer(&out);
    uint64_t one = 1;
    (void)!write(bell, &one, sizeof one);
    for (uint32_t number = from;; number++) {
        while (!frame_ring_put(&out, frame, make(frame, number, 4 + number * 7919 % (LONGEST - 4)), number))
            publish(&out, bell), usleep(20);
        if (number % 3 == 0)
            publish(&out, bell);
    }
}

/* Writes down the number of each frame that arrives. */
static void consume(void *memory, int bell, volatile uint32_t *seen)
{
    struct frame_ring in;
    uint8_t frame[LONGEST];
    frame_ring_place(&in, memory, BYTES, 0);
    frame_ring_attach_consumer(&in);
    for (uint32_t last = *seen;;) {
        int64_t sent;
        size_t length;
        while ((length = frame_ring_take(&in, frame, sizeof frame, &sent))) {
            assert(length != FRAME_RING_BROKEN);
            check(frame, length);
            uint32_t number = (uint32_t)sent;
            assert(number > last);
            *seen = last = number;
        }
        frame_ring_release(&in);
        if (frame_ring_arm(&in)) {
            uint64_t ignored;
            struct pollfd wait = {.fd = bell, .events = POLLIN};
            poll(&wait, 1, -1);
            (void)!read(bell, &ignored, sizeof ignored);
        }
        frame_ring_disarm(&in);
    }
}

static void ring(int bell)
{
    uint64_t one = 1;
    assert(write(bell, &one, sizeof one) > 0);
}

static void await(int bell)
{
    uint64_t ignored;
    struct pollfd wait = {.fd = bell, .events = POLLIN};
    assert(poll(&wait, 1, 20000) == 1); /* or somebody was not woken */
    assert(read(bell, &ignored, sizeof ignored) > 0);
}

static void *memory_of_both;
static int bells[2]; /* of the consumer, of the producer */

static void *produce_all(void *count)
{
    struct frame_ring out;
    uint8_t frame[LONGEST];
    frame_ring_place(&out, memory_of_both, BYTES, 0);
    frame_ring_attach_producer(&out);
    for (uint32_t number = 0; number < *(uint32_t *)count; number++) {
        size_t length = make(frame, number, 4 + number * 7919 % (LONGEST - 4));
        while (!frame_ring_put(&out, frame, length, number)) {
            publish(&out, bells[0]);
            if (frame_ring_await_room(&out, length))
                await(bells[1]);
        }
        if (number % 5 == 0)
            publish(&out, bells[0]);
    }
    publish(&out, bells[0]);
    return NULL;
}

static void full(void)
{
    uint32_t count = 300000, number = 0;
    struct frame_ring in;
    uint8_t frame[LONGEST];
    memory_of_both = aligned_alloc(64, BYTES);
    memset(memory_of_both, 0, BYTES);
    bells[0] = eventfd(0, 0), bells[1] = eventfd(0, 0);
    frame_ring_place(&in, memory_of_both, BYTES, 0);
    frame_ring_attach_consumer(&in);
    pthread_t other;
    assert(!pthread_create(&other, NULL, produce_all, &count));
    while (number < count) {
        int64_t sent;
        size_t length;
        for (uint32_t batch = draw(8); (length = frame_ring_take(&in, frame, sizeof frame, &sent)); batch--) {
            assert(length != FRAME_RING_BROKEN && sent == number++);
            check(frame, length);
            if (!batch)
                break;
        }
        if (frame_ring_release(&in))
            ring(bells[1]);
        if (!length && number < count && frame_ring_arm(&in))
            await(bells[0]);
        frame_ring_disarm(&in);
    }
    pthread_join(other, NULL);
    free(memory_of_both);
}

static pid_t start(int producer, void *memory, int bell, volatile uint32_t *seen)
{
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (producer)
            produce(memory, bell, *seen + 1000);
        else
            consume(memory, bell, seen);
    }
    return pid;
}

static void crash(void)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile uint32_t *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int bell = eventfd(0, EFD_NONBLOCK);
    pid_t pids[2];
    for (int which = 0; which < 2; which++)
        pids[which] = start(which, memory, bell, seen);
    for (int round = 0; round < 60; round++) {
        uint32_t before = *seen;
        for (int waited = 0; *seen < before + 50; waited++) { /* frames arrive, whoever was killed before */
            assert(waited < 20000);
            usleep(500);
            for (int which = 0; which < 2; which++)
                assert(!waitpid(pids[which], NULL, WNOHANG));
        }
        usleep(draw(300));
        int which = (int)draw(2);
        kill(pids[which], SIGKILL);
        waitpid(pids[which], NULL, 0);
        pids[which] = start(which, memory, bell, seen);
    }
    for (int which = 0; which < 2; which++) {
        kill(pids[which], SIGKILL);
        waitpid(pids[which], NULL, 0);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    state = strtoull(argv[2], NULL, 10) * 2654435769u + 1;
    if (!strcmp(argv[1], "model"))
        model();
    else if (!strcmp(argv[1], "hostile"))
        hostile();
    else if (!strcmp(argv[1], "wrap"))
        wrap();
    else if (!strcmp(argv[1], "full"))
        full();
    else
        crash();
    return 0;
}
