/* Completion queues: the agent sends completions as they come, as many as the queue has room for; they wait here until
 * they are polled, and then the agent gets credit for more.
 *
 * A program that spins on an empty queue would take the processor from the agents that are to fill it, so after some
 * empty polls each sleeps up to a millisecond, and less if a message comes. */
#include <stdlib.h>
#include <string.h>

#include "context.h"

enum { SPINS = 32, SLEEP_MS = 1 };

static struct mrc_cq *queue_numbered(struct mrc_context *context, uint32_t number) {
    struct mrc_cq *queue = context->cqs;
    while (queue && queue->number != number)
        queue = queue->next;
    return queue;
}

/* A queue holds `cqe` completions of requests, as many arrivals, and what may fail or be flushed besides. */
static uint32_t ring_size(int cqe) {
    uint32_t size = 1;
    while (size < 2 * (uint32_t)cqe + SEND_DEPTH + MAX_RECEIVES)
        size *= 2;
    return size;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ibv, int cqe, void *cq_context, struct ibv_comp_channel *channel,
                             int vector) {
    struct mrc_context *context = context_of(ibv);
    if (cqe < 1 || cqe > MAX_CQE || vector < 0 || vector >= ibv->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    struct mrc_cq *queue = calloc(1, sizeof *queue);
    uint32_t size = ring_size(cqe);
    struct ibv_wc *entries = calloc(size, sizeof *entries);
    int error = queue && entries ? 0 : ENOMEM;
    pthread_mutex_lock(&context->lock);
    if (!error)
        error = agent_request(&context->agent, -1, "{\"op\":\"create_cq\",\"capacity\":%d}", cqe);
    if (!error) {
        queue->number = (uint32_t)json_number(context->agent.answer, "result", 0);
        queue->entries = entries;
        queue->size = size;
        queue->cq = (struct ibv_cq){
            .context = ibv, .channel = channel, .cq_context = cq_context, .handle = queue->number, .cqe = cqe};
        pthread_mutex_init(&queue->cq.mutex, NULL);
        pthread_cond_init(&queue->cq.cond, NULL);
        queue->next = context->cqs;
        context->cqs = queue;
        if (channel)
            channel->refcnt++;
    }
    pthread_mutex_unlock(&context->lock);
    if (failed(error)) {
        free(queue);
        free(entries);
        return NULL;
    }
    return &queue->cq;
}

static void unlink_queue(struct mrc_context *context, struct mrc_cq *queue) {
    struct mrc_cq **place = &context->cqs;
    while (*place != queue)
        place = &(*place)->next;
    *place = queue->next;
    if (queue->cq.channel) {
        mrc_channel_forget(queue);
        queue->cq.channel->refcnt--;
    }
}

int ibv_destroy_cq(struct ibv_cq *cq) {
    struct mrc_cq *queue = (struct mrc_cq *)cq;
    struct mrc_context *context = context_of(cq->context);
    pthread_mutex_lock(&context->lock);
    int error = agent_request(&context->agent, -1, "{\"op\":\"destroy_cq\",\"cq\":%u}", queue->number);
    if (context->agent.lost)
        error = 0;
    if (!error)
        unlink_queue(context, queue);
    pthread_mutex_unlock(&context->lock);
    if (error)
        return failed(error == EINVAL ? EBUSY : error);
    pthread_mutex_lock(&cq->mutex); /* until all events that were fetched are acknowledged */
    while (cq->comp_events_completed != queue->events)
        pthread_cond_wait(&cq->cond, &cq->mutex);
    pthread_mutex_unlock(&cq->mutex);
    free(queue->entries);
    free(queue);
    return 0;
}

/* Count a completion for its queue pair, if it is of the present life. */
static void count(struct mrc_context *context, const struct ibv_wc *entry, int is_signaled) {
    struct mrc_qp *pair = mrc_find_qp(context, entry->qp_num);
    if (!pair)
        return;
    if (pair->earlier) {
        pair->earlier--;
        return;
    }
    if (entry->status != IBV_WC_SUCCESS)
        pair->qp.qp_base.state = IBV_QPS_ERR;
    if (entry->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        mrc_send_completed(context, pair, is_signaled);
    else if (pair->receives)
        pair->receives--;
}

/* `is_solicited`: it notifies also who is armed for solicited completions only, as failures do. */
static void add(struct mrc_cq *queue, const struct ibv_wc *entry, int is_solicited) {
    if (queue->tail - queue->head == queue->size)
        return; /* more than the agent may send: it has forgotten the queue's capacity */
    queue->entries[queue->tail++ & (queue->size - 1)] = *entry;
    if (queue->armed && (is_solicited || !queue->solicited_only))
        mrc_channel_notify(queue);
}

void mrc_on_completion(void *owner, const struct agent_completion *from) {
    struct mrc_context *context = owner;
    struct mrc_cq *queue = queue_numbered(context, from->cq);
    if (!queue)
        return;
    struct ibv_wc entry = {.wr_id = from->wr_id, .qp_num = from->qpn, .byte_len = from->length};
    if (from->opcode == 1) {
        entry.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        entry.wc_flags = IBV_WC_WITH_IMM;
        entry.imm_data = htobe32(from->imm);
    } else {
        entry.opcode = IBV_WC_RDMA_WRITE;
    }
    count(context, &entry, 1);
    add(queue, &entry, (from->flags & POST_SOLICITED) != 0);
}

static enum ibv_wc_status status_named(const char *name) {
    static const struct {
        const char *name;
        enum ibv_wc_status status;
    } known[] = {
        {"local_protection_error", IBV_WC_LOC_PROT_ERR}, {"remote_access_error", IBV_WC_REM_ACCESS_ERR},
        {"remote_operation_error", IBV_WC_REM_OP_ERR},   {"retry_exceeded", IBV_WC_RETRY_EXC_ERR},
        {"flushed", IBV_WC_WR_FLUSH_ERR},                {"remote_invalid_request_error", IBV_WC_REM_INV_REQ_ERR},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name))
            return known[i].status;
    return IBV_WC_GENERAL_ERR;
}

void mrc_on_failure(void *owner, const char *json) {
    struct mrc_context *context = owner;
    struct mrc_cq *queue = queue_numbered(context, (uint32_t)json_number(json, "cq", 0));
    if (!queue)
        return;
    char text[64];
    struct ibv_wc entry = {
        .wr_id = json_number(json, "wr_id", 0),
        .qp_num = (uint32_t)json_number(json, "qpn", 0),
        .status = status_named(json_text(json, "status", text, sizeof text)),
        .opcode = IBV_WC_RDMA_WRITE,
    };
    if (!strcmp(json_text(json, "opcode", text, sizeof text), "recv_write_with_imm"))
        entry.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    count(context, &entry, json_true(json, "signaled"));
    add(queue, &entry, 1);
}

static void return_credit(struct mrc_context *context, struct mrc_cq *queue) {
    struct {
        struct agent_header header;
        struct agent_credit credit;
    } message = {{.kind = AGENT_CREDIT}, {queue->number, queue->taken}};
    if (!agent_send(&context->agent, &message, sizeof message, -1))
        queue->taken = 0;
}

int mrc_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *entries) {
    struct mrc_cq *queue = (struct mrc_cq *)cq;
    struct mrc_context *context = context_of(cq->context);
    pthread_mutex_lock(&context->lock);
    if (queue->head == queue->tail) {
        agent_receive(&context->agent);
        if (queue->head == queue->tail && queue->empty >= SPINS && !context->agent.lost) {
            pthread_mutex_unlock(&context->lock); /* others may post meanwhile */
            agent_wait(&context->agent, SLEEP_MS);
            pthread_mutex_lock(&context->lock);
            agent_receive(&context->agent);
        }
    }
    int taken = 0;
    while (taken < count && queue->head != queue->tail)
        entries[taken++] = queue->entries[queue->head++ & (queue->size - 1)];
    queue->empty = taken ? 0 : queue->empty + 1;
    queue->taken += (uint32_t)taken;
    if (queue->taken && queue->taken * 4 >= (uint32_t)cq->cqe)
        return_credit(context, queue);
    if (!taken && context->agent.lost)
        taken = -1;
    pthread_mutex_unlock(&context->lock);
    return taken;
}

int mrc_req_notify_cq(struct ibv_cq *cq, int solicited_only) {
    struct mrc_cq *queue = (struct mrc_cq *)cq;
    struct mrc_context *context = context_of(cq->context);
    if (!cq->channel)
        return EINVAL;
    pthread_mutex_lock(&context->lock);
    queue->solicited_only = solicited_only && (!queue->armed || queue->solicited_only); /* the wider request counts */
    queue->armed = 1;
    if (context->agent.lost)
        mrc_channel_notify(queue); /* nothing else will: the next poll says that the agent is gone */
    pthread_mutex_unlock(&context->lock);
    return 0;
}
