/* The real-time port driver: moves frames between AF_PACKET sockets and switches, in one thread.
 *
 * Make one, add the ports of any number of switches, call drv_run() in a thread of its own. Everything but drv_run() may be
 * called from other threads where stated. Errors are negative errno values. */
#ifndef PORT_DRIVER_H
#define PORT_DRIVER_H

#include <stdint.h>

#include "switch.h"

struct drv;

struct drv_options {
    uint32_t max_frame;     /* longest frame of any switch, in bytes */
    uint32_t socket_buffer; /* receive and send buffer of each socket, in bytes of kernel memory */
    int32_t bmv2_send_buffer; /* send buffers of the kernel's default size (net.core.wmem_default), as in BMv2 */
    int64_t coalesce;       /* ns that a link may be idle so that several ports share a wake-up */
    int32_t use_qdisc;      /* send through the queueing discipline of the interface (netem, tbf) instead of past it */
};

/* Figures of one port since drv_add_port(); every counter only grows. */
struct drv_port_stats {
    uint64_t rx_packets, rx_bytes;
    uint64_t tx_packets, tx_bytes;
    uint64_t rx_dropped;     /* dropped by the kernel because the receive buffer was full */
    uint64_t rx_too_long;    /* longer than max_frame (segmentation offload left on?) */
    uint64_t rx_no_checksum; /* arrived without a transport checksum (checksum offload left on at the sender) */
    uint64_t rx_errors;      /* receive calls that failed */
    uint64_t tx_errors;      /* frames that the kernel refused */
    uint64_t tx_too_long;    /* of these, longer than the MTU of the interface */
    uint64_t tx_blocked;     /* times the send buffer, or the ring, was full (the frames waited) */
    uint64_t tx_lost;        /* frames taken from the switch that were lost when the interface went away */
    uint64_t downs;          /* times the port went down */
    uint64_t reopens;        /* times the socket was reopened because the interface had vanished */
    uint64_t up;             /* 1: carrier present, interface up, and not held down */
    uint64_t ifindex;        /* 0 while the interface does not exist */
};

/* Delays that the model does not explain (port_driver_delay.c), of one port since drv_add_port(). */
#define DRV_DELAY_BUCKETS 40
struct drv_delays {
    uint64_t total;                        /* ns */
    uint64_t histogram[DRV_DELAY_BUCKETS]; /* frames delayed by 0 ns; then by 2^(i-1) ns or more, but less than 2^i */
};

struct drv *drv_create(const struct drv_options *options);
void drv_destroy(struct drv *drv);

/* Opens interface `ifname` as port `port` of `sw`; the port's number for the calls below (0, 1, ...), or -errno. With
 * `shared_slots` it receives in memory shared with the kernel, of so many times max_frame (port_driver_shared.c), if the kernel
 * has that. Before drv_run() only. */
int drv_add_port(struct drv *drv, struct sw *sw, unsigned port, const char *ifname, unsigned shared_slots);

/* Wires past the kernel (port_driver_bypass.c), before drv_run() only. Frames between two ports of this driver pass in memory: */
int drv_join(struct drv *drv, unsigned index, unsigned other);
/* Frames of a port pass through the rings (frame_ring.h) in the `bytes` at `memory`; it receives from ring `receiving`. `bell`
 * is the pipe that wakes this driver, `other_bell` that of the other end; all of them remain the caller's. */
int drv_attach_rings(struct drv *drv, unsigned index, void *memory, size_t bytes, unsigned receiving, int bell, int other_bell);
/* Where to count the frames of such a port that did not pass through its interface; continues from what is there. */
struct drv_wire_counters {
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
    uint64_t aside; /* 1: they pass through the interface now, since it is watched or shaped */
};
int drv_count_wire(struct drv *drv, unsigned index, struct drv_wire_counters *counters);

/* Blocks until drv_stop(); 0, or -errno when the loop itself fails. */
int drv_run(struct drv *drv);
/* Any thread, any time: drv_run() returns soon, also when it is called later. */
void drv_stop(struct drv *drv);

/* Any thread: holds a port down whatever its carrier, or lets it follow its carrier again (the start). */
int drv_hold_down(struct drv *drv, unsigned index, int down);
/* Any thread: measure delays from now on, or no more (the start). */
void drv_measure_delays(struct drv *drv, int on);
/* Any thread. */
int drv_delays(struct drv *drv, unsigned index, struct drv_delays *arrivals, struct drv_delays *departures,
               uint64_t *idle_ns /* sw_port_idle_ns() */);
/* Any thread. */
int drv_stats(struct drv *drv, unsigned index, struct drv_port_stats *out);

#endif
