/* Queues of EV events: completion queues that stay empty, so that their channels notify, with a ring of events beside.
 * One that is full gets no more events, and the next one that finds room says so. */
#include <stdlib.h>
#include <string.h>

#include "controller.h"

struct ev_queue {
    struct mrc_cq *next;
    struct controller *controller;
    uint32_t size, head, tail;
    int dropped; /* events, since the last one in the ring */
    struct mrc_ctl_ev_event entries[];
};

enum { MAX_EVENTS = 65536 };

/* The size of an event before version 1.0.1, which has added the state. */
struct ev_event_1_0_0 {
    uint64_t profile_id;
    struct mrc_ctl_ev ev;
    uint32_t drop_count;
};

static void push(struct mrc_cq *cq, const struct mrc_ctl_ev_event *event) {
    struct ev_queue *queue = cq->events;
    if (queue->tail - queue->head == queue->size) {
        queue->dropped = 1;
        return;
    }
    struct mrc_ctl_ev_event *entry = &queue->entries[queue->tail++ % queue->size];
    *entry = *event;
    entry->drop_count = (uint32_t)queue->dropped;
    queue->dropped = 0;
    verbs()->notify(cq->verbs);
}

void add_ev_event(struct controller *controller, const char *json) {
    uint64_t dropped = json_number(json, "dropped", 0), profile = json_number(json, "ev_profile", 0);
    for (struct mrc_cq *cq = controller->ev_queues; cq && dropped != controller->dropped; cq = cq->events->next)
        cq->events->dropped = 1;
    controller->dropped = dropped;
    if (!profile)
        return;
    char state[16];
    json_text(json, "new", state, sizeof state);
    struct mrc_ctl_ev_event event = {
        .profile_id = profile,
        .ev = ev_with((uint32_t)json_number(json, "ev", 0), (unsigned int)json_number(json, "plane", 0)),
        .state = ev_state_named(state),
    };
    for (struct mrc_cq *cq = controller->ev_queues; cq; cq = cq->events->next)
        push(cq, &event);
}

/* Have the agent send the events of all queue pairs, as it does to this context's other queues already. */
static int subscribe(struct controller *controller) {
    pthread_mutex_lock(&controller->lock);
    int subscribed = controller->all_events;
    pthread_mutex_unlock(&controller->lock);
    if (subscribed)
        return verbs()->receive(controller->verbs, 0); /* EIO if the agent is gone */
    int error = request_verb(controller->verbs, NULL, "{\"op\":\"subscribe\",\"scope\":\"all\"}");
    pthread_mutex_lock(&controller->lock);
    controller->all_events |= !error;
    pthread_mutex_unlock(&controller->lock);
    return error;
}

static int create(struct mrc_cq *cq, int cqe) {
    struct controller *controller;
    int error = open_controller(cq->mrc, &controller);
    if (!error)
        error = subscribe(controller);
    if (error)
        return error;
    struct ev_queue *queue = calloc(1, sizeof *queue + (size_t)cqe * sizeof *queue->entries);
    if (!queue)
        return ENOMEM;
    queue->size = (uint32_t)cqe;
    queue->controller = controller;
    cq->events = queue;
    pthread_mutex_lock(&controller->lock);
    queue->next = controller->ev_queues;
    controller->ev_queues = cq;
    pthread_mutex_unlock(&controller->lock);
    return 0;
}

struct mrc_cq *mrc_ctl_create_ev_event_cq(struct mrc_context *mrc, int cqe, void *cq_context,
                                          struct mrc_comp_channel *channel, int vector) {
    if (cqe < 1 || cqe > MAX_EVENTS) {
        errno = EINVAL;
        return NULL;
    }
    struct mrc_cq *cq = mrc_create_cq(mrc, 1, cq_context, channel, vector);
    int error = cq ? create(cq, cqe) : 0;
    if (!error)
        return cq;
    mrc_destroy_cq(cq);
    errno = error;
    return NULL;
}

void unlink_ev_queue(struct mrc_cq *cq) {
    struct controller *controller = cq->events->controller;
    pthread_mutex_lock(&controller->lock);
    struct mrc_cq **place = &controller->ev_queues;
    while (*place != cq)
        place = &(*place)->events->next;
    *place = cq->events->next;
    pthread_mutex_unlock(&controller->lock);
    free(cq->events);
    cq->events = NULL;
}

int mrc_ctl_poll_ev_event(struct mrc_cq *cq, int count, struct mrc_ctl_ev_event *events) {
    if (!cq || !cq->events || count < 0 || (count && !events))
        return -error_is(EINVAL);
    struct ev_queue *queue = cq->events;
    size_t size = cq->mrc->version < MRC_CTL_API_CURRENT_VERSION ? sizeof(struct ev_event_1_0_0) : sizeof *events;
    int error = verbs()->receive(queue->controller->verbs, 0), taken = 0;
    pthread_mutex_lock(&queue->controller->lock);
    for (; taken < count && queue->head != queue->tail; taken++)
        memcpy((char *)events + (size_t)taken * size, &queue->entries[queue->head++ % queue->size], size);
    pthread_mutex_unlock(&queue->controller->lock);
    return taken || !error ? taken : -error_is(error);
}
