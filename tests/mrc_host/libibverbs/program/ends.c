#include "ends.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

void fail_check(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", file, line, what, errno);
    exit(1);
}

struct end end_on(const char *agent, size_t size, int with_channel) {
    struct end end = {.size = size};
    setenv("MRC_AGENT", agent, 1);
    struct ibv_device **devices = ibv_get_device_list(NULL);
    CHECK(devices && devices[0]);
    end.context = ibv_open_device(devices[0]);
    CHECK(end.context);
    ibv_free_device_list(devices);
    end.pd = ibv_alloc_pd(end.context);
    CHECK(end.pd);
    if (with_channel) {
        end.channel = ibv_create_comp_channel(end.context);
        CHECK(end.channel);
    }
    end.cq = ibv_create_cq(end.context, 4 * DEPTH, NULL, end.channel, 0);
    CHECK(end.cq);
    struct ibv_qp_init_attr init = {
        .send_cq = end.cq,
        .recv_cq = end.cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = MAX_PIECES, .max_recv_sge = 1, .max_inline_data = 256},
    };
    end.qp = ibv_create_qp(end.pd, &init);
    CHECK(end.qp);
    end.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(end.memory != MAP_FAILED);
    end.mr = ibv_reg_mr(end.pd, end.memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(end.mr);
    return end;
}

void close_end(struct end *end) {
    CHECK(!ibv_destroy_qp(end->qp));
    CHECK(!ibv_destroy_cq(end->cq));
    CHECK(!end->mr || !ibv_dereg_mr(end->mr));
    CHECK(!end->channel || !ibv_destroy_comp_channel(end->channel));
    CHECK(!ibv_dealloc_pd(end->pd));
    CHECK(!ibv_close_device(end->context));
    munmap(end->memory, end->size);
}

void to_state(struct end *end, enum ibv_qp_state state) {
    struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? init : 0)));
}

static void to_rtr(struct end *end, const struct end *peer, uint32_t psn) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qp->qp_num,
        .rq_psn = psn,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3, .hop_limit = 64}},
    };
    CHECK(!ibv_query_gid(peer->context, 1, 3, &attr.ah_attr.grh.dgid));
    CHECK(!ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static void to_rts(struct end *end, uint32_t psn) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
    CHECK(!ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_MAX_QP_RD_ATOMIC));
}

void connect_from_init(struct end *a, struct end *b) {
    static uint32_t life;
    struct end *ends[2] = {a, b};
    life++;
    to_state(a, IBV_QPS_RESET);
    to_state(a, IBV_QPS_INIT);
    for (int i = 0; i < 2; i++)
        to_rtr(ends[i], ends[1 - i], life * 100003 + (uint32_t)(1 - i) * 7919);
    for (int i = 0; i < 2; i++)
        to_rts(ends[i], life * 100003 + (uint32_t)i * 7919);
}

void connect_ends(struct end *a, struct end *b) {
    to_state(b, IBV_QPS_RESET);
    to_state(b, IBV_QPS_INIT);
    connect_from_init(a, b);
}

struct ibv_send_wr write_request(const struct end *a, const struct end *b, struct ibv_sge *piece, size_t from, size_t to,
                                 uint32_t length, uint64_t wr_id) {
    *piece = (struct ibv_sge){.addr = (uintptr_t)a->memory + from, .length = length, .lkey = a->mr->lkey};
    return (struct ibv_send_wr){
        .wr_id = wr_id,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list = piece,
        .num_sge = 1,
        .wr.rdma = {.remote_addr = (uintptr_t)b->memory + to, .rkey = b->mr->rkey},
    };
}

void post(struct end *end, struct ibv_send_wr *request) {
    struct ibv_send_wr *bad = NULL;
    CHECK(!ibv_post_send(end->qp, request, &bad));
}

struct ibv_wc wait_completion(struct end *end) {
    struct ibv_wc entry;
    time_t deadline = time(NULL) + 10;
    int count;
    while (!(count = ibv_poll_cq(end->cq, 1, &entry)))
        CHECK(time(NULL) < deadline);
    CHECK(count == 1);
    return entry;
}

void wait_success(struct end *end, uint64_t wr_id) {
    struct ibv_wc entry = wait_completion(end);
    CHECK(entry.status == IBV_WC_SUCCESS);
    CHECK(entry.wr_id == wr_id);
    CHECK(entry.qp_num == end->qp->qp_num);
}

int readable(int fd, int timeout_ms) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, timeout_ms) == 1;
}

void fill(unsigned char *memory, size_t size, unsigned int seed) {
    for (size_t i = 0; i < size; i++)
        memory[i] = (unsigned char)((i + seed) * 2654435761u >> 13);
}
