/* Declarations for the parts of the port driver: port_driver.c (the loop), port_driver_socket.c (frames),
 * port_driver_shared.c (frames in memory shared with the kernel), port_driver_bypass.c (frames past the kernel),
 * port_driver_link.c (carrier). */
#ifndef PORT_DRIVER_INTERNAL_H
#define PORT_DRIVER_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "frame_ring.h"
#include "packet_ring.h"
#include "driver/port_driver.h"

#define RX_BATCH 64   /* frames taken from one port before the next port has its turn */
#define TX_BATCH 128  /* frames taken from a switch in one go */
#define TX_QUOTA 32   /* of these, from one port before the next port has its turn */
#define RX_HEADROOM 4 /* room before a received frame to put a VLAN tag back */

struct drv_switch;

/* What is done when a descriptor in the driver's epoll is ready (epoll_event.data.ptr). */
struct drv_watch {
    void (*ready)(struct drv *drv, void *of, uint32_t events);
    void *of;
};

/* How frames pass when they do not pass through the interface. */
struct drv_wire {
    struct drv_port *peer; /* the other port of this driver; NULL: through rings */
    struct frame_ring receive, send;
    int bell, other_bell; /* pipes: to wait at, to ring */
    struct drv_watch bell_watch;
    bool aside; /* the interface is watched or shaped, or not known yet: frames pass through it */
    struct drv_wire_counters *counters;
};

struct drv_port {
    struct drv_switch *owner;
    unsigned number;
    char name[IFNAMSIZ];
    int fd;      /* -1 while the interface does not exist */
    struct drv_watch watch;
    unsigned shared_slots;     /* for frames, in memory that it shall share with the kernel */
    struct packet_ring shared; /* that memory; none while it receives from the socket */
    int ifindex; /* 0 if missing */
    bool carrier;
    int up;       /* the last state passed to the switch; -1 = none yet */
    bool active;  /* in owner->active */
    bool blocked; /* no room: frames wait in `stash` */
    bool for_ring; /* for room in the ring; false: in the send buffer (EPOLLOUT) */
    int held;     /* held down by drv_hold_down(); atomic */
    uint8_t *stash;
    uint32_t *stash_lengths;
    unsigned stash_count, stash_next;
    size_t stash_offset;
    int64_t *stash_due;
    unsigned mtu;          /* of the interface; 0 = not known */
    struct drv_wire *wire; /* NULL: there is only the interface */
    struct drv_port_stats stats;
    struct drv_delays arrivals, departures;
};

struct drv_switch {
    struct sw *sw;
    int64_t wake, deadline;            /* sw_next_wakeup() and sw_next_deadline() as of the last visit */
    bool unfinished;                   /* to be visited at once: frames came from another switch since then, or are left */
    struct drv_port *ports[SW_MAX_PORTS];
    struct drv_port *active[SW_MAX_PORTS]; /* ports that may have something to send */
    unsigned active_count;
    unsigned turn; /* the active port that is first, so that none is always last */
};

struct tx_slot {
    struct drv_port *port;
    uint8_t *data;
    uint32_t length;
    int64_t due; /* sw_transmit_due() */
};

struct drv {
    struct drv_options options;
    struct drv_switch **switches;
    unsigned switch_count;
    struct drv_port **ports;
    unsigned port_count;

    int epoll_fd, wake_fd, link_fd;
    struct drv_watch wake_watch, link_watch;
    int stop;        /* atomic */
    int measuring;   /* delays; atomic, changed under fd_lock */
    int64_t clock_offset, clock_checked; /* CLOCK_REALTIME less CLOCK_MONOTONIC as of then; 0 = never */
    unsigned closed; /* atomic: ports that drv_destroy() has closed or is closing */
    pthread_mutex_t fd_lock; /* port->fd against drv_stats() in another thread; frames do not take it */
    int64_t retry_at; /* next try to open the interfaces that do not exist */
    struct drv_port **ringed; /* ports with rings */
    unsigned ringed_count;

    /* Batches. One of each is enough, since one port is served at a time. */
    uint8_t *rx_memory;
    struct mmsghdr rx_messages[RX_BATCH];
    struct iovec rx_vectors[RX_BATCH];
    uint8_t *rx_control;
    uint8_t *tx_memory;
    size_t tx_size;
    struct tx_slot tx_slots[TX_BATCH];
    unsigned tx_count;
    size_t tx_used;
};

/* Counters have one writer, the driver's thread, and readers in others. */
static inline void bump(uint64_t *counter, uint64_t by)
{
    __atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

int64_t drv_now(void);

/* Has `watch->ready` called at events of a descriptor; 0 or -errno. */
int drv_watch(const struct drv *drv, int fd, uint32_t events, struct drv_watch *watch);

/* Looked at between frames: one may keep the switch for some ten milliseconds (SW_MAX_STEPS). */
static inline bool drv_stopping(const struct drv *drv)
{
    return __atomic_load_n(&drv->stop, __ATOMIC_ACQUIRE);
}

static inline bool drv_measuring(const struct drv *drv)
{
    return __atomic_load_n(&drv->measuring, __ATOMIC_RELAXED);
}

/* port_driver_socket.c */
int port_open(struct drv *drv, struct drv_port *port);
void port_close(struct drv *drv, struct drv_port *port);
int rx_prepare(struct drv *drv);
/* Receives one batch and hands it to the switch [locked by this function while it does]; leaves the switch locked when it
 * returns > 0, so that the caller can transmit under the same lock. Sets *now to the time of the batch. */
int port_receive(struct drv *drv, struct drv_port *port, int64_t *now);
/* Puts a VLAN tag (in network order) back behind the two addresses of a frame, before which there is RX_HEADROOM; returns the
 * new start of the frame. */
uint8_t *restore_tag(uint8_t *frame, uint16_t tpid, uint16_t tci);
/* Adds the kernel's count of frames dropped because the receive buffer was full; any thread, under drv->fd_lock. */
void port_count_drops(struct drv_port *port);
/* Sends as many of the frames as go through the interface of their port; returns how many are dealt with (sent, or refused and
 * counted), fewer than `count` only when the send buffer is full. Not under a lock. */
unsigned socket_send(const struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count);
/* Sends the frames in drv->tx_slots, or keeps them until there is room, and empties it. Not under a lock. */
void tx_flush(struct drv *drv);
/* Sends what waited for room; true when nothing waits any more. */
bool port_unblock(struct drv *drv, struct drv_port *port);
/* What waits for room is lost. */
void stash_drop(struct drv *drv, struct drv_port *port);

/* port_driver_shared.c */
/* Has the socket receive in memory shared with the kernel, if the port shall and the kernel has any. Before bind(). */
void shared_open(const struct drv *drv, struct drv_port *port, int fd);
/* Receives a batch from there as port_receive() does. */
int shared_receive(struct drv *drv, struct drv_port *port, int64_t *now);

/* port_driver_bypass.c */
/* Whether frames of the port pass the kernel by now. */
bool wire_used(const struct drv_port *port);
/* Sends frames past the kernel as socket_send() does; sets port->for_ring when it is the ring that is full. */
unsigned wire_send(struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count);
/* Receives a batch from the rings of a port as port_receive() does. */
int wire_receive(struct drv *drv, struct drv_port *port, int64_t *now);
/* Whether frames wait in any ring. */
bool wires_pending(const struct drv *drv);
/* Before sleeping: has all rings ring; false when frames, or room for those that wait, came meanwhile. */
bool wires_arm(struct drv *drv);
void wires_disarm(struct drv *drv);
/* The interface is watched or shaped (as far as is known), or no more. */
void wire_set_aside(struct drv_port *port, bool aside);
/* drv_destroy(): frees what is in memory. */
void wire_free(struct drv_port *port);

/* port_driver_delay.c */
/* A frame waited so long for the switch. */
void delay_arrival(struct drv_port *port, int64_t ns);
/* CLOCK_REALTIME less `now`, which is this moment; false when it was set since the last batch. */
bool delay_clock(struct drv *drv, int64_t now, int64_t *offset);
/* The batch in drv->rx_messages arrived at the switch at `now`. */
void delay_arrivals(struct drv *drv, struct drv_port *port, unsigned count, int64_t now);
/* One call sent these frames. */
void delay_departures(struct drv_port *port, const struct tx_slot *slots, unsigned count, int64_t began, int64_t ended);
/* Has the kernel stamp the frames that the port receives, or not. Under drv->fd_lock. */
void delay_stamps(const struct drv_port *port, int on);

/* port_driver_link.c */
int link_open(void);
/* Has changes of queueing disciplines reported too. */
void link_watch_disciplines(struct drv *drv);
void link_receive(struct drv *drv, int64_t now);
/* Looks at the interface itself instead of waiting for news of it; opens it if it came (back). */
void link_inspect(struct drv *drv, struct drv_port *port, int64_t now);
/* Informs the switch when the state of the port has changed. */
void port_refresh(struct drv *drv, struct drv_port *port, int64_t now);

#endif
