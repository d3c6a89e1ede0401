/* Posting: requests become the agent's records, as many in a message as there are. What a device without READ, SEND and
 * atomic operations refuses is refused here.
 *
 * A message is sent wholly or not at all, and holds whole requests, so the first request of the message that could not be
 * sent is the `bad` one, and those before it are posted. */
#include <stdio.h>
#include <string.h>

#include "context.h"

static int sendable(const struct ibv_qp *qp) {
    return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR;
}

static int flush(struct mrc_qp *pair) {
    struct mrc_context *context = context_of(pair->qp.qp_base.context);
    if (!pair->batched)
        return 0;
    pair->batch.header = (struct agent_header){.kind = AGENT_POST};
    int error = agent_send(&context->agent, &pair->batch, AGENT_HEADER + pair->batched * sizeof *pair->batch.posts, -1);
    pair->batched = 0;
    return error;
}

/* The send queue: what is posted, and which completion takes it away again. */

static int has_room(const struct mrc_context *context, const struct mrc_qp *pair) {
    return pair->posted - pair->completed < pair->signaled_size && context->outstanding < AGENT_CLIENT_PENDING_LIMIT;
}

static void count_posted(struct mrc_context *context, struct mrc_qp *pair, int signaled) {
    pair->posted++;
    context->outstanding++;
    if (signaled)
        pair->signaled[pair->signaled_tail++ % pair->signaled_size] = pair->posted;
}

void mrc_send_completed(struct mrc_context *context, struct mrc_qp *pair, int signaled) {
    if (pair->completed == pair->posted)
        return;
    uint32_t upto = pair->completed + 1; /* the failure of an unsignaled request */
    if (signaled && pair->signaled_head != pair->signaled_tail)
        upto = pair->signaled[pair->signaled_head++ % pair->signaled_size];
    context->outstanding -= upto - pair->completed;
    pair->completed = upto;
}

/* Begin a request; its memory follows. */
static void begin(struct mrc_qp *pair, uint64_t wr_id, unsigned int flags, uint32_t rkey, uint64_t remote, int with_imm,
                  uint32_t imm) {
    struct agent_post post = {
        .wr_id = wr_id,
        .qpn = pair->qp.qp_base.qp_num,
        .opcode = with_imm != 0,
        .remote_address = remote,
        .rkey = rkey,
    };
    if (pair->init.sq_sig_all || flags & IBV_SEND_SIGNALED)
        post.flags |= POST_SIGNALED;
    if (with_imm) {
        post.flags |= POST_HAS_IMM | (flags & IBV_SEND_SOLICITED ? POST_SOLICITED : 0);
        post.imm = imm;
    }
    pair->current = pair->batched;
    pair->batch.posts[pair->batched++] = post;
}

static int lengths_fit(const struct ibv_sge *pieces, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += pieces[i].length;
    return total <= UINT32_MAX;
}

/* The memory of the request begun last: all pieces but the last become records of their own before it. */
static int gather(struct mrc_qp *pair, const struct ibv_sge *pieces, size_t count) {
    if (count > pair->init.cap.max_send_sge || !lengths_fit(pieces, count))
        return EINVAL;
    struct agent_post request = pair->batch.posts[pair->current];
    pair->batched = pair->current;
    for (size_t i = 0; i < count || !i; i++) {
        struct agent_post record = i + 1 < count ? (struct agent_post){.qpn = request.qpn, .flags = POST_PIECE} : request;
        if (count) {
            record.local_address = pieces[i].addr;
            record.lkey = pieces[i].lkey;
            record.length = pieces[i].length;
        }
        pair->batch.posts[pair->batched++] = record;
    }
    return 0;
}

struct inline_message {
    struct agent_header header;
    struct agent_post post;
    char bytes[MAX_INLINE];
} __attribute__((packed));

/* The request begun last carries its bytes itself: a message of its own, after those before it. */
static int fill_inline(struct mrc_qp *pair, const struct ibv_sge *pieces, size_t count, struct inline_message *message) {
    message->header = (struct agent_header){.kind = AGENT_POST_INLINE};
    message->post = pair->batch.posts[pair->current];
    uint32_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].length > pair->init.cap.max_inline_data - length)
            return EINVAL;
        memcpy(message->bytes + length, (void *)(uintptr_t)pieces[i].addr, pieces[i].length);
        length += pieces[i].length;
    }
    message->post.length = length;
    return 0;
}

static int send_inline(struct mrc_qp *pair, const struct inline_message *message) {
    size_t size = sizeof *message - MAX_INLINE + message->post.length;
    return agent_send(&context_of(pair->qp.qp_base.context)->agent, message, size, -1);
}

/* Add one request to the message, or send it as one; *unsent is the first request of the message, *send_error why that
 * could not be sent. */
static int post_one(struct mrc_context *context, struct mrc_qp *pair, struct ibv_send_wr *request,
                    struct ibv_send_wr **unsent, int *send_error) {
    int with_imm = request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (!with_imm && request->opcode != IBV_WR_RDMA_WRITE)
        return refuse_opcode(request->opcode);
    if (request->num_sge < 0 || request->num_sge > MAX_SGE || (request->num_sge && !request->sg_list))
        return EINVAL;
    if (!has_room(context, pair))
        return ENOMEM;
    int is_inline = (request->send_flags & IBV_SEND_INLINE) != 0, error = 0;
    size_t count = (size_t)request->num_sge;
    if (pair->batched + MAX_SGE > POSTS_PER_MESSAGE || is_inline) {
        *send_error = flush(pair);
        if (*send_error)
            return *send_error;
        *unsent = request;
    }
    begin(pair, request->wr_id, request->send_flags, request->wr.rdma.rkey, request->wr.rdma.remote_addr, with_imm,
          be32toh(request->imm_data));
    int signaled = pair->batch.posts[pair->current].flags & POST_SIGNALED;
    if (is_inline) {
        struct inline_message message;
        error = fill_inline(pair, request->sg_list, count, &message);
        pair->batched = pair->current;
        error = error ? error : send_inline(pair, &message);
        *unsent = error ? request : request->next;
    } else {
        error = gather(pair, request->sg_list, count);
        if (error)
            pair->batched = pair->current;
    }
    if (!error)
        count_posted(context, pair, signaled);
    return error;
}

/* Take back what was counted from `request` on: it was not sent. */
static void count_unsent(struct mrc_context *context, struct mrc_qp *pair, const struct ibv_send_wr *request,
                         const struct ibv_send_wr *end) {
    for (; request != end; request = request->next) {
        pair->posted--;
        context->outstanding--;
        if (pair->init.sq_sig_all || request->send_flags & IBV_SEND_SIGNALED)
            pair->signaled_tail--;
    }
}

int mrc_post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    struct mrc_context *context = context_of(qp->context);
    struct ibv_send_wr *unsent = request;
    pthread_mutex_lock(&context->lock);
    int error = context->agent.lost ? EIO : 0, send_error = 0;
    if (!error && request && pair->posted - pair->completed >= pair->signaled_size)
        agent_receive(&context->agent);
    while (request && !error) {
        error = sendable(qp) ? post_one(context, pair, request, &unsent, &send_error) : EINVAL;
        if (!error)
            request = request->next;
    }
    if (!send_error)
        send_error = flush(pair);
    if (send_error) {
        count_unsent(context, pair, unsent, request);
        request = unsent;
        error = send_error;
    }
    pthread_mutex_unlock(&context->lock);
    if (error && bad)
        *bad = request;
    return failed(error);
}

static int post_receives(struct mrc_context *context, const struct mrc_qp *pair, const uint64_t *wr_ids, size_t count) {
    char list[256 * 21];
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%llu", i ? "," : "",
                                   (unsigned long long)wr_ids[i]);
    return agent_request(&context->agent, -1, "{\"op\":\"post_recv\",\"qpn\":%u,\"wr_ids\":[%s]}", pair->qp.qp_base.qp_num,
                         list);
}

/* Receives have no memory of their own here: each is a number that an arriving WRITE_WITH_IMM takes. */
int mrc_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **bad) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    struct mrc_context *context = context_of(qp->context);
    int error = 0;
    pthread_mutex_lock(&context->lock);
    while (request && !error) {
        uint64_t wr_ids[256];
        struct ibv_recv_wr *first = request;
        size_t count = 0;
        while (request && count < 256 && pair->receives + count < pair->init.cap.max_recv_wr &&
               request->num_sge <= (int)pair->init.cap.max_recv_sge) {
            wr_ids[count++] = request->wr_id;
            request = request->next;
        }
        if (qp->state == IBV_QPS_RESET || (!count && request && request->num_sge > (int)pair->init.cap.max_recv_sge))
            error = EINVAL;
        else
            error = count ? post_receives(context, pair, wr_ids, count) : ENOMEM;
        if (error)
            request = first;
        else
            pair->receives += (uint32_t)count;
    }
    pthread_mutex_unlock(&context->lock);
    if (error && bad)
        *bad = request;
    return failed(error);
}

/* ---- the extended API: a request is begun by wr_rdma_write, gets its memory, and leaves with wr_complete ---- */

/* Requests between wr_start and wr_complete are posted together or not at all, as long as they fit one message. */

static void write_begins(struct mrc_qp *pair, uint32_t rkey, uint64_t remote, int with_imm, uint32_t imm) {
    struct mrc_context *context = context_of(pair->qp.qp_base.context);
    if (pair->batch_error)
        return;
    if (!has_room(context, pair) || pair->batched + MAX_SGE > POSTS_PER_MESSAGE) {
        pair->batch_error = ENOMEM;
        return;
    }
    begin(pair, pair->qp.wr_id, pair->qp.wr_flags, rkey, remote, with_imm, imm);
    count_posted(context, pair, pair->batch.posts[pair->current].flags & POST_SIGNALED);
}

static void wr_start(struct ibv_qp_ex *qp) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    struct mrc_context *context = context_of(qp->qp_base.context);
    pthread_mutex_lock(&context->lock);
    pair->batched = 0;
    pair->started_posted = pair->posted;
    pair->started_signaled = pair->signaled_tail;
    pair->batch_error = context->agent.lost ? EIO : sendable(&qp->qp_base) ? 0 : EINVAL;
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote) {
    write_begins((struct mrc_qp *)qp, rkey, remote, 0, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote, __be32 imm) {
    write_begins((struct mrc_qp *)qp, rkey, remote, 1, be32toh(imm));
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *pieces) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    if (!pair->batch_error)
        pair->batch_error = gather(pair, pieces, count);
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t address, uint32_t length) {
    struct ibv_sge piece = {.addr = address, .length = length, .lkey = lkey};
    wr_set_sge_list(qp, 1, &piece);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *buffers) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    struct inline_message message;
    struct ibv_sge pieces[MAX_SGE];
    if (count > MAX_SGE)
        pair->batch_error = EINVAL;
    for (size_t i = 0; i < count && !pair->batch_error; i++) {
        pieces[i] = (struct ibv_sge){.addr = (uintptr_t)buffers[i].addr, .length = (uint32_t)buffers[i].length};
        if (buffers[i].length > MAX_INLINE)
            pair->batch_error = EINVAL;
    }
    if (pair->batch_error)
        return;
    pair->batch_error = fill_inline(pair, pieces, count, &message);
    pair->batched = pair->current;
    if (!pair->batch_error)
        pair->batch_error = flush(pair);
    if (!pair->batch_error)
        pair->batch_error = send_inline(pair, &message);
    if (!pair->batch_error) {
        pair->started_posted = pair->posted;
        pair->started_signaled = pair->signaled_tail;
    }
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *address, size_t length) {
    struct ibv_data_buf buffer = {.addr = address, .length = length};
    wr_set_inline_data_list(qp, 1, &buffer);
}

static void give_up(struct mrc_qp *pair) {
    context_of(pair->qp.qp_base.context)->outstanding -= pair->posted - pair->started_posted;
    pair->posted = pair->started_posted;
    pair->signaled_tail = pair->started_signaled;
    pair->batched = 0;
}

static int wr_complete(struct ibv_qp_ex *qp) {
    struct mrc_qp *pair = (struct mrc_qp *)qp;
    int error = pair->batch_error ? pair->batch_error : flush(pair);
    if (error)
        give_up(pair);
    pthread_mutex_unlock(&context_of(qp->qp_base.context)->lock);
    return failed(error);
}

static void wr_abort(struct ibv_qp_ex *qp) {
    give_up((struct mrc_qp *)qp);
    pthread_mutex_unlock(&context_of(qp->qp_base.context)->lock);
}

void mrc_set_extended_operations(struct mrc_qp *pair) {
    struct ibv_qp_ex *qp = &pair->qp;
    qp->wr_start = wr_start;
    qp->wr_rdma_write = wr_rdma_write;
    qp->wr_rdma_write_imm = wr_rdma_write_imm;
    qp->wr_set_sge = wr_set_sge;
    qp->wr_set_sge_list = wr_set_sge_list;
    qp->wr_set_inline_data = wr_set_inline_data;
    qp->wr_set_inline_data_list = wr_set_inline_data_list;
    qp->wr_complete = wr_complete;
    qp->wr_abort = wr_abort;
}
