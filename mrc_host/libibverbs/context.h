/* This library's record of each object that an application has, and how to get from one to the other. */
#ifndef MRC_CONTEXT_H
#define MRC_CONTEXT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>

#include "agent.h"

enum { MAX_CQE = 65536, SEND_DEPTH = AGENT_PENDING_LIMIT };
enum { POSTS_PER_MESSAGE = 512 };
enum { MAX_PLANES = 32 };
#define ALL_PLANES UINT32_MAX
enum { GIDS = 4 }; /* of a port; all are the NIC's address, as programs for RoCE ask for index 0, 1 or 3 */

struct mrc_channel {
    struct ibv_comp_channel channel; /* its descriptor is an eventfd that counts the queues in the list */
    struct mrc_cq *first_due;        /* queues with an event that was not fetched yet, linked by `next_due` */
};

struct mrc_cq {
    struct ibv_cq cq; /* its mutex and condition guard what ibv_ack_cq_events counts */
    uint32_t number;
    struct mrc_cq *next;
    struct ibv_wc *entries; /* a ring */
    uint32_t size, head, tail;
    uint32_t taken; /* entries taken for which the agent has no credit yet */
    uint32_t empty; /* polls in a row that found nothing */
    int armed, solicited_only;
    int is_due;
    struct mrc_cq *next_due;
    uint32_t events; /* fetched by the application, which has to acknowledge them all */
};

struct post_message {
    struct agent_header header;
    struct agent_post posts[POSTS_PER_MESSAGE];
} __attribute__((packed));

struct mrc_qp {
    struct ibv_qp_ex qp; /* first: an application sees this or the ibv_qp in it */
    struct mrc_qp *next;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr; /* of the present life */
    /* The send queue. Requests complete in order, so a signaled one that completes takes all before it along. */
    uint32_t posted, completed;
    uint32_t *signaled; /* value of `posted` after each signaled request that is not completed, a ring */
    uint32_t signaled_size, signaled_head, signaled_tail;
    uint32_t receives; /* posted and not completed */
    uint32_t earlier;  /* completions to come of lives before the last RESET: none of the above counts them */
    /* requests that are being built, by post_send or by the extended API */
    struct post_message batch;
    uint32_t batched; /* records */
    uint32_t current; /* first record of the request that is being built */
    int batch_error;
    uint32_t started_posted, started_signaled; /* where the send queue stood at wr_start */
};

struct mrc_event {
    struct ibv_async_event event;
    struct mrc_event *next;
};

struct mrc_context {
    struct verbs_context verbs; /* last member of it is the ibv_context */
    struct agent agent;
    char *path;           /* of the agent's socket */
    pthread_mutex_t lock; /* of all below, and of the connection */
    union ibv_gid gid;
    int mtu;                    /* largest path MTU, bytes */
    uint32_t planes;            /* ports of the NIC, a bit each, that have a link */
    uint32_t plane_count;       /* of these ports */
    uint32_t own_planes;        /* what the device stands for, a bit each: plane_devices.c */
    int plane_ports;            /* whether they are ports of the device: ports.c */
    struct mrc_cq *cqs;
    struct mrc_qp *qps;
    uint32_t outstanding;       /* requests of all queue pairs */
    /* for libmrc.so: for_libmrc.h */
    uint32_t users; /* its objects */
    void (*event_handler)(void *owner, const char *json);
    void *event_owner;
    struct mrc_event *first_event, **last_event;
    /* the thread that reads what arrives while the application does not: events.c */
    pthread_t reader;
    int reader_runs, reader_wake, channels, closing;
    struct mrc_context *next; /* of all contexts of this process: fork.c */
    int inherited;            /* of the process that this one was forked from: its regions are not this one's */
};

static inline struct mrc_context *context_of(struct ibv_context *context) {
    return (struct mrc_context *)((char *)context - offsetof(struct mrc_context, verbs.context));
}

/* Set errno to a request's error, if there was one, and return it. */
static inline int failed(int error) {
    if (error)
        errno = error;
    return error;
}

/* device.c */
struct ibv_context *mrc_open_device_at(struct ibv_device *of, const char *path);

/* plane_devices.c */
/* The devices of the NIC whose agent is at `path`; they stay valid. */
struct ibv_device *mrc_devices(const char *path, int *count);
uint32_t mrc_device_number(const struct ibv_device *device);
uint32_t mrc_planes_of_device(const struct ibv_device *device);
/* From an answer to port_states: how many ports there are, and which are `up`, a bit each. */
uint32_t mrc_read_port_states(const char *answer, uint32_t *up);
/* The GID of a context's device, which follows from the NIC's address; 0 or an errno. */
int mrc_set_gid(struct mrc_context *context, const union ibv_gid *address);
/* Make of the GID of a peer's device the address of its NIC, and find the planes between both; 0 or an errno. */
int mrc_find_peer(const struct mrc_context *context, union ibv_gid *gid, uint32_t *planes);

/* ports.c */
uint8_t mrc_port_count(const struct mrc_context *context);
/* The planes that a port stands for, a bit each; 0 if the device has no such port. */
uint32_t mrc_planes_of_port(const struct mrc_context *context, uint32_t port);
int mrc_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size);

/* completion_queue.c */
int mrc_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *entries);
int mrc_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void mrc_on_completion(void *context, const struct agent_completion *entry);
void mrc_on_failure(void *context, const char *json);

/* completion_channel.c */
void mrc_channel_notify(struct mrc_cq *queue);
void mrc_channel_forget(struct mrc_cq *queue);

/* events.c */
int mrc_start_reader(struct mrc_context *context);
void mrc_stop_reader(struct mrc_context *context);
void mrc_wake_reader(struct mrc_context *context);
void mrc_on_event(void *context, const char *json);
void mrc_on_lost(void *context);
void mrc_forget_events(struct mrc_context *context, const struct ibv_qp *qp);

/* fork.c */
void mrc_watch_forks(struct mrc_context *context);
void mrc_unwatch_forks(struct mrc_context *context);

/* queue_pair.c and posting.c */
struct ibv_qp *mrc_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init);
struct ibv_qp *mrc_create_qp_of_mrc(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
int mrc_modify_qp_with(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask, const char *changes);
struct mrc_qp *mrc_find_qp(struct mrc_context *context, uint32_t qpn);
void mrc_send_completed(struct mrc_context *context, struct mrc_qp *pair, int signaled);
int mrc_post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad);
int mrc_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **bad);
void mrc_set_extended_operations(struct mrc_qp *qp);

/* EOPNOTSUPP, with a reason on stderr: see refusals.c. */
int refuse_opcode(enum ibv_wr_opcode opcode);
int refuse_qp_type(enum ibv_qp_type type);

#endif
