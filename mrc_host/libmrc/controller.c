#include "controller.h"

#include <stdlib.h>
#include <string.h>

static const char *const STATES[] = {"init", "offline", "online"};

static void add_probe_end(struct controller *controller, const char *json) {
    if (controller->last_end - controller->first_end == PROBE_ENDS)
        controller->first_end++; /* of somebody else's: a batch has fewer */
    controller->ends[controller->last_end++ % PROBE_ENDS] = (struct probe_end){
        .id = json_number(json, "probe_id", 0),
        .response =
            {
                .port = (uint8_t)(json_number(json, "port", UINT64_MAX) + 1),
                .rtt = (unsigned int)json_number(json, "rtt", 0),
                .adj_svc_time = (uint8_t)json_true(json, "service_time_subtracted"),
            },
    };
}

static void on_event(void *owner, const char *json) {
    struct controller *controller = owner;
    char type[16];
    json_text(json, "type", type, sizeof type);
    pthread_mutex_lock(&controller->lock);
    if (!strcmp(type, "probe"))
        add_probe_end(controller, json);
    else if (!strcmp(type, "path"))
        add_ev_event(controller, json);
    pthread_mutex_unlock(&controller->lock);
}

static struct controller *create(struct mrc_context *mrc) {
    struct controller *controller = calloc(1, sizeof *controller);
    if (!controller)
        return NULL;
    controller->verbs = verbs()->open_controller(mrc->verbs);
    if (!controller->verbs) {
        int error = errno == EACCES ? EPERM : errno == ENOMEM ? ENOMEM : EIO;
        free(controller);
        errno = error;
        return NULL;
    }
    pthread_mutex_init(&controller->probing, NULL);
    pthread_mutex_init(&controller->lock, NULL);
    verbs()->on_event(controller->verbs, on_event, controller);
    return controller;
}

int open_controller(struct mrc_context *mrc, struct controller **controller) {
    int error = 0;
    pthread_mutex_lock(&mrc->lock);
    if (!mrc->controller) {
        mrc->controller = create(mrc);
        error = mrc->controller ? 0 : errno;
    }
    *controller = mrc->controller;
    pthread_mutex_unlock(&mrc->lock);
    return error;
}

int request_control(struct mrc_context *mrc, char **answer, const char *format, ...) {
    struct controller *controller;
    int error = open_controller(mrc, &controller);
    if (error)
        return error;
    va_list arguments;
    va_start(arguments, format);
    error = request_verb_with(controller->verbs, answer, format, arguments);
    va_end(arguments);
    return error;
}

void close_controller(struct controller *controller) {
    ibv_close_device(controller->verbs);
    pthread_mutex_destroy(&controller->probing);
    pthread_mutex_destroy(&controller->lock);
    free(controller);
}

int ev_value(const struct mrc_ctl_ev *ev, uint32_t *value) {
    memcpy(value, ev->val, sizeof *value);
    for (size_t i = sizeof *value; i < sizeof ev->val; i++)
        if (ev->val[i])
            return 0;
    return 1;
}

struct mrc_ctl_ev ev_with(uint32_t value, unsigned int plane) {
    struct mrc_ctl_ev ev = {.port = (uint8_t)(plane + 1)};
    memcpy(ev.val, &value, sizeof value);
    return ev;
}

enum mrc_ctl_ev_state ev_state_named(const char *name) {
    if (!strcmp(name, "denied"))
        return MRC_CTL_EV_DENIED;
    return strcmp(name, "assumed_bad") ? MRC_CTL_EV_GOOD : MRC_CTL_EV_ASSUMED_BAD;
}

const char *profile_state_name(enum mrc_ctl_profile_state state) {
    return (unsigned int)state < sizeof STATES / sizeof *STATES ? STATES[state] : "";
}

enum mrc_ctl_profile_state profile_state_named(const char *json) {
    char name[16];
    json_text(json, "state", name, sizeof name);
    for (unsigned int i = 0; i < sizeof STATES / sizeof *STATES; i++)
        if (!strcmp(name, STATES[i]))
            return (enum mrc_ctl_profile_state)i;
    return MRC_CTL_PROFILE_INIT;
}
