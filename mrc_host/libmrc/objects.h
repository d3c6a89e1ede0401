/* This library's record of each object. Objects belong to an mrc_context, which cannot be destroyed before them, and
 * to an object of verbs. The user context of a completion queue of verbs is the object here, so that its events lead
 * back; that of a queue pair is the application's, which may read events of verbs as well. */
#ifndef MRC_OBJECTS_H
#define MRC_OBJECTS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>

#include "../libibverbs/for_libmrc.h"
#include "../libibverbs/json.h"
#include "mrc_ctl_types.h"

#include "mrc_ctl_functions.h"
#include "mrc_functions.h"

enum { MAX_QP_HINTS = 1024 };

struct mrc_context {
    struct ibv_context *verbs;
    uint32_t version;        /* of the API, as the application uses it */
    pthread_mutex_t lock;    /* of all below, and of the hints */
    uint32_t objects, hints; /* that exist; hints count among the objects */
    struct mrc_qp *qps;
    struct controller *controller; /* once it is needed: controller.h */
};

struct mrc_comp_channel {
    struct mrc_context *mrc;
    struct ibv_comp_channel *verbs;
};

struct mrc_cq {
    struct mrc_context *mrc;
    struct ibv_cq *verbs;
    void *user_context;
    struct ev_queue *events; /* of a queue of EV events: ev_events.c */
};

struct mrc_qp_hint {
    struct mrc_context *mrc;
    struct mrc_qp_hint_attr attr;
    uint32_t users; /* queue pairs */
};

struct mrc_qp {
    struct mrc_context *mrc;
    struct mrc_qp *next;
    struct ibv_qp *verbs;
    struct mrc_qp_init_attr init;
    pthread_mutex_t lock;    /* of all below */
    struct mrc_qp_attr attr; /* as far as the application has set it, */
    int given;               /* bits of enum mrc_qp_attr_mask */
};

/* Set errno and return it. */
static inline int error_is(int error) {
    errno = error;
    return error;
}

/* Set errno to an error, if there was one; -1 then, else 0. */
static inline int minus_one(int error) {
    if (!error)
        return 0;
    errno = error;
    return -1;
}

/* context.c */

/* What libibverbs has for this library; NULL if the one that is loaded is not ours, and so no device is an MRC NIC. */
const struct for_libmrc *verbs(void);
/* One object more, or fewer. */
void add_object(struct mrc_context *mrc);
void remove_object(struct mrc_context *mrc);

/* requests.c: request a verb, given as a JSON object, of a device's agent; 0 or an errno. *answer, if wanted, is to be
 * freed, and NULL after an error. */
int request_verb(struct ibv_context *context, char **answer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int request_verb_with(struct ibv_context *context, char **answer, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* controller.c */
void close_controller(struct controller *controller);

/* ev_events.c */
void unlink_ev_queue(struct mrc_cq *cq);

/* hint.c */
void use_hint(struct mrc_qp_hint *hint, int users);

/* attributes.c */

/* Whether attributes have allowed values and can still be set for a queue pair that goes from one state to another;
 * 0 or an errno. */
int check_attributes(const struct mrc_qp_attr *attr, int mask, enum ibv_qp_state from, enum ibv_qp_state to);
/* Copy the attributes in `mask`. */
void copy_attributes(struct mrc_qp_attr *to, const struct mrc_qp_attr *from, int mask);
enum { CHANGES_SIZE = 512 };
/* What a step to a state takes of the attributes given, as modify_qp of verbs() needs it. */
void format_changes(const struct mrc_qp_attr *attr, int given, enum ibv_qp_state to, char changes[CHANGES_SIZE]);
/* The attributes in force, by the agent's answer to query_qp. */
void parse_attributes(const char *answer, struct mrc_qp_attr *attr);

#endif
