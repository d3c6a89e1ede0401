/* The table for libmrc.so: requests over a device's connection, and what keeps the device open meanwhile. */
#include "for_libmrc.h"

#include <stdlib.h>
#include <string.h>

#include "context.h"

static int request_verb(struct ibv_context *ibv, const char *request, char **answer) {
    struct mrc_context *context = context_of(ibv);
    pthread_mutex_lock(&context->lock);
    int error = agent_request(&context->agent, -1, "%s", request);
    *answer = error ? NULL : strdup(context->agent.answer);
    pthread_mutex_unlock(&context->lock);
    if (!error && !*answer)
        error = ENOMEM;
    return failed(error);
}

static void use_device(struct ibv_context *ibv) {
    struct mrc_context *context = context_of(ibv);
    pthread_mutex_lock(&context->lock);
    context->users++;
    pthread_mutex_unlock(&context->lock);
}

static void release_device(struct ibv_context *ibv) {
    struct mrc_context *context = context_of(ibv);
    pthread_mutex_lock(&context->lock);
    context->users--;
    pthread_mutex_unlock(&context->lock);
}

const struct for_libmrc mrc_verbs_for_libmrc = {
    .create_qp = mrc_create_qp_of_mrc,
    .modify_qp = mrc_modify_qp_with,
    .request = request_verb,
    .use_device = use_device,
    .release_device = release_device,
};
