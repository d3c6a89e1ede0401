/* Asynchronous events, and the thread that reads the agent's messages while the application does not.
 *
 * While there are completion
 * channels, the thread reads every message at once, so that their descriptors become readable; otherwise it looks now and
 * then, so that polling applications are not disturbed, and events come within that time. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "context.h"

enum { LOOK_EVERY_MS = 50 };

static void add(struct mrc_context *context, struct ibv_async_event event) {
    struct mrc_event *entry = calloc(1, sizeof *entry);
    if (!entry)
        return;
    entry->event = event;
    *context->last_event = entry;
    context->last_event = &entry->next;
    eventfd_write(context->verbs.context.async_fd, 1);
}

static void on_port(struct mrc_context *context, const char *json) {
    uint64_t plane = json_number(json, "port", MAX_PLANES);
    if (plane >= MAX_PLANES || !json_true(json, "local"))
        return;
    uint32_t before = context->planes, bit = 1u << plane;
    context->planes = json_true(json, "up") ? before | bit : before & ~bit;
    for (uint8_t port = 1; port <= mrc_port_count(context); port++) {
        uint32_t of = mrc_planes_of_port(context, port);
        if (!(before & of) == !(context->planes & of))
            continue;
        enum ibv_event_type type = context->planes & of ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
        add(context, (struct ibv_async_event){.event_type = type, .element.port_num = port});
    }
}

static void on_qp(struct mrc_context *context, const char *json) {
    struct mrc_qp *pair = mrc_find_qp(context, (uint32_t)json_number(json, "qpn", 0));
    if (!pair)
        return;
    pair->qp.qp_base.state = IBV_QPS_ERR;
    add(context, (struct ibv_async_event){.event_type = IBV_EVENT_QP_FATAL, .element.qp = &pair->qp.qp_base});
}

void mrc_on_event(void *owner, const char *json) {
    struct mrc_context *context = owner;
    char type[16];
    json_text(json, "type", type, sizeof type);
    if (context->event_handler)
        context->event_handler(context->event_owner, json);
    if (!strcmp(type, "port"))
        on_port(owner, json);
    else if (!strcmp(type, "qp"))
        on_qp(owner, json);
}

void mrc_on_lost(void *owner) {
    struct mrc_context *context = owner;
    if (!context->last_event) /* while the device is being opened */
        return;
    for (struct mrc_cq *queue = context->cqs; queue; queue = queue->next)
        if (queue->armed)
            mrc_channel_notify(queue);
    add(context, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
}

void mrc_forget_events(struct mrc_context *context, const struct ibv_qp *qp) {
    for (struct mrc_event **place = &context->first_event; *place;) {
        struct mrc_event *entry = *place;
        if (qp && (entry->event.event_type != IBV_EVENT_QP_FATAL || entry->event.element.qp != qp)) {
            place = &entry->next;
            continue;
        }
        *place = entry->next;
        if (context->last_event == &entry->next)
            context->last_event = place;
        free(entry);
    }
}

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event) {
    struct mrc_context *context = context_of(ibv);
    struct mrc_event *entry;
    do {
        uint64_t one;
        if (read(ibv->async_fd, &one, sizeof one) != sizeof one)
            return -1;
        pthread_mutex_lock(&context->lock);
        entry = context->first_event;
        if (entry) {
            *event = entry->event;
            context->first_event = entry->next;
            if (!entry->next)
                context->last_event = &context->first_event;
        }
        pthread_mutex_unlock(&context->lock);
        free(entry);
    } while (!entry); /* it was of a queue pair that was destroyed */
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event) {
    (void)event; /* an object may be destroyed although its events were not acknowledged: nothing here refers to it */
}

static void *read_messages(void *argument) {
    struct mrc_context *context = argument;
    struct pollfd ready[2] = {{.fd = context->reader_wake, .events = POLLIN}, {.events = POLLIN}};
    pthread_mutex_lock(&context->lock);
    while (!context->closing && !context->agent.lost) {
        int at_once = context->channels > 0;
        ready[1].fd = context->agent.fd;
        pthread_mutex_unlock(&context->lock);
        poll(ready, at_once ? 2 : 1, at_once ? -1 : LOOK_EVERY_MS);
        if (ready[0].revents) {
            eventfd_t count;
            eventfd_read(context->reader_wake, &count);
        }
        pthread_mutex_lock(&context->lock);
        agent_receive(&context->agent);
    }
    pthread_mutex_unlock(&context->lock);
    return NULL;
}

int mrc_start_reader(struct mrc_context *context) {
    context->reader_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (context->reader_wake < 0)
        return errno;
    sigset_t all, before; /* the application's signals are for its own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&context->reader, NULL, read_messages, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    context->reader_runs = !error;
    if (error)
        close(context->reader_wake);
    return error;
}

void mrc_wake_reader(struct mrc_context *context) {
    eventfd_write(context->reader_wake, 1);
}

void mrc_stop_reader(struct mrc_context *context) {
    pthread_mutex_lock(&context->lock);
    context->closing = 1;
    pthread_mutex_unlock(&context->lock);
    mrc_wake_reader(context);
    if (context->reader_runs)
        pthread_join(context->reader, NULL);
    close(context->reader_wake);
}
