/* The table for libmrc.so: requests over a device's connection, and what keeps the device open meanwhile. */
#include "for_libmrc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"

static int request_verb(struct ibv_context *ibv, const char *request, char **answer) {
    struct mrc_context *context = context_of(ibv);
    pthread_mutex_lock(&context->lock);
    context->agent.answer[0] = 0;
    int error = agent_request(&context->agent, -1, "%s", request);
    *answer = strdup(context->agent.answer);
    pthread_mutex_unlock(&context->lock);
    if (!error && !*answer)
        error = ENOMEM;
    return failed(error);
}

/* NAME.control.sock beside NAME.sock; or that one, if the agent has only one. */
static char *controller_path(const char *path) {
    size_t size = strlen(path) + sizeof ".control";
    char *control = malloc(size);
    const char *dot = strrchr(path, '.');
    if (!control)
        return NULL;
    if (!dot || strchr(dot, '/'))
        dot = path + strlen(path);
    snprintf(control, size, "%.*s.control%s", (int)(dot - path), path, dot);
    if (access(control, F_OK))
        strcpy(control, path);
    return control;
}

static struct ibv_context *open_controller(struct ibv_context *ibv) {
    char *path = controller_path(context_of(ibv)->path);
    struct ibv_context *controller = path ? mrc_open_device_at(ibv->device, path) : NULL;
    int error = errno;
    free(path);
    errno = error;
    return controller;
}

static void on_event(struct ibv_context *ibv, void (*handler)(void *owner, const char *json), void *owner) {
    struct mrc_context *context = context_of(ibv);
    pthread_mutex_lock(&context->lock);
    context->event_handler = handler;
    context->event_owner = owner;
    pthread_mutex_unlock(&context->lock);
}

static int receive(struct ibv_context *ibv, int timeout_ms) {
    struct mrc_context *context = context_of(ibv);
    if (timeout_ms)
        agent_wait(&context->agent, timeout_ms);
    pthread_mutex_lock(&context->lock);
    agent_receive(&context->agent);
    int lost = context->agent.lost;
    pthread_mutex_unlock(&context->lock);
    return lost ? EIO : 0;
}

static void notify(struct ibv_cq *cq) {
    struct mrc_cq *queue = (struct mrc_cq *)cq;
    struct mrc_context *context = context_of(cq->context);
    pthread_mutex_lock(&context->lock);
    if (queue->armed)
        mrc_channel_notify(queue);
    pthread_mutex_unlock(&context->lock);
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
    .open_controller = open_controller,
    .on_event = on_event,
    .receive = receive,
    .notify = notify,
    .use_device = use_device,
    .release_device = release_device,
};
