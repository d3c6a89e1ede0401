/* The MRC API from C. usage: test_program CASE AGENT_A AGENT_B */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_cases.h"
#include "mrc_ends.h"

static void device(struct end *a, struct end *b) {
    struct mrc_device_attr attr, same;
    int supported = 0;
    uint32_t current = 0, oldest = 1, vendor = 0, oldest_vendor = 1;
    CHECK(!mrc_query_device(a->verbs, &attr, &supported) && supported);
    CHECK(attr.mrc_protocol_version == MRC_PROTOCOL_VERSION_1);
    CHECK(attr.wimm_attr.max_wimm == 32767 && attr.wimm_attr.max_wimm_dest == 32767);
    CHECK(attr.mpr_attr.max_mpr == 255 && attr.mpr_attr.mpr_resolution == 1);
    CHECK(attr.cap == (MRC_DEVICE_CAP_TRIM_NACK | MRC_DEVICE_CAP_DYNAMIC_MPR | MRC_DEVICE_CAP_SVC_TIME));
    CHECK(!mrc_query_device_ex(a->verbs, a->mrc, &same, &supported) && same.cap == attr.cap);
    CHECK(mrc_query_device_ex(a->verbs, b->mrc, &same, &supported) == -1 && errno == EINVAL);
    mrc_query_version(&current, &oldest, &vendor, &oldest_vendor);
    CHECK(current == 0x01000001 && oldest == 0 && vendor == 0x01000000 && oldest_vendor == 0);
    mrc_query_version(NULL, NULL, NULL, NULL);
    static const uint32_t accepted[] = {0, 1, 0x01000000, 0x01000001, 0xFFFFFFFF}, refused[] = {0x01000002, 0x02000000};
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        struct mrc_context *mrc = mrc_create_context(a->verbs, &(struct mrc_context_attr){accepted[i], 0});
        CHECK(mrc && !mrc_destroy_context(mrc));
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(!mrc_create_context(a->verbs, &(struct mrc_context_attr){refused[i], 0}) && errno == EINVAL);
}

static void writes(struct end *a, struct end *b) {
    for (size_t i = 0; i < SIZE; i++)
        a->memory[i] = (unsigned char)(i * 2654435761u >> 13);
    CHECK(!post_write(a, b, 4097, 500001, 1, 0));
    wait_success(a, 1);
    CHECK(!memcmp(b->memory + 4097, a->memory + 4097, 500001) && !b->memory[4096] && !b->memory[504098]);
    CHECK(!post_receive(b, 70) && !post_receive(b, 71));
    CHECK(!post_write(a, b, 0, 3000, 2, 1));
    CHECK(!post_write(a, b, 0, 0, 3, 1)); /* of no bytes */
    wait_success(a, 2);
    wait_success(a, 3);
    for (uint32_t i = 0; i < 2; i++) {
        struct ibv_wc entry = wait_completion(b->cq);
        CHECK(entry.opcode == IBV_WC_RECV_RDMA_WITH_IMM && be32toh(entry.imm_data) == 2 + i && entry.wr_id == 70 + i);
        CHECK(entry.byte_len == (i ? 0 : 3000));
    }
    struct ibv_send_wr *bad, read = {.opcode = IBV_WR_RDMA_READ};
    CHECK(mrc_post_send(a->qp, &read, &bad) == EOPNOTSUPP && bad == &read && errno == EOPNOTSUPP);
    struct ibv_recv_wr *bad_receive, many[DEPTH + 1];
    for (size_t i = 0; i <= DEPTH; i++)
        many[i] = (struct ibv_recv_wr){.wr_id = i, .next = i < DEPTH ? &many[i + 1] : NULL};
    CHECK(mrc_post_recv(b->qp, many, &bad_receive) == -1 && errno == ENOMEM && bad_receive == &many[DEPTH]);
}

static void attributes(struct end *a, struct end *b) {
    const int all = MRC_QP_MAX_WIMM | MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR | MRC_QP_MPR_DEST | MRC_QP_TIMEOUT |
                    MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID | MRC_QP_HINT | MRC_QP_RETRY_CNT | MRC_QP_CAP |
                    MRC_QP_VENDOR_CFG;
    struct mrc_qp_attr known, early = {.mpr = {9, 10}, .wimm = {11, 12}, .vendor_cfg = "mine"};
    struct mrc_qp_attr late = {.timeout = 17, .retry = {3, 5}, .cap = MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED};
    struct ibv_qp_attr verbs;
    struct mrc_qp_init_attr init;
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL));
    CHECK(!mrc_query_qp(a->qp, &verbs, IBV_QP_STATE, &known, all, &init));
    CHECK(verbs.qp_state == IBV_QPS_RESET && init.send_cq == a->cq && init.pd == a->pd && !known.qp_hint);
    CHECK(known.mpr.mpr == 8 && known.wimm.max_wimm_dest == 128 && known.timeout == 14); /* the NIC's defaults */
    CHECK(known.retry.linear_cnt == 7 && known.retry.exp_cnt == 25 && !known.cap);
    struct mrc_qp_hint *hint = mrc_create_qp_hint(a->mrc, &(struct mrc_qp_hint_init_attr){{.num_send_peers = 3}});
    CHECK(hint);
    early.qp_hint = hint;
    CHECK(!step(a, IBV_QPS_INIT, &early,
                MRC_QP_HINT | MRC_QP_MPR | MRC_QP_MPR_DEST | MRC_QP_MAX_WIMM | MRC_QP_VENDOR_CFG, NULL));
    CHECK(mrc_destroy_qp_hint(hint) == -1 && errno == EBUSY);
    CHECK(step(a, IBV_QPS_RTR, &early, MRC_QP_HINT, b) == EINVAL); /* its step is done */
    CHECK(step(a, IBV_QPS_RTR, &early, MRC_QP_MAX_WIMM_DEST, b) == EINVAL); /* with PSNs of the life before */
    next_life();
    CHECK(!step(a, IBV_QPS_RTR, &early, MRC_QP_MAX_WIMM_DEST, b));
    CHECK(mrc_modify_qp(a->qp, NULL, 0, &early, MRC_QP_MPR_DEST) == EINVAL);
    late.retry.exp_cnt = 26;
    CHECK(mrc_modify_qp(a->qp, NULL, 0, &late, MRC_QP_RETRY_CNT) == EINVAL);
    late.retry.exp_cnt = 5;
    CHECK(!mrc_modify_qp(a->qp, NULL, 0, &late, MRC_QP_RETRY_CNT)); /* without a step, ahead of its own */
    CHECK(!step(a, IBV_QPS_RTS, &late, MRC_QP_TIMEOUT | MRC_QP_CAP, NULL));
    CHECK(!mrc_query_qp(a->qp, &verbs, IBV_QP_STATE, &known, all, NULL) && verbs.qp_state == IBV_QPS_RTS);
    CHECK(known.mpr.mpr == 9 && known.mpr.mpr_dest == 10 && known.wimm.max_wimm == 11 &&
          known.wimm.max_wimm_dest == 12);
    CHECK(known.timeout == 17 && known.retry.linear_cnt == 3 && known.retry.exp_cnt == 5 && known.qp_hint == hint);
    CHECK(known.cap == MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED && !strcmp((char *)known.vendor_cfg, "mine"));
    verbs = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_INIT};
    CHECK(mrc_modify_qp(a->qp, &verbs, IBV_QP_STATE | IBV_QP_CUR_STATE, NULL, 0) == EINVAL);
    CHECK(mrc_modify_qp(a->qp, &verbs, IBV_QP_ALT_PATH, NULL, 0) == EOPNOTSUPP);
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL)); /* forgets them */
    CHECK(!mrc_destroy_qp_hint(hint));
    struct mrc_qp_attr unknown = {.profile = {.ev_profile_id = 4711}};
    CHECK(step(a, IBV_QPS_INIT, &unknown, MRC_QP_EV_PROFILE_ID, NULL) == ENOENT);
    unknown.profile.cc_profile_id = 4711;
    CHECK(step(a, IBV_QPS_INIT, &unknown, MRC_QP_CC_PROFILE_ID, NULL) == EINVAL);
    CHECK(step(a, IBV_QPS_INIT, &unknown, 1 << 20, NULL) == EINVAL);
    CHECK(step(a, IBV_QPS_INIT, NULL, MRC_QP_MPR, NULL) == EINVAL);
    CHECK(!step(a, IBV_QPS_INIT, NULL, 0, NULL));
}

static void hints(struct end *a, struct end *b) {
    (void)b;
    struct mrc_qp_hint_init_attr init = {{.num_qps_per_peer = 1, .num_send_peers = 2, .num_remote_recv_peers = 3}};
    struct mrc_qp_hint_attr attr = {.num_qps_per_peer = -1};
    struct mrc_qp_hint *hint = mrc_create_qp_hint(a->mrc, &init);
    CHECK(hint && mrc_modify_qp_hint(hint, &attr, MRC_QP_HINT_NUM_QPS_PER_PEER) == -1 && errno == EINVAL);
    attr = (struct mrc_qp_hint_attr){.num_qps_per_peer = 8, .num_send_peers = 9};
    CHECK(!mrc_modify_qp_hint(hint, &attr, MRC_QP_HINT_NUM_SEND_PEERS));
    attr = (struct mrc_qp_hint_attr){.num_qps_per_peer = 77};
    CHECK(!mrc_query_qp_hint(hint, &attr, MRC_QP_HINT_NUM_SEND_PEERS | MRC_QP_HINT_NUM_REMOTE_RECV_PEERS));
    CHECK(attr.num_qps_per_peer == 77 && attr.num_send_peers == 9 && attr.num_remote_recv_peers == 3);
    CHECK(mrc_query_qp_hint(hint, &attr, 1 << 5) == -1 && errno == EINVAL);
    static struct mrc_qp_hint *all[1024];
    size_t count = 0;
    while (count < 1024 && (all[count] = mrc_create_qp_hint(a->mrc, &init)))
        count++;
    CHECK(count == 1023 && errno == ENOMEM); /* 1024 with the first: mrc_query_device() says so */
    while (count)
        CHECK(!mrc_destroy_qp_hint(all[--count]));
    CHECK(!mrc_destroy_qp_hint(hint));
}

static void order(struct end *a, struct end *b) {
    (void)b;
    CHECK(mrc_destroy_context(a->mrc) == -1 && errno == EBUSY);
    CHECK(ibv_close_device(a->verbs) == EBUSY);
    CHECK(mrc_destroy_cq(a->cq) == EBUSY && errno == EBUSY);
    CHECK(mrc_destroy_comp_channel(a->channel) == EBUSY);
    struct mrc_qp *others[3];
    for (int i = 0; i < 3; i++)
        CHECK((others[i] = another_qp(a)));
    CHECK(!mrc_destroy_qp(others[1]) && !mrc_destroy_qp(others[0]) && !mrc_destroy_qp(others[2]));
    struct mrc_context *second = mrc_create_context(a->verbs, NULL);
    CHECK(second && !mrc_destroy_context(second));
}

static void wrong(struct end *a, struct end *b) {
    struct mrc_device_attr device;
    struct mrc_qp_init_attr init = {.send_cq = a->cq, .recv_cq = b->cq, .pd = a->pd, .cap = {.max_send_wr = 1}};
    struct ibv_wc entry;
    struct mrc_cq *cq;
    void *context;
    int number;
    uint32_t qpn;
    CHECK(mrc_query_device(NULL, &device, &number) == -1 && mrc_query_device(a->verbs, NULL, &number) == -1);
    CHECK(mrc_query_device(a->verbs, &device, NULL) == -1 && errno == EINVAL);
    CHECK(!mrc_create_context(NULL, NULL) && mrc_destroy_context(NULL) == -1);
    CHECK(mrc_create_comp_channel(a->mrc, NULL) == EINVAL && mrc_create_comp_channel(NULL, &b->channel) == EINVAL);
    CHECK(mrc_get_comp_channel_fd(NULL, &number) == -1 && mrc_get_comp_channel_fd(a->channel, NULL) == -1);
    CHECK(mrc_destroy_comp_channel(NULL) == EINVAL && mrc_destroy_cq(NULL) == EINVAL && mrc_destroy_qp(NULL) == EINVAL);
    static const int sizes[] = {0, -1, 65537, INT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CHECK(!mrc_create_cq(a->mrc, sizes[i], NULL, NULL, 0) && errno == EINVAL);
    CHECK(!mrc_create_cq(a->mrc, 1, NULL, NULL, 1) && !mrc_create_cq(NULL, 1, NULL, NULL, 0));
    CHECK(!mrc_create_cq(a->mrc, 1, NULL, b->channel, 0) && errno == EINVAL); /* of another device */
    CHECK(mrc_poll_cq(NULL, 1, &entry) == -1 && mrc_poll_cq(a->cq, 1, NULL) == -1 &&
          mrc_poll_cq(a->cq, -1, &entry) == -1);
    CHECK(!mrc_poll_cq(a->cq, 0, NULL) && mrc_req_notify_cq(NULL, 0) == EINVAL);
    CHECK(mrc_get_cq_event(NULL, &cq, &context) == -1 && mrc_get_cq_event(a->channel, NULL, &context) == -1);
    mrc_ack_cq_events(NULL, 1);
    CHECK(!mrc_create_qp_hint(NULL, NULL) && !mrc_create_qp_hint(a->mrc, NULL) && mrc_destroy_qp_hint(NULL) == -1);
    CHECK(mrc_query_qp_hint(NULL, NULL, 0) == -1 && mrc_modify_qp_hint(NULL, NULL, 0) == -1);
    CHECK(!mrc_create_qp(NULL, &init) && !mrc_create_qp(a->mrc, NULL) && !mrc_create_qp(a->mrc, &init) &&
          errno == EINVAL);
    init.recv_cq = a->cq;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    CHECK(!mrc_create_qp(a->mrc, &init) && errno == EOPNOTSUPP);
    init.send_ops_flags = 0;
    init.protocol_version = (enum mrc_protocol_version)2;
    CHECK(!mrc_create_qp(a->mrc, &init) && errno == EINVAL);
    init.protocol_version = MRC_PROTOCOL_VERSION_0;
    init.cap.max_send_wr = UINT32_MAX;
    CHECK(!mrc_create_qp(a->mrc, &init) && errno == EINVAL);
    init.cap.max_send_wr = 1;
    init.pd = b->pd;
    CHECK(!mrc_create_qp(a->mrc, &init) && errno == EINVAL);
    CHECK(mrc_query_qp(NULL, NULL, 0, NULL, 0, NULL) == EINVAL &&
          mrc_query_qp(a->qp, NULL, 1, NULL, 0, NULL) == EINVAL);
    CHECK(mrc_query_qp(a->qp, NULL, 0, NULL, MRC_QP_MPR, NULL) == EINVAL &&
          !mrc_query_qp(a->qp, NULL, 0, NULL, 0, NULL));
    CHECK(mrc_modify_qp(NULL, NULL, 0, NULL, 0) == EINVAL && mrc_modify_qp(a->qp, NULL, 1, NULL, 0) == EINVAL);
    CHECK(mrc_get_qpn(NULL, &qpn) == -1 && mrc_get_qpn(a->qp, NULL) == -1 && errno == EINVAL);
    CHECK(mrc_post_send(NULL, NULL, NULL) == EINVAL && mrc_post_recv(NULL, NULL, NULL) == -1);
    CHECK(mrc_get_async_event(NULL, NULL) == -1);
    mrc_ack_async_event(NULL);
    struct ibv_send_wr *bad, absent = {.opcode = IBV_WR_RDMA_WRITE, .num_sge = 1};
    CHECK(mrc_post_send(a->qp, &absent, &bad) == EINVAL && bad == &absent); /* no list of pieces */
    CHECK(mrc_post_send(a->qp, &absent, NULL) == EINVAL);
}

static void channel(struct end *a, struct end *b) {
    struct mrc_cq *cq;
    void *context;
    int fd;
    CHECK(!mrc_get_comp_channel_fd(a->channel, &fd) && fd >= 0);
    for (int i = 0; i < 3; i++) {
        CHECK(!mrc_req_notify_cq(a->cq, 0));
        CHECK(!post_write(a, b, 0, 100, 5, 0));
        CHECK(!mrc_get_cq_event(a->channel, &cq, &context) && cq == a->cq);
        CHECK(context == (void *)77);
        mrc_ack_cq_events(cq, 1);
        wait_success(a, 5);
    }
}

static void fail(struct end *a, struct end *b) {
    struct mrc_qp_attr attr = {.timeout = 4, .retry = {1, 0}};
    next_life();
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL) && !step(a, IBV_QPS_INIT, NULL, 0, NULL));
    CHECK(!step(a, IBV_QPS_RTR, NULL, 0, b));
    CHECK(!step(a, IBV_QPS_RTS, &attr, MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT, NULL));
    CHECK(!step(b, IBV_QPS_RESET, NULL, 0, NULL)); /* nobody answers */
    CHECK(!post_write(a, b, 0, 100, 6, 0));
    struct ibv_wc entry = wait_completion(a->cq);
    CHECK(entry.wr_id == 6 && (entry.status == IBV_WC_RETRY_EXC_ERR || entry.status == IBV_WC_REM_OP_ERR));
}

static void failure(struct end *a, struct end *b) {
    struct mrc_async_event event;
    struct ibv_async_event of_verbs;
    fail(a, b);
    CHECK(!mrc_get_async_event(a->mrc, &event));
    CHECK(event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == a->qp);
    mrc_ack_async_event(&event);
    fail(a, b);
    CHECK(!ibv_get_async_event(a->verbs, &of_verbs) && of_verbs.event_type == IBV_EVENT_QP_FATAL);
    CHECK(of_verbs.element.qp->qp_context == (void *)78); /* as mrc_create_qp() was given it */
    ibv_ack_async_event(&of_verbs);
}

static void *churn(void *argument) {
    struct end *end = argument;
    for (int i = 0; i < 50; i++) {
        struct mrc_qp *qp = another_qp(end);
        struct mrc_qp_hint *hint = mrc_create_qp_hint(end->mrc, &(struct mrc_qp_hint_init_attr){0});
        struct mrc_cq *cq = mrc_create_cq(end->mrc, 10, NULL, NULL, 0);
        CHECK(qp && hint && cq);
        CHECK(!mrc_destroy_cq(cq) && !mrc_destroy_qp_hint(hint) && !mrc_destroy_qp(qp));
    }
    return NULL;
}

static void threads(struct end *a, struct end *b) {
    pthread_t others[2];
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&others[i], NULL, churn, a));
    for (uint64_t i = 0; i < 200; i++) {
        CHECK(!post_write(a, b, 0, 5000, i, 0));
        wait_success(a, i);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
}

/* The agents are gone, or end the connection at the first post. */
static void lost(struct end *a, struct end *b) {
    struct ibv_wc entry;
    struct mrc_async_event event;
    struct mrc_device_attr device_attr;
    struct mrc_qp_attr attr;
    int supported, taken;
    post_write(a, b, 0, 100, 1, 0);
    do
        taken = mrc_poll_cq(a->cq, 1, &entry);
    while (taken >= 0);
    CHECK(errno == EIO);
    do
        CHECK(!mrc_get_async_event(a->mrc, &event));
    while (event.event_type != IBV_EVENT_DEVICE_FATAL);
    CHECK(post_write(a, b, 0, 100, 1, 0) == EIO && post_receive(a, 1) == -1 && errno == EIO);
    CHECK(mrc_query_device(a->verbs, &device_attr, &supported) == -1 && errno == EIO);
    CHECK(!mrc_create_cq(a->mrc, 1, NULL, NULL, 0) && errno == EIO);
    CHECK(!another_qp(a) && errno == EIO);
    CHECK(mrc_query_qp(a->qp, NULL, 0, &attr, MRC_QP_MPR, NULL) == EIO);
    CHECK(step(a, IBV_QPS_RESET, NULL, 0, NULL) == EIO);
    struct mrc_ctl_device_attr control;
    struct mrc_ctl_port_attr port;
    CHECK(mrc_ctl_query_device(a->verbs, &control) == -1 && errno == EIO);
    mrc_ctl_query_port(a->mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE); /* a connection of its own: an error, or none */
}

/* Until it is killed. */
static void linger(struct end *a, struct end *b) {
    puts("lingers");
    fflush(stdout);
    for (uint64_t i = 0;; i++) {
        CHECK(!post_write(a, b, 0, 5000, i, 0));
        wait_success(a, i);
    }
}

typedef void test_case(struct end *a, struct end *b);

static test_case *case_named(const char *name) {
    static const struct {
        const char *name;
        test_case *run;
    } cases[] = {
        {"device", device},
        {"writes", writes},
        {"attributes", attributes},
        {"hints", hints},
        {"order", order},
        {"wrong", wrong},
        {"channel", channel},
        {"failure", failure},
        {"threads", threads},
        {"lost", lost},
        {"linger", linger},
        {"control_device", control_device},
        {"ports", ports},
        {"plane_ports", plane_ports},
        {"explicit", explicit_profile},
        {"generated", generated_profile},
        {"cc", cc_profile},
        {"probes", probes},
        {"ev_events", ev_events},
        {"control_wrong", control_wrong},
        {"application", application},
        {"controllers", controllers},
        {"control_lost", control_lost},
        {"lives", lives},
        {"access_flags", access_flags},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(name, cases[i].name))
            return cases[i].run;
    return NULL;
}

int main(int count, char **words) {
    CHECK(count == 4);
    test_case *run = case_named(words[1]);
    CHECK(run);
    struct end a = end_on(words[2]), b = end_on(words[3]);
    connect_ends(&a, &b);
    run(&a, &b);
    close_end(&a);
    close_end(&b);
    return 0;
}
