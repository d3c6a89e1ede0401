/* Messages without end, eight at a time as NCCL has them, until a command or a call that fails ends the connection.
 *
 * Lines on standard output, with nanoseconds of the monotonic clock, say how it goes:
 *
 *   flowing COUNT NOW         of each 50 messages of a connection
 *   failed CALL RESULT NOW    a call of the plugin returned an error
 *   ended COUNT PAUSE         messages since "mark", and the longest time without one
 *   closed RESULT             of deregistering and closing
 *
 * Commands, one a line on standard input:
 *
 *   mark    count from here; answered by "marked" and how many messages are under way
 *   hold    begin no more messages; answered by "held" when none is under way
 *   go      begin messages again
 *   stop    the sender's next eight messages, which are shorter, are the last: both ends close when these are done
 *   close   close at once, whatever is under way
 *   again   once closed: connect again, in the same process
 *   end     once closed: end */
#include "stream.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { AT = 4096, SLOT = 32768, LENGTH = 16411, LAST_LENGTH = LENGTH - 1, REPORT_EVERY = 50 };
static const unsigned int UNKNOWN = ~0u;

struct flow {
    struct end *end;
    int sends, closing, failed, holding, held;
    void *requests[NCCL_MAX_REQUESTS];
    unsigned int prepared, started, finished; /* messages whose memory is filled, that are under way, that are done */
    unsigned int last; /* the number of messages, once it is known */
    unsigned int marked;
    uint64_t latest, pause; /* when the latest message was done, and the longest time without one since the mark */
};

/* The next command, if there is one within the time (-1: wait); the end of the input is "end". */
static int command(char line[16], int timeout_ms) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&input, 1, timeout_ms) <= 0)
        return 0;
    if (!fgets(line, 16, stdin))
        strcpy(line, "end");
    line[strcspn(line, "\n")] = 0;
    return 1;
}

static int returned(struct flow *flow, const char *call, int result) {
    if (result == NCCL_SUCCESS)
        return 1;
    printf("failed %s %d %llu\n", call, result, (unsigned long long)nanoseconds());
    fflush(stdout);
    flow->failed = 1;
    return 0;
}

static size_t place(unsigned int message) {
    return AT + (size_t)(message % NCCL_MAX_REQUESTS) * SLOT;
}

static void prepare(struct flow *flow, size_t at) {
    if (flow->prepared > flow->started) /* the peer had not posted its receive when this was tried before */
        return;
    if (flow->sends)
        fill(flow->end, at, LENGTH, flow->started);
    else
        memset(flow->end->memory + at - 1, UNTOUCHED, LENGTH + 2);
    flow->prepared = flow->started + 1;
}

static int start_one(struct flow *flow) {
    struct end *end = flow->end;
    if (flow->holding || flow->started == flow->last || flow->started - flow->finished == NCCL_MAX_REQUESTS)
        return 0;
    size_t at = place(flow->started), size = !flow->sends || flow->last == UNKNOWN ? LENGTH : LAST_LENGTH;
    void **request = &flow->requests[flow->started % NCCL_MAX_REQUESTS], *data = end->memory + at;
    int tag = 5;
    *request = NULL;
    prepare(flow, at);
    if (flow->sends)
        returned(flow, "isend", end->net->isend(end->comm, data, size, tag, end->mr, NULL, request));
    else
        returned(flow, "irecv", end->net->irecv(end->comm, 1, &data, &size, &tag, &end->mr, NULL, request));
    if (flow->failed || !*request)
        return 0;
    flow->started++;
    return 1;
}

static void note_time(struct flow *flow) {
    uint64_t now = nanoseconds();
    flow->pause = now - flow->latest > flow->pause ? now - flow->latest : flow->pause;
    flow->latest = now;
}

static int finish_one(struct flow *flow) {
    struct end *end = flow->end;
    int done = 0, got = -1;
    if (flow->started == flow->finished)
        return 0;
    void *request = flow->requests[flow->finished % NCCL_MAX_REQUESTS];
    if (!returned(flow, "test", end->net->test(request, &done, &got)) || !done)
        return 0;
    CHECK(got == LENGTH || got == LAST_LENGTH);
    if (!flow->sends)
        expect(end, place(flow->finished), (size_t)got, flow->finished);
    if (got == LAST_LENGTH && flow->last == UNKNOWN)
        flow->last = flow->finished + NCCL_MAX_REQUESTS;
    flow->finished++;
    note_time(flow);
    if (flow->finished % REPORT_EVERY == 0) {
        printf("flowing %u %llu\n", flow->finished, (unsigned long long)flow->latest);
        fflush(stdout);
    }
    return 1;
}

static void obey(struct flow *flow, const char *line) {
    if (!strcmp(line, "mark")) {
        flow->marked = flow->finished;
        flow->latest = nanoseconds();
        flow->pause = 0;
        printf("marked %u\n", flow->started - flow->finished);
        fflush(stdout);
    } else if (!strcmp(line, "hold") || !strcmp(line, "go")) {
        flow->holding = *line == 'h';
        flow->held = 0;
    } else if (!strcmp(line, "stop")) {
        flow->last = flow->started + NCCL_MAX_REQUESTS;
    } else {
        flow->closing = 1;
    }
}

static void run(struct end *end, int sends) {
    struct flow flow = {.end = end, .sends = sends, .last = UNKNOWN, .latest = nanoseconds()};
    char line[16];
    while (!flow.failed && !flow.closing && flow.finished != flow.last) {
        int moved = start_one(&flow);
        if (!flow.failed)
            moved |= finish_one(&flow);
        if (flow.holding && !flow.held && flow.started == flow.finished) {
            flow.held = 1;
            puts("held");
            fflush(stdout);
        }
        if (command(line, 0))
            obey(&flow, line);
        else if (!moved)
            usleep(200); /* as NCCL's thread, which gives way to others when nothing can be done */
    }
    note_time(&flow);
    printf("ended %u %llu\n", flow.finished - flow.marked, (unsigned long long)flow.pause);
}

void stream(struct end *end, const char *folder, int sends) {
    char line[16];
    setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() knows of every command */
    do {
        struct flow opening = {.end = end};
        if (returned(&opening, sends ? "connect" : "accept", open_comm(end, folder, sends))) {
            run(end, sends);
            printf("closed %d\n", close_comm(end, sends));
            fflush(stdout);
        }
        while (command(line, -1) && strcmp(line, "again") && strcmp(line, "end"))
            ;
    } while (!strcmp(line, "again"));
}
