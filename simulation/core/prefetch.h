/* Prefetching: the memory that the next events need is fetched while one is handled.
 *
 * In a large world thousands of events lie between two that meet the same channel, switch or packet, so all of these have left the
 * caches, and an event waits for one cache line after another. Here the next few events are looked at again and again: the nearer
 * one is, the further what it needs is followed, from the event over its channel to the switch behind it and the packet there.
 * Where something else comes between, the look was in vain; nothing depends on it. */
#ifndef PREFETCH_H
#define PREFETCH_H

#include "nic_ports.h"
#include "prefetch_lines.h"
#include "switch_ports.h"

#define LEAST_QUEUED 1024 /* where fewer events are queued, the caches hold what they need */
#define FOUND_AT_ONCE 2   /* one for the event that is handled, one to get ahead */

/* Events between now and the one that is looked at, for each step; an event that was just found, at AHEAD - 1, is fetched. */
enum { TO_CHANNEL = AHEAD - 2, TO_ITS_END = AHEAD - 3, TO_DEVICE = AHEAD - 4 };

/* The event behind `last` in the wheel; 0 for none. */
static uint32_t place_behind(const Clock *clock, const struct event *last) {
    if (last->next)
        return last->next;
    int slot = next_slot(clock, (uint32_t)((last->when + 1) % HORIZON));
    uint32_t place = slot < 0 ? 0 : clock->slots[slot].first;
    return place && clock->places[place].when > last->when ? place : 0; /* otherwise it is around the wheel */
}

/* One more event. */
static void find_another(Clock *clock, const struct event *now) {
    uint32_t place = place_behind(clock, clock->ahead_count ? &clock->places[clock->ahead[clock->ahead_count - 1]] : now);
    if (!place)
        return;
    prefetch_lines(&clock->places[place], 1);
    clock->ahead[clock->ahead_count++] = place;
}

static void prefetch_frame(PyObject *frame, uint32_t events, int for_nic) {
    if (events == TO_CHANNEL) {
        prefetch_lines(frame, sizeof(Frame) + 2 * CACHE_LINE);
    } else if (is_frame(frame) && events == TO_ITS_END) {
        prefetch_lines(((const Frame *)frame)->owner, sizeof(PacketInPlace));
    } else if (is_frame(frame) && for_nic) { /* which reads the payload */
        size_t part = (size_t)((const Frame *)frame)->rest_len / (TO_DEVICE + 1);
        prefetch_lines(((const Frame *)frame)->rest + events * part, part);
    }
}

static void prefetch_switch(const SwitchPorts *ports, int64_t port, int arrives, uint32_t events) {
    uint32_t step = TO_DEVICE - events;
    if (ports->handle && step <= SW_PREFETCH_PACKET)
        ports->prefetch(ports->handle, (unsigned)port, arrives, (enum sw_prefetch_step)step);
}

/* What an event needs that happens after so many others. */
static void prefetch_for(const struct event *event, uint32_t events) {
    if (event->kind != FREE && event->kind != ARRIVE)
        return;
    const Channel *channel = (const Channel *)event->a;
    int arrives = event->kind == ARRIVE;
    PyObject *end = NULL;
    if (events == TO_CHANNEL)
        prefetch_lines(channel, offsetof(Channel, cold));
    else
        end = arrives ? channel->receiver : channel->sender;
    if (events == TO_ITS_END && end)
        prefetch_lines(end, 4 * CACHE_LINE); /* verbs, and channels of the first ports of a switch */
    int of_switch = events <= TO_DEVICE && end && Py_TYPE(end) == &SwitchPortsType;
    if (arrives)
        prefetch_frame(event->b, events, events <= TO_DEVICE && end && Py_TYPE(end) == &NicPortsType);
    if (of_switch)
        prefetch_switch((SwitchPorts *)end, arrives ? channel->to_port : channel->port, arrives, events);
}

/* The event `now` was in `place`, and is about to be handled. */
static void prefetch_for_next(Clock *clock, uint32_t place, const struct event *now) {
    if (clock->count < clock->least_queued) {
        clock->ahead_count = 0;
        return;
    }
    if (clock->ahead_count && clock->ahead[0] == place) {
        clock->foreseen++;
        memmove(clock->ahead, clock->ahead + 1, --clock->ahead_count * sizeof *clock->ahead);
    }
    for (uint32_t i = 0; i < clock->ahead_count && i <= TO_CHANNEL; i++)
        prefetch_for(&clock->places[clock->ahead[i]], i);
    for (int found = 0; found < FOUND_AT_ONCE && clock->ahead_count < AHEAD; found++)
        find_another(clock, now);
}

#endif
