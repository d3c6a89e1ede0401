/* One end of a connection that a network plugin of NCCL makes, as NCCL uses it. A failure ends the program. */
#ifndef NCCL_ENDS_H
#define NCCL_ENDS_H

#include "nccl_net.h"

enum { MEMORY = 4 << 20, MULTI = 8 };

struct end {
    struct nccl_net *net;
    void *context, *comm, *mr;
    unsigned char *memory;
};

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_check(__FILE__, __LINE__, #condition);                                                                \
    } while (0)
void fail_check(const char *file, int line, const char *what) __attribute__((noreturn));

struct end end_with(const char *plugin);
/* The receiver listens and puts the handle, which ranks of NCCL exchange, into a file of `folder`; the sender reads it. */
void accept_peer(struct end *end, const char *folder);
void connect_peer(struct end *end, const char *folder);
void close_comm(struct end *end, int sends);

/* Places and sizes are of the end's memory; a receive of `count` messages is one request. */
void *start_send(struct end *end, size_t at, size_t size, int tag);
void *start_receive(struct end *end, int count, const size_t *at, const size_t *sizes, const int *tags);
/* Wait until it is done; returns what test() does. */
int finish(struct end *end, void *request, int *sizes);

/* What a message has at a place. */
unsigned char byte_at(size_t at, unsigned int seed);

#endif
