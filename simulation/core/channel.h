/* One direction of a link: a rate, a propagation delay, and what goes wrong on the way.
 *
 * A channel takes one frame at a time. The frame occupies it for its length and Ethernet's OVERHEAD at the channel's rate; fractions
 * of a nanosecond are carried over while frames are back to back, so the rate is exact over any stretch of time. When the channel
 * is free again it asks its sender for the next frame; the frame reaches the other end, whole, one delay after its last bit has
 * left. This is the only place where a rate is applied: ports of NICs and switches have none of their own here.
 *
 * A channel goes down and up again, which loses what is on its way: frames carry the channel's `epoch`, and those of an old one
 * never arrive. It is shaped: slower, longer, and `hold_back`, in Python, says of each frame how much later it arrives. */
#ifndef CHANNEL_H
#define CHANNEL_H

#include "event_queue.h"
#include "frame.h"

#define OVERHEAD 24       /* preamble, FCS and gap of a frame (topologies/round_trip.py) */
#define BITS 8000000000LL /* bits a byte, times nanoseconds a second */

typedef struct {
    PyObject_HEAD
    Clock *clock;
    PyObject *sender, *receiver; /* SwitchPorts or NicPorts; another object has pull(channel) or receive(port, frame) */
    int64_t rate, delay;         /* b/s and ns, as they are now */
    int64_t remainder;           /* in 1 / rate ns */
    int64_t free_at, not_before, last_arrival, epoch;
    int64_t port, to_port;
    char idle, down;
    PyObject *traced, *watcher, *hold_back; /* or NULL, or None */
    int64_t frames, bytes, lost, reordered; /* counters */
    char cold[0];                           /* what is below is rarely needed (prefetch.h) */
    int64_t own_rate, own_delay;            /* without faults */
    int64_t to_number;                      /* of the receiver, in traces */
    PyObject *name, *source, *target;       /* a string and two LinkEnds */
} Channel;

static PyTypeObject ChannelType;

/* ---- sending ---- */

static int channel_lose(Channel *channel, PyObject *frame, const char *why) {
    channel->lost++;
    PyObject *watcher = given(channel->watcher), *whole = watcher ? whole_frame(frame) : NULL;
    if (!watcher)
        return 0;
    Py_INCREF(watcher);
    int done = whole ? discard(PyObject_CallMethod(watcher, "lost", "Os", whole, why)) : -1;
    Py_DECREF(watcher);
    Py_XDECREF(whole);
    return done;
}

/* How long so many bytes take, MAX_TIME at most, with a fraction of a nanosecond left from before, in 1 / rate; the new one stays. */
static int64_t serialize(Channel *channel, uint64_t bytes, uint64_t remainder) {
    uint64_t rate = (uint64_t)channel->rate;
    if (bytes < 1 << 20) { /* no overflow: the remainder is less than the rate, and that less than 2^62 */
        uint64_t units = bytes * BITS + remainder;
        channel->remainder = (int64_t)(units % rate);
        return (int64_t)(units / rate);
    }
    unsigned __int128 units = (unsigned __int128)bytes * BITS + remainder, took = units / rate;
    channel->remainder = (int64_t)(units % rate);
    return took < MAX_TIME ? (int64_t)took : MAX_TIME;
}

/* How much later than others a frame arrives, in ns; -1 after an error. */
static int64_t held_back(Channel *channel) {
    PyObject *answer = call(channel->hold_back, NULL, NULL);
    int64_t later;
    if (!answer || clip(answer, 0, MAX_TIME, &later) < 0)
        later = -1;
    Py_XDECREF(answer);
    channel->reordered += later > 0;
    return later;
}

/* The channel is free. */
static int channel_send(Channel *channel, PyObject *frame, int64_t now) {
    Py_ssize_t size = frame_size(frame);
    if (size < 0)
        return -1;
    channel->idle = 0;
    channel->frames++;
    channel->bytes += size;
    int64_t took = serialize(channel, (uint64_t)size + OVERHEAD, channel->free_at == now ? (uint64_t)channel->remainder : 0);
    int64_t free_at = now + took, arrival = free_at + channel->delay, later = 0; /* each is MAX_TIME at most */
    if (push(channel->clock, free_at, FREE, NULL, (PyObject *)channel, NULL, 0) < 0)
        return -1;
    channel->free_at = free_at;
    if (channel->down)
        return channel_lose(channel, frame, "nothing passes: link down or power off");
    if (arrival < channel->not_before)
        arrival = channel->not_before;
    channel->last_arrival = arrival;
    if (given(channel->hold_back) && (later = held_back(channel)) < 0)
        return -1;
    arrival = arrival < MAX_TIME - later ? arrival + later : MAX_TIME;
    return push(channel->clock, arrival, ARRIVE, NULL, (PyObject *)channel, frame, channel->epoch);
}

/* ---- faults ---- */

static void channel_set_up(Channel *channel, int up) {
    if (!up && !channel->down)
        channel->epoch++;
    channel->down = !up;
}

/* What is left of the frame on the channel goes on at a higher rate. Its events are looked for among all there are. */
static void hurry(Channel *channel, int64_t rate) {
    Clock *clock = channel->clock;
    int64_t left = channel->free_at - clock->now;
    int64_t saved = left > 0 ? left - (int64_t)(((__int128)left * channel->rate + rate - 1) / rate) : 0;
    uint32_t place = saved > 0 ? place_of(clock, FREE, channel, NULL) : 0;
    if (!place)
        return;
    uint64_t arrives = clock->places[place].serial + 1;
    bring_forward(clock, place, clock->places[place].when - saved);
    channel->free_at -= saved;
    place = place_of(clock, ARRIVE, channel, &arrives);
    if (!place) /* it was lost */
        return;
    int64_t when = clock->places[place].when, least = when < channel->not_before ? when : channel->not_before;
    channel->last_arrival = when - saved > least ? when - saved : least;
    bring_forward(clock, place, channel->last_arrival);
}

/* A frame on the channel keeps the delay it began with, and its rate unless that rises: else a fault that made the channel slow
 * would go on after its end for as long as one slow frame takes. */
static void channel_shape(Channel *channel, int64_t rate, int64_t delay, PyObject *hold_back) {
    if (rate > channel->rate)
        hurry(channel, rate);
    if (rate != channel->rate)
        channel->remainder = 0;
    channel->rate = rate;
    if (delay < channel->delay && channel->not_before < channel->last_arrival)
        channel->not_before = channel->last_arrival; /* a shorter way now, but nobody overtakes what is still on the longer one */
    channel->delay = delay;
    Py_XSETREF(channel->hold_back, Py_NewRef(hold_back));
}

/* ---- for Python: native.pyi says what each does ---- */

static PyObject *channel_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"clock", "name", "source", "target", "rate", "delay", NULL};
    PyObject *clock, *name, *source, *target;
    long long rate, delay;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!UOOLL:Channel", names, &ClockType, &clock, &name, &source, &target, &rate,
                                     &delay))
        return NULL;
    if (rate < 1 || rate >= MAX_TIME || delay < 0 || delay >= MAX_TIME)
        return PyErr_Format(PyExc_ValueError, "a channel's rate is 1 to 2**62 - 1 b/s, its delay 0 to 2**62 - 1 ns");
    PyObject *port = PyObject_GetAttrString(source, "port"), *to_port = port ? PyObject_GetAttrString(target, "port") : NULL;
    Channel *channel = to_port ? (Channel *)PyType_GenericNew(type, NULL, NULL) : NULL;
    if (channel) {
        channel->clock = (Clock *)Py_NewRef(clock);
        channel->name = Py_NewRef(name);
        channel->source = Py_NewRef(source);
        channel->target = Py_NewRef(target);
        channel->rate = channel->own_rate = rate;
        channel->delay = channel->own_delay = delay;
        channel->idle = 1;
        channel->port = PyLong_AsLongLong(port);
        channel->to_port = PyLong_AsLongLong(to_port);
        if (PyErr_Occurred())
            Py_CLEAR(channel);
    }
    Py_XDECREF(port);
    Py_XDECREF(to_port);
    return (PyObject *)channel;
}

static PyObject *py_channel_join(Channel *channel, PyObject *args) {
    PyObject *sender, *receiver, *traced = Py_None;
    long long number = 0;
    if (!PyArg_ParseTuple(args, "OO|LO:join", &sender, &receiver, &number, &traced))
        return NULL;
    Py_XSETREF(channel->sender, Py_NewRef(sender));
    Py_XSETREF(channel->receiver, Py_NewRef(receiver));
    Py_XSETREF(channel->traced, Py_NewRef(traced));
    channel->to_number = number;
    Py_RETURN_NONE;
}

static PyObject *py_channel_watch(Channel *channel, PyObject *watcher) {
    Py_XSETREF(channel->watcher, Py_NewRef(watcher));
    Py_RETURN_NONE;
}

static PyObject *py_channel_send(Channel *channel, PyObject *args) {
    PyObject *frame;
    long long now;
    if (!PyArg_ParseTuple(args, "OL:send", &frame, &now))
        return NULL;
    if (now < channel->clock->now || now >= MAX_TIME)
        return PyErr_Format(PyExc_ValueError, "a frame is sent now or later, not at %lld ns", now);
    return none_or_error(channel_send(channel, frame, now));
}

static PyObject *py_channel_set_up(Channel *channel, PyObject *up) {
    int is_up = PyObject_IsTrue(up);
    if (is_up < 0)
        return NULL;
    channel_set_up(channel, is_up);
    Py_RETURN_NONE;
}

static PyObject *py_channel_shape(Channel *channel, PyObject *args, PyObject *keywords) {
    static char *names[] = {"rate", "extra_delay", "hold_back", NULL};
    PyObject *given_rate = Py_None, *extra_delay = NULL, *hold_back = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OOO:shape", names, &given_rate, &extra_delay, &hold_back))
        return NULL;
    int64_t rate = channel->own_rate, extra = 0;
    if ((given(given_rate) && clip(given_rate, 0, channel->own_rate, &rate) < 0) ||
        (extra_delay && clip(extra_delay, 0, MAX_TIME - channel->own_delay, &extra) < 0))
        return NULL;
    if (!rate)
        return PyErr_Format(PyExc_ValueError, "a channel has a rate of 1 b/s at least");
    channel_shape(channel, rate, channel->own_delay + extra, hold_back);
    Py_RETURN_NONE;
}

#define EACH_OBJECT_OF_CHANNEL(DO)                                                                                                 \
    DO(sender) DO(receiver) DO(traced) DO(watcher) DO(hold_back) DO(name) DO(source) DO(target)

static int channel_traverse(Channel *self, visitproc visit, void *arg) {
    Py_VISIT(self->clock);
    EACH_OBJECT_OF_CHANNEL(VISIT_OBJECT)
    return 0;
}

static int channel_clear(Channel *self) {
    EACH_OBJECT_OF_CHANNEL(CLEAR_OBJECT)
    return 0;
}

static void channel_dealloc(Channel *channel) {
    PyObject_GC_UnTrack(channel);
    channel_clear(channel);
    Py_DECREF(channel->clock);
    Py_TYPE(channel)->tp_free((PyObject *)channel);
}

static PyMethodDef channel_methods[] = {
    {"join", (PyCFunction)py_channel_join, METH_VARARGS, NULL},
    {"watch", (PyCFunction)py_channel_watch, METH_O, NULL},
    {"send", (PyCFunction)py_channel_send, METH_VARARGS, NULL},
    {"set_up", (PyCFunction)py_channel_set_up, METH_O, NULL},
    {"shape", (PyCFunction)(void (*)(void))py_channel_shape, METH_VARARGS | METH_KEYWORDS, NULL},
    {0},
};
#define CHANNEL_NUMBER(field) {#field, T_LONGLONG, offsetof(Channel, field), READONLY, NULL}
#define CHANNEL_OBJECT(field) {#field, T_OBJECT, offsetof(Channel, field), READONLY, NULL}
static PyMemberDef channel_members[] = {
    CHANNEL_OBJECT(name), CHANNEL_OBJECT(source), CHANNEL_OBJECT(target), CHANNEL_OBJECT(hold_back), CHANNEL_NUMBER(port),
    CHANNEL_NUMBER(rate), CHANNEL_NUMBER(delay), CHANNEL_NUMBER(frames), CHANNEL_NUMBER(bytes), CHANNEL_NUMBER(lost),
    CHANNEL_NUMBER(reordered), {"down", T_BOOL, offsetof(Channel, down), READONLY, NULL},
    {"idle", T_BOOL, offsetof(Channel, idle), 0, NULL}, {0},
};
static PyTypeObject ChannelType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "simulation.core.native.Channel",
    .tp_basicsize = sizeof(Channel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = channel_new,
    .tp_dealloc = (destructor)channel_dealloc,
    .tp_traverse = (traverseproc)channel_traverse,
    .tp_clear = (inquiry)channel_clear,
    .tp_methods = channel_methods,
    .tp_members = channel_members,
};

#endif
