/* The event loop: frames, links that become free, and changes of interfaces.
 *
 * Each round receives one batch from every port with frames (epoll is level-triggered and reports all ports), so a flood on
 * one port delays the others by at most one batch. A batch enters the switch, and frames to send leave it, under the same
 * lock; system calls are made without it. Ports of one switch take turns in the transmit batch in the same way. The clock is
 * read once per batch. */
#include "driver/port_driver_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RETRY_INTERVAL 1000000000LL /* ns between attempts to open a missing interface; netlink usually reports it first */
#define SPIN_GUARD_NS 1000000LL       /* ns before looking again at a switch whose wake-up time does not move */
#define DEADLINE_COALESCE_NS 50000LL  /* `coalesce` at most for frames on long wires and pauses, which cannot make up for it */
#define MAX_EVENTS 256
#define DRAIN_ROUNDS 16 /* transmit batches of one switch before others have their turn: packets can multiply in egress */
#define WIRE_ROUNDS 4 /* that frames may go on from switch to switch before the interfaces are looked at again */

int64_t drv_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int epoll_wait_until(int fd, struct epoll_event *events, int64_t until, int64_t now)
{
    int64_t wait = until <= now ? 0 : until - now;
    struct timespec timeout = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
#ifdef SYS_epoll_pwait2
    int count = (int)syscall(SYS_epoll_pwait2, fd, events, MAX_EVENTS, until == SW_NEVER ? NULL : &timeout, NULL, 0);
    if (count >= 0 || errno != ENOSYS)
        return count;
#endif
    int64_t ms = timeout.tv_sec * 1000 + (timeout.tv_nsec + 999999) / 1000000;
    return epoll_wait(fd, events, MAX_EVENTS, until == SW_NEVER ? -1 : (int)(ms > 60000 ? 60000 : ms));
}

/* --- from the switch to the sockets --- */

/* Whether ports have become ready. */
static bool collect_ready(struct drv_switch *owner)
{
    uint16_t numbers[64];
    size_t count;
    bool found = false;
    do {
        count = sw_take_ready(owner->sw, numbers, 64);
        for (size_t i = 0; i < count; i++) {
            struct drv_port *port = owner->ports[numbers[i]];
            if (!port)
                continue; /* a port without an interface (the CPU port) has readers of its own */
            found = true;
            if (!port->active)
                owner->active[owner->active_count++] = port;
            port->active = true;
        }
    } while (count == 64);
    return found;
}

/* Takes frames of one port; false when it has no more for now. */
static bool fill_from(struct drv *drv, struct drv_port *port, int64_t now)
{
    for (unsigned quota = TX_QUOTA; quota; quota--) {
        if (drv->tx_count == TX_BATCH || drv->tx_size - drv->tx_used < drv->options.max_frame)
            return true;
        struct tx_slot *slot = &drv->tx_slots[drv->tx_count];
        slot->data = drv->tx_memory + drv->tx_used;
        size_t length = sw_transmit(port->owner->sw, port->number, now, slot->data, drv->options.max_frame);
        if (!length)
            return false;
        slot->port = port;
        slot->length = (uint32_t)length;
        slot->due = sw_transmit_due(port->owner->sw, port->number);
        drv->tx_count++;
        drv->tx_used += (length + 63) & ~(size_t)63;
    }
    return true;
}

/* One turn of every active port; true when some have more. */
static bool fill(struct drv *drv, struct drv_switch *owner, int64_t now)
{
    bool more = false;
    unsigned start = owner->turn++;
    for (unsigned i = 0, count = owner->active_count; i < count; i++) {
        struct drv_port *port = owner->active[(start + i) % count];
        if (!port->blocked && port->fd >= 0)
            more |= fill_from(drv, port, now);
    }
    return more;
}

static void drop_idle_ports(struct drv_switch *owner)
{
    for (unsigned i = 0; i < owner->active_count;) {
        struct drv_port *port = owner->active[i];
        if (sw_has_backlog(owner->sw, port->number)) {
            i++;
        } else {
            port->active = false;
            owner->active[i] = owner->active[--owner->active_count];
        }
    }
}

/* A port that waits for room, or has no driver, makes a switch seem due all the time: do not spin, but let what is due at other
 * ports at a time of its own (frames on long wires, pauses) not wait for it. */
static void guard_wakeup(struct drv_switch *owner, int64_t now)
{
    if (owner->wake > now)
        return;
    if (owner->deadline <= now)
        owner->deadline = now + SPIN_GUARD_NS;
    owner->wake = sw_earlier(owner->deadline, now + SPIN_GUARD_NS);
}

/* Sends the frames that are due. Called with the switch locked; unlocks it. A port from which nothing is sent may have made others
 * ready all the same: egress clones packets, and has them recirculated. */
static void drain(struct drv *drv, struct drv_switch *owner, int64_t now)
{
    collect_ready(owner);
    for (int round = 1;; round++) {
        bool more = fill(drv, owner, now);
        more |= collect_ready(owner);
        if (!drv->tx_count && !more)
            break;
        sw_unlock(owner->sw);
        tx_flush(drv);
        sw_lock(owner->sw);
        if (round == DRAIN_ROUNDS) {
            owner->unfinished = true;
            break;
        }
    }
    drop_idle_ports(owner);
    owner->wake = sw_next_wakeup(owner->sw);
    owner->deadline = sw_next_deadline(owner->sw);
    sw_unlock(owner->sw);
    guard_wakeup(owner, now);
}

static void visit(struct drv *drv, struct drv_switch *owner, int64_t now)
{
    owner->unfinished = false;
    sw_lock(owner->sw);
    bool left = sw_tick(owner->sw, now);
    drain(drv, owner, now);
    owner->unfinished |= left;
}

/* --- events --- */

static void on_port(struct drv *drv, void *of, uint32_t events)
{
    struct drv_port *port = of;
    if (port->fd < 0)
        return; /* closed earlier in this round */
    int64_t now;
    int count = port_receive(drv, port, &now);
    if (count > 0)
        drain(drv, port->owner, now);
    /* ENETDOWN: the interface is down or gone; netlink reports which, perhaps later. */
    if (count == -ENETDOWN || count == -ENXIO || count == -ENODEV || (events & EPOLLERR))
        link_inspect(drv, port, drv_now());
    if (port->fd >= 0 && port->blocked && (events & EPOLLOUT) && port_unblock(drv, port))
        visit(drv, port->owner, drv_now());
}

static void on_link(struct drv *drv, void *of, uint32_t events)
{
    (void)of, (void)events;
    link_receive(drv, drv_now());
}

static void on_wakeup(struct drv *drv, void *of, uint32_t events)
{
    (void)of, (void)events;
    uint64_t ignored;
    if (read(drv->wake_fd, &ignored, sizeof ignored) < 0)
        return;
    int64_t now = drv_now();
    for (unsigned i = 0; i < drv->port_count; i++)
        port_refresh(drv, drv->ports[i], now);
    for (unsigned i = 0; i < drv->switch_count; i++)
        visit(drv, drv->switches[i], now);
}

static void dispatch(struct drv *drv, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count && !drv_stopping(drv); i++) {
        const struct drv_watch *watch = events[i].data.ptr;
        watch->ready(drv, watch->of, events[i].events);
    }
}

static void retry_missing(struct drv *drv, int64_t now)
{
    drv->retry_at = SW_NEVER;
    for (unsigned i = 0; i < drv->port_count; i++) {
        if (drv->ports[i]->fd < 0)
            link_inspect(drv, drv->ports[i], now);
        if (drv->ports[i]->fd < 0)
            drv->retry_at = now + RETRY_INTERVAL;
    }
}

/* The time at which something is due without input. Links that become free wait for others, and for one more frame or a few:
 * they make up for it. */
static int64_t due(const struct drv *drv, int64_t now)
{
    int64_t wake = SW_NEVER, deadline = SW_NEVER, coalesce = drv->options.coalesce;
    for (unsigned i = 0; i < drv->switch_count; i++) {
        wake = sw_earlier(wake, drv->switches[i]->wake);
        deadline = sw_earlier(deadline, drv->switches[i]->deadline);
    }
    if (wake < now + coalesce)
        wake = now + coalesce;
    if (coalesce > DEADLINE_COALESCE_NS)
        coalesce = DEADLINE_COALESCE_NS;
    if (deadline < now + coalesce)
        deadline = now + coalesce;
    return sw_earlier(sw_earlier(wake, deadline), drv->retry_at);
}

static void serve_rings(struct drv *drv)
{
    for (unsigned i = 0; i < drv->ringed_count && !drv_stopping(drv); i++) {
        struct drv_port *port = drv->ringed[i];
        int64_t now;
        if (port->blocked && port->for_ring && port_unblock(drv, port))
            visit(drv, port->owner, drv_now());
        if (wire_receive(drv, port, &now) > 0)
            drain(drv, port->owner, now);
    }
}

/* Whether switches have been left with something to do, or frames are on their way from another process. */
static bool frames_waiting(const struct drv *drv)
{
    for (unsigned i = 0; i < drv->switch_count; i++)
        if (drv->switches[i]->unfinished)
            return true;
    return wires_pending(drv);
}

/* A switch that was given frames after `now` is visited at the present time, which is not before theirs. */
static void serve_switches(struct drv *drv, int64_t now)
{
    for (unsigned i = 0; i < drv->switch_count; i++)
        if (drv->switches[i]->unfinished)
            visit(drv, drv->switches[i], drv_now());
        else if (drv->switches[i]->wake <= now)
            visit(drv, drv->switches[i], now);
}

/* Sleeps until there are events or something is due, or only looks for events while there are frames. */
static int wait_for_events(struct drv *drv, struct epoll_event *events, int64_t now)
{
    int64_t until = frames_waiting(drv) ? now : due(drv, now);
    if (until <= now)
        return epoll_wait_until(drv->epoll_fd, events, now, now);
    int count = epoll_wait_until(drv->epoll_fd, events, wires_arm(drv) ? until : now, now);
    wires_disarm(drv);
    return count;
}

static int loop(struct drv *drv)
{
    int64_t now = drv_now();
    for (unsigned i = 0; i < drv->port_count; i++)
        link_inspect(drv, drv->ports[i], now);
    while (!drv_stopping(drv)) {
        struct epoll_event events[MAX_EVENTS];
        for (unsigned i = 0; i < drv->port_count && drv->retry_at == SW_NEVER; i++)
            if (drv->ports[i]->fd < 0)
                drv->retry_at = now + RETRY_INTERVAL;
        int count = wait_for_events(drv, events, now);
        if (count < 0 && errno != EINTR)
            return -errno;
        dispatch(drv, events, count);
        now = drv_now();
        for (int round = 0; round < WIRE_ROUNDS && (!round || frames_waiting(drv)); round++) {
            serve_rings(drv);
            serve_switches(drv, now);
            now = drv_now();
        }
        if (drv->retry_at <= now)
            retry_missing(drv, now);
    }
    return 0;
}

int drv_run(struct drv *drv)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the other threads */
    long slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1UL); /* the default of 50 us is longer than a frame at 1 Gb/s */
    int result = loop(drv);
    prctl(PR_SET_TIMERSLACK, slack);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

/* --- from other threads --- */

static void wake_driver(struct drv *drv)
{
    uint64_t one = 1;
    while (write(drv->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void drv_stop(struct drv *drv)
{
    __atomic_store_n(&drv->stop, 1, __ATOMIC_RELEASE);
    wake_driver(drv);
}

int drv_hold_down(struct drv *drv, unsigned index, int down)
{
    if (index >= drv->port_count)
        return -EINVAL;
    __atomic_store_n(&drv->ports[index]->held, down, __ATOMIC_RELAXED);
    wake_driver(drv);
    return 0;
}

int drv_stats(struct drv *drv, unsigned index, struct drv_port_stats *out)
{
    if (index >= drv->port_count)
        return -EINVAL;
    pthread_mutex_lock(&drv->fd_lock);
    port_count_drops(drv->ports[index]);
    const uint64_t *from = (const uint64_t *)&drv->ports[index]->stats;
    uint64_t *to = (uint64_t *)out;
    for (size_t i = 0; i < sizeof *out / sizeof *to; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    pthread_mutex_unlock(&drv->fd_lock);
    return 0;
}

/* --- making and unmaking --- */

int drv_watch(const struct drv *drv, int fd, uint32_t events, struct drv_watch *watch)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(drv->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

struct drv *drv_create(const struct drv_options *options)
{
    struct drv *drv = calloc(1, sizeof *drv);
    if (!drv)
        return NULL;
    drv->options = *options;
    drv->retry_at = SW_NEVER;
    pthread_mutex_init(&drv->fd_lock, NULL);
    drv->tx_size = (size_t)TX_QUOTA * (options->max_frame + 64);
    drv->tx_memory = malloc(drv->tx_size);
    drv->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    drv->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    drv->wake_watch.ready = on_wakeup;
    drv->link_fd = link_open();
    drv->link_watch.ready = on_link;
    if (!drv->tx_memory || rx_prepare(drv) || drv->epoll_fd < 0 || drv_watch(drv, drv->wake_fd, EPOLLIN, &drv->wake_watch) ||
        drv_watch(drv, drv->link_fd, EPOLLIN, &drv->link_watch)) {
        drv_destroy(drv);
        return NULL;
    }
    return drv;
}

/* Closing a packet socket waits for an RCU grace period, some 10 ms; closing many at once shares them. */
#define CLOSERS 16

static void *close_some(void *argument)
{
    struct drv *drv = argument;
    for (unsigned i; (i = __atomic_fetch_add(&drv->closed, 1, __ATOMIC_RELAXED)) < drv->port_count;)
        port_close(drv, drv->ports[i]);
    return NULL;
}

static void close_ports(struct drv *drv)
{
    pthread_t threads[CLOSERS];
    unsigned count = 0;
    while (count < CLOSERS && count < drv->port_count / 2 && !pthread_create(&threads[count], NULL, close_some, drv))
        count++;
    close_some(drv);
    while (count)
        pthread_join(threads[--count], NULL);
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void drv_destroy(struct drv *drv)
{
    close_ports(drv);
    for (unsigned i = 0; i < drv->port_count; i++) {
        wire_free(drv->ports[i]);
        free(drv->ports[i]);
    }
    for (unsigned i = 0; i < drv->switch_count; i++) {
        sw_dev_set_event(drv->switches[i]->sw, -1);
        free(drv->switches[i]);
    }
    close_if_open(drv->epoll_fd);
    close_if_open(drv->wake_fd);
    close_if_open(drv->link_fd);
    pthread_mutex_destroy(&drv->fd_lock);
    free(drv->ports);
    free(drv->ringed);
    free(drv->switches);
    free(drv->rx_memory);
    free(drv->rx_control);
    free(drv->tx_memory);
    free(drv);
}

static struct drv_switch *find_switch(struct drv *drv, struct sw *sw)
{
    for (unsigned i = 0; i < drv->switch_count; i++)
        if (drv->switches[i]->sw == sw)
            return drv->switches[i];
    struct drv_switch **grown = realloc(drv->switches, (drv->switch_count + 1) * sizeof *grown);
    struct drv_switch *owner = calloc(1, sizeof *owner);
    if (grown)
        drv->switches = grown;
    if (!grown || !owner) {
        free(owner);
        return NULL;
    }
    owner->sw = sw;
    owner->wake = owner->deadline = SW_NEVER;
    drv->switches[drv->switch_count++] = owner;
    sw_dev_set_event(sw, drv->wake_fd);
    return owner;
}

int drv_add_port(struct drv *drv, struct sw *sw, unsigned number, const char *ifname, unsigned shared_slots)
{
    struct drv_switch *owner = find_switch(drv, sw);
    struct drv_port **grown = realloc(drv->ports, (drv->port_count + 1) * sizeof *grown);
    struct drv_port *port = calloc(1, sizeof *port);
    if (grown)
        drv->ports = grown;
    int error = !owner || !grown || !port                        ? -ENOMEM
                : number >= SW_MAX_PORTS || owner->ports[number] ? -EINVAL
                : strlen(ifname) >= IFNAMSIZ                     ? -ENODEV
                                                                 : 0;
    if (!error) {
        port->owner = owner;
        port->number = number;
        port->fd = -1;
        port->watch = (struct drv_watch){on_port, port};
        port->up = -1;
        port->shared_slots = shared_slots;
        strcpy(port->name, ifname);
        error = port_open(drv, port);
    }
    if (error) {
        free(port);
        return error;
    }
    owner->ports[number] = port;
    drv->ports[drv->port_count] = port;
    return (int)drv->port_count++;
}
