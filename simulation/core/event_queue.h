/* The state of clocks, channels and devices, and the event queue: a heap of keys in order of (when, serial), four children
 * to a parent. The events themselves stay where they are put, so that little is moved. */
#ifndef EVENT_QUEUE_H
#define EVENT_QUEUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#include "switch.h"

#define OVERHEAD 24 /* preamble, FCS and gap of a frame (topologies/round_trip.py) */
#define BITS 8000000000LL /* bits a byte, times nanoseconds a second */
#define MAX_TIME (1LL << 62)
#define MAX_PORTS SW_MAX_PORTS
#define CHILDREN 4

enum kind { CALL, FREE, ARRIVE, WAKE };

struct event {
    PyObject *handler; /* CALL only */
    PyObject *a;       /* the channel of FREE and ARRIVE, the NIC of WAKE */
    PyObject *b;       /* the frame of ARRIVE, bytes or a Frame; NULL for FREE and WAKE */
    int64_t epoch;     /* of ARRIVE; the time that WAKE was asked for */
    enum kind kind;
    uint32_t next_free;
};

struct key {
    int64_t when;
    uint64_t serial;
    uint32_t place; /* of the event */
};

typedef struct {
    PyObject_HEAD
    int64_t now, events;
    uint64_t serial;
    struct key *heap;
    struct event *places;
    size_t count, room;
    uint32_t free_place; /* the first; `room` if there is none */
    char running, stopped;
} Clock;

typedef struct hop SwitchHop;

typedef struct {
    PyObject_HEAD
    PyObject *clock, *pull, *receive, *trace, *watcher;
    PyObject *sender, *receiver; /* the SwitchHop or NicNode at each end, or None */
    long long rate, delay, remainder, free_at, epoch, frames, bytes, lost, corrupted, reordered;
    long long port, to_port, to_number;
    char idle, impaired;
} Channel;

struct hop {
    PyObject_HEAD
    Clock *clock;
    struct sw *handle; /* NULL: the switch is closed, or somebody observes its verbs */
    void (*receive)(struct sw *sw, unsigned port, const struct sw_frame *frame, int64_t now);
    size_t (*transmit)(struct sw *sw, unsigned port, int64_t now, size_t cap, sw_take take, void *context);
    size_t (*take_ready)(struct sw *sw, uint16_t *ports, size_t cap);
    PyObject *channels[MAX_PORTS];
    size_t size; /* longest frame */
    int copies; /* sending from one port may make others ready */
};

/* The hot part of NicNode in simulation/nodes.py: the device's verbs, and what it is asked with while nobody has replaced
 * `transmit`. */
typedef struct {
    PyObject_HEAD
    PyObject *clock, *channels;
    PyObject *receive, *transmit, *wakeup, *tick, *announce;
    PyObject *own_transmit, *transmit_first, *has_news;
    long long wake_at;
} NicNode;

static PyTypeObject ClockType, ChannelType, SwitchHopType, NicNodeType;
static PyObject *name_send_impaired, *name_lose, *name_frame, *name_arrived, *text_link_down;

static int before(const struct key *a, const struct key *b) {
    return a->when != b->when ? a->when < b->when : a->serial < b->serial;
}

static void sift_up(struct key *heap, size_t at) {
    struct key moved = heap[at];
    while (at > 0 && before(&moved, &heap[(at - 1) / CHILDREN])) {
        heap[at] = heap[(at - 1) / CHILDREN];
        at = (at - 1) / CHILDREN;
    }
    heap[at] = moved;
}

static void sift_down(struct key *heap, size_t count, size_t at) {
    struct key moved = heap[at];
    for (size_t first; (first = CHILDREN * at + 1) < count;) {
        size_t last = first + CHILDREN < count ? first + CHILDREN : count, least = first;
        for (size_t child = first + 1; child < last; child++)
            if (before(&heap[child], &heap[least]))
                least = child;
        if (!before(&heap[least], &moved))
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = moved;
}

static int grow(Clock *clock) {
    size_t room = clock->room ? 2 * clock->room : 256;
    if (room > UINT32_MAX) {
        PyErr_NoMemory();
        return -1;
    }
    struct key *heap = PyMem_Realloc(clock->heap, room * sizeof *heap);
    if (heap)
        clock->heap = heap;
    struct event *places = heap ? PyMem_Realloc(clock->places, room * sizeof *places) : NULL;
    if (!places) {
        PyErr_NoMemory();
        return -1;
    }
    clock->places = places;
    for (size_t i = clock->room; i < room; i++)
        places[i] = (struct event){.next_free = (uint32_t)i + 1};
    clock->free_place = (uint32_t)clock->room; /* all places were taken */
    clock->room = room;
    return 0;
}

/* Takes a reference to each object. */
static int push(Clock *clock, int64_t when, enum kind kind, PyObject *handler, PyObject *a, PyObject *b, int64_t epoch) {
    if (when < 0 || when >= MAX_TIME) {
        PyErr_SetString(PyExc_OverflowError, "The simulation's times end at 2**62 ns, after 146 years.");
        return -1;
    }
    if (clock->count == clock->room && grow(clock) < 0)
        return -1;
    uint32_t place = clock->free_place;
    struct event *event = &clock->places[place];
    clock->free_place = event->next_free;
    Py_XINCREF(handler);
    Py_XINCREF(a);
    Py_XINCREF(b);
    *event = (struct event){handler, a, b, epoch, kind, 0};
    clock->heap[clock->count] = (struct key){when, clock->serial++, place};
    sift_up(clock->heap, clock->count++);
    return 0;
}

/* What was at a place, which is free from now on. Its references are the caller's. */
static struct event take(Clock *clock, uint32_t place) {
    struct event event = clock->places[place];
    clock->places[place] = (struct event){.next_free = clock->free_place};
    clock->free_place = place;
    return event;
}

/* The first event; the clock goes to its time. */
static struct event pop(Clock *clock) {
    struct key first = clock->heap[0];
    clock->heap[0] = clock->heap[--clock->count];
    if (clock->count)
        sift_down(clock->heap, clock->count, 0);
    clock->now = first.when;
    return take(clock, first.place);
}

static void forget(struct event *event) {
    Py_XDECREF(event->handler);
    Py_XDECREF(event->a);
    Py_XDECREF(event->b);
}

#endif
