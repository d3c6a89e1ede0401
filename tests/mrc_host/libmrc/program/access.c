/* qp_access_flags of mrc_modify_qp(): given, they decide whether the peer may write; not given, it may. */
#include <errno.h>
#include <string.h>

#include "mrc_ends.h"

static int flags_of(struct end *end) {
    struct ibv_qp_attr attr;
    CHECK(!mrc_query_qp(end->qp, &attr, IBV_QP_ACCESS_FLAGS, NULL, 0, NULL));
    return attr.qp_access_flags;
}

static int allow(struct end *end, int flags) {
    struct ibv_qp_attr attr = {.qp_access_flags = flags};
    return mrc_modify_qp(end->qp, &attr, IBV_QP_ACCESS_FLAGS, NULL, 0);
}

static void write_ends_with(struct end *a, struct end *b, enum ibv_wc_status status) {
    memset(b->memory, 0, SIZE);
    memset(a->memory, 1, 5000);
    CHECK(!post_write(a, b, 0, 5000, 7, 0));
    struct ibv_wc entry = wait_completion(a->cq);
    CHECK(entry.wr_id == 7 && entry.status == status);
    CHECK(b->memory[0] == (status == IBV_WC_SUCCESS) && b->memory[4999] == b->memory[0]);
}

static void forbidden_from_init(struct end *a, struct end *b) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    struct mrc_qp_attr more = {.profile.ev_profile_id = 0};
    next_life();
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL) && !step(b, IBV_QPS_RESET, NULL, 0, NULL) && !flags_of(b));
    CHECK(!step(a, IBV_QPS_INIT, NULL, 0, NULL));
    CHECK(!mrc_modify_qp(b->qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, &more, MRC_QP_EV_PROFILE_ID));
    CHECK(!step(a, IBV_QPS_RTR, NULL, 0, b) && !step(b, IBV_QPS_RTR, NULL, 0, a));
    CHECK(!step(a, IBV_QPS_RTS, NULL, 0, NULL) && !step(b, IBV_QPS_RTS, NULL, 0, NULL));
    CHECK(!flags_of(b));
    write_ends_with(a, b, IBV_WC_REM_INV_REQ_ERR);
}

void access_flags(struct end *a, struct end *b) {
    CHECK(flags_of(b) == IBV_ACCESS_REMOTE_WRITE);
    write_ends_with(a, b, IBV_WC_SUCCESS);
    forbidden_from_init(a, b);
    connect_ends(a, b); /* of the life before nothing is left */
    CHECK(flags_of(b) == IBV_ACCESS_REMOTE_WRITE);
    CHECK(!allow(b, 0) && !flags_of(b) && !allow(b, IBV_ACCESS_REMOTE_WRITE));
    write_ends_with(a, b, IBV_WC_SUCCESS);
    CHECK(!allow(b, IBV_ACCESS_LOCAL_WRITE));
    write_ends_with(a, b, IBV_WC_REM_INV_REQ_ERR);
    CHECK(!step(b, IBV_QPS_RESET, NULL, 0, NULL) && allow(b, IBV_ACCESS_REMOTE_WRITE) == EINVAL);
}
