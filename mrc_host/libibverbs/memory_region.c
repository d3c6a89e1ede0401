/* Memory regions: the application's own memory, shared with the NIC without a copy (shared_pages.c), so that what a peer
 * writes is there without a call. The address that work requests use is the application's own, or the one it chose. */
#include <stdlib.h>

#include "context.h"
#include "shared_pages.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova


enum { LOCAL_WRITE = 1, REMOTE_WRITE = 2 }; /* as the agent has them */

/* What MRC never does may be permitted, as it changes nothing; what would change something is refused. */
static int access_supported(unsigned int access) {
    const unsigned int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                               IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;
    return !(access & ~(known | IBV_ACCESS_OPTIONAL_RANGE));
}

static int register_with_agent(struct mrc_context *context, struct ibv_mr *mr, int fd, uint64_t offset, uint64_t iova,
                               unsigned int access) {
    int rights = (access & IBV_ACCESS_LOCAL_WRITE ? LOCAL_WRITE : 0) | (access & IBV_ACCESS_REMOTE_WRITE ? REMOTE_WRITE : 0);
    pthread_mutex_lock(&context->lock);
    int error = agent_request(&context->agent, fd,
                              "{\"op\":\"register_memory\",\"pd\":%u,\"length\":%zu,\"access\":%d,\"offset\":%llu,"
                              "\"address\":%llu}",
                              mr->pd->handle, mr->length, rights, (unsigned long long)offset, (unsigned long long)iova);
    mr->lkey = (uint32_t)json_number(context->agent.answer, "lkey", 0);
    mr->rkey = (uint32_t)json_number(context->agent.answer, "rkey", 0);
    mr->handle = mr->lkey;
    pthread_mutex_unlock(&context->lock);
    return error;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned int access) {
    if (!access_supported(access)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE)) {
        errno = EINVAL;
        return NULL;
    }
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    if (!mr)
        return NULL;
    *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = length};
    int fd;
    uint64_t offset;
    int error = shared_pages_enter(address, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0, &fd, &offset);
    if (!error) {
        error = register_with_agent(context_of(pd->context), mr, fd, offset, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
        if (error)
            shared_pages_leave(address, length);
    }
    if (failed(error)) {
        free(mr);
        return NULL;
    }
    return mr;
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, int access) {
    return ibv_reg_mr_iova2(pd, address, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access) {
    return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, (unsigned int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
    struct mrc_context *context = context_of(mr->context);
    pthread_mutex_lock(&context->lock);
    int error = agent_request(&context->agent, -1, "{\"op\":\"deregister_memory\",\"lkey\":%u}", mr->lkey);
    if (context->agent.lost)
        error = 0; /* it ended with the agent */
    pthread_mutex_unlock(&context->lock);
    if (error)
        return failed(error);
    if (!context->inherited)
        shared_pages_leave(mr->addr, mr->length);
    free(mr);
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv) {
    struct mrc_context *context = context_of(ibv);
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    pthread_mutex_lock(&context->lock);
    int error = agent_request(&context->agent, -1, "{\"op\":\"alloc_pd\"}");
    *pd = (struct ibv_pd){.context = ibv, .handle = (uint32_t)json_number(context->agent.answer, "result", 0)};
    pthread_mutex_unlock(&context->lock);
    if (failed(error)) {
        free(pd);
        return NULL;
    }
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) {
    struct mrc_context *context = context_of(pd->context);
    pthread_mutex_lock(&context->lock);
    int error = agent_request(&context->agent, -1, "{\"op\":\"dealloc_pd\",\"pd\":%u}", pd->handle);
    if (context->agent.lost)
        error = 0;
    pthread_mutex_unlock(&context->lock);
    if (error)
        return failed(error == EINVAL ? EBUSY : error);
    free(pd);
    return 0;
}
