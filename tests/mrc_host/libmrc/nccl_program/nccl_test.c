/* Drive a network plugin of NCCL between two hosts, on host memory: nccl_test PLUGIN send|receive FOLDER CASE.
 *
 *   messages  sizes from nothing to megabytes, a message smaller than its receive, one of nothing into a large one
 *   multiple  receives of up to eight messages at once, sent in another order, some of them empty
 *   flight    eight messages at a time, a thousand of them
 *   closed    connect and close; then it says "closed" and waits for the end of its input
 *   gone      a message arrives, then the receiver is killed: the next one is an error at the sender
 *   stream    messages without end, as stream.c says
 *
 * Both ends run the same case; every byte that arrives is compared, and none beside it has changed. */
#include <stdio.h>
#include <string.h>

#include "stream.h"

static const size_t sizes[] = {1, 7, 0, 64, 4096, 4097, 65536, 1 << 20, (3 << 20) + 5, 0, 3};
enum { COUNT = sizeof sizes / sizeof *sizes, AT = 4096 };

static void messages(struct end *end, int sends) {
    for (unsigned int i = 0; i < COUNT; i++) {
        int got = -1, tag = (int)i;
        size_t at = AT, room = sizes[i] + (i % 2 ? 0 : 100);
        if (sends) {
            fill(end, AT, sizes[i], i);
            CHECK(finish(end, start_send(end, AT, sizes[i], tag), &got) == NCCL_SUCCESS);
            CHECK((size_t)got == sizes[i]);
            continue;
        }
        memset(end->memory, UNTOUCHED, MEMORY);
        CHECK(finish(end, start_receive(end, 1, &at, &room, &tag), &got) == NCCL_SUCCESS);
        CHECK((size_t)got == sizes[i]);
        expect(end, AT, sizes[i], i);
        void *flush = NULL, *data = end->memory + AT;
        CHECK(end->net->iflush(end->comm, 1, &data, &got, &end->mr, &flush) == NCCL_SUCCESS && !flush);
    }
}

static void multiple(struct end *end, int sends) {
    enum { ROOM = 20000, STEP = 3 }; /* STEP has no factor in common with 1, 2, 4, 5, 7, 8 */
    static const int counts[] = {1, 2, 4, 5, 7, 8};
    for (unsigned int round = 0; round < 18; round++) {
        int count = counts[round % 6], tags[MULTI], got[MULTI];
        size_t at[MULTI], room[MULTI], length[MULTI];
        for (int i = 0; i < count; i++) {
            tags[i] = 100 + i;
            at[i] = AT + (size_t)i * 2 * ROOM;
            room[i] = ROOM;
            length[i] = (i + round) % 3 ? (size_t)(i + 1) * 2311 % ROOM : 0;
        }
        if (sends) {
            void *requests[MULTI];
            for (int i = 0; i < count; i++) {
                int which = i * STEP % count;
                fill(end, at[which], length[which], round + (unsigned int)which);
                requests[which] = start_send(end, at[which], length[which], tags[which]);
            }
            for (int i = 0; i < count; i++) {
                CHECK(finish(end, requests[i], got) == NCCL_SUCCESS);
                CHECK((size_t)got[0] == length[i]);
            }
            continue;
        }
        memset(end->memory, UNTOUCHED, MEMORY);
        CHECK(finish(end, start_receive(end, count, at, room, tags), got) == NCCL_SUCCESS);
        for (int i = 0; i < count; i++) {
            CHECK((size_t)got[i] == length[i]);
            expect(end, at[i], length[i], round + (unsigned int)i);
        }
    }
}

static void flight(struct end *end, int sends) {
    enum { TOTAL = 1000, SLOT = 32768, LENGTH = 16411 };
    void *requests[NCCL_MAX_REQUESTS] = {NULL};
    for (unsigned int i = 0; i < TOTAL + NCCL_MAX_REQUESTS; i++) {
        unsigned int slot = i % NCCL_MAX_REQUESTS;
        size_t at = AT + (size_t)slot * SLOT, room = LENGTH;
        int got, tag = 5;
        if (requests[slot]) {
            CHECK(finish(end, requests[slot], &got) == NCCL_SUCCESS && got == LENGTH);
            if (!sends)
                expect(end, at, LENGTH, i - NCCL_MAX_REQUESTS);
        }
        requests[slot] = NULL;
        if (i >= TOTAL)
            continue;
        if (sends)
            fill(end, at, LENGTH, i);
        else
            memset(end->memory + at - 1, UNTOUCHED, LENGTH + 2);
        requests[slot] = sends ? start_send(end, at, LENGTH, tag) : start_receive(end, 1, &at, &room, &tag);
        if (i == TOTAL / 10 && sends) {
            puts("halfway");
            fflush(stdout);
        }
    }
}

static void say_and_wait(const char *what) {
    puts(what);
    fflush(stdout);
    while (getchar() != '\n')
        ;
}

static void gone(struct end *end, int sends) {
    void *requests[NCCL_MAX_REQUESTS];
    size_t at = AT, room = 1 << 20;
    int got, tag = 1;
    for (int i = 0; i < NCCL_MAX_REQUESTS && !sends; i++)
        requests[i] = start_receive(end, 1, &at, &room, &tag);
    if (!sends) {
        CHECK(finish(end, requests[0], &got) == NCCL_SUCCESS);
        say_and_wait("received"); /* it is killed here */
    }
    CHECK(finish(end, start_send(end, AT, room, tag), &got) == NCCL_SUCCESS);
    say_and_wait("sent"); /* until the peer is gone */
    CHECK(finish(end, start_send(end, AT, room, tag), &got) != NCCL_SUCCESS);
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: nccl_test PLUGIN send|receive FOLDER CASE\n");
        return 2;
    }
    int sends = !strcmp(arguments[2], "send");
    struct end end = end_with(arguments[1]);
    const char *folder = arguments[3], *which = arguments[4];
    if (!strcmp(which, "stream")) {
        stream(&end, folder, sends);
        end_use(&end);
        return 0;
    }
    CHECK(open_comm(&end, folder, sends) == NCCL_SUCCESS);
    if (!strcmp(which, "messages"))
        messages(&end, sends);
    else if (!strcmp(which, "multiple"))
        multiple(&end, sends);
    else if (!strcmp(which, "flight"))
        flight(&end, sends);
    else if (!strcmp(which, "gone"))
        gone(&end, sends);
    else
        CHECK(!strcmp(which, "closed"));
    CHECK(close_comm(&end, sends) == NCCL_SUCCESS);
    end_use(&end);
    puts("closed");
    fflush(stdout);
    while (!strcmp(which, "closed") && getchar() != EOF)
        ;
    return 0;
}
