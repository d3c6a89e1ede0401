/* What a frame goes through: a channel, a switch, the next channel; and what each kind of event does. */
#ifndef FRAME_PATH_H
#define FRAME_PATH_H

#include "event_queue.h"

/* ---- channels ---- */

static Clock *clock_of(Channel *channel) {
    if (channel->clock && PyObject_TypeCheck(channel->clock, &ClockType))
        return (Clock *)channel->clock;
    PyErr_SetString(PyExc_TypeError, "a native channel needs a native clock");
    return NULL;
}

static int discard(PyObject *result) {
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int channel_send(Channel *channel, PyObject *frame, int64_t now) {
    Clock *clock = clock_of(channel);
    Py_ssize_t size = clock ? PyObject_Size(frame) : -1;
    if (size < 0)
        return -1;
    channel->idle = 0;
    channel->frames++;
    channel->bytes += size;
    if (channel->rate <= 0) {
        PyErr_SetString(PyExc_ZeroDivisionError, "a channel needs a rate");
        return -1;
    }
    unsigned __int128 units = ((unsigned __int128)size + OVERHEAD) * BITS;
    if (channel->free_at == now)
        units += channel->remainder;
    unsigned __int128 took = units / channel->rate;
    channel->remainder = (long long)(units % channel->rate);
    int64_t free_at = took < MAX_TIME ? now + (int64_t)took : MAX_TIME;
    if (push(clock, free_at, FREE, NULL, (PyObject *)channel, NULL, 0) < 0)
        return -1;
    channel->free_at = free_at;
    int64_t arrival;
    if (__builtin_add_overflow(free_at, channel->delay, &arrival))
        arrival = MAX_TIME;
    if (!channel->impaired)
        return push(clock, arrival, ARRIVE, NULL, (PyObject *)channel, frame, channel->epoch);
    PyObject *when = PyLong_FromLongLong(arrival);
    if (!when)
        return -1;
    int done = discard(PyObject_CallMethodObjArgs((PyObject *)channel, name_send_impaired, frame, when, NULL));
    Py_DECREF(when);
    return done;
}

/* ---- hops through switches ---- */

/* The next frame of a channel that is free: 1 when it was sent, 0 when there is none. */
static int hop_transmit(SwitchHop *hop, Channel *channel) {
    if (!hop->handle)
        return 0;
    size_t length = hop->transmit(hop->handle, (unsigned)channel->port, hop->clock->now, hop->buffer, hop->size);
    if (!length)
        return 0;
    PyObject *frame = PyBytes_FromStringAndSize(hop->buffer, (Py_ssize_t)length);
    if (!frame)
        return -1;
    int sent = channel_send(channel, frame, hop->clock->now);
    Py_DECREF(frame);
    return sent < 0 ? -1 : 1;
}

/* Start what can start on the ports that have become ready. */
static int hop_serve(SwitchHop *hop) {
    uint16_t ready[MAX_PORTS];
    while (hop->handle) {
        size_t count = hop->take_ready(hop->handle, ready, MAX_PORTS);
        for (size_t i = 0; i < count; i++) {
            Channel *channel = ready[i] < MAX_PORTS ? (Channel *)hop->channels[ready[i]] : NULL;
            if (channel && channel->idle && hop_transmit(hop, channel) < 0)
                return -1;
        }
        if (!count || !hop->copies)
            return 0;
    }
    return 0;
}

static int hop_pull(SwitchHop *hop, Channel *channel) {
    int sent = hop_transmit(hop, channel);
    if (!sent)
        channel->idle = 1;
    return sent < 0 || !hop->copies ? sent : hop_serve(hop);
}

/* ---- events ---- */

static SwitchHop *open_hop(PyObject *end) {
    return end && PyObject_TypeCheck(end, &SwitchHopType) && ((SwitchHop *)end)->handle ? (SwitchHop *)end : NULL;
}

static int channel_free(Channel *channel) {
    SwitchHop *hop = open_hop(channel->sender);
    if (!hop) {
        PyObject *arguments[] = {(PyObject *)channel, Py_None};
        return channel->pull ? discard(PyObject_Vectorcall(channel->pull, arguments, 2, NULL)) : 0;
    }
    Py_INCREF(hop);
    int done = hop_pull(hop, channel);
    Py_DECREF(hop);
    return done < 0 ? -1 : 0;
}

static int deliver(Channel *channel, PyObject *frame) {
    SwitchHop *hop = PyBytes_CheckExact(frame) ? open_hop(channel->receiver) : NULL;
    if (hop) {
        Py_INCREF(hop);
        size_t length = (size_t)PyBytes_GET_SIZE(frame);
        hop->receive(hop->handle, (unsigned)channel->to_port, PyBytes_AS_STRING(frame), length, hop->clock->now);
        int done = hop_serve(hop);
        Py_DECREF(hop);
        return done;
    }
    PyObject *port = PyLong_FromLongLong(channel->to_port);
    if (!port)
        return -1;
    PyObject *arguments[] = {port, frame};
    int done = channel->receive ? discard(PyObject_Vectorcall(channel->receive, arguments, 2, NULL)) : 0;
    Py_DECREF(port);
    return done;
}

static int channel_arrive(Clock *clock, Channel *channel, PyObject *frame, int64_t epoch) {
    PyObject *self = (PyObject *)channel;
    if (epoch != channel->epoch)
        return discard(PyObject_CallMethodObjArgs(self, name_lose, frame, text_link_down, NULL));
    if (channel->trace && channel->trace != Py_None) {
        PyObject *record = Py_BuildValue("LLLO", (long long)clock->now, channel->to_number, channel->to_port, frame);
        PyObject *method = record ? PyObject_GetAttr(channel->trace, name_frame) : NULL;
        PyObject *result = method ? PyObject_CallObject(method, record) : NULL;
        Py_XDECREF(method);
        Py_XDECREF(record);
        if (discard(result) < 0)
            return -1;
    }
    if (channel->watcher && channel->watcher != Py_None)
        return discard(PyObject_CallMethodObjArgs(channel->watcher, name_arrived, frame, channel->receive, NULL));
    return deliver(channel, frame);
}

static int handle_event(Clock *clock, struct event *event) {
    switch (event->kind) {
    case FREE:
        return channel_free((Channel *)event->a);
    case ARRIVE:
        return channel_arrive(clock, (Channel *)event->a, event->b, event->epoch);
    default:
        break;
    }
    PyObject *arguments[] = {event->a, event->b};
    return discard(PyObject_Vectorcall(event->handler, arguments, 2, NULL));
}

#endif
