/* Functions for libmrc.so (mrc_host/libmrc/) besides verbs: a table, which it looks up by name, so that it loads beside
 * the system's library too. Both libraries are built together. Errors are errnos. */
#ifndef MRC_FOR_LIBMRC_H
#define MRC_FOR_LIBMRC_H

#include <infiniband/verbs.h>

struct for_libmrc {
    /* A queue pair of type MRC, whatever MRC_QP_TYPE says. NULL with errno. */
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *init);

    /* ibv_modify_qp() that gives the agent `changes` as well: members of a JSON object, each behind a comma, which only
     * the step that takes them may have. What they can say, such as timeouts, is not required in `attr`. */
    int (*modify_qp)(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask, const char *changes);

    /* Request a verb of the agent, a JSON object; *answer is its answer, to be freed, or NULL. If the agent refuses,
     * that is an object with the members "error" and "message". */
    int (*request)(struct ibv_context *context, const char *request, char **answer);

    /* The device once more, for the controller of its NIC; NULL with errno, EACCES if that is not permitted. */
    struct ibv_context *(*open_controller)(struct ibv_context *context);

    /* Call `handler` with each event that the agent sends from now on, while the context is locked: it may not request
     * anything. NULL ends that. */
    void (*on_event)(struct ibv_context *context, void (*handler)(void *owner, const char *json), void *owner);

    /* Handle what the agent has sent, after waiting for something up to `timeout_ms`; EIO if it is gone. */
    int (*receive)(struct ibv_context *context, int timeout_ms);

    /* What an entry does that nobody polls: it notifies whoever has armed the queue. */
    void (*notify)(struct ibv_cq *cq);

    /* ibv_close_device() is refused with EBUSY while something uses the device. */
    void (*use_device)(struct ibv_context *context);
    void (*release_device)(struct ibv_context *context);
};

#define FOR_LIBMRC "mrc_verbs_for_libmrc"
extern const struct for_libmrc mrc_verbs_for_libmrc;

#endif
