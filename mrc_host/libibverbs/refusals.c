/* Refusals of what MRC lacks. The error is EOPNOTSUPP, which programs report as a number or not at all, so the reason is
 * printed as well, once in a process for each operation: a program may post thousands. */
#include <stdio.h>

#include "context.h"

enum { OPERATION = 32 }; /* types of queue pairs take the bits from here on, operations those before */

static void print_once(unsigned bit, const char *kind, const char *name, const char *offered) {
    static uint64_t printed;
    uint64_t mask = 1ULL << (bit % 64);
    if (!(__atomic_fetch_or(&printed, mask, __ATOMIC_RELAXED) & mask))
        fprintf(stderr, "libibverbs (MRC): MRC has no %s%s, only %s: refused.\n", kind, name, offered);
}

int refuse_opcode(enum ibv_wr_opcode opcode) {
    const char *const names[] = {
        [IBV_WR_SEND] = "SEND",
        [IBV_WR_SEND_WITH_IMM] = "SEND with immediate data",
        [IBV_WR_RDMA_READ] = "RDMA READ",
        [IBV_WR_ATOMIC_CMP_AND_SWP] = "atomic compare and swap",
        [IBV_WR_ATOMIC_FETCH_AND_ADD] = "atomic fetch and add",
    };
    const char *name = (unsigned)opcode < sizeof names / sizeof *names ? names[opcode] : NULL;
    unsigned bit = name ? opcode : OPERATION - 1;
    print_once(bit, "", name ? name : "such operation", "RDMA WRITE, with and without immediate data");
    return EOPNOTSUPP;
}

int refuse_qp_type(enum ibv_qp_type type) {
    const char *name = type == IBV_QPT_UC ? "unreliable connected (UC)" : type == IBV_QPT_UD ? "datagram (UD)" : "such";
    unsigned bit = OPERATION + (type == IBV_QPT_UC ? 0 : type == IBV_QPT_UD ? 1 : 2);
    print_once(bit, name, " queue pairs", "reliable connected ones (RC)");
    return EOPNOTSUPP;
}
