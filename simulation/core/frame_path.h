/* What a frame goes through: a channel, a switch, the next channel; and what each kind of event does. */
#ifndef FRAME_PATH_H
#define FRAME_PATH_H

#include "frame.h"
#include "nic_node.h"

/* ---- channels ---- */

/* How long so many bytes take, MAX_TIME at most, with a fraction of a nanosecond left from before, in 1 / rate; the new one stays. */
static int64_t serialize(Channel *channel, uint64_t bytes, uint64_t remainder) {
    uint64_t rate = (uint64_t)channel->rate;
    if (bytes < 1 << 20) { /* no overflow: the remainder is less than the rate, and that less than 2^62 */
        uint64_t units = bytes * BITS + remainder;
        channel->remainder = (long long)(units % rate);
        return (int64_t)(units / rate);
    }
    unsigned __int128 units = (unsigned __int128)bytes * BITS + remainder, took = units / rate;
    channel->remainder = (long long)(units % rate);
    return took < MAX_TIME ? (int64_t)took : MAX_TIME;
}

static int channel_send(Channel *channel, PyObject *frame, int64_t now) {
    Clock *clock = clock_of(channel->clock);
    Py_ssize_t size = clock ? frame_size(frame) : -1;
    if (size < 0)
        return -1;
    if (now < 0 || now >= MAX_TIME) {
        PyErr_SetString(PyExc_OverflowError, "a frame is sent between 0 and 2**62 ns");
        return -1;
    }
    channel->idle = 0;
    channel->frames++;
    channel->bytes += size;
    if (channel->rate <= 0) {
        PyErr_SetString(PyExc_ZeroDivisionError, "a channel needs a rate");
        return -1;
    }
    int64_t took = serialize(channel, (uint64_t)size + OVERHEAD, channel->free_at == now ? (uint64_t)channel->remainder : 0);
    int64_t free_at = took < MAX_TIME ? now + took : MAX_TIME;
    if (push(clock, free_at, FREE, NULL, (PyObject *)channel, NULL, 0) < 0)
        return -1;
    channel->free_at = free_at;
    int64_t arrival;
    if (__builtin_add_overflow(free_at, channel->delay, &arrival))
        arrival = MAX_TIME;
    if (!channel->impaired)
        return push(clock, arrival, ARRIVE, NULL, (PyObject *)channel, frame, channel->epoch);
    PyObject *when = PyLong_FromLongLong(arrival), *whole = when ? whole_frame(frame) : NULL;
    PyObject *self = (PyObject *)channel;
    int done = whole ? discard(PyObject_CallMethodObjArgs(self, name_send_impaired, whole, when, NULL)) : -1;
    Py_XDECREF(whole);
    Py_XDECREF(when);
    return done;
}

/* ---- hops through switches ---- */

/* The next frame of a channel that is free: 1 when it was sent, 0 when there is none. */
static int hop_transmit(SwitchHop *hop, Channel *channel) {
    if (!hop->handle)
        return 0;
    PyObject *frame = NULL;
    if (!hop->transmit(hop->handle, (unsigned)channel->port, hop->clock->now, hop->size, take_frame, &frame))
        return 0;
    if (!frame)
        return -1;
    int sent = channel_send(channel, frame, hop->clock->now);
    Py_DECREF(frame);
    return sent < 0 ? -1 : 1;
}

/* Note when the switch has something due. */
static int hop_come_back(SwitchHop *hop) {
    int64_t due = hop->pauses && hop->handle ? hop->next_wakeup(hop->handle) : SW_NEVER;
    if (due >= hop->wake_at)
        return 0;
    hop->wake_at = due;
    int64_t now = hop->clock->now;
    return push(hop->clock, due > now ? due : now + 1, WAKE, NULL, (PyObject *)hop, NULL, due);
}

/* Whoever was called closed the hop: Python serves what is left. */
static int hop_leave(SwitchHop *hop, const uint16_t *ready, size_t count) {
    if (!hop->go_on || (!count && !hop->copies))
        return 0;
    PyObject *left = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; left && i < count; i++) {
        PyObject *port = PyLong_FromLong(ready[i]);
        if (port)
            PyList_SET_ITEM(left, (Py_ssize_t)i, port);
        else
            Py_CLEAR(left);
    }
    int done = left ? discard(call(hop->go_on, left, NULL)) : -1;
    Py_XDECREF(left);
    return done;
}

/* Start what can start on `count` ports that have become ready, and on those that become ready then. */
static int hop_serve_ready(SwitchHop *hop, uint16_t ready[MAX_PORTS], size_t count) {
    size_t served = 0;
    while (hop->handle) {
        for (served = 0; served < count && hop->handle; served++) {
            Channel *channel = ready[served] < MAX_PORTS ? (Channel *)hop->channels[ready[served]] : NULL;
            if (channel && channel->idle && hop_transmit(hop, channel) < 0)
                return -1;
        }
        if (!count || !hop->copies || !hop->handle)
            break;
        count = hop->take_ready(hop->handle, ready, MAX_PORTS);
    }
    return hop->handle ? hop_come_back(hop) : hop_leave(hop, ready + served, count - served);
}

static int hop_serve(SwitchHop *hop) {
    uint16_t ready[MAX_PORTS];
    return hop_serve_ready(hop, ready, hop->handle ? hop->take_ready(hop->handle, ready, MAX_PORTS) : 0);
}

/* It is the time that a wake-up was asked for. */
static int hop_wake(SwitchHop *hop, int64_t due) {
    if (!hop->handle) { /* closed meanwhile: Python goes on */
        PyObject *time = PyLong_FromLongLong(due);
        int done = time && hop->wake ? discard(call(hop->wake, time, Py_None)) : time ? 0 : -1;
        Py_XDECREF(time);
        return done;
    }
    if (due != hop->wake_at)
        return 0; /* an earlier one was asked for meanwhile, and has done this one's work */
    hop->wake_at = MAX_TIME;
    hop->tick(hop->handle, hop->clock->now);
    return hop_serve(hop);
}

static int hop_pull(SwitchHop *hop, Channel *channel) {
    int sent = hop_transmit(hop, channel);
    if (!sent)
        channel->idle = 1;
    return sent < 0 || !hop->copies ? sent : hop_serve(hop);
}

/* ---- events ---- */

static SwitchHop *open_hop(PyObject *end) {
    return end && is_a(end, &SwitchHopType) && ((SwitchHop *)end)->handle ? (SwitchHop *)end : NULL;
}

static NicNode *nic_node(PyObject *end) {
    return end && is_a(end, &NicNodeType) ? (NicNode *)end : NULL;
}

/* Work at one end of a channel, which may lose it meanwhile. */
static int channel_free(Channel *channel) {
    PyObject *end = channel->sender;
    SwitchHop *hop = open_hop(end);
    NicNode *node = nic_node(end);
    Py_XINCREF(end);
    int done = 0;
    if (hop)
        done = hop_pull(hop, channel);
    else if (node)
        done = node_pull(node, channel);
    else if (channel->pull)
        done = discard(call(channel->pull, (PyObject *)channel, Py_None));
    Py_XDECREF(end);
    return done < 0 ? -1 : 0;
}

static int hop_receive(SwitchHop *hop, long long port, PyObject *frame) {
    struct sw_frame parts = parts_of(frame);
    uint16_t ready[MAX_PORTS];
    Py_XINCREF((PyObject *)parts.owner);
    return hop_serve_ready(hop, ready, hop->receive(hop->handle, (unsigned)port, &parts, hop->clock->now, ready, MAX_PORTS));
}

/* The whole frame for `node`, or for `receive` if there is no native one. */
static int deliver_whole(NicNode *node, PyObject *receive, long long port_number, PyObject *frame) {
    PyObject *port = PyLong_FromLongLong(port_number), *whole = port ? lend_frame(frame) : NULL;
    int done = whole ? 0 : -1;
    if (whole && node)
        done = node_receive(node, port, whole);
    else if (whole && receive)
        done = discard(call(receive, port, whole));
    if (whole)
        return_frame(whole, frame);
    Py_XDECREF(port);
    return done;
}

static int deliver_to_nic(NicNode *node, PyObject *receive, long long port, PyObject *frame) {
    if (node && has_parts(frame) && !is_cut(frame)) {
        FramePieces pieces = pieces_of(frame);
        int carried = node_carry(node, port, &pieces);
        if (carried)
            return carried < 0 ? -1 : 0;
    }
    return deliver_whole(node, receive, port, frame);
}

/* The frame occupies the NIC, which gets it then; PAUSE frames do not. */
static int engine_receive(PacketEngine *engine, long long port, PyObject *frame) {
    Clock *clock = clock_of(engine->clock);
    if (!clock)
        return -1;
    if (is_pause(frame))
        return deliver_whole(node_behind(engine), engine->deliver, port, frame);
    return push(clock, engine_takes(engine, frame_size(frame), clock->now), DELIVER, NULL, (PyObject *)engine, frame, port);
}

static int deliver(Channel *channel, PyObject *frame) {
    PyObject *end = channel->receiver;
    SwitchHop *hop = has_parts(frame) ? open_hop(end) : NULL;
    PacketEngine *engine = !hop && has_parts(frame) ? packet_engine(end) : NULL;
    Py_XINCREF(end);
    int done;
    if (hop)
        done = hop_receive(hop, channel->to_port, frame);
    else if (engine)
        done = engine_receive(engine, channel->to_port, frame);
    else
        done = deliver_to_nic(nic_node(end), channel->receive, channel->to_port, frame);
    Py_XDECREF(end);
    return done;
}

static int trace_arrival(Clock *clock, Channel *channel, PyObject *frame) {
    PyObject *record = Py_BuildValue("LLLO", (long long)clock->now, channel->to_number, channel->to_port, frame);
    PyObject *method = record ? PyObject_GetAttr(channel->trace, name_frame) : NULL;
    PyObject *result = method ? PyObject_CallObject(method, record) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(record);
    return discard(result);
}

/* The frame, and the same as bytes, for who watches the channel. */
static int arrive_watched(Clock *clock, Channel *channel, PyObject *frame, PyObject *whole, int64_t epoch) {
    if (epoch != channel->epoch)
        return discard(PyObject_CallMethodObjArgs((PyObject *)channel, name_lose, whole, text_link_down, NULL));
    if (channel->trace && channel->trace != Py_None && trace_arrival(clock, channel, whole) < 0)
        return -1;
    PyObject *watcher = channel->watcher;
    if (!watcher || watcher == Py_None)
        return deliver(channel, frame);
    PyObject *receive = channel->receive ? channel->receive : Py_None;
    Py_INCREF(watcher);
    Py_INCREF(receive);
    int done = discard(PyObject_CallMethodObjArgs(watcher, name_arrived, whole, receive, NULL));
    Py_DECREF(receive);
    Py_DECREF(watcher);
    return done;
}

static int channel_arrive(Clock *clock, Channel *channel, PyObject *frame, int64_t epoch) {
    int traced = channel->trace && channel->trace != Py_None, watched = channel->watcher && channel->watcher != Py_None;
    if (epoch == channel->epoch && !traced && !watched)
        return deliver(channel, frame);
    PyObject *whole = whole_frame(frame);
    int done = whole ? arrive_watched(clock, channel, frame, whole, epoch) : -1;
    Py_XDECREF(whole);
    return done;
}

static int handle_event(Clock *clock, struct event *event) {
    switch (event->kind) {
    case FREE:
        return channel_free((Channel *)event->a);
    case ARRIVE:
        return channel_arrive(clock, (Channel *)event->a, event->b, event->epoch);
    case WAKE:
        return is_a(event->a, &SwitchHopType) ? hop_wake((SwitchHop *)event->a, event->epoch)
                                              : node_wake((NicNode *)event->a, event->epoch);
    case ASK:
        return engine_ask_again((PacketEngine *)event->a);
    case DELIVER:
        return deliver_to_nic(node_behind((PacketEngine *)event->a), ((PacketEngine *)event->a)->deliver, event->epoch, event->b);
    default:
        return discard(call(event->handler, event->a, event->b));
    }
}

#endif
