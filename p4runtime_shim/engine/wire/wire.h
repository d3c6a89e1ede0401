/* The wire, the lowest layer of a switch: its ports and their links, wires that take time, and pauses.
 *
 * It knows which queues of a port have packets, but nothing of packets. Whoever sends or receives a frame, and what it does with
 * one that a wire gives back, is decided above. */
#ifndef SW_WIRE_H
#define SW_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "switch.h"
#include "wide.h"

#define SW_MAX_QUEUES 8

struct sw_queue { /* the packets are the business of the layer above */
    struct sw_packet *head, *tail;
    uint32_t packets, bytes, max_packets, max_bytes;
    uint32_t peak_packets, peak_bytes; /* highest since they were last set back */
    uint64_t drops;
};

struct sw_port_stats {
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
    uint64_t queue_drops, down_drops;
    uint64_t headroom_drops, pauses_sent, pauses_received; /* priority flow control */
    uint32_t queued_packets, queued_bytes;
    int32_t up;
};

/* Bytes in all queues of a port: now, the most since the last sample, and summed up over time. */
struct sw_depth {
    uint64_t bytes, peak;
    uint64_t byte_ns; /* up to `since` */
    int64_t since;    /* when `bytes` last changed */
};

/* Priority flow control of a port (priority_flow_control.c). Bytes are counted as frames without FCS. */
struct sw_pause_config {
    uint32_t priorities;           /* bit q: queue q of every port; 0 = off */
    uint32_t xoff, xon, headroom;  /* bytes that arrived on this port, per priority; 0 < xon <= xoff */
    uint32_t quanta;               /* time in the PAUSE frames sent, 1..65535 units of 512 bits */
    uint64_t rate;                 /* of the port, bit/s: the length of such a unit */
};

/* Its state; masks have a bit a priority. See priority_flow_control.c. */
struct sw_pause {
    struct sw_pause_config config;
    uint8_t asserted; /* the neighbour has been, or will be, paused */
    uint8_t pending;  /* priorities for the next frame to the neighbour; 0 = no frame */
    uint8_t paused;   /* the neighbour paused us, until `paused_until` */
    uint32_t buffered[SW_MAX_QUEUES]; /* bytes that arrived here and have not left the switch */
    int64_t paused_until[SW_MAX_QUEUES];
    int64_t refresh_at; /* when to repeat the PAUSE of `asserted` */
    uint8_t silenced;   /* the last frame to the neighbour paused it */
    int64_t silenced_since[SW_MAX_QUEUES];
    uint64_t silenced_ns, silenced_times; /* over all priorities; without those of `silenced` */
};

/* From when on a line is free. */
struct sw_tx_link {
    int64_t free_at;
    uint64_t remainder; /* of free_at, in units of 1/rate ns */
};

struct sw_wire_frame {
    struct sw_wire_frame *next;
    int64_t due;   /* when it goes on */
    int64_t ideal; /* sw_transmit_due() */
    uint32_t len;
    uint8_t data[];
};

/* A wire that takes time, in one direction (long_wire.c). */
struct sw_wire {
    int64_t delay;                     /* ns, 0: what is sent is there */
    struct sw_wire_frame *head, *tail; /* tail: of no meaning without a head */
};

SW_INLINE int sw_wire_used(const struct sw_wire *wire) { return wire->delay || wire->head; }

/* What every packet needs comes first (prefetch.c). */
struct sw_port {
    uint32_t waiting; /* bit q: queue q is not empty */
    uint16_t number;
    uint8_t up, in_ready_list;
    int event;
    uint64_t rate;
    int64_t slack;
    int64_t resumed_at; /* when flow control last resumed paused frames */
    struct sw_tx_link tx_link;
    struct sw_wire arriving, leaving;
    struct sw_depth depth;
    struct sw_port_stats stats;
    struct sw_pause pause;
    struct sw_queue queue[SW_MAX_QUEUES];
    struct sw_tx_link ideal_link; /* of a link whose driver is never late */
    int64_t due;                  /* when the last frame sent would have started on the ideal link */
    uint64_t idle_ns;             /* ns that the link was idle although a frame was queued, while timing was on */
};

/* The ports of a switch. What every packet needs comes before `at` (prefetch.c). */
struct sw_ports {
    struct sw_port *list;
    uint32_t count;
    uint32_t ready_count;
    uint16_t *ready; /* numbers of the ports that have become ready */
    int outside_ready; /* some have since this was cleared */
    int pausing;  /* some port has flow control */
    int timing;   /* ideal links are kept */
    int delaying; /* some port has a wire that takes time, or had one */
    struct sw_port *at[SW_MAX_PORTS];
    size_t on_wires; /* bytes of memory */
};

/* NULL: there is none. */
SW_INLINE struct sw_port *sw_port_at(const struct sw_ports *ports, unsigned number) {
    return number < SW_MAX_PORTS ? ports->at[number] : NULL;
}

/* ports.c */
void sw_signal(int fd); /* an eventfd, or -1 */
int sw_ports_make(struct sw_ports *ports, const struct sw_config *config); /* 0; -1: no memory, or a wrong number */
void sw_ports_free(struct sw_ports *ports);
void sw_mark_ready(struct sw_ports *ports, struct sw_port *port); /* it has something to send */
size_t sw_ports_take_ready(struct sw_ports *ports, uint16_t *numbers, size_t cap);
/* A frame queued since `since` is sent. */
void sw_link_transmit(struct sw_port *port, int timing, int64_t since, int64_t now, uint32_t bytes);
void sw_link_resume(struct sw_port *port, int64_t until); /* by flow control, which is no lateness */
void sw_link_set_rate(struct sw_ports *ports, struct sw_port *port, uint64_t bits_per_second, int64_t slack, int64_t now);
void sw_ports_set_timing(struct sw_ports *ports, int on);
/* When something is due; with `links`, also when a link is free for packets that wait in a queue. */
int64_t sw_ports_next_wakeup(const struct sw_ports *ports, int links);

/* long_wire.c */
void sw_wires_set_delay(struct sw_ports *ports, struct sw_port *port, int64_t arriving, int64_t leaving, int64_t now);
/* What arrives at, or leaves, a port is on its wire from now on; 0: the wires hold no more. */
int sw_wire_receive(struct sw_ports *ports, struct sw_port *port, const void *data, size_t len, int64_t now);
int sw_wire_transmit(struct sw_ports *ports, struct sw_port *port, const void *data, size_t len, int64_t now);
int sw_wires_have_room(const struct sw_ports *ports, size_t len);
/* The next frame whose time has come to arrive, or to be sent if it has at most `cap` bytes; the caller frees it. NULL: none. */
struct sw_wire_frame *sw_wire_received(struct sw_ports *ports, struct sw_port *port, int64_t now);
struct sw_wire_frame *sw_wire_transmitted(struct sw_ports *ports, struct sw_port *port, int64_t now, size_t cap);
uint64_t sw_wires_lose(struct sw_ports *ports, struct sw_port *port); /* the port is down: so many frames are lost */
int64_t sw_wires_next_wakeup(const struct sw_port *port);

/* priority_flow_control.c */
void sw_pause_set(struct sw_ports *ports, struct sw_port *port, const struct sw_pause_config *config, int64_t now);
/* Bytes from `port` enter a queue: 1 if they are charged to it, 0 if it has no flow control, -1 if it has no headroom for them. */
int sw_pause_charge(struct sw_ports *ports, struct sw_port *port, unsigned queue, uint32_t bytes);
void sw_pause_release(struct sw_ports *ports, struct sw_port *port, unsigned queue, uint32_t bytes); /* they leave it */
void sw_pause_reset(struct sw_ports *ports); /* all packets have been freed */
size_t sw_pause_emit(struct sw_port *port, uint32_t device_id, int64_t now, uint8_t *frame, size_t cap);
/* True: it was a PAUSE. */
int sw_pause_receive(struct sw_ports *ports, struct sw_port *port, const uint8_t *frame, size_t len, int64_t now);
void sw_pause_expire(struct sw_ports *ports, struct sw_port *port, int64_t now);
void sw_pause_port_down(struct sw_port *port, int64_t now);
uint64_t sw_pause_silenced_ns(const struct sw_pause *pause, int64_t now);
void sw_pause_tick(struct sw_ports *ports, int64_t now);
int64_t sw_pause_next_wakeup(const struct sw_port *port);

#endif
