/* Delays of frames that the machine caused, beyond the link rate and the frames queued ahead.
 *
 * A frame is in this switch from the time at which the kernel took it from the sender's interface (its receive timestamp)
 * until the return of the call that sent it. Three parts of that time belong to the model: waiting for frames ahead on a link
 * of the port's rate, flow control, and what interfaces and their queueing disciplines do between two sockets. The remainder
 * is the machine's, recorded in two histograms per port: at arrival, from the timestamp until the switch has the frame; at
 * departure, from the time at which the ideal link (switch.h) would have started it until it was sent. A frame sent late is
 * late even if `slack` makes up for the link time; link time that is lost is counted in sw_port_idle_ns(). The cost of
 * coalescing (port_driver.h) is included.
 *
 * Timestamps are of CLOCK_REALTIME, so for each batch that clock is read together with the monotonic one. When the two have
 * diverged by more than clock adjustment explains, the clock was set or this thread was interrupted in between, and the
 * batch's arrivals are not recorded. Timestamps cost time for every frame on all sockets of the machine; they are enabled
 * only on request. */
#include "driver/port_driver_internal.h"

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

void delay_arrival(struct drv_port *port, int64_t ns)
{
    note(&port->arrivals, ns);
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

bool delay_clock(struct drv *drv, int64_t now, int64_t *offset)
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
    if (!delay_clock(drv, now, &offset))
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
        if (slots[i].due) /* taken from the switch before measuring began */
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
