/* Asynchronous events: those of the verbs device, of its port and of the queue pairs of one context. */
#include "objects.h"

static struct mrc_qp *pair_of(struct mrc_context *mrc, const struct ibv_qp *verbs) {
    pthread_mutex_lock(&mrc->lock);
    struct mrc_qp *pair = mrc->qps;
    while (pair && pair->verbs != verbs)
        pair = pair->next;
    pthread_mutex_unlock(&mrc->lock);
    return pair;
}

int mrc_get_async_event(struct mrc_context *mrc, struct mrc_async_event *event) {
    if (!mrc || !event)
        return minus_one(EINVAL);
    for (;;) {
        struct ibv_async_event verbs;
        if (ibv_get_async_event(mrc->verbs, &verbs))
            return -1;
        *event = (struct mrc_async_event){.event_type = verbs.event_type};
        if (verbs.event_type == IBV_EVENT_QP_FATAL)
            event->element.qp = pair_of(mrc, verbs.element.qp);
        else
            event->element.port_num = verbs.element.port_num;
        ibv_ack_async_event(&verbs);
        if (verbs.event_type != IBV_EVENT_QP_FATAL || event->element.qp)
            return 0; /* else it is of a queue pair that this context has not */
    }
}

void mrc_ack_async_event(struct mrc_async_event *event) {
    (void)event; /* a queue pair may be destroyed before: nothing here refers to it */
}
