/* Queue pair hints: traffic that an application expects. A queue pair takes the numbers when it goes to INIT. */
#include <stdlib.h>
#include <string.h>

#include "objects.h"

static const int KNOWN = MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_SEND_PEERS | MRC_QP_HINT_NUM_REMOTE_RECV_PEERS |
                         MRC_QP_HINT_VENDOR_CFG;

static int in_range(int number) { return number >= 0 && number <= UINT16_MAX; }

static int is_valid(const struct mrc_qp_hint_attr *attr) {
    return in_range(attr->num_qps_per_peer) && in_range(attr->num_send_peers) && in_range(attr->num_remote_recv_peers);
}

static void copy(struct mrc_qp_hint_attr *to, const struct mrc_qp_hint_attr *from, int mask) {
    if (mask & MRC_QP_HINT_NUM_QPS_PER_PEER)
        to->num_qps_per_peer = from->num_qps_per_peer;
    if (mask & MRC_QP_HINT_NUM_SEND_PEERS)
        to->num_send_peers = from->num_send_peers;
    if (mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS)
        to->num_remote_recv_peers = from->num_remote_recv_peers;
    if (mask & MRC_QP_HINT_VENDOR_CFG)
        memcpy(to->vendor_cfg, from->vendor_cfg, sizeof to->vendor_cfg);
}

struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *mrc, struct mrc_qp_hint_init_attr *init) {
    if (!mrc || !init || !is_valid(&init->attr)) {
        errno = EINVAL;
        return NULL;
    }
    struct mrc_qp_hint *hint = calloc(1, sizeof *hint);
    if (!hint)
        return NULL;
    *hint = (struct mrc_qp_hint){.mrc = mrc, .attr = init->attr};
    pthread_mutex_lock(&mrc->lock);
    int is_full = mrc->hints == MAX_QP_HINTS;
    mrc->hints += !is_full;
    mrc->objects += !is_full;
    pthread_mutex_unlock(&mrc->lock);
    if (is_full) {
        free(hint);
        errno = ENOMEM;
        return NULL;
    }
    return hint;
}

int mrc_destroy_qp_hint(struct mrc_qp_hint *hint) {
    if (!hint)
        return minus_one(EINVAL);
    struct mrc_context *mrc = hint->mrc;
    pthread_mutex_lock(&mrc->lock);
    int in_use = hint->users > 0;
    mrc->hints -= !in_use;
    mrc->objects -= !in_use;
    pthread_mutex_unlock(&mrc->lock);
    if (in_use)
        return minus_one(EBUSY);
    free(hint);
    return 0;
}

int mrc_query_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask) {
    if (!hint || !attr || mask & ~KNOWN)
        return minus_one(EINVAL);
    pthread_mutex_lock(&hint->mrc->lock);
    copy(attr, &hint->attr, mask);
    pthread_mutex_unlock(&hint->mrc->lock);
    return 0;
}

int mrc_modify_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask) {
    if (!hint || !attr || mask & ~KNOWN)
        return minus_one(EINVAL);
    pthread_mutex_lock(&hint->mrc->lock);
    struct mrc_qp_hint_attr changed = hint->attr;
    copy(&changed, attr, mask);
    int valid = is_valid(&changed);
    if (valid)
        hint->attr = changed;
    pthread_mutex_unlock(&hint->mrc->lock);
    return valid ? 0 : minus_one(EINVAL);
}

void use_hint(struct mrc_qp_hint *hint, int users) {
    if (!hint)
        return;
    pthread_mutex_lock(&hint->mrc->lock);
    hint->users += (uint32_t)users;
    pthread_mutex_unlock(&hint->mrc->lock);
}
