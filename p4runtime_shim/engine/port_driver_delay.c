/* How long frames were delayed by the machine: what neither the rate of a line nor what waited ahead of them explains.
 *
 * A frame is here from the moment at which the kernel took it from the sender's interface (its receive stamp) until the send
 * call that ends with it at the next. Of that time, three parts are the model's: what waits ahead of it on a line of the
 * port's rate, what flow control holds back, and whatever interfaces and their queueing disciplines do between two sockets.
 * The rest is the machine's, and is noted in two histograms a port: at arrival, from the stamp until the switch has the frame;
 * at departure, from the moment at which an ideal line (switch.h) would have begun with it until it was sent. What slack lets
 * a late line make up for is late all the same; the line time that it does not give back is told beside (sw_port_idle_ns()).
 * What coalescing costs (port_driver.h) is in it too: it is ours.
 *
 * Stamps are of CLOCK_REALTIME, so that clock is read beside the monotonic one for each batch. When the two have moved
 * against each other by more than adjusting a clock does, it was set, or this thread was interrupted just there: the batch's
 * arrivals are not noted. Stamps cost time for every frame, on all sockets of the machine; they are taken only while
 * somebody asks for them. */
#include "port_driver_internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define MIN_CLOCK_STEP 200000LL /* ns that the clocks may seem to move against each other between two batches ... */
#define CLOCK_DRIFT_SHARE 1000     /* ... and this part of the time between the batches */

static void note(struct drv_delays *delays, int64_t ns)
{
    uint64_t late = ns > 0 ? (uint64_t)ns : 0;
    unsigned bucket = late ? 64 - (unsigned)__builtin_clzll(late) : 0;
    bump(&delays->histogram[bucket < DRV_DELAY_BUCKETS ? bucket : DRV_DELAY_BUCKETS - 1], 1);
    bump(&delays->total, late);
}

/* The stamp of a frame, 0 when it has none. */
static int64_t stamp_of(struct msghdr *header)
{
    for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control; control = CMSG_NXTHDR(header, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        struct timespec stamp;
        memcpy(&stamp, CMSG_DATA(control), sizeof stamp);
        return stamp.tv_sec * 1000000000LL + stamp.tv_nsec;
    }
    return 0;
}

/* CLOCK_REALTIME less `now`; false when it was set since the last batch. */
static bool clock_offset(struct drv *drv, int64_t now, int64_t *offset)
{
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    *offset = real.tv_sec * 1000000000LL + real.tv_nsec - now;
    int64_t moved = *offset - drv->clock_offset, allowed = MIN_CLOCK_STEP + (now - drv->clock_checked) / CLOCK_DRIFT_SHARE;
    bool known = drv->clock_checked != 0;
    drv->clock_offset = *offset;
    drv->clock_checked = now;
    return known && moved >= -allowed && moved <= allowed;
}

void delay_arrivals(struct drv *drv, struct drv_port *port, unsigned count, int64_t now)
{
    int64_t offset;
    if (!clock_offset(drv, now, &offset))
        return;
    for (unsigned i = 0; i < count; i++) {
        int64_t stamp = stamp_of(&drv->rx_messages[i].msg_hdr);
        if (stamp)
            note(&port->arrivals, now + offset - stamp);
    }
}

void delay_departures(struct drv_port *port, const struct tx_slot *slots, unsigned count, int64_t began, int64_t ended)
{
    for (unsigned i = 0; i < count; i++)
        if (slots[i].due) /* taken from the switch when nobody asked yet */
            note(&port->departures, began + (ended - began) * (i + 1) / count - slots[i].due);
}

void delay_stamps(const struct drv_port *port, int on)
{
    if (port->fd >= 0)
        setsockopt(port->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

/* --- from other threads --- */

void drv_measure_delays(struct drv *drv, int on)
{
    on = on != 0;
    pthread_mutex_lock(&drv->fd_lock);
    for (unsigned i = 0; i < drv->port_count; i++)
        delay_stamps(drv->ports[i], on);
    for (unsigned i = 0; i < drv->switch_count; i++) {
        sw_lock(drv->switches[i]->sw);
        sw_set_timing(drv->switches[i]->sw, on);
        sw_unlock(drv->switches[i]->sw);
    }
    __atomic_store_n(&drv->measuring, on, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&drv->fd_lock);
}

static void copy(struct drv_delays *to, const struct drv_delays *from)
{
    to->total = __atomic_load_n(&from->total, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < DRV_DELAY_BUCKETS; i++)
        to->histogram[i] = __atomic_load_n(&from->histogram[i], __ATOMIC_RELAXED);
}

int drv_delays(struct drv *drv, unsigned index, struct drv_delays *arrivals, struct drv_delays *departures,
               uint64_t *idle_ns)
{
    if (index >= drv->port_count)
        return -EINVAL;
    struct drv_port *port = drv->ports[index];
    copy(arrivals, &port->arrivals);
    copy(departures, &port->departures);
    sw_lock(port->owner->sw);
    *idle_ns = sw_port_idle_ns(port->owner->sw, port->number);
    sw_unlock(port->owner->sw);
    return 0;
}
