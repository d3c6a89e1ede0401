/* Completion channels and queues: those of verbs, by their names here. */
#include <stdlib.h>

#include "objects.h"

int mrc_create_comp_channel(struct mrc_context *mrc, struct mrc_comp_channel **created) {
    if (!mrc || !created)
        return error_is(EINVAL);
    struct mrc_comp_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return error_is(ENOMEM);
    channel->mrc = mrc;
    channel->verbs = ibv_create_comp_channel(mrc->verbs);
    if (!channel->verbs) {
        int error = errno;
        free(channel);
        return error_is(error);
    }
    add_object(mrc);
    *created = channel;
    return 0;
}

int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel, int *fd) {
    if (!channel || !fd)
        return minus_one(EINVAL);
    *fd = channel->verbs->fd;
    return 0;
}

int mrc_destroy_comp_channel(struct mrc_comp_channel *channel) {
    if (!channel)
        return error_is(EINVAL);
    int error = ibv_destroy_comp_channel(channel->verbs);
    if (error)
        return error_is(error);
    remove_object(channel->mrc);
    free(channel);
    return 0;
}

struct mrc_cq *mrc_create_cq(struct mrc_context *mrc, int cqe, void *cq_context, struct mrc_comp_channel *channel,
                             int vector) {
    if (!mrc || (channel && channel->mrc->verbs != mrc->verbs)) {
        errno = EINVAL;
        return NULL;
    }
    struct mrc_cq *cq = calloc(1, sizeof *cq);
    if (!cq)
        return NULL;
    *cq = (struct mrc_cq){.mrc = mrc, .user_context = cq_context};
    cq->verbs = ibv_create_cq(mrc->verbs, cqe, cq, channel ? channel->verbs : NULL, vector);
    if (!cq->verbs) {
        int error = errno;
        free(cq);
        errno = error;
        return NULL;
    }
    add_object(mrc);
    return cq;
}

int mrc_poll_cq(struct mrc_cq *cq, int count, struct ibv_wc *entries) {
    if (!cq || cq->events || count < 0 || (count && !entries))
        return minus_one(EINVAL);
    int taken = ibv_poll_cq(cq->verbs, count, entries);
    return taken < 0 ? minus_one(EIO) : taken;
}

int mrc_destroy_cq(struct mrc_cq *cq) {
    if (!cq)
        return error_is(EINVAL);
    if (cq->events)
        unlink_ev_queue(cq);
    int error = ibv_destroy_cq(cq->verbs);
    if (error)
        return error_is(error);
    remove_object(cq->mrc);
    free(cq);
    return 0;
}

int mrc_req_notify_cq(struct mrc_cq *cq, int solicited_only) {
    int error = cq ? ibv_req_notify_cq(cq->verbs, solicited_only) : EINVAL;
    return error ? error_is(error) : 0;
}

int mrc_get_cq_event(struct mrc_comp_channel *channel, struct mrc_cq **cq, void **cq_context) {
    if (!channel || !cq || !cq_context)
        return minus_one(EINVAL);
    struct ibv_cq *verbs;
    void *found;
    if (ibv_get_cq_event(channel->verbs, &verbs, &found))
        return -1;
    *cq = found;
    *cq_context = (*cq)->user_context;
    return 0;
}

void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int count) {
    if (cq)
        ibv_ack_cq_events(cq->verbs, count);
}
