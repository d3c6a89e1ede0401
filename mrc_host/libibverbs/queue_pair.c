/* Queue pairs: created, taken through their states, queried, destroyed. Each step is the agent's verb of that name. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

/* The type of queue pair that MRC_QP_TYPE names: MRC, or a baseline; NULL with errno for any other word. */
static const char *transport(void) {
    static const char *const known[] = {"mrc", "rc", "rc_sr", "rc_ar", "uet"};
    const char *name = getenv("MRC_QP_TYPE");
    if (!name || !*name)
        return known[0];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i]))
            return known[i];
    fprintf(stderr, "libibverbs (MRC): MRC_QP_TYPE is '%.20s': set it to mrc, rc, rc_sr, rc_ar or uet, or leave it out.\n", name);
    errno = EINVAL;
    return NULL;
}

static int check(const struct ibv_qp_init_attr *init) {
    const struct ibv_qp_cap *cap = &init->cap;
    if (init->qp_type != IBV_QPT_RC)
        return refuse_qp_type(init->qp_type);
    if (init->srq)
        return EOPNOTSUPP;
    if (!init->send_cq || !init->recv_cq || cap->max_send_wr > SEND_DEPTH || cap->max_recv_wr > MAX_RECEIVES ||
        cap->max_send_sge > MAX_SGE || cap->max_recv_sge > MAX_SGE || cap->max_inline_data > MAX_INLINE)
        return EINVAL;
    return 0;
}

static struct mrc_qp *allocate(struct ibv_pd *pd, const struct ibv_qp_init_attr *init) {
    struct mrc_qp *pair = calloc(1, sizeof *pair);
    if (!pair)
        return NULL;
    pair->init = *init;
    pair->signaled_size = init->cap.max_send_wr ? init->cap.max_send_wr : 1;
    pair->signaled = calloc(pair->signaled_size, sizeof *pair->signaled);
    if (!pair->signaled) {
        free(pair);
        return NULL;
    }
    struct ibv_qp *qp = &pair->qp.qp_base;
    qp->context = pd->context;
    qp->qp_context = init->qp_context;
    qp->pd = pd;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->state = IBV_QPS_RESET;
    qp->qp_type = init->qp_type;
    pthread_mutex_init(&qp->mutex, NULL);
    pthread_cond_init(&qp->cond, NULL);
    mrc_set_extended_operations(pair);
    return pair;
}

static void release(struct mrc_qp *pair) {
    if (pair)
        free(pair->signaled);
    free(pair);
}

static struct ibv_qp *create(struct ibv_pd *pd, const struct ibv_qp_init_attr *init, const char *type) {
    struct mrc_context *context = context_of(pd->context);
    if (failed(check(init)))
        return NULL;
    struct mrc_qp *pair = allocate(pd, init);
    int error = pair ? 0 : ENOMEM;
    pthread_mutex_lock(&context->lock);
    if (!error)
        error = agent_request(&context->agent, -1,
                              "{\"op\":\"create_qp\",\"pd\":%u,\"qp_type\":\"%s\",\"send_cq\":%u,\"recv_cq\":%u,"
                              "\"attributes\":{}}",
                              pd->handle, type, init->send_cq->handle, init->recv_cq->handle);
    if (!error) {
        pair->qp.qp_base.qp_num = pair->qp.qp_base.handle = (uint32_t)json_number(context->agent.answer, "result", 0);
        pair->next = context->qps;
        context->qps = pair;
    }
    pthread_mutex_unlock(&context->lock);
    if (failed(error)) {
        release(pair);
        return NULL;
    }
    return &pair->qp.qp_base;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init) {
    const char *type = transport();
    return type ? create(pd, init, type) : NULL;
}

struct ibv_qp *mrc_create_qp_of_mrc(struct ibv_pd *pd, struct ibv_qp_init_attr *init) {
    return create(pd, init, "mrc");
}

struct ibv_qp *mrc_create_qp_ex(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *init) {
    const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    const uint64_t carried = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    int others = (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && init->send_ops_flags & ~carried) ||
                 (init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags);
    if (!(init->comp_mask & IBV_QP_INIT_ATTR_PD) || init->comp_mask & ~known || others || init->pd->context != ibv) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    struct ibv_qp_init_attr plain = {
        .qp_context = init->qp_context,
        .send_cq = init->send_cq,
        .recv_cq = init->recv_cq,
        .srq = init->srq,
        .cap = init->cap,
        .qp_type = init->qp_type,
        .sq_sig_all = init->sq_sig_all,
    };
    return create(init->pd, &plain, transport());
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) {
    return &((struct mrc_qp *)qp)->qp;
}

static void forget_posts(struct mrc_context *context, struct mrc_qp *pair) {
    context->outstanding -= pair->posted - pair->completed;
    pair->completed = pair->posted;
    pair->signaled_head = pair->signaled_tail;
    pair->receives = 0;
}

int ibv_destroy_qp(struct ibv_qp *qp) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    struct mrc_context *context = context_of(qp->context);
    pthread_mutex_lock(&context->lock);
    int error = agent_request(&context->agent, -1, "{\"op\":\"destroy_qp\",\"qpn\":%u}", qp->qp_num);
    if (context->agent.lost)
        error = 0;
    if (!error) {
        forget_posts(context, pair);
        mrc_forget_events(context, qp);
        struct mrc_qp **place = &context->qps;
        while (*place != pair)
            place = &(*place)->next;
        *place = pair->next;
    }
    pthread_mutex_unlock(&context->lock);
    if (error)
        return failed(error);
    release(pair);
    return 0;
}

/* What the peer may do, of which there are only writes here, as a further member of an object of changes. */
static const char *access_change(const struct ibv_qp_attr *attr, int mask) {
    if (!(mask & IBV_QP_ACCESS_FLAGS))
        return "";
    return attr->qp_access_flags & IBV_ACCESS_REMOTE_WRITE ? ",\"remote_write\":true" : ",\"remote_write\":false";
}

static int to_rtr(struct mrc_context *context, const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask,
                  const char *changes) {
    const int needed = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if ((mask & needed) != needed || attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096)
        return EINVAL;
    if (!attr->ah_attr.is_global) {
        fprintf(stderr, "libibverbs (MRC): a queue pair needs the peer's GID: give the program a GID index, as in -x 3.\n");
        return EINVAL;
    }
    union ibv_gid peer = attr->ah_attr.grh.dgid;
    uint32_t planes;
    int error = mrc_find_peer(context, &peer, &planes);
    if (error)
        return error;
    char address[INET6_ADDRSTRLEN], only[32] = "";
    inet_ntop(AF_INET6, peer.raw, address, sizeof address);
    if (planes != ALL_PLANES)
        snprintf(only, sizeof only, ",\"planes\":%u", planes);
    return agent_request(&context->agent, -1,
                         "{\"op\":\"modify_qp\",\"qpn\":%u,\"state\":\"rtr\",\"changes\":{\"path_mtu\":%d,"
                         "\"receive_psn\":%u%s%s%s},\"remote\":{\"address\":\"%s\",\"qpn\":%u}}",
                         qp->qp_num, 128 << attr->path_mtu, attr->rq_psn & 0xFFFFFF, changes ? changes : "",
                         access_change(attr, mask), only, address, attr->dest_qp_num & 0xFFFFFF);
}

/* 7 retries are the most that verbs can ask for, and few for a NIC with hundreds of paths to try: the NIC's own number
 * then. A timeout of 0 means none to verbs; 24 (17 s) is the longest here. */
static int to_rts(struct agent *agent, const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask,
                  const char *changes) {
    const int needed = IBV_QP_SQ_PSN | (changes ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT);
    if ((mask & needed) != needed)
        return EINVAL;
    if (changes)
        return agent_request(agent, -1,
                             "{\"op\":\"modify_qp\",\"qpn\":%u,\"state\":\"rts\",\"changes\":{\"send_psn\":%u%s%s}}",
                             qp->qp_num, attr->sq_psn & 0xFFFFFF, changes, access_change(attr, mask));
    unsigned int timeout = attr->timeout < 1 || attr->timeout > 24 ? 24 : attr->timeout;
    char retries[32] = "";
    if (attr->retry_cnt < 7)
        snprintf(retries, sizeof retries, ",\"retry_count\":%u", attr->retry_cnt);
    return agent_request(agent, -1,
                         "{\"op\":\"modify_qp\",\"qpn\":%u,\"state\":\"rts\",\"changes\":{\"send_psn\":%u,"
                         "\"timeout\":%u%s%s}}",
                         qp->qp_num, attr->sq_psn & 0xFFFFFF, timeout, retries, access_change(attr, mask));
}

static int to_state(struct agent *agent, const struct ibv_qp *qp, const char *state) {
    return agent_request(agent, -1, "{\"op\":\"modify_qp\",\"qpn\":%u,\"state\":\"%s\",\"changes\":{}}", qp->qp_num, state);
}

/* Verbs want to be told what the peer may do. Programs for MRC, which only writes, may leave it to the NIC: all. */
static int to_init(struct agent *agent, const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask,
                   const char *changes) {
    if (!changes && !(mask & IBV_QP_ACCESS_FLAGS))
        return EINVAL;
    const char *access = access_change(attr, mask);
    if (!changes || !*changes) /* members of an object begin without a comma */
        changes = access, access = "";
    return agent_request(agent, -1, "{\"op\":\"modify_qp\",\"qpn\":%u,\"state\":\"init\",\"changes\":{%s%s}}", qp->qp_num,
                         *changes ? changes + 1 : "", access);
}

/* As in verbs, what the peer may do can change in INIT and RTS without a step; nothing else that matters here does. */
static int change_access(struct agent *agent, const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask) {
    const char *state = qp->state == IBV_QPS_INIT ? "init" : qp->state == IBV_QPS_RTS ? "rts" : NULL;
    if (!(mask & IBV_QP_ACCESS_FLAGS))
        return 0;
    if (!state)
        return EINVAL;
    return agent_request(agent, -1, "{\"op\":\"modify_qp\",\"qpn\":%u,\"state\":\"%s\",\"changes\":{%s}}", qp->qp_num,
                         state, access_change(attr, mask) + 1);
}

/* A new life begins, of which nothing is known yet; as in verbs, RESET takes no attributes. Completions of the life
 * before may come after the answer, even in the midst of the new one: the agent knows how many, of those that come
 * before it says so none is of the new life. */
static int to_reset(struct mrc_context *context, struct mrc_qp *pair, int mask) {
    struct agent *agent = &context->agent;
    int error = mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE) ? EINVAL : to_state(agent, &pair->qp.qp_base, "reset");
    if (error)
        return error;
    forget_posts(context, pair);
    pair->attr = (struct ibv_qp_attr){0};
    pair->earlier = UINT32_MAX;
    error = agent_request(agent, -1, "{\"op\":\"completions_waiting\",\"qpn\":%u}", pair->qp.qp_base.qp_num);
    pair->earlier = error ? 0 : (uint32_t)json_number(agent->answer, "result", 0);
    return error;
}

static int change_state(struct mrc_context *context, struct mrc_qp *pair, const struct ibv_qp_attr *attr, int mask,
                        const char *changes) {
    struct ibv_qp *qp = &pair->qp.qp_base;
    struct agent *agent = &context->agent;
    int error = EINVAL;
    switch (attr->qp_state) {
    case IBV_QPS_RESET: error = to_reset(context, pair, mask); break;
    case IBV_QPS_INIT: error = to_init(agent, qp, attr, mask, changes); break;
    case IBV_QPS_RTR: error = to_rtr(context, qp, attr, mask, changes); break;
    case IBV_QPS_RTS: error = to_rts(agent, qp, attr, mask, changes); break;
    case IBV_QPS_ERR: error = to_state(agent, qp, "error"); break;
    default: break;
    }
    if (!error)
        qp->state = attr->qp_state;
    return error;
}

/* What ibv_query_qp() answers until the next RESET. */
static void remember(struct ibv_qp_attr *known, const struct ibv_qp_attr *attr, int mask) {
#define REMEMBER(bit, field)                                                                                           \
    if (mask & (bit))                                                                                                  \
    known->field = attr->field
    REMEMBER(IBV_QP_ACCESS_FLAGS, qp_access_flags);
    REMEMBER(IBV_QP_PKEY_INDEX, pkey_index);
    REMEMBER(IBV_QP_PORT, port_num);
    REMEMBER(IBV_QP_AV, ah_attr);
    REMEMBER(IBV_QP_PATH_MTU, path_mtu);
    REMEMBER(IBV_QP_DEST_QPN, dest_qp_num);
    REMEMBER(IBV_QP_RQ_PSN, rq_psn);
    REMEMBER(IBV_QP_SQ_PSN, sq_psn);
    REMEMBER(IBV_QP_TIMEOUT, timeout);
    REMEMBER(IBV_QP_RETRY_CNT, retry_cnt);
    REMEMBER(IBV_QP_RNR_RETRY, rnr_retry);
    REMEMBER(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
    REMEMBER(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
    REMEMBER(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
#undef REMEMBER
}

int mrc_modify_qp_with(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask, const char *changes) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    struct mrc_context *context = context_of(qp->context);
    if (mask & IBV_QP_ALT_PATH)
        return failed(EOPNOTSUPP); /* no automatic path migration: the NIC has all paths in use */
    if ((mask & IBV_QP_PKEY_INDEX && attr->pkey_index) || (mask & IBV_QP_PORT && attr->port_num != 1))
        return failed(EINVAL);
    pthread_mutex_lock(&context->lock);
    int stays = !(mask & IBV_QP_STATE) ||
                (attr->qp_state == qp->state && (qp->state == IBV_QPS_INIT || qp->state == IBV_QPS_RTS));
    int error = stays ? change_access(&context->agent, qp, attr, mask) : change_state(context, pair, attr, mask, changes);
    if (!error)
        remember(&pair->attr, attr, mask);
    if (!error && !stays && attr->qp_state == IBV_QPS_INIT && !(mask & IBV_QP_ACCESS_FLAGS))
        pair->attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE; /* as the NIC has it */
    pthread_mutex_unlock(&context->lock);
    return failed(error);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask) {
    return mrc_modify_qp_with(qp, attr, mask, NULL);
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    struct mrc_context *context = context_of(qp->context);
    (void)mask;
    pthread_mutex_lock(&context->lock);
    agent_receive(&context->agent); /* it may have failed */
    if (context->agent.lost)
        qp->state = IBV_QPS_ERR;
    *attr = pair->attr;
    attr->qp_state = attr->cur_qp_state = qp->state;
    attr->cap = pair->init.cap;
    if (init)
        *init = pair->init;
    pthread_mutex_unlock(&context->lock);
    return 0;
}

struct mrc_qp *mrc_find_qp(struct mrc_context *context, uint32_t qpn) {
    struct mrc_qp *pair = context->qps;
    while (pair && pair->qp.qp_base.qp_num != qpn)
        pair = pair->next;
    return pair;
}
