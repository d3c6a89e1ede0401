/* A device: the NIC of this host, whose agent's socket the environment variable MRC_AGENT names, or one plane of it. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "context.h"

#undef ibv_get_device_list

enum { ROCE_V2 = 1 };

/* 'mrc', which no vendor can have: that bit 0 of the first byte is set makes it a group's address. */
enum { VENDOR_ID = 0x6d7263 };

static const char *agent_path(void) {
    const char *path = getenv("MRC_AGENT");
    return path && *path ? path : NULL;
}

struct ibv_device **ibv_get_device_list(int *count) {
    const char *path = agent_path();
    int there = 0;
    struct ibv_device *devices = path ? mrc_devices(path, &there) : NULL;
    struct ibv_device **list = calloc((size_t)there + 1, sizeof *list);
    for (int i = 0; list && i < there; i++)
        list[i] = &devices[i];
    if (count)
        *count = list ? there : 0;
    return list;
}

void ibv_free_device_list(struct ibv_device **list) {
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *of) {
    return of->name;
}

/* A number for the socket's path, which is this NIC's own on the machine, and for the device: 'mrc' and 40 bits of
 * FNV-1a. */
__be64 ibv_get_device_guid(struct ibv_device *of) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    uint32_t number = mrc_device_number(of);
    for (const char *at = agent_path(); at && *at; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3ULL;
    if (number)
        hash = (hash ^ number) * 0x100000001b3ULL;
    return htobe64(0x6d72630000000000ULL | (hash & 0xFFFFFFFFFFULL));
}

int ibv_get_device_index(struct ibv_device *of) {
    return (int)mrc_device_number(of);
}

int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *attr) {
    *attr = (struct ibv_device_attr){
        .fw_ver = "MRC emulated",
        .node_guid = ibv_get_device_guid(ibv->device),
        .sys_image_guid = ibv_get_device_guid(ibv->device),
        .max_mr_size = 1ULL << 40,
        .page_size_cap = 4096,
        .vendor_id = VENDOR_ID,
        .max_qp = 65536,
        .max_qp_wr = SEND_DEPTH,
        .max_sge = MAX_SGE,
        .max_cq = 65536,
        .max_cqe = MAX_CQE,
        .max_mr = 65536,
        .max_pd = 65536,
        .max_pkeys = 1,
        .phys_port_cnt = mrc_port_count(context_of(ibv)),
        .atomic_cap = IBV_ATOMIC_NONE,
    };
    return 0;
}

static int query_device_ex(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t size) {
    if (input && input->comp_mask)
        return EINVAL;
    struct ibv_device_attr_ex known = {.phys_port_cnt_ex = mrc_port_count(context_of(ibv))};
    ibv_query_device(ibv, &known.orig_attr);
    memset(attr, 0, size);
    memcpy(attr, &known, size < sizeof known ? size : sizeof known);
    return 0;
}

int ibv_query_gid(struct ibv_context *ibv, uint8_t port, int index, union ibv_gid *gid) {
    if (!mrc_planes_of_port(context_of(ibv), port) || index < 0 || index >= GIDS) {
        errno = EINVAL;
        return -1;
    }
    *gid = context_of(ibv)->gid;
    return 0;
}

int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t size) {
    if (!mrc_planes_of_port(context_of(ibv), port) || flags)
        return EINVAL;
    if (index >= GIDS)
        return ENODATA;
    struct ibv_gid_entry known = {
        .gid = context_of(ibv)->gid, .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};
    memcpy(entry, &known, size < sizeof known ? size : sizeof known);
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ibv, struct ibv_gid_entry *entries, size_t room, uint32_t flags,
                             size_t size) {
    uint32_t count = GIDS * mrc_port_count(context_of(ibv));
    if (flags || room < count)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        struct ibv_gid_entry *entry = (struct ibv_gid_entry *)((char *)entries + i * size);
        _ibv_query_gid_ex(ibv, 1 + i / GIDS, i % GIDS, entry, 0, size);
    }
    return count;
}

/* ibv_devinfo asks with this, which no header of applications declares. */
int ibv_query_gid_type(struct ibv_context *ibv, uint8_t port, unsigned int index, unsigned int *type);
int ibv_query_gid_type(struct ibv_context *ibv, uint8_t port, unsigned int index, unsigned int *type) {
    if (!mrc_planes_of_port(context_of(ibv), port) || index >= GIDS) {
        errno = EINVAL;
        return -1;
    }
    *type = ROCE_V2;
    return 0;
}

int ibv_query_pkey(struct ibv_context *ibv, uint8_t port, int index, __be16 *pkey) {
    if (!mrc_planes_of_port(context_of(ibv), port) || index) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htobe16(0xFFFF);
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *ibv, uint8_t port, __be16 pkey) {
    if (mrc_planes_of_port(context_of(ibv), port) && be16toh(pkey) == 0xFFFF)
        return 0;
    errno = EINVAL;
    return -1;
}

/* What the NIC can do, and which of its ports have a link. */
static int learn(struct mrc_context *context) {
    struct agent *agent = &context->agent;
    int error = agent_request(agent, -1, "{\"op\":\"subscribe\",\"scope\":\"own\"}");
    if (!error)
        error = agent_request(agent, -1, "{\"op\":\"query_device\"}");
    if (!error) {
        context->mtu = (int)json_number(agent->answer, "path_mtu", 256);
        error = agent_request(agent, -1, "{\"op\":\"port_states\"}");
    }
    if (!error)
        context->plane_count = mrc_read_port_states(agent->answer, &context->planes);
    return error;
}

static void prepare(struct mrc_context *context, struct ibv_device *of) {
    context->last_event = &context->first_event;
    context->verbs.sz = sizeof context->verbs;
    context->verbs.query_port = mrc_query_port;
    context->verbs.query_device_ex = query_device_ex;
    context->verbs.create_qp_ex = mrc_create_qp_ex;
    struct ibv_context *ibv = &context->verbs.context;
    ibv->device = of;
    ibv->cmd_fd = context->agent.fd;
    ibv->num_comp_vectors = 1;
    ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
    ibv->ops.poll_cq = mrc_poll_cq;
    ibv->ops.req_notify_cq = mrc_req_notify_cq;
    ibv->ops.post_send = mrc_post_send;
    ibv->ops.post_recv = mrc_post_recv;
    pthread_mutex_init(&ibv->mutex, NULL);
}

/* Open what is left to open on a context with a connection; 0 or an errno. */
static int open_on(struct mrc_context *context, struct ibv_device *of) {
    char text[INET6_ADDRSTRLEN];
    union ibv_gid address;
    json_text(context->agent.answer, "address", text, sizeof text);
    int error = inet_pton(AF_INET6, text, &address) == 1 ? learn(context) : EPROTO;
    if (error)
        return error;
    prepare(context, of);
    error = mrc_set_gid(context, &address);
    if (error)
        return error;
    int fd = context->verbs.context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (fd < 0)
        return errno;
    error = mrc_start_reader(context);
    if (error)
        close(fd);
    return error;
}

static struct mrc_context *allocate(const struct ibv_device *of, const char *path) {
    struct mrc_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->path = strdup(path);
    if (!context->path) {
        free(context);
        return NULL;
    }
    const char *plane_ports = getenv("MRC_PLANE_PORTS");
    context->own_planes = mrc_planes_of_device(of);
    context->plane_ports = plane_ports && !strcmp(plane_ports, "1") && context->own_planes == ALL_PLANES;
    context->agent.owner = context;
    context->agent.on_completion = mrc_on_completion;
    context->agent.on_failure = mrc_on_failure;
    context->agent.on_event = mrc_on_event;
    context->agent.on_lost = mrc_on_lost;
    pthread_mutex_init(&context->lock, NULL);
    return context;
}

static void release(struct mrc_context *context) {
    free(context->path);
    free(context);
}

struct ibv_context *mrc_open_device_at(struct ibv_device *of, const char *path) {
    struct mrc_context *context = allocate(of, path);
    if (!context)
        return NULL;
    int error = agent_connect(&context->agent, context->path);
    if (!error) {
        error = open_on(context, of);
        if (error)
            agent_close(&context->agent);
    }
    if (failed(error)) {
        fprintf(stderr, "libibverbs (MRC): cannot open the NIC whose agent is at %s: %s.\n", path, strerror(error));
        release(context);
        errno = error;
        return NULL;
    }
    mrc_watch_forks(context);
    return &context->verbs.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *of) {
    const char *path = agent_path();
    if (path)
        return mrc_open_device_at(of, path);
    errno = ENODEV;
    return NULL;
}

int ibv_close_device(struct ibv_context *ibv) {
    struct mrc_context *context = context_of(ibv);
    pthread_mutex_lock(&context->lock);
    uint32_t users = context->users;
    pthread_mutex_unlock(&context->lock);
    if (users)
        return failed(EBUSY);
    mrc_stop_reader(context);
    mrc_unwatch_forks(context);
    mrc_forget_events(context, NULL);
    close(ibv->async_fd);
    agent_close(&context->agent);
    release(context);
    return 0;
}
