/* The state of clocks, channels and hops, and the event queue: a binary heap by (when, serial). */
#ifndef EVENT_QUEUE_H
#define EVENT_QUEUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#define OVERHEAD 24 /* preamble, FCS and gap of a frame (topologies/round_trip.py) */
#define BITS 8000000000LL /* bits a byte, times nanoseconds a second */
#define MAX_TIME (1LL << 62)
#define MAX_PORTS 512

enum kind { CALL, FREE, ARRIVE };

struct event {
    int64_t when;
    uint64_t serial;
    PyObject *handler; /* CALL only */
    PyObject *a;       /* the channel, unless CALL */
    PyObject *b;       /* the frame of ARRIVE; NULL for FREE */
    int64_t epoch;     /* of ARRIVE */
    enum kind kind;
};

typedef struct {
    PyObject_HEAD
    int64_t now, events;
    uint64_t serial;
    struct event *heap;
    size_t count, room;
    char running, stopped;
} Clock;

typedef struct hop SwitchHop;

typedef struct {
    PyObject_HEAD
    PyObject *clock, *pull, *receive, *trace, *watcher;
    PyObject *sender, *receiver; /* the SwitchHop at each end, or None */
    long long rate, delay, remainder, free_at, epoch, frames, bytes, lost, corrupted, reordered;
    long long port, to_port, to_number;
    char idle, impaired;
} Channel;

struct hop {
    PyObject_HEAD
    Clock *clock;
    void *handle; /* struct sw; NULL: the switch is closed, or somebody observes its verbs */
    void (*receive)(void *sw, unsigned port, const void *data, size_t len, int64_t now);
    size_t (*transmit)(void *sw, unsigned port, int64_t now, void *buf, size_t cap);
    size_t (*take_ready)(void *sw, uint16_t *ports, size_t cap);
    PyObject *channels[MAX_PORTS];
    char *buffer;
    size_t size;
    int copies; /* sending from one port may make others ready */
};

static PyTypeObject ClockType, ChannelType, SwitchHopType;
static PyObject *name_send_impaired, *name_lose, *name_frame, *name_arrived, *text_link_down;

static int before(const struct event *a, const struct event *b) {
    return a->when != b->when ? a->when < b->when : a->serial < b->serial;
}

static void sift_up(struct event *heap, size_t at) {
    struct event moved = heap[at];
    while (at > 0 && before(&moved, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moved;
}

static void sift_down(struct event *heap, size_t count, size_t at) {
    struct event moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Takes a reference to each object. */
static int push(Clock *clock, int64_t when, enum kind kind, PyObject *handler, PyObject *a, PyObject *b, int64_t epoch) {
    if (when < 0 || when >= MAX_TIME) {
        PyErr_SetString(PyExc_OverflowError, "The simulation's times end at 2**62 ns, after 146 years.");
        return -1;
    }
    if (clock->count == clock->room) {
        size_t room = clock->room ? 2 * clock->room : 256;
        struct event *heap = PyMem_Realloc(clock->heap, room * sizeof *heap);
        if (!heap) {
            PyErr_NoMemory();
            return -1;
        }
        clock->heap = heap;
        clock->room = room;
    }
    Py_XINCREF(handler);
    Py_XINCREF(a);
    Py_XINCREF(b);
    clock->heap[clock->count] = (struct event){when, clock->serial++, handler, a, b, epoch, kind};
    sift_up(clock->heap, clock->count++);
    return 0;
}

static struct event pop(Clock *clock) {
    struct event first = clock->heap[0];
    clock->heap[0] = clock->heap[--clock->count];
    if (clock->count)
        sift_down(clock->heap, clock->count, 0);
    return first;
}

#endif
