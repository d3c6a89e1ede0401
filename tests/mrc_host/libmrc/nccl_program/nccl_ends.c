/* One end of a connection of a plugin, and what both programs do with it: nccl_ends.h. */
#include "nccl_ends.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 40 };

void fail_check(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    exit(1);
}

static void log_warnings(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    enum { WARNING = 2 };
    (void)flags;
    if (level > WARNING && !getenv("NCCL_DEBUG"))
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double seconds(void) {
    return (double)nanoseconds() / 1e9;
}

/* NCCL calls again what could not be done yet; a test gives up after a while. */
static void again(double since, const char *what) {
    if (seconds() - since > LIMIT_S)
        fail_check(__FILE__, __LINE__, what);
    usleep(200);
}

struct end end_with(const char *plugin) {
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    struct end end = {.net = dlsym(library, "ncclNetPlugin_v11")};
    CHECK(end.net);
    struct nccl_config config = {-1};
    CHECK(end.net->init(&end.context, 7, &config, log_warnings, NULL) == NCCL_SUCCESS);
    int count;
    CHECK(end.net->devices(&count) == NCCL_SUCCESS && count == 1);
    struct nccl_properties properties;
    CHECK(end.net->get_properties(0, &properties) == NCCL_SUCCESS);
    CHECK(!strncmp(properties.name, "mrc0", 4) && properties.port == 1 && properties.guid);
    CHECK(properties.memory_kinds == NCCL_HOST_MEMORY && properties.devices.count == 1);
    CHECK(properties.max_receives >= MULTI);
    end.memory = aligned_alloc(4096, MEMORY);
    CHECK(end.memory);
    return end;
}

static int accept_peer(struct end *end, const char *path, const char *making) {
    char handle[NCCL_HANDLE_BYTES] = {0};
    void *listener, *offload = NULL;
    int result = end->net->listen(end->context, 0, handle, &listener);
    if (result != NCCL_SUCCESS)
        return result;
    FILE *file = fopen(making, "w");
    CHECK(file && fwrite(handle, sizeof handle, 1, file) == 1 && !fclose(file) && !rename(making, path));
    for (double since = seconds(); !end->comm && result == NCCL_SUCCESS; again(since, "a peer connects"))
        result = end->net->accept(listener, &end->comm, &offload);
    CHECK(end->net->close_listen(listener) == NCCL_SUCCESS);
    return result;
}

static int connect_peer(struct end *end, const char *path) {
    char handle[NCCL_HANDLE_BYTES];
    FILE *file;
    for (double since = seconds(); !(file = fopen(path, "r")); again(since, "a peer listens"))
        ;
    CHECK(fread(handle, sizeof handle, 1, file) == 1 && !unlink(path));
    fclose(file);
    void *offload = NULL;
    int result = NCCL_SUCCESS;
    for (double since = seconds(); !end->comm && result == NCCL_SUCCESS; again(since, "the peer accepts"))
        result = end->net->connect(end->context, 0, handle, &end->comm, &offload);
    return result;
}

int open_comm(struct end *end, const char *folder, int sends) {
    char path[4096], making[4096];
    snprintf(path, sizeof path, "%s/handle", folder);
    snprintf(making, sizeof making, "%s/making", folder);
    end->comm = NULL;
    int result = sends ? connect_peer(end, path) : accept_peer(end, path, making);
    if (result != NCCL_SUCCESS)
        return result;
    return end->net->reg_mr(end->comm, end->memory, MEMORY, NCCL_HOST_MEMORY, &end->mr);
}

void *start_send(struct end *end, size_t at, size_t size, int tag) {
    void *request = NULL;
    for (double since = seconds(); !request; again(since, "the peer receives"))
        CHECK(end->net->isend(end->comm, end->memory + at, size, tag, end->mr, NULL, &request) == NCCL_SUCCESS);
    return request;
}

void *start_receive(struct end *end, int count, const size_t *at, const size_t *sizes, const int *tags) {
    void *data[MULTI], *mrs[MULTI], *request = NULL;
    size_t room[MULTI];
    int named[MULTI];
    for (int i = 0; i < count; i++) {
        data[i] = end->memory + at[i];
        mrs[i] = end->mr;
        room[i] = sizes[i];
        named[i] = tags[i];
    }
    for (double since = seconds(); !request; again(since, "the receive is posted"))
        CHECK(end->net->irecv(end->comm, count, data, room, named, mrs, NULL, &request) == NCCL_SUCCESS);
    return request;
}

int finish(struct end *end, void *request, int *sizes) {
    int done = 0, result = NCCL_SUCCESS;
    for (double since = seconds(); !done && result == NCCL_SUCCESS; again(since, "the request is done"))
        result = end->net->test(request, &done, sizes);
    return result;
}

int close_comm(struct end *end, int sends) {
    int first = end->net->dereg_mr(end->comm, end->mr);
    int result = (sends ? end->net->close_send : end->net->close_recv)(end->comm);
    return first == NCCL_SUCCESS ? result : first;
}

void end_use(struct end *end) {
    CHECK(end->net->finalize(end->context) == NCCL_SUCCESS);
    free(end->memory);
}

static unsigned char byte_at(size_t at, unsigned int seed) {
    return (unsigned char)((at * 2654435761u + seed * 40503u) >> 13);
}

void fill(struct end *end, size_t at, size_t size, unsigned int seed) {
    for (size_t i = 0; i < size; i++)
        end->memory[at + i] = byte_at(i, seed);
}

void expect(struct end *end, size_t at, size_t size, unsigned int seed) {
    for (size_t i = 0; i < size; i++)
        CHECK(end->memory[at + i] == byte_at(i, seed));
    CHECK(end->memory[at + size] == UNTOUCHED && end->memory[at - 1] == UNTOUCHED);
}
