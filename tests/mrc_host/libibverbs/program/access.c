/* qp_access_flags: the peer may write only to a queue pair that grants it, whatever the region allows. */
#include <errno.h>
#include <string.h>

#include "ends.h"

static int flags_of(struct end *end) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(end->qp, &attr, IBV_QP_ACCESS_FLAGS, &init));
    return attr.qp_access_flags;
}

static int allow(struct end *end, int flags, int mask) {
    struct ibv_qp_attr attr = {.qp_state = end->qp->state, .qp_access_flags = flags};
    return ibv_modify_qp(end->qp, &attr, mask | IBV_QP_ACCESS_FLAGS);
}

static void write_ends_with(struct end *a, struct end *b, enum ibv_wc_status status) {
    struct ibv_sge piece;
    struct ibv_send_wr request = write_request(a, b, &piece, 0, 0, 5000, 7);
    memset(b->memory, 0, b->size);
    memset(a->memory, 1, 5000);
    post(a, &request);
    struct ibv_wc entry = wait_completion(a);
    CHECK(entry.wr_id == 7 && entry.status == status);
    CHECK(b->memory[0] == (status == IBV_WC_SUCCESS) && b->memory[4999] == b->memory[0]);
}

static void forbidden_from_init(struct end *a, struct end *b) {
    to_state(b, IBV_QPS_RESET);
    CHECK(!flags_of(b));
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
    CHECK(ibv_modify_qp(b->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT) == EINVAL);
    CHECK(b->qp->state == IBV_QPS_RESET);
    CHECK(allow(b, IBV_ACCESS_REMOTE_WRITE, 0) == EINVAL);
    CHECK(!ibv_modify_qp(b->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    connect_from_init(a, b);
    CHECK(flags_of(b) == IBV_ACCESS_LOCAL_WRITE);
    write_ends_with(a, b, IBV_WC_REM_INV_REQ_ERR);
}

void access_flags(struct end *a, struct end *b) {
    write_ends_with(a, b, IBV_WC_SUCCESS);
    forbidden_from_init(a, b);
    connect_ends(a, b); /* of the life before nothing is left */
    CHECK(flags_of(b) == IBV_ACCESS_REMOTE_WRITE);
    write_ends_with(a, b, IBV_WC_SUCCESS);
    CHECK(!allow(b, 0, 0) && !flags_of(b) && !allow(b, IBV_ACCESS_REMOTE_WRITE, IBV_QP_STATE));
    CHECK(flags_of(b) == IBV_ACCESS_REMOTE_WRITE);
    write_ends_with(a, b, IBV_WC_SUCCESS);
    CHECK(!allow(b, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, 0));
    write_ends_with(a, b, IBV_WC_REM_INV_REQ_ERR);
    to_state(b, IBV_QPS_ERR);
    CHECK(allow(b, IBV_ACCESS_REMOTE_WRITE, 0) == EINVAL);
}
