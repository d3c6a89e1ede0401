/* The event queue of a clock.
 *
 * What happens within HORIZON is in a wheel with a slot for each nanosecond: a list of events, in the order in which they were
 * scheduled. In a large world there are thousands at a time, and entering or leaving a list takes the same time however many
 * there are. What happens later is in a heap of keys in order of (when, serial), four children to a parent. The first event is
 * the earlier one of the first in the wheel and the first in the heap. The events themselves stay where they are put. */
#ifndef EVENT_QUEUE_H
#define EVENT_QUEUE_H

#include "prefetch_lines.h"
#include "python_calls.h"

#define CHILDREN 4
#define HORIZON 4096 /* ns */
#define AHEAD 7      /* events (prefetch.h) */

enum kind { NOTHING, CALL, FREE, ARRIVE, WAKE_SWITCH, WAKE_NIC, ASK, DELIVER };

struct event {
    int64_t when;
    uint64_t serial;
    PyObject *handler; /* CALL only */
    PyObject *a;       /* the Channel of FREE and ARRIVE, the SwitchPorts or NicPorts of the others */
    PyObject *b;       /* the frame of ARRIVE and DELIVER; NULL for the others but CALL */
    int64_t epoch;     /* of ARRIVE; the time that was asked for of WAKE; the port of DELIVER */
    uint32_t next;     /* place of the next event of its slot, or the next free place; 0 for none */
    uint32_t kind;     /* enum kind */
} __attribute__((aligned(CACHE_LINE)));

struct key {
    int64_t when;
    uint64_t serial;
    uint32_t place; /* of the event */
};

struct slot {
    uint32_t first, last; /* places; 0: the slot is empty */
};

typedef struct {
    PyObject_HEAD
    int64_t now, events;
    uint64_t serial;
    int64_t base;         /* the wheel has events from this time on */
    struct event *places; /* the first is not used, so that there is no place 0 */
    struct key *heap;
    size_t count, far, room; /* events; those in the heap, and how many it has room for */
    uint32_t place_room, free_place;
    char running, stopped;
    uint32_t ahead[AHEAD], ahead_count; /* places of events that come next, in their order (prefetch.h) */
    size_t least_queued;                /* for prefetching */
    uint64_t foreseen;                  /* events that were among `ahead` before */
    uint64_t some, used[HORIZON / 64]; /* which of the words below is not zero; which slots are not empty */
    struct slot slots[HORIZON];
} Clock;

static PyTypeObject ClockType;

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

static int grow_heap(Clock *clock) {
    size_t room = clock->room ? 2 * clock->room : 64;
    struct key *heap = PyMem_Realloc(clock->heap, room * sizeof *heap);
    if (!heap) {
        PyErr_NoMemory();
        return -1;
    }
    clock->heap = heap;
    clock->room = room;
    return 0;
}

static int grow_places(Clock *clock) {
    size_t before = clock->place_room, room = before ? 2 * before : 64;
    struct event *places = room > UINT32_MAX ? NULL : aligned_alloc(CACHE_LINE, room * sizeof *places);
    if (!places) {
        PyErr_NoMemory();
        return -1;
    }
    if (before)
        memcpy(places, clock->places, before * sizeof *places);
    free(clock->places);
    clock->places = places;
    clock->place_room = (uint32_t)room;
    for (size_t i = room; i-- > before;) {
        places[i] = (struct event){.next = i ? clock->free_place : 0};
        if (i)
            clock->free_place = (uint32_t)i;
    }
    return 0;
}

/* ---- the wheel ---- */

static void enter_slot(Clock *clock, uint32_t place) {
    struct event *places = clock->places, *event = &places[place];
    uint32_t number = (uint32_t)(event->when % HORIZON);
    struct slot *slot = &clock->slots[number];
    event->next = 0;
    if (!slot->first) {
        *slot = (struct slot){place, place};
        clock->used[number / 64] |= 1ull << number % 64;
        clock->some |= 1ull << number / 64;
    } else if (places[slot->last].serial < event->serial) {
        places[slot->last].next = place;
        slot->last = place;
    } else { /* it was scheduled earlier, for another time (bring_forward) */
        uint32_t *at = &slot->first;
        while (places[*at].serial < event->serial)
            at = &places[*at].next;
        event->next = *at;
        *at = place;
    }
}

/* The place is in the slot, after `before`, or the first if that is 0. */
static void leave_slot(Clock *clock, uint32_t number, uint32_t before, uint32_t place) {
    struct slot *slot = &clock->slots[number];
    uint32_t next = clock->places[place].next;
    if (before)
        clock->places[before].next = next;
    else
        slot->first = next;
    if (!next)
        slot->last = before;
    if (!slot->first) {
        clock->used[number / 64] &= ~(1ull << number % 64);
        if (!clock->used[number / 64])
            clock->some &= ~(1ull << number / 64);
    }
}

/* The first slot, of those that are not empty, from slot `from` on, around the wheel; -1 if all are empty. */
static int next_slot(const Clock *clock, uint32_t from) {
    uint32_t word = from / 64;
    uint64_t here = clock->used[word] >> from % 64;
    if (here)
        return (int)from + __builtin_ctzll(here);
    uint64_t later = word < 63 ? clock->some >> (word + 1) << (word + 1) : 0;
    if (!later && !clock->some)
        return -1;
    word = (uint32_t)__builtin_ctzll(later ? later : clock->some);
    return (int)(64 * word) + __builtin_ctzll(clock->used[word]);
}

/* ---- scheduling ---- */

static int insert(Clock *clock, uint32_t place) {
    const struct event *event = &clock->places[place];
    if ((uint64_t)(event->when - clock->base) < HORIZON) {
        enter_slot(clock, place);
        return 0;
    }
    if (clock->far == clock->room && grow_heap(clock) < 0)
        return -1;
    clock->heap[clock->far] = (struct key){event->when, event->serial, place};
    sift_up(clock->heap, clock->far++);
    return 0;
}

/* Takes a reference to each object. */
static int push(Clock *clock, int64_t when, enum kind kind, PyObject *handler, PyObject *a, PyObject *b, int64_t epoch) {
    if (when < 0 || when >= MAX_TIME) {
        raise_simulation_error("The simulation's times end at 2**62 ns, after 146 years.");
        return -1;
    }
    if (!clock->free_place && grow_places(clock) < 0)
        return -1;
    uint32_t place = clock->free_place, next_free = clock->places[place].next;
    clock->places[place] = (struct event){when, clock->serial, handler, a, b, epoch, 0, kind};
    if (insert(clock, place) < 0) {
        clock->places[place] = (struct event){.next = next_free};
        return -1;
    }
    clock->free_place = next_free;
    clock->serial++;
    clock->count++;
    Py_XINCREF(handler);
    Py_XINCREF(a);
    Py_XINCREF(b);
    return 0;
}

/* ---- what is first ---- */

struct first {
    int64_t when;
    uint32_t place;
    int slot; /* -1: it is in the heap */
};

/* There is an event. */
static struct first find_first(const Clock *clock) {
    int slot = next_slot(clock, (uint32_t)(clock->base % HORIZON));
    if (slot < 0)
        return (struct first){clock->heap[0].when, clock->heap[0].place, -1};
    uint32_t place = clock->slots[slot].first;
    const struct event *event = &clock->places[place];
    struct key near = {event->when, event->serial, place};
    if (clock->far && before(&clock->heap[0], &near))
        return (struct first){clock->heap[0].when, clock->heap[0].place, -1};
    return (struct first){near.when, place, slot};
}

static struct event pop(Clock *clock, const struct first *first) {
    struct event event = clock->places[first->place];
    clock->now = first->when;
    if (first->when > clock->base)
        clock->base = first->when;
    if (first->slot >= 0) {
        leave_slot(clock, (uint32_t)first->slot, 0, first->place);
    } else {
        clock->heap[0] = clock->heap[--clock->far];
        if (clock->far)
            sift_down(clock->heap, clock->far, 0);
    }
    clock->places[first->place] = (struct event){.next = clock->free_place};
    clock->free_place = first->place;
    clock->count--;
    return event; /* its references are the caller's */
}

static void forget(struct event *event) {
    Py_XDECREF(event->handler);
    Py_XDECREF(event->a);
    Py_XDECREF(event->b);
}

/* An event that is queued happens earlier. */
static void bring_forward(Clock *clock, uint32_t place, int64_t when) {
    clock->ahead_count = 0;
    struct event *event = &clock->places[place];
    for (size_t at = 0; at < clock->far; at++) {
        if (clock->heap[at].place != place)
            continue;
        event->when = clock->heap[at].when = when; /* it stays in the heap: where an event is does not matter */
        sift_up(clock->heap, at);
        return;
    }
    uint32_t number = (uint32_t)(event->when % HORIZON), before = 0;
    for (uint32_t at = clock->slots[number].first; at != place; at = clock->places[at].next)
        before = at;
    leave_slot(clock, number, before, place);
    event->when = when;
    enter_slot(clock, place);
}

/* Where an event with this object is: the first that is found, or the one with a serial; 0 if there is none. */
static uint32_t place_of(const Clock *clock, enum kind kind, const void *object, const uint64_t *serial) {
    for (uint32_t place = 1; place < clock->place_room; place++) {
        const struct event *event = &clock->places[place];
        if (event->kind == kind && (const void *)event->a == object && (!serial || event->serial == *serial))
            return place;
    }
    return 0;
}

#endif
