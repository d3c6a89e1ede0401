/* Two connected ends in one process, each on the NIC of the agent whose socket is named. */
#ifndef ENDS_H
#define ENDS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* of the CQ, if wanted */
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    unsigned char *memory; /* `size` bytes of whole pages */
    size_t size;
    struct ibv_mr *mr;
};

/* End the program with a message unless it holds. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_check(__FILE__, __LINE__, #condition);                                                                \
    } while (0)
void fail_check(const char *file, int line, const char *what) __attribute__((noreturn));

enum { DEPTH = 64, MAX_PIECES = 16 };

struct end end_on(const char *agent, size_t size, int with_channel);
void close_end(struct end *end);
/* RESET to RTS, towards each other. */
void connect_ends(struct end *a, struct end *b);
void to_state(struct end *end, enum ibv_qp_state state);
/* The same for `b` from INIT, as it is. */
void connect_from_init(struct end *a, struct end *b);

/* A write from `a`'s memory at `from` to `b`'s at `to`. */
struct ibv_send_wr write_request(const struct end *a, const struct end *b, struct ibv_sge *piece, size_t from, size_t to,
                                 uint32_t length, uint64_t wr_id);
void post(struct end *end, struct ibv_send_wr *request);
/* The next completion, which must come within ten seconds. */
struct ibv_wc wait_completion(struct end *end);
void wait_success(struct end *end, uint64_t wr_id);
/* Whether a descriptor becomes readable within a time. */
int readable(int fd, int timeout_ms);
void fill(unsigned char *memory, size_t size, unsigned int seed);

/* The cases of these names. */
void lives(struct end *a, struct end *b);
void flushed_late(struct end *a, struct end *b);
void access_flags(struct end *a, struct end *b);

#endif
