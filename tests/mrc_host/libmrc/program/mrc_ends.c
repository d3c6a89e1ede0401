#include "mrc_ends.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

void fail_check(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", file, line, what, errno);
    exit(1);
}

struct mrc_qp *another_qp(struct end *end) {
    struct mrc_qp_init_attr init = {
        .qp_context = (void *)78,
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .pd = end->pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
        .protocol_version = MRC_PROTOCOL_VERSION_1,
    };
    return mrc_create_qp(end->mrc, &init);
}

struct end end_on(const char *agent) {
    struct end end = {0};
    setenv("MRC_AGENT", agent, 1);
    struct ibv_device **devices = ibv_get_device_list(NULL);
    CHECK(devices && devices[0]);
    end.verbs = ibv_open_device(devices[0]);
    CHECK(end.verbs);
    ibv_free_device_list(devices);
    end.pd = ibv_alloc_pd(end.verbs);
    CHECK(end.pd);
    end.mrc = mrc_create_context(end.verbs, NULL);
    CHECK(end.mrc);
    CHECK(!mrc_create_comp_channel(end.mrc, &end.channel));
    end.cq = mrc_create_cq(end.mrc, 4 * DEPTH, (void *)77, end.channel, 0);
    CHECK(end.cq);
    end.qp = another_qp(&end);
    CHECK(end.qp);
    end.memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(end.memory != MAP_FAILED);
    end.mr = ibv_reg_mr(end.pd, end.memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(end.mr);
    return end;
}

void close_end(struct end *end) {
    CHECK(!mrc_destroy_qp(end->qp));
    CHECK(!mrc_destroy_cq(end->cq));
    CHECK(!mrc_destroy_comp_channel(end->channel));
    CHECK(!mrc_destroy_context(end->mrc));
    CHECK(!ibv_dereg_mr(end->mr));
    CHECK(!ibv_dealloc_pd(end->pd));
    CHECK(!ibv_close_device(end->verbs));
    munmap(end->memory, SIZE);
}

static uint32_t life;

void next_life(void) { life += 1000003; }

int step(struct end *end, enum ibv_qp_state state, struct mrc_qp_attr *attr, int mask, const struct end *peer) {
    struct ibv_qp_attr verbs = {
        .qp_state = state, .path_mtu = IBV_MTU_1024, .sq_psn = life & 0xFFFFFF, .rq_psn = life & 0xFFFFFF};
    int verbs_mask = IBV_QP_STATE;
    if (state == IBV_QPS_RTR) {
        verbs.ah_attr.is_global = 1;
        verbs_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        CHECK(!ibv_query_gid(peer->verbs, 1, 3, &verbs.ah_attr.grh.dgid));
        CHECK(!mrc_get_qpn(peer->qp, &verbs.dest_qp_num));
    }
    if (state == IBV_QPS_RTS)
        verbs_mask |= IBV_QP_SQ_PSN;
    return mrc_modify_qp(end->qp, &verbs, verbs_mask, attr, mask);
}

void connect_ends(struct end *a, struct end *b) {
    struct end *ends[2] = {a, b};
    next_life();
    for (int i = 0; i < 2; i++) {
        CHECK(!step(ends[i], IBV_QPS_RESET, NULL, 0, NULL));
        CHECK(!step(ends[i], IBV_QPS_INIT, NULL, 0, NULL));
        CHECK(!step(ends[i], IBV_QPS_RTR, NULL, 0, ends[1 - i]));
    }
    for (int i = 0; i < 2; i++)
        CHECK(!step(ends[i], IBV_QPS_RTS, NULL, 0, NULL));
}

int post_write(struct end *a, const struct end *b, size_t at, uint32_t length, uint64_t wr_id, int with_imm) {
    struct ibv_sge piece = {.addr = (uintptr_t)a->memory + at, .length = length, .lkey = a->mr->lkey};
    struct ibv_send_wr *bad = NULL, request = {
                                        .wr_id = wr_id,
                                        .opcode = with_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                                        .send_flags = IBV_SEND_SIGNALED,
                                        .sg_list = length ? &piece : NULL,
                                        .num_sge = length > 0,
                                        .imm_data = htobe32((uint32_t)wr_id),
                                        .wr.rdma = {.remote_addr = (uintptr_t)b->memory + at, .rkey = b->mr->rkey},
                                    };
    return mrc_post_send(a->qp, &request, &bad);
}

int post_receive(struct end *end, uint64_t wr_id) {
    struct ibv_recv_wr *bad, request = {.wr_id = wr_id};
    return mrc_post_recv(end->qp, &request, &bad);
}

struct ibv_wc wait_completion(struct mrc_cq *cq) {
    struct ibv_wc entry;
    time_t deadline = time(NULL) + 10;
    int count;
    while (!(count = mrc_poll_cq(cq, 1, &entry)))
        CHECK(time(NULL) < deadline);
    CHECK(count == 1);
    return entry;
}

void wait_success(struct end *end, uint64_t wr_id) {
    struct ibv_wc entry = wait_completion(end->cq);
    CHECK(entry.status == IBV_WC_SUCCESS);
    CHECK(entry.wr_id == wr_id);
}
