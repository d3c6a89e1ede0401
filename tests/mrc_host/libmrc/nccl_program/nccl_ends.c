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

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
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
    CHECK(!strcmp(properties.name, "mrc0") && properties.port == 1 && properties.guid);
    CHECK(properties.memory_kinds == NCCL_HOST_MEMORY && properties.devices.count == 1);
    CHECK(properties.max_receives >= MULTI);
    end.memory = aligned_alloc(4096, MEMORY);
    CHECK(end.memory);
    return end;
}

static void enter_memory(struct end *end) {
    CHECK(end->net->reg_mr(end->comm, end->memory, MEMORY, NCCL_HOST_MEMORY, &end->mr) == NCCL_SUCCESS);
}

void accept_peer(struct end *end, const char *folder) {
    char handle[NCCL_HANDLE_BYTES] = {0}, path[4096], made[4096];
    void *listener, *offload = NULL;
    CHECK(end->net->listen(end->context, 0, handle, &listener) == NCCL_SUCCESS);
    snprintf(path, sizeof path, "%s/making", folder);
    snprintf(made, sizeof made, "%s/handle", folder);
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(handle, sizeof handle, 1, file) == 1 && !fclose(file) && !rename(path, made));
    for (double since = seconds(); !end->comm; again(since, "a peer connects"))
        CHECK(end->net->accept(listener, &end->comm, &offload) == NCCL_SUCCESS);
    CHECK(end->net->close_listen(listener) == NCCL_SUCCESS);
    enter_memory(end);
}

void connect_peer(struct end *end, const char *folder) {
    char handle[NCCL_HANDLE_BYTES], path[4096];
    snprintf(path, sizeof path, "%s/handle", folder);
    FILE *file;
    for (double since = seconds(); !(file = fopen(path, "r")); again(since, "a peer listens"))
        ;
    CHECK(fread(handle, sizeof handle, 1, file) == 1);
    fclose(file);
    void *offload = NULL;
    for (double since = seconds(); !end->comm; again(since, "the peer accepts"))
        CHECK(end->net->connect(end->context, 0, handle, &end->comm, &offload) == NCCL_SUCCESS);
    enter_memory(end);
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

void close_comm(struct end *end, int sends) {
    CHECK(end->net->dereg_mr(end->comm, end->mr) == NCCL_SUCCESS);
    CHECK((sends ? end->net->close_send : end->net->close_recv)(end->comm) == NCCL_SUCCESS);
    CHECK(end->net->finalize(end->context) == NCCL_SUCCESS);
    free(end->memory);
}

unsigned char byte_at(size_t at, unsigned int seed) {
    return (unsigned char)((at * 2654435761u + seed * 40503u) >> 13);
}
