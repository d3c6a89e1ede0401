/* What perftest does not touch. usage: verbs_test CASE AGENT_A AGENT_B */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum { SIZE = 1 << 20 };

static void gather(struct end *a, struct end *b) {
    struct ibv_sge pieces[MAX_PIECES];
    unsigned char expected[SIZE / 4];
    uint32_t length = 0;
    fill(a->memory, SIZE, 1);
    for (uint32_t i = 0; i < MAX_PIECES; i++) {
        uint32_t size = i == 3 ? 0 : i * 977 + 1; /* odd addresses, one empty */
        pieces[i] = (struct ibv_sge){.addr = (uintptr_t)a->memory + i * 50001, .length = size, .lkey = a->mr->lkey};
        memcpy(expected + length, a->memory + i * 50001, size);
        length += size;
    }
    struct ibv_sge one;
    struct ibv_send_wr request = write_request(a, b, &one, 0, 12345, 0, 1);
    request.sg_list = pieces;
    request.num_sge = MAX_PIECES;
    post(a, &request);
    wait_success(a, 1);
    CHECK(!memcmp(b->memory + 12345, expected, length));
    CHECK(!b->memory[12344] && !b->memory[12345 + length]);
}

static void inlined(struct end *a, struct end *b) {
    char text[] = "inline, from memory that is not registered";
    struct ibv_sge pieces[2] = {{.addr = (uintptr_t)text, .length = 8}, {.addr = (uintptr_t)text + 8, .length = sizeof text - 8}};
    struct ibv_sge one;
    struct ibv_send_wr request = write_request(a, b, &one, 0, 5, 0, 2), big = write_request(a, b, &one, 0, 0, 257, 3);
    request.sg_list = pieces;
    request.num_sge = 2;
    request.send_flags |= IBV_SEND_INLINE;
    post(a, &request);
    text[0] = 'X'; /* it was taken along */
    wait_success(a, 2);
    CHECK(!strcmp((char *)b->memory + 5, "inline, from memory that is not registered"));
    struct ibv_send_wr *bad = NULL;
    big.send_flags |= IBV_SEND_INLINE;
    CHECK(ibv_post_send(a->qp, &big, &bad) == EINVAL && bad == &big);
}

static void empty(struct end *a, struct end *b) {
    struct ibv_sge one;
    struct ibv_send_wr none = write_request(a, b, &one, 0, 0, 0, 4), zero = none;
    none.num_sge = 0;
    none.opcode = zero.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    none.imm_data = htobe32(0xDEADBEEF);
    zero.wr_id = 5;
    none.next = &zero;
    struct ibv_recv_wr receive = {.wr_id = 77}, *bad;
    CHECK(!ibv_post_recv(b->qp, &receive, &bad));
    post(a, &none);
    wait_success(a, 4);
    wait_success(a, 5);
    struct ibv_wc entry = wait_completion(b);
    CHECK(entry.wr_id == 77 && entry.opcode == IBV_WC_RECV_RDMA_WITH_IMM && !entry.byte_len);
    CHECK(entry.wc_flags & IBV_WC_WITH_IMM && be32toh(entry.imm_data) == 0xDEADBEEF);
    CHECK(!wait_completion(b).wr_id); /* no receive was posted for the other */
}

static void receives(struct end *a, struct end *b) {
    struct ibv_recv_wr list[DEPTH + 1], *bad = NULL;
    for (uint64_t i = 0; i <= DEPTH; i++)
        list[i] = (struct ibv_recv_wr){.wr_id = (i << 40) + 9, .next = i < DEPTH ? &list[i + 1] : NULL};
    CHECK(ibv_post_recv(b->qp, list, &bad) == ENOMEM && bad == &list[DEPTH]);
    for (uint64_t i = 0; i < 10; i++) {
        struct ibv_sge one;
        struct ibv_send_wr request = write_request(a, b, &one, 0, 0, 3000, i);
        request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        post(a, &request);
        struct ibv_wc entry = wait_completion(b);
        CHECK(entry.wr_id == (i << 40) + 9 && entry.byte_len == 3000);
        wait_success(a, i);
    }
    CHECK(!ibv_post_recv(b->qp, &list[DEPTH], &bad)); /* there is room again */
    to_state(b, IBV_QPS_ERR);
    for (uint64_t i = 10; i <= DEPTH; i++) {
        struct ibv_wc entry = wait_completion(b);
        CHECK(entry.wr_id == (i << 40) + 9 && entry.status == IBV_WC_WR_FLUSH_ERR);
    }
}

static void bad_requests(struct end *a, struct end *b) {
    static const enum ibv_wr_opcode absent[] = {IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP,
                                                IBV_WR_ATOMIC_FETCH_AND_ADD};
    struct ibv_sge one, many[MAX_PIECES + 1] = {0};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        struct ibv_send_wr list[4], *bad = NULL;
        for (uint64_t n = 0; n < 4; n++) {
            list[n] = write_request(a, b, &one, 0, 0, 100, n);
            list[n].next = n < 3 ? &list[n + 1] : NULL;
        }
        list[2].opcode = absent[i];
        CHECK(ibv_post_send(a->qp, list, &bad) == EOPNOTSUPP && bad == &list[2]);
        wait_success(a, 0); /* those before it are posted */
        wait_success(a, 1);
    }
    struct ibv_send_wr request = write_request(a, b, &one, 0, 0, 100, 1), *bad = NULL;
    request.sg_list = many;
    request.num_sge = MAX_PIECES + 1;
    CHECK(ibv_post_send(a->qp, &request, &bad) == EINVAL && bad == &request);
    request.num_sge = -1;
    CHECK(ibv_post_send(a->qp, &request, &bad) == EINVAL);
    request.num_sge = 1 << 30;
    CHECK(ibv_post_send(a->qp, &request, &bad) == EINVAL);
    many[0].length = many[1].length = UINT32_MAX;
    request.num_sge = 2;
    CHECK(ibv_post_send(a->qp, &request, &bad) == EINVAL);
    struct ibv_wc entry;
    CHECK(ibv_poll_cq(a->cq, 1, &entry) == 0);
}

static void full_queue(struct end *a, struct end *b) {
    struct ibv_sge one;
    struct ibv_send_wr list[DEPTH + 2], *bad = NULL;
    for (int round = 0; round < 3; round++) {
        for (uint64_t n = 0; n < DEPTH + 2; n++) {
            list[n] = write_request(a, b, &one, 0, 0, 2000, n);
            list[n].next = n < DEPTH + 1 ? &list[n + 1] : NULL;
            if (n % 8 != 7) /* one completion for eight requests */
                list[n].send_flags = 0;
        }
        CHECK(ibv_post_send(a->qp, list, &bad) == ENOMEM && bad == &list[DEPTH]);
        for (uint64_t n = 7; n < DEPTH; n += 8)
            wait_success(a, n);
    }
}

static void refused(struct end *a, struct end *b) {
    (void)b;
    struct ibv_qp_init_attr init = {.send_cq = a->cq, .recv_cq = a->cq, .qp_type = IBV_QPT_UD, .cap = {.max_send_wr = 1}};
    CHECK(!ibv_create_qp(a->pd, &init) && errno == EOPNOTSUPP);
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_sge = 17;
    CHECK(!ibv_create_qp(a->pd, &init) && errno == EINVAL);
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1}};
    CHECK(!ibv_create_srq(a->pd, &srq) && errno == EOPNOTSUPP);
    CHECK(!ibv_create_cq(a->context, 0, NULL, NULL, 0) && errno == EINVAL);
    CHECK(ibv_destroy_cq(a->cq) == EBUSY && ibv_dealloc_pd(a->pd) == EBUSY);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR}, found;
    CHECK(ibv_modify_qp(a->qp, &attr, IBV_QP_STATE) == EINVAL);
    CHECK(!ibv_query_qp(a->qp, &found, IBV_QP_STATE, &init));
    CHECK(found.qp_state == IBV_QPS_RTS && found.dest_qp_num == b->qp->qp_num && init.cap.max_send_wr == DEPTH);
    struct ibv_device_attr device;
    CHECK(!ibv_query_device(a->context, &device) && device.atomic_cap == IBV_ATOMIC_NONE && !device.max_qp_rd_atom);
    uint16_t pkey;
    CHECK(!ibv_query_pkey(a->context, 1, 0, &pkey) && pkey == 0xFFFF && ibv_query_pkey(a->context, 1, 1, &pkey) == -1);
}

static void channel(struct end *a, struct end *b) {
    struct ibv_sge one;
    struct ibv_send_wr request = write_request(a, b, &one, 0, 0, 100, 1);
    struct ibv_cq *cq;
    void *context;
    fcntl(a->channel->fd, F_SETFL, O_NONBLOCK);
    CHECK(ibv_get_cq_event(a->channel, &cq, &context) == -1 && errno == EAGAIN);
    post(a, &request);
    wait_success(a, 1);
    CHECK(!readable(a->channel->fd, 0)); /* it was not armed */
    CHECK(!ibv_req_notify_cq(a->cq, 0));
    CHECK(!readable(a->channel->fd, 20));
    post(a, &request);
    CHECK(readable(a->channel->fd, 10000));
    CHECK(!ibv_get_cq_event(a->channel, &cq, &context) && cq == a->cq);
    CHECK(!readable(a->channel->fd, 0));
    wait_success(a, 1);
    post(a, &request); /* armed once only */
    wait_success(a, 1);
    CHECK(!readable(a->channel->fd, 20));
    ibv_ack_cq_events(cq, 1);
    CHECK(!ibv_req_notify_cq(b->cq, 1)); /* solicited only */
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    post(a, &request);
    wait_success(a, 1);
    CHECK(!wait_completion(b).status && !readable(b->channel->fd, 20));
    request.send_flags |= IBV_SEND_SOLICITED;
    post(a, &request);
    CHECK(!ibv_get_cq_event(b->channel, &cq, &context) && cq == b->cq); /* this one blocks */
    ibv_ack_cq_events(cq, 1);
    CHECK(ibv_destroy_comp_channel(b->channel) == EBUSY);
}

static void errors(struct end *a, struct end *b) {
    struct ibv_sge one;
    struct ibv_send_wr wrong = write_request(a, b, &one, 0, 0, 100, 1), next = wrong, *bad = NULL;
    wrong.wr.rdma.rkey ^= 0x5A5A5A;
    wrong.next = &next;
    next.wr_id = 2;
    next.send_flags = 0; /* fails all the same */
    CHECK(!readable(a->context->async_fd, 0));
    post(a, &wrong);
    struct ibv_wc entry = wait_completion(a);
    CHECK(entry.wr_id == 1 && entry.status == IBV_WC_REM_ACCESS_ERR);
    CHECK(!strcmp(ibv_wc_status_str(entry.status), "remote access error"));
    entry = wait_completion(a);
    CHECK(entry.wr_id == 2 && entry.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(readable(a->context->async_fd, 10000));
    struct ibv_async_event event;
    CHECK(!ibv_get_async_event(a->context, &event));
    CHECK(event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == a->qp);
    ibv_ack_async_event(&event);
    struct ibv_qp_attr attr;
    CHECK(!ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &(struct ibv_qp_init_attr){0}) && attr.qp_state == IBV_QPS_ERR);
    wrong.next = NULL;
    post(a, &wrong); /* in ERR requests are flushed */
    CHECK(wait_completion(a).status == IBV_WC_WR_FLUSH_ERR);
    connect_ends(a, b);
    struct ibv_send_wr again = write_request(a, b, &one, 0, 0, 100, 3), local = write_request(a, b, &one, 0, 0, 100, 4);
    post(a, &again);
    wait_success(a, 3);
    struct ibv_sge outside = {.addr = (uintptr_t)a->memory + SIZE - 10, .length = 11, .lkey = a->mr->lkey};
    local.sg_list = &outside;
    post(a, &local);
    CHECK(wait_completion(a).status == IBV_WC_LOC_PROT_ERR);
    to_state(a, IBV_QPS_RESET);
    CHECK(ibv_post_send(a->qp, &again, &bad) == EINVAL && bad == &again);
}

static void extended(struct end *a, struct end *b) {
    struct ibv_qp_init_attr_ex init = {
        .send_cq = a->cq,
        .recv_cq = a->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 8, .max_send_sge = 2, .max_inline_data = 64},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ,
        .pd = a->pd,
    };
    CHECK(!ibv_create_qp_ex(a->context, &init) && errno == EOPNOTSUPP);
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    CHECK(!ibv_create_qp_ex(a->context, &init) && errno == EOPNOTSUPP);
    init.create_flags = 0;
    CHECK(!ibv_destroy_qp(a->qp));
    a->qp = ibv_create_qp_ex(a->context, &init);
    CHECK(a->qp);
    connect_ends(a, b);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a->qp);
    for (int round = 0; round < 5; round++) {
        fill(a->memory, SIZE, (unsigned int)round);
        ibv_wr_start(qp);
        qp->wr_id = 1;
        qp->wr_flags = 0;
        ibv_wr_rdma_write(qp, b->mr->rkey, (uintptr_t)b->memory);
        ibv_wr_set_sge(qp, a->mr->lkey, (uintptr_t)a->memory, 5000);
        qp->wr_id = 2;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write_imm(qp, b->mr->rkey, (uintptr_t)b->memory + 6000, htobe32(5));
        ibv_wr_set_inline_data(qp, a->memory, 64);
        CHECK(!ibv_wr_complete(qp));
        wait_success(a, 2);
        CHECK(be32toh(wait_completion(b).imm_data) == 5);
        CHECK(!memcmp(a->memory, b->memory, 5000) && !memcmp(a->memory, b->memory + 6000, 64));
        ibv_wr_start(qp);
        for (int i = 0; i < 9; i++) { /* one too many */
            ibv_wr_rdma_write(qp, b->mr->rkey, (uintptr_t)b->memory);
            ibv_wr_set_sge(qp, a->mr->lkey, (uintptr_t)a->memory, 1);
        }
        CHECK(ibv_wr_complete(qp) == ENOMEM);
        ibv_wr_start(qp);
        ibv_wr_rdma_write(qp, b->mr->rkey, (uintptr_t)b->memory);
        ibv_wr_abort(qp);
    }
    struct ibv_wc entry;
    CHECK(!ibv_poll_cq(a->cq, 1, &entry));
}

static void send_and_compare(struct end *a, struct end *b, const struct ibv_mr *source, const unsigned char *from,
                             const struct ibv_mr *target, const unsigned char *to, uint32_t length) {
    struct ibv_sge piece = {.addr = (uintptr_t)from, .length = length, .lkey = source->lkey};
    struct ibv_send_wr request = write_request(a, b, &(struct ibv_sge){0}, 0, 0, 0, 9);
    request.sg_list = &piece;
    request.wr.rdma.remote_addr = (uintptr_t)to;
    request.wr.rdma.rkey = target->rkey;
    post(a, &request);
    wait_success(a, 9);
    CHECK(!memcmp(from, to, length));
}

static void memory(struct end *a, struct end *b) {
    enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, PAGE = 4096 };
    fill(a->memory, SIZE, 3);
    /* unaligned, with neighbours that stay */
    unsigned char *heap = malloc(3 * PAGE);
    memset(heap, 0x77, 3 * PAGE);
    struct ibv_mr *odd = ibv_reg_mr(b->pd, heap + 101, PAGE + 3, ALL), *twice = ibv_reg_mr(b->pd, heap + 101, PAGE + 3, ALL);
    struct ibv_mr *overlapping = ibv_reg_mr(b->pd, heap + PAGE, 2 * PAGE, ALL);
    CHECK(odd && twice && overlapping && odd->rkey != twice->rkey);
    send_and_compare(a, b, a->mr, a->memory, odd, heap + 101, PAGE + 3);
    CHECK(heap[100] == 0x77 && heap[101 + PAGE + 3] == 0x77);
    send_and_compare(a, b, a->mr, a->memory + 7, twice, heap + 101, 9);
    send_and_compare(a, b, a->mr, a->memory + 1, overlapping, heap + PAGE, 2 * PAGE);
    CHECK(!ibv_dereg_mr(twice) && !ibv_dereg_mr(odd));
    send_and_compare(a, b, a->mr, a->memory + 9, overlapping, heap + PAGE, 2 * PAGE);
    CHECK(!ibv_dereg_mr(overlapping));
    free(heap);
    /* on the stack, as a source and as a target */
    unsigned char local[300], other[300] = {0};
    memcpy(local, a->memory, sizeof local);
    struct ibv_mr *from = ibv_reg_mr(a->pd, local, sizeof local, 0), *to = ibv_reg_mr(b->pd, other, sizeof other, ALL);
    CHECK(from && to);
    send_and_compare(a, b, from, local, to, other, sizeof local);
    CHECK(!ibv_dereg_mr(from) && !ibv_dereg_mr(to));
    /* unmapped, and mapped again at the same place before the region ends */
    unsigned char *place = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *first = ibv_reg_mr(b->pd, place, 4 * PAGE, ALL);
    CHECK(first);
    munmap(place, 4 * PAGE);
    CHECK(!ibv_reg_mr(b->pd, place, 4 * PAGE, ALL) && errno == EFAULT);
    CHECK(mmap(place, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place);
    struct ibv_mr *second = ibv_reg_mr(b->pd, place, 4 * PAGE, ALL);
    CHECK(second);
    send_and_compare(a, b, a->mr, a->memory, second, place, 4 * PAGE);
    CHECK(!ibv_dereg_mr(first));
    send_and_compare(a, b, a->mr, a->memory + 1, second, place, 4 * PAGE);
    CHECK(!ibv_dereg_mr(second));
    munmap(place, 4 * PAGE);
    /* what cannot be */
    place = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(!ibv_reg_mr(b->pd, place, PAGE, ALL) && errno == EFAULT);
    from = ibv_reg_mr(a->pd, place, PAGE, 0); /* as a source it can */
    CHECK(from && !ibv_dereg_mr(from));
    munmap(place, PAGE);
    place = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(!ibv_reg_mr(b->pd, place, PAGE, ALL) && errno == EOPNOTSUPP);
    munmap(place, PAGE);
    CHECK(!ibv_reg_mr(b->pd, b->memory, 0, ALL) && errno == EINVAL);
    CHECK(!ibv_reg_mr(b->pd, b->memory, SIZE_MAX, ALL) && errno == EINVAL);
    CHECK(!ibv_reg_mr(b->pd, b->memory, PAGE, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
    CHECK(!ibv_reg_mr(b->pd, b->memory, PAGE, IBV_ACCESS_ON_DEMAND) && errno == EOPNOTSUPP);
    /* an address of its choice */
    struct ibv_mr *chosen = ibv_reg_mr_iova(b->pd, b->memory + 33, PAGE, 0x1000, ALL);
    CHECK(chosen);
    struct ibv_sge piece;
    struct ibv_send_wr request = write_request(a, b, &piece, 0, 0, 64, 8);
    request.wr.rdma.remote_addr = 0x1001;
    request.wr.rdma.rkey = chosen->rkey;
    post(a, &request);
    wait_success(a, 8);
    CHECK(!memcmp(a->memory, b->memory + 34, 64) && !ibv_dereg_mr(chosen));
}

static void deregistered_in_flight(struct end *a, struct end *b) {
    struct ibv_sge one;
    struct ibv_send_wr request = write_request(a, b, &one, 0, 0, SIZE, 1);
    post(a, &request);
    post(a, &request);
    CHECK(!ibv_dereg_mr(a->mr)); /* the NIC still reads from it: what it sends are the bytes as they are */
    CHECK(!ibv_dereg_mr(b->mr));
    a->mr = b->mr = NULL;
    munmap(a->memory, SIZE);
    a->memory = mmap(a->memory, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(a->memory != MAP_FAILED);
    struct ibv_wc entry = wait_completion(a);
    CHECK(entry.status == IBV_WC_SUCCESS || entry.status == IBV_WC_REM_ACCESS_ERR || entry.status == IBV_WC_LOC_PROT_ERR);
    wait_completion(a);
}

static void forked(struct end *a, struct end *b) {
    unsigned char *heap = malloc(10000);
    memset(heap, 1, 10000);
    struct ibv_mr *mr = ibv_reg_mr(b->pd, heap + 50, 5000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    b->memory[0] = 42;
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        struct ibv_wc entry;
        free(malloc(500));
        int fine = b->memory[0] == 42 && heap[60] == 1 && heap[9999] == 1;
        memset(b->memory, 99, SIZE);
        memset(heap, 99, 10000);
        fine &= ibv_poll_cq(b->cq, 1, &entry) == -1 && !ibv_alloc_pd(b->context) && errno == EIO;
        struct end own = end_on(getenv("MRC_AGENT"), 8192, 0); /* a device of its own it can open */
        close_end(&own);
        _exit(fine ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(b->memory[0] == 42 && b->memory[SIZE - 1] == 0 && heap[0] == 1 && heap[60] == 1 && heap[9999] == 1);
    fill(a->memory, SIZE, 5);
    send_and_compare(a, b, a->mr, a->memory, b->mr, b->memory, SIZE);
    send_and_compare(a, b, a->mr, a->memory, mr, heap + 50, 5000);
    CHECK(!ibv_dereg_mr(mr));
    free(heap);
}

struct worker {
    struct end *a, *b;
    size_t part;
};

static void *write_part(void *argument) {
    struct worker *worker = argument;
    for (int i = 0; i < 200; i++) {
        struct ibv_sge one;
        size_t at = worker->part * 4096;
        struct ibv_send_wr request = write_request(worker->a, worker->b, &one, at, at, 4096, worker->part), *bad;
        int error;
        while ((error = ibv_post_send(worker->a->qp, &request, &bad)) == ENOMEM)
            ;
        CHECK(!error);
    }
    return NULL;
}

static void threads(struct end *a, struct end *b) {
    enum { WORKERS = 4 };
    pthread_t running[WORKERS];
    struct worker workers[WORKERS];
    unsigned int found[WORKERS] = {0};
    fill(a->memory, SIZE, 8);
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){a, b, i};
        CHECK(!pthread_create(&running[i], NULL, write_part, &workers[i]));
    }
    for (int i = 0; i < 200 * WORKERS; i++)
        found[wait_completion(a).wr_id % WORKERS]++;
    for (size_t i = 0; i < WORKERS; i++) {
        pthread_join(running[i], NULL);
        CHECK(found[i] == 200);
    }
    CHECK(!memcmp(a->memory, b->memory, WORKERS * 4096));
}

/* The agent goes away, or sends nonsense, at the first post: all ends with errors, nothing hangs, all can be closed. */
static void lost(struct end *a, struct end *b) {
    struct ibv_sge one;
    struct ibv_send_wr request = write_request(a, b, &one, 0, 0, 100, 1), *bad = NULL;
    struct ibv_wc entry;
    CHECK(!ibv_req_notify_cq(a->cq, 0));
    post(a, &request);
    struct ibv_cq *cq;
    void *context;
    CHECK(!ibv_get_cq_event(a->channel, &cq, &context) && cq == a->cq);
    ibv_ack_cq_events(cq, 1);
    while (ibv_poll_cq(a->cq, 1, &entry) >= 0)
        ;
    struct ibv_async_event event;
    do
        CHECK(!ibv_get_async_event(a->context, &event));
    while (event.event_type != IBV_EVENT_DEVICE_FATAL);
    CHECK(ibv_post_send(a->qp, &request, &bad) == EIO && bad == &request);
    CHECK(!ibv_alloc_pd(a->context) && errno == EIO);
    struct ibv_recv_wr receive = {0}, *bad_receive = NULL;
    CHECK(ibv_post_recv(a->qp, &receive, &bad_receive) == EIO && bad_receive == &receive);
}

/* The agent stops reading: posting fails with the first request that was not sent, and goes on from there later. */
static void stuck(struct end *a, struct end *b) {
    enum { POSTS = 4000 };
    struct ibv_qp_init_attr init = {
        .send_cq = a->cq, .recv_cq = a->cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 4096, .max_send_sge = MAX_PIECES}};
    CHECK(!ibv_destroy_qp(a->qp));
    a->qp = ibv_create_qp(a->pd, &init);
    CHECK(a->qp);
    connect_ends(a, b);
    struct ibv_sge pieces[MAX_PIECES] = {0};
    struct ibv_send_wr *list = calloc(POSTS, sizeof *list), *bad = list;
    for (uint64_t n = 0; n < POSTS; n++) {
        list[n] = write_request(a, b, pieces, 0, 0, 1, n);
        list[n].num_sge = MAX_PIECES;
        list[n].next = n < POSTS - 1 ? &list[n + 1] : NULL;
    }
    CHECK(ibv_post_send(a->qp, list, &bad) == ENOMEM && bad > list);
    printf("stuck\n");
    fflush(stdout);
    struct ibv_send_wr *from = bad;
    int error;
    while ((error = ibv_post_send(a->qp, from, &bad)) == ENOMEM)
        from = bad;
    CHECK(!error);
    free(list);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(struct end *a, struct end *b);
    } cases[] = {
        {"gather", gather},   {"inline", inlined},   {"empty", empty},         {"receives", receives},
        {"bad", bad_requests}, {"full", full_queue},  {"refused", refused},     {"channel", channel},
        {"errors", errors},   {"extended", extended}, {"memory", memory},       {"in_flight", deregistered_in_flight},
        {"fork", forked},     {"threads", threads},
        {"lost", lost},       {"stuck", stuck},     {"lives", lives},         {"flushed_late", flushed_late},
        {"access_flags", access_flags},
    };
    CHECK(count == 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(words[1], cases[i].name))
            continue;
        struct end a = end_on(words[2], SIZE, 1), b = end_on(words[3], SIZE, 1);
        connect_ends(&a, &b);
        cases[i].run(&a, &b);
        close_end(&a);
        close_end(&b);
        return 0;
    }
    fprintf(stderr, "there is no case %s\n", words[1]);
    return 2;
}
