/* Two connected ends in one process, by the MRC API, each on the NIC of the agent whose socket is named. */
#ifndef MRC_ENDS_H
#define MRC_ENDS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "mrc_ctl_types.h"

#include "mrc_ctl_functions.h"
#include "mrc_functions.h"

struct end {
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct mrc_context *mrc;
    struct mrc_comp_channel *channel;
    struct mrc_cq *cq;
    struct mrc_qp *qp;
    unsigned char *memory;
};

enum { SIZE = 1 << 20, DEPTH = 64 };

/* End the program with a message unless it holds. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_check(__FILE__, __LINE__, #condition);                                                                \
    } while (0)
void fail_check(const char *file, int line, const char *what) __attribute__((noreturn));

struct end end_on(const char *agent);
void close_end(struct end *end);
struct mrc_qp *another_qp(struct end *end);
/* A step of the queue pair with what MRC adds; 0 or an errno. */
int step(struct end *end, enum ibv_qp_state state, struct mrc_qp_attr *attr, int mask, const struct end *peer);
/* The PSNs of RTR and RTS are others from now on. */
void next_life(void);
/* RESET to RTS, towards each other. */
void connect_ends(struct end *a, struct end *b);

/* Write `length` bytes of `a`'s memory to `b`'s, from `at` to `at`; 0 or an errno. */
int post_write(struct end *a, const struct end *b, size_t at, uint32_t length, uint64_t wr_id, int with_imm);
int post_receive(struct end *end, uint64_t wr_id);
/* The next completion, which must come within ten seconds. */
struct ibv_wc wait_completion(struct mrc_cq *cq);
void wait_success(struct end *end, uint64_t wr_id);

/* The cases of these names. */
void lives(struct end *a, struct end *b);
void access_flags(struct end *a, struct end *b);

#endif
