/* Around fork(): the child has no connection to the agent, which stays the parent's, and a copy of the memory that the
 * parent shares with its NIC. It opens a device of its own. */
#include <pthread.h>
#include <unistd.h>

#include "context.h"
#include "shared_pages.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mrc_context *contexts;

static void before(void) {
    pthread_mutex_lock(&lock);
    for (struct mrc_context *context = contexts; context; context = context->next)
        pthread_mutex_lock(&context->lock);
    shared_pages_before_fork();
}

static void in_parent(void) {
    shared_pages_after_fork(0);
    for (struct mrc_context *context = contexts; context; context = context->next)
        pthread_mutex_unlock(&context->lock);
    pthread_mutex_unlock(&lock);
}

static void in_child(void) {
    shared_pages_after_fork(1); /* first: until then nothing may be written to memory that may be shared */
    for (struct mrc_context *context = contexts; context; context = context->next) {
        context->agent.lost = 1;
        context->inherited = 1;
        context->reader_runs = 0;
        agent_close(&context->agent);
        pthread_mutex_unlock(&context->lock);
    }
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void) {
    pthread_atfork(before, in_parent, in_child);
}

void mrc_watch_forks(struct mrc_context *context) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    context->next = contexts;
    contexts = context;
    pthread_mutex_unlock(&lock);
}

void mrc_unwatch_forks(struct mrc_context *context) {
    pthread_mutex_lock(&lock);
    struct mrc_context **place = &contexts;
    while (*place != context)
        place = &(*place)->next;
    *place = context->next;
    pthread_mutex_unlock(&lock);
}

int ibv_fork_init(void) {
    return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void) {
    return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size) {
    (void)base, (void)size;
    return 0;
}

int ibv_dofork_range(void *base, size_t size) {
    (void)base, (void)size;
    return 0;
}
