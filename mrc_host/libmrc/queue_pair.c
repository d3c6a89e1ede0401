/* Queue pairs: those of verbs, with the attributes of MRC. Their transport is MRC, whatever MRC_QP_TYPE says. */
#include <stdlib.h>
#include <string.h>

#include "objects.h"

/* What mrc_modify_qp() takes no account of: MRC has its own, or none. Programs give them all the same. */
static const int IGNORED = IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
                           IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;

static int check(const struct mrc_context *mrc, const struct mrc_qp_init_attr *init) {
    const uint64_t carried = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    if (!init->pd || !init->send_cq || !init->recv_cq || init->pd->context != mrc->verbs ||
        init->send_cq->mrc->verbs != mrc->verbs || init->recv_cq->mrc->verbs != mrc->verbs || init->send_cq->events ||
        init->recv_cq->events)
        return EINVAL;
    if (init->protocol_version != MRC_PROTOCOL_VERSION_0 && init->protocol_version != MRC_PROTOCOL_VERSION_1)
        return EINVAL;
    return init->send_ops_flags & ~carried ? EOPNOTSUPP : 0;
}

static int create(struct mrc_context *mrc, struct mrc_qp_init_attr *init, struct mrc_qp *pair) {
    struct ibv_qp_init_attr attr = {
        .qp_context = init->qp_context, /* applications may read events of verbs too */
        .send_cq = init->send_cq->verbs,
        .recv_cq = init->recv_cq->verbs,
        .cap = init->cap,
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = init->sq_sig_all,
    };
    pair->verbs = verbs()->create_qp(init->pd, &attr);
    if (!pair->verbs)
        return errno;
    pair->mrc = mrc;
    pair->init = *init;
    pthread_mutex_init(&pair->lock, NULL);
    pthread_mutex_lock(&mrc->lock);
    mrc->objects++;
    pair->next = mrc->qps;
    mrc->qps = pair;
    pthread_mutex_unlock(&mrc->lock);
    return 0;
}

struct mrc_qp *mrc_create_qp(struct mrc_context *mrc, struct mrc_qp_init_attr *init) {
    int error = mrc && init ? check(mrc, init) : EINVAL;
    struct mrc_qp *pair = error ? NULL : calloc(1, sizeof *pair);
    if (!error)
        error = pair ? create(mrc, init, pair) : ENOMEM;
    if (!error)
        return pair;
    free(pair);
    errno = error;
    return NULL;
}

int mrc_destroy_qp(struct mrc_qp *pair) {
    if (!pair)
        return error_is(EINVAL);
    struct mrc_context *mrc = pair->mrc;
    pthread_mutex_lock(&mrc->lock); /* no event may find it while it goes */
    int error = ibv_destroy_qp(pair->verbs);
    if (!error) {
        struct mrc_qp **place = &mrc->qps;
        while (*place != pair)
            place = &(*place)->next;
        *place = pair->next;
        mrc->objects--;
    }
    pthread_mutex_unlock(&mrc->lock);
    if (error)
        return error_is(error);
    use_hint(pair->attr.qp_hint, -1);
    free(pair);
    return 0;
}

static int modify(struct mrc_qp *pair, const struct ibv_qp_attr *verbs_attr, int verbs_mask,
                  const struct mrc_qp_attr *attr, int mask) {
    enum ibv_qp_state from = pair->verbs->state, to = verbs_mask & IBV_QP_STATE ? verbs_attr->qp_state : from;
    if (verbs_mask & IBV_QP_CUR_STATE && verbs_attr->cur_qp_state != from)
        return EINVAL;
    if (verbs_mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE))
        return EOPNOTSUPP; /* there is no other path to migrate to: all are in use */
    int error = check_attributes(attr, mask, from, to);
    if (!error && mask & MRC_QP_HINT && attr->qp_hint && attr->qp_hint->mrc->verbs != pair->mrc->verbs)
        error = EINVAL;
    if (error)
        return error;
    struct mrc_qp_attr changed = to == IBV_QPS_RESET ? (struct mrc_qp_attr){0} : pair->attr;
    int given = mask | (to == IBV_QPS_RESET ? 0 : pair->given);
    char changes[CHANGES_SIZE];
    if (mask)
        copy_attributes(&changed, attr, mask);
    format_changes(&changed, given, to, changes);
    if (verbs_mask) {
        error = verbs()->modify_qp(pair->verbs, verbs_attr, verbs_mask & ~(IGNORED | IBV_QP_CUR_STATE), changes);
        if (error)
            return error;
    }
    use_hint(changed.qp_hint, 1);
    use_hint(pair->attr.qp_hint, -1);
    pair->attr = changed;
    pair->given = given;
    return 0;
}

int mrc_modify_qp(struct mrc_qp *pair, struct ibv_qp_attr *verbs_attr, int verbs_mask, struct mrc_qp_attr *attr,
                  int mask) {
    if (!pair || (verbs_mask && !verbs_attr))
        return error_is(EINVAL);
    pthread_mutex_lock(&pair->lock);
    int error = modify(pair, verbs_attr, verbs_mask, attr, mask);
    pthread_mutex_unlock(&pair->lock);
    return error ? error_is(error) : 0;
}

static int query_attributes(struct mrc_qp *pair, struct mrc_qp_attr *attr, int mask) {
    char *answer;
    int error = request_verb(pair->mrc->verbs, &answer, "{\"op\":\"query_qp\",\"qpn\":%u}", pair->verbs->qp_num);
    if (error)
        return error;
    struct mrc_qp_attr known;
    parse_attributes(answer, &known);
    free(answer);
    copy_attributes(attr, &known, mask);
    pthread_mutex_lock(&pair->lock);
    copy_attributes(attr, &pair->attr, mask & (pair->given | MRC_QP_HINT | MRC_QP_VENDOR_CFG));
    pthread_mutex_unlock(&pair->lock);
    return 0;
}

int mrc_query_qp(struct mrc_qp *pair, struct ibv_qp_attr *verbs_attr, int verbs_mask, struct mrc_qp_attr *attr,
                 int mask, struct mrc_qp_init_attr *init) {
    if (!pair || (verbs_mask && !verbs_attr) || (mask && !attr))
        return error_is(EINVAL);
    struct ibv_qp_init_attr verbs_init;
    int error = verbs_attr ? ibv_query_qp(pair->verbs, verbs_attr, verbs_mask, &verbs_init) : 0;
    if (!error && mask)
        error = query_attributes(pair, attr, mask);
    if (error)
        return error_is(error);
    if (init)
        *init = pair->init;
    return 0;
}

int mrc_get_qpn(struct mrc_qp *pair, uint32_t *qpn) {
    if (!pair || !qpn)
        return minus_one(EINVAL);
    *qpn = pair->verbs->qp_num;
    return 0;
}

int mrc_post_recv(struct mrc_qp *pair, struct ibv_recv_wr *request, struct ibv_recv_wr **bad) {
    return minus_one(pair && request ? ibv_post_recv(pair->verbs, request, bad) : EINVAL);
}

int mrc_post_send(struct mrc_qp *pair, struct ibv_send_wr *request, struct ibv_send_wr **bad) {
    int error = pair && request ? ibv_post_send(pair->verbs, request, bad) : EINVAL;
    return error ? error_is(error) : 0;
}
