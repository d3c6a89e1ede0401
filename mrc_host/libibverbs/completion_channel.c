/* Completion channels: an eventfd, so that poll() and epoll see when there is an event, and a list of the queues that have
 * one. Events of a queue that nobody fetched yet are one event. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "context.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibv) {
    struct mrc_context *context = context_of(ibv);
    struct mrc_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    channel->channel.context = ibv;
    channel->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (channel->channel.fd < 0) {
        free(channel);
        return NULL;
    }
    pthread_mutex_lock(&context->lock);
    context->channels++;
    mrc_wake_reader(context);
    pthread_mutex_unlock(&context->lock);
    return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv) {
    struct mrc_context *context = context_of(ibv->context);
    pthread_mutex_lock(&context->lock);
    int in_use = ibv->refcnt;
    if (!in_use)
        context->channels--;
    pthread_mutex_unlock(&context->lock);
    if (in_use)
        return EBUSY;
    close(ibv->fd);
    free(ibv);
    return 0;
}

void mrc_channel_notify(struct mrc_cq *queue) {
    struct mrc_channel *channel = (struct mrc_channel *)queue->cq.channel;
    queue->armed = 0;
    if (!channel || queue->is_due)
        return;
    struct mrc_cq **place = &channel->first_due;
    while (*place)
        place = &(*place)->next_due;
    *place = queue;
    queue->is_due = 1;
    queue->next_due = NULL;
    eventfd_write(channel->channel.fd, 1);
}

void mrc_channel_forget(struct mrc_cq *queue) {
    struct mrc_channel *channel = (struct mrc_channel *)queue->cq.channel;
    if (!queue->is_due)
        return;
    struct mrc_cq **place = &channel->first_due;
    while (*place != queue)
        place = &(*place)->next_due;
    *place = queue->next_due;
    queue->is_due = 0;
}

static struct mrc_cq *take_due(struct mrc_channel *channel) {
    struct mrc_cq *queue = channel->first_due;
    if (!queue)
        return NULL;
    channel->first_due = queue->next_due;
    queue->is_due = 0;
    queue->events++;
    return queue;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context) {
    struct mrc_context *context = context_of(ibv->context);
    struct mrc_cq *queue;
    do {
        uint64_t one;
        if (read(ibv->fd, &one, sizeof one) != sizeof one) /* EAGAIN if the application has made it non-blocking */
            return -1;
        pthread_mutex_lock(&context->lock);
        queue = take_due((struct mrc_channel *)ibv);
        pthread_mutex_unlock(&context->lock);
    } while (!queue); /* the event was of a queue that was destroyed */
    *cq = &queue->cq;
    *cq_context = queue->cq.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count) {
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += count;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}
