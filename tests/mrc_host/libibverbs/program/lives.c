/* A queue pair that had lives before, with other attributes, has those of its last life alone, like a new one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"

struct life {
    struct ibv_qp_attr attr;
    int steps; /* 0: RESET only, 3: to RTS */
};

/* First PSNs of lives are far from each other, or the NIC would refuse them for a while. */
static struct life random_life(unsigned int *seed, uint32_t number) {
    struct life life = {.steps = rand_r(seed) % 4};
    life.attr = (struct ibv_qp_attr){
        .path_mtu = IBV_MTU_256 + rand_r(seed) % 5,
        .qp_access_flags = rand_r(seed) % 2 ? IBV_ACCESS_REMOTE_WRITE : 0,
        .rq_psn = ((2 + number) << 20) + (uint32_t)rand_r(seed) % 0x10000,
        .sq_psn = ((2 + number) << 20) + (uint32_t)rand_r(seed) % 0x10000,
        .timeout = (uint8_t)(rand_r(seed) % 32),
        .retry_cnt = (uint8_t)(rand_r(seed) % 8),
        .rnr_retry = (uint8_t)(rand_r(seed) % 8),
        .min_rnr_timer = (uint8_t)(rand_r(seed) % 32),
        .port_num = 1,
    };
    return life;
}

static void begin(struct ibv_qp *qp, const struct end *peer, struct life life) {
    static const int masks[3] = {
        IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER,
        IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
    };
    static const enum ibv_qp_state states[3] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    life.attr.dest_qp_num = peer->qp->qp_num;
    life.attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3, .hop_limit = 64}};
    CHECK(!ibv_query_gid(peer->context, 1, 3, &life.attr.ah_attr.grh.dgid));
    for (int i = 0; i < life.steps; i++) {
        life.attr.qp_state = states[i];
        CHECK(!ibv_modify_qp(qp, &life.attr, IBV_QP_STATE | masks[i]));
    }
}

static struct ibv_qp_attr known(struct ibv_qp *qp) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(qp, &attr, 0xFFFFF, &init));
    return attr;
}

static void compare(struct ibv_qp *one, struct ibv_qp *two) {
    struct ibv_qp_attr a = known(one), b = known(two);
    CHECK(a.qp_state == b.qp_state && a.path_mtu == b.path_mtu && a.qp_access_flags == b.qp_access_flags);
    CHECK(a.rq_psn == b.rq_psn && a.sq_psn == b.sq_psn && a.dest_qp_num == b.dest_qp_num);
    CHECK(a.timeout == b.timeout && a.retry_cnt == b.retry_cnt && a.rnr_retry == b.rnr_retry);
    CHECK(a.min_rnr_timer == b.min_rnr_timer && a.port_num == b.port_num);
    CHECK(a.ah_attr.is_global == b.ah_attr.is_global);
    CHECK(!memcmp(a.ah_attr.grh.dgid.raw, b.ah_attr.grh.dgid.raw, sizeof a.ah_attr.grh.dgid.raw));
}

/* The test compares what the NIC has of both queue pairs, too, until it closes standard input. */
void lives(struct end *a, struct end *b) {
    const char *given = getenv("SEED");
    unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 10) : 1;
    struct ibv_qp_init_attr init = {.send_cq = a->cq, .recv_cq = a->cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};
    struct ibv_qp *fresh = ibv_create_qp(a->pd, &init);
    CHECK(fresh);
    struct ibv_qp_attr late = {.qp_state = IBV_QPS_RESET, .sq_psn = 7};
    CHECK(ibv_modify_qp(a->qp, &late, IBV_QP_STATE | IBV_QP_SQ_PSN) == EINVAL && a->qp->state == IBV_QPS_RTS);
    to_state(a, IBV_QPS_RESET);
    for (uint32_t i = 0; i < 5; i++) {
        begin(a->qp, b, random_life(&seed, i));
        to_state(a, IBV_QPS_RESET);
        compare(a->qp, fresh);
    }
    struct life last = random_life(&seed, 5);
    last.steps = 3;
    begin(a->qp, b, last);
    begin(fresh, b, last);
    compare(a->qp, fresh);
    printf("ready\n");
    fflush(stdout);
    getchar();
    CHECK(!ibv_destroy_qp(fresh));
}

static void post_many(struct end *a, const struct end *b, uint64_t wr_id, int count) {
    struct ibv_sge piece;
    for (int i = 0; i < count; i++) {
        struct ibv_send_wr request = write_request(a, b, &piece, 0, 0, 100, wr_id);
        post(a, &request);
    }
}

/* A life is reset while its completions fill the queue, so that those which are flushed come in the midst of the next
 * life: they change neither its state nor what its send queue holds. */
void flushed_late(struct end *a, struct end *b) {
    enum { SMALL = 16 };
    struct ibv_cq *before = a->cq;
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = SMALL, .max_recv_wr = SMALL, .max_send_sge = 1}};
    CHECK(!ibv_destroy_qp(a->qp) && !ibv_destroy_cq(before));
    a->cq = init.send_cq = init.recv_cq = ibv_create_cq(a->context, SMALL, NULL, a->channel, 0);
    CHECK(a->cq);
    a->qp = ibv_create_qp(a->pd, &init);
    CHECK(a->qp);
    connect_ends(a, b);
    b->memory[99] = 0;
    a->memory[99] = 1;
    post_many(a, b, 1, SMALL);
    while (!*(volatile unsigned char *)&b->memory[99])
        ;
    to_state(b, IBV_QPS_RESET); /* it answers nothing */
    struct ibv_recv_wr receive = {.wr_id = 2}, *bad;
    CHECK(!ibv_post_recv(a->qp, &receive, &bad));
    connect_ends(a, b);
    post_many(a, b, 3, SMALL);
    to_state(b, IBV_QPS_RESET);
    connect_ends(a, b);
    post_many(a, b, 4, SMALL);
    for (int old = 2 * SMALL + 1, new = SMALL; new;) {
        struct ibv_wc entry = wait_completion(a);
        CHECK(a->qp->state == IBV_QPS_RTS);
        *(entry.wr_id == 4 ? &new : &old) -= 1;
        CHECK(old >= 0 && (entry.wr_id != 4 || (!old && entry.status == IBV_WC_SUCCESS)));
    }
    /* There is room for as many again, and no more; posted at once, or the first might be completed before the last. */
    struct ibv_sge piece;
    struct ibv_send_wr list[SMALL + 1], *unsent;
    for (int i = 0; i <= SMALL; i++) {
        list[i] = write_request(a, b, &piece, 0, 0, 100, 5);
        list[i].next = i < SMALL ? &list[i + 1] : NULL;
    }
    CHECK(ibv_post_send(a->qp, list, &unsent) == ENOMEM && unsent == &list[SMALL]);
    for (int i = 0; i < SMALL; i++)
        wait_success(a, 5);
}
