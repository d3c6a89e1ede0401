/* Memory that the next events need is fetched while one is handled.
 *
 * In a large world thousands of events lie between two that meet the same channel, switch or packet, so the caches have none of
 * them, and each event waited for one line of memory after another. Here the next few are looked at again and again: the nearer
 * one is, the further what it needs is followed, from the event over its channel to the switch behind it and the packet there.
 * Where something else comes between, the look was in vain; nothing depends on it. */
#ifndef LOOK_AHEAD_H
#define LOOK_AHEAD_H

#include "frame_path.h"

#define CROWD 1024 /* where fewer events are queued, the caches hold what they need */

/* Events between now and the one that is looked at, for each step; an event that was just found, at AHEAD - 1, is fetched. */
enum { TO_CHANNEL = AHEAD - 2, TO_ITS_END = AHEAD - 3, TO_DEVICE = AHEAD - 4 };

static void fetch(const void *from, size_t bytes) {
    for (uintptr_t at = (uintptr_t)from / LINE * LINE; at < (uintptr_t)from + bytes; at += LINE)
        __builtin_prefetch((const void *)at, 1);
}

/* The event behind one of `when` in the wheel, which has `next` behind it in its slot; 0 for none. */
static uint32_t place_behind(const Clock *clock, int64_t when, uint32_t next) {
    if (next)
        return next;
    int here = (int)(when % HORIZON), slot = next_slot(clock, (uint32_t)((here + 1) % HORIZON));
    return slot < 0 || slot == here ? 0 : clock->slots[slot].first;
}

/* One more event. */
static void find_another(Clock *clock, const struct event *now) {
    const struct event *last = clock->ahead_count ? &clock->places[clock->ahead[clock->ahead_count - 1]] : now;
    uint32_t place = place_behind(clock, last->when, last->next);
    if (!place)
        return;
    fetch(&clock->places[place], 1);
    clock->ahead[clock->ahead_count++] = place;
}

static void fetch_frame(PyObject *frame, uint32_t events, int for_nic) {
    if (events == TO_CHANNEL) {
        fetch(frame, sizeof(Frame) + 2 * LINE);
    } else if (is_frame(frame) && events == TO_ITS_END) {
        fetch(((const Frame *)frame)->owner, 1);
    } else if (is_frame(frame) && for_nic) { /* which reads the payload */
        size_t part = (size_t)((const Frame *)frame)->rest_len / (TO_DEVICE + 1);
        fetch(((const Frame *)frame)->rest + events * part, part);
    }
}

static void fetch_device(SwitchHop *hop, long long port, int arrives, uint32_t events) {
    uint32_t step = TO_DEVICE - events;
    if (step <= SW_FETCH_PACKET)
        hop->fetch_ahead(hop->handle, (unsigned)port, arrives, (enum sw_fetch_step)step);
}

/* What an event needs that happens after so many others. */
static void fetch_for(const struct event *event, uint32_t events) {
    if (event->kind != FREE && event->kind != ARRIVE)
        return;
    const Channel *channel = (const Channel *)event->a;
    int arrives = event->kind == ARRIVE;
    PyObject *end = NULL;
    if (events == TO_CHANNEL)
        fetch(channel, sizeof *channel);
    else
        end = arrives ? channel->receiver : channel->sender;
    if (events == TO_ITS_END && end)
        fetch(end, 2 * LINE);
    SwitchHop *hop = events <= TO_DEVICE ? open_hop(end) : NULL;
    if (arrives)
        fetch_frame(event->b, events, events <= TO_DEVICE && !hop && nic_node(end));
    if (hop)
        fetch_device(hop, arrives ? channel->to_port : channel->port, arrives, events);
}

/* The event `now` was in `place`, and is about to be handled. */
static void look_ahead(Clock *clock, uint32_t place, const struct event *now) {
    if (clock->count < clock->crowd) {
        clock->ahead_count = 0;
        return;
    }
    if (clock->ahead_count && clock->ahead[0] == place) {
        clock->foreseen++;
        memmove(clock->ahead, clock->ahead + 1, --clock->ahead_count * sizeof *clock->ahead);
    }
    for (uint32_t i = 0; i < clock->ahead_count && i <= TO_CHANNEL; i++)
        fetch_for(&clock->places[clock->ahead[i]], i);
    for (int found = 0; found < 2 && clock->ahead_count < AHEAD; found++)
        find_another(clock, now);
}

#endif
