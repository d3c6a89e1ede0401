/* Probes of single paths: a batch is sent, and each ends with an event, answered or not. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "controller.h"

enum { MAX_DSCP = 63, WAIT_MS = 20, GRACE_MS = 5000 };

struct batch {
    struct controller *controller;
    const struct mrc_ctl_ep_req *requests;
    uint64_t ids[MAX_PROBES]; /* of the probes sent; 0: it has ended */
    int sent, ended;
    struct mrc_ctl_ep_rsp *responses;
    int response_count;
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int check(struct mrc_context *mrc, const struct mrc_ctl_ep_req *requests, int count) {
    union ibv_gid own;
    if (ibv_query_gid(mrc->verbs, 1, 0, &own))
        return EIO;
    for (int i = 0; i < count; i++) {
        uint32_t value;
        if (!ev_value(&requests[i].req_ev, &value) || memcmp(&requests[i].sgid, &own, sizeof own))
            return EINVAL;
        for (int other = 0; other < i; other++)
            if (requests[other].req_id == requests[i].req_id)
                return EINVAL;
    }
    return 0;
}

static int send_probe(struct batch *batch, uint32_t timeout_ns) {
    const struct mrc_ctl_ep_req *request = &batch->requests[batch->sent];
    char address[INET6_ADDRSTRLEN], *answer;
    uint32_t value;
    ev_value(&request->req_ev, &value);
    inet_ntop(AF_INET6, &request->dgid, address, sizeof address);
    int error = request_verb(batch->controller->verbs, &answer,
                             "{\"op\":\"probe\",\"peer\":\"%s\",\"ev\":%u,\"timeout\":%u}", address, value, timeout_ns);
    if (error)
        return error == ENOENT || error == EBUSY ? EINVAL : error; /* there is no such path */
    batch->ids[batch->sent++] = json_number(answer, "result", 0);
    free(answer);
    return 0;
}

static void end_probe(struct batch *batch, const struct probe_end *end) {
    for (int i = 0; i < batch->sent; i++)
        if (batch->ids[i] == end->id && end->id) {
            batch->ids[i] = 0;
            batch->ended++;
            if (!end->response.port)
                return;
            struct mrc_ctl_ep_rsp *response = &batch->responses[batch->response_count++];
            *response = end->response;
            response->req_id = batch->requests[i].req_id;
            return;
        }
}

static void take_ends(struct batch *batch) {
    struct controller *controller = batch->controller;
    pthread_mutex_lock(&controller->lock);
    while (controller->first_end != controller->last_end)
        end_probe(batch, &controller->ends[controller->first_end++ % PROBE_ENDS]);
    pthread_mutex_unlock(&controller->lock);
}

static int run(struct batch *batch, int count, uint32_t timeout_ns) {
    int error = 0;
    while (batch->sent < count && !error) {
        error = send_probe(batch, timeout_ns);
        take_ends(batch);
    }
    int64_t deadline = now_ms() + timeout_ns / 1000000 + GRACE_MS; /* the NIC gives up long before */
    while (!error && batch->ended < count && now_ms() < deadline) {
        error = verbs()->receive(batch->controller->verbs, WAIT_MS);
        take_ends(batch);
    }
    return error ? error : batch->response_count < count ? ETIMEDOUT : 0;
}

int mrc_ctl_ep_batch_send_wait(struct mrc_context *mrc, uint8_t traffic_class, enum mrc_ctl_ep_op_type op,
                               struct mrc_ctl_ep_req *requests, int count, uint32_t timeout_ns,
                               struct mrc_ctl_ep_rsp *responses, int *response_count) {
    if (!mrc || traffic_class > MAX_DSCP || !requests || count < 1 || count > MAX_PROBES || !timeout_ns || !responses ||
        !response_count || (op != MRC_CTL_EP_OP_EV_PROBE && op != MRC_CTL_EP_OP_PORT_STATUS_UPDATE))
        return minus_one(EINVAL);
    *response_count = 0;
    if (op == MRC_CTL_EP_OP_PORT_STATUS_UPDATE)
        return minus_one(ENOTSUP); /* the NIC reports its ports itself, and as they are */
    int error = check(mrc, requests, count);
    struct batch *batch = error ? NULL : calloc(1, sizeof *batch);
    if (!error && !batch)
        error = ENOMEM;
    if (!error)
        error = open_controller(mrc, &batch->controller);
    if (!error) {
        batch->requests = requests;
        batch->responses = responses;
        pthread_mutex_lock(&batch->controller->probing);
        error = run(batch, count, timeout_ns);
        pthread_mutex_unlock(&batch->controller->probing);
        *response_count = batch->response_count;
    }
    free(batch);
    return minus_one(error);
}
