/* One end of a connection that a network plugin of NCCL makes, as NCCL uses it. A failure ends the program, but in what
 * returns a result of NCCL. */
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
/* The receiver listens and puts the handle, which ranks of NCCL exchange, into a file of `folder`; the sender takes it
 * away. The memory is registered, too. */
int open_comm(struct end *end, const char *folder, int sends);
int close_comm(struct end *end, int sends);
void end_use(struct end *end);

/* Places and sizes are of the end's memory; a receive of `count` messages is one request. */
void *start_send(struct end *end, size_t at, size_t size, int tag);
void *start_receive(struct end *end, int count, const size_t *at, const size_t *sizes, const int *tags);
/* Wait until it is done; returns what test() does. */
int finish(struct end *end, void *request, int *sizes);

enum { UNTOUCHED = 0xA5 }; /* what memory has before a message arrives */
/* Make the bytes of a message, which are other ones for each seed; check those that arrived, and those beside them. */
void fill(struct end *end, size_t at, size_t size, unsigned int seed);
void expect(struct end *end, size_t at, size_t size, unsigned int seed);

/* Nanoseconds of the monotonic clock. */
uint64_t nanoseconds(void);

#endif
