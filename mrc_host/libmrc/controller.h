/* The connection of a context to the controller's socket of its NIC's agent, opened when it is first needed. */
#ifndef MRC_CONTROLLER_H
#define MRC_CONTROLLER_H

#include "objects.h"

enum { MAX_PROBES = 1024, PROBE_ENDS = 4096 };

/* A probe was answered or, with `port` 0, was not. */
struct probe_end {
    uint64_t id;
    struct mrc_ctl_ep_rsp response;
};

struct controller {
    struct ibv_context *verbs;
    pthread_mutex_t probing; /* of the batch of probes that is under way */
    pthread_mutex_t lock;    /* of all below */
    struct mrc_cq *ev_queues;
    uint64_t dropped;                  /* events, by the agent, as far as the queues know */
    int all_events;                    /* the agent sends those of all queue pairs */
    struct probe_end ends[PROBE_ENDS]; /* a ring: those not seen yet */
    uint32_t first_end, last_end;
};

/* The controller of a context; 0 or an errno: EPERM if the socket is not for this user. */
int open_controller(struct mrc_context *mrc, struct controller **controller);
/* As request_verb(), of the controller's socket. */
int request_control(struct mrc_context *mrc, char **answer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ev_events.c, with the controller locked: a path changed its state. */
void add_ev_event(struct controller *controller, const char *json);

/* The value of an EV, which is in its first four bytes in the host's order; false if others are not zero. */
int ev_value(const struct mrc_ctl_ev *ev, uint32_t *value);
struct mrc_ctl_ev ev_with(uint32_t value, unsigned int plane);

enum mrc_ctl_ev_state ev_state_named(const char *name);
const char *profile_state_name(enum mrc_ctl_profile_state state);
enum mrc_ctl_profile_state profile_state_named(const char *json);

#endif
