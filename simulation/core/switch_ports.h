/* The ports of an embedded switch: frames that arrive go into the switch, and a channel that is free gets its port's next frame.
 *
 * A switch says itself which ports have become ready, so no port is asked in vain for long: one that had nothing is idle until then.
 * Frames go from channel to switch to channel without Python, except while somebody observes the switch's verbs. */
#ifndef SWITCH_PORTS_H
#define SWITCH_PORTS_H

#include "channel.h"

#define MAX_PORTS SW_MAX_PORTS

typedef struct {
    PyObject_HEAD
    Clock *clock;
    struct sw *handle; /* NULL: the switch is closed */
    size_t (*receive)(struct sw *sw, unsigned port, const struct sw_frame *frame, int64_t now, uint16_t *ready, size_t cap);
    size_t (*transmit)(struct sw *sw, unsigned port, int64_t now, size_t cap, sw_take take, void *context);
    size_t (*take_ready)(struct sw *sw, uint16_t *ports, size_t cap);
    void (*prefetch)(const struct sw *sw, unsigned port, int arrives, enum sw_prefetch_step step);
    int64_t (*next_wakeup)(struct sw *sw);
    void (*tick)(struct sw *sw, int64_t now);
    PyObject *observed_receive, *observed_transmit; /* called instead of the first two, or NULL */
    size_t size;     /* longest frame */
    int copies;      /* sending from one port may make others ready */
    int pauses;      /* it has priority flow control, so it says when it has something due */
    int64_t wake_at; /* of the earliest wake-up in the event queue */
    Channel *channels[MAX_PORTS];
} SwitchPorts;

static PyTypeObject SwitchPortsType;

static int is_open(const SwitchPorts *ports) {
    if (!ports->handle)
        raise_simulation_error("A switch of a world was closed while the world runs: close the world instead.");
    return ports->handle != NULL;
}

/* The next frame of a port, a new reference; NULL for none, or after an error. */
static PyObject *switch_transmit(SwitchPorts *ports, int64_t port) {
    PyObject *frame = NULL;
    int64_t now = ports->clock->now;
    if (!ports->observed_transmit) {
        ports->transmit(ports->handle, (unsigned)port, now, ports->size, take_frame, &frame);
        return frame;
    }
    PyObject *number = PyLong_FromLongLong(port), *time = number ? PyLong_FromLongLong(now) : NULL;
    frame = time ? call(ports->observed_transmit, number, time) : NULL;
    Py_XDECREF(number);
    Py_XDECREF(time);
    if (frame == Py_None)
        Py_CLEAR(frame);
    return frame;
}

/* Give a channel that is free the next frame of its port: 1 when there was one, 0 when not, -1 after an error. */
static int switch_ask(SwitchPorts *ports, Channel *channel) {
    if (!is_open(ports))
        return -1;
    PyObject *frame = switch_transmit(ports, channel->port);
    if (!frame)
        return PyErr_Occurred() ? -1 : 0;
    int sent = channel_send(channel, frame, ports->clock->now);
    Py_DECREF(frame);
    return sent < 0 ? -1 : 1;
}

/* Note when the switch has something due. */
static int switch_come_back(SwitchPorts *ports) {
    int64_t due = ports->pauses && ports->handle ? ports->next_wakeup(ports->handle) : SW_NEVER;
    if (due >= ports->wake_at)
        return 0;
    ports->wake_at = due;
    int64_t now = ports->clock->now;
    return push(ports->clock, due > now ? due : now + 1, WAKE_SWITCH, NULL, (PyObject *)ports, NULL, due);
}

/* Start what can start on `count` ports that have become ready, and on those that become ready then. */
static int switch_serve_ready(SwitchPorts *ports, uint16_t ready[MAX_PORTS], size_t count) {
    while (count) {
        for (size_t i = 0; i < count; i++) {
            Channel *channel = ready[i] < MAX_PORTS ? ports->channels[ready[i]] : NULL;
            if (channel && channel->idle && switch_ask(ports, channel) < 0)
                return -1;
        }
        count = ports->copies && ports->handle ? ports->take_ready(ports->handle, ready, MAX_PORTS) : 0;
    }
    return switch_come_back(ports);
}

static int switch_serve(SwitchPorts *ports) {
    uint16_t ready[MAX_PORTS];
    return is_open(ports) ? switch_serve_ready(ports, ready, ports->take_ready(ports->handle, ready, MAX_PORTS)) : -1;
}

/* ---- events ---- */

static int switch_receive(SwitchPorts *ports, int64_t port, PyObject *frame) {
    if (!is_open(ports))
        return -1;
    if (ports->observed_receive)
        return call_receive(ports->observed_receive, port, frame, ports->clock->now) < 0 ? -1 : switch_serve(ports);
    struct sw_frame parts = parts_of(frame);
    uint16_t ready[MAX_PORTS];
    Py_XINCREF((PyObject *)parts.owner);
    size_t count = ports->receive(ports->handle, (unsigned)port, &parts, ports->clock->now, ready, MAX_PORTS);
    return switch_serve_ready(ports, ready, count);
}

/* A channel of the switch is free. */
static int switch_pull(SwitchPorts *ports, Channel *channel) {
    int sent = switch_ask(ports, channel);
    if (!sent)
        channel->idle = 1;
    return sent < 0 ? -1 : ports->copies ? switch_serve(ports) : 0;
}

/* It is the time that a wake-up was asked for; if an earlier one was asked for meanwhile, that has done this one's work. */
static int switch_wake(SwitchPorts *ports, int64_t due) {
    if (due != ports->wake_at)
        return 0;
    if (!is_open(ports))
        return -1;
    ports->wake_at = MAX_TIME;
    ports->tick(ports->handle, ports->clock->now);
    return switch_serve(ports);
}

/* ---- for Python: native.pyi says what each does ---- */

static int set_channels(SwitchPorts *ports, PyObject *channels) {
    PyObject *port, *channel;
    for (Py_ssize_t at = 0; PyDict_Next(channels, &at, &port, &channel);) {
        long number = PyLong_AsLong(port);
        if (number < 0 || number >= MAX_PORTS || Py_TYPE(channel) != &ChannelType) {
            PyErr_Format(PyExc_ValueError, "the channels of a switch are at ports 0 to %d", MAX_PORTS - 1);
            return -1;
        }
        Py_XSETREF(ports->channels[number], (Channel *)Py_NewRef(channel));
    }
    return 0;
}

static PyObject *switch_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"clock", "channels", "verbs", "longest_frame", "copies", "pauses", NULL};
    unsigned long long handle, receive, transmit, take_ready, set_owners, prefetch, next_wakeup, tick;
    Py_ssize_t size;
    PyObject *clock, *channels;
    int copies, pauses;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O!(KKKKKKKK)npp:SwitchPorts", names, &ClockType, &clock, &PyDict_Type,
                                     &channels, &handle, &receive, &transmit, &take_ready, &set_owners, &prefetch, &next_wakeup,
                                     &tick, &size, &copies, &pauses))
        return NULL;
    SwitchPorts *ports = (SwitchPorts *)PyType_GenericNew(type, NULL, NULL);
    if (!ports)
        return NULL;
    ports->clock = (Clock *)Py_NewRef(clock);
    ports->wake_at = MAX_TIME;
    ports->size = (size_t)size;
    ports->copies = copies;
    ports->pauses = pauses;
    ports->receive = (__typeof__(ports->receive))(uintptr_t)receive;
    ports->transmit = (__typeof__(ports->transmit))(uintptr_t)transmit;
    ports->take_ready = (__typeof__(ports->take_ready))(uintptr_t)take_ready;
    ports->prefetch = (__typeof__(ports->prefetch))(uintptr_t)prefetch;
    ports->next_wakeup = (__typeof__(ports->next_wakeup))(uintptr_t)next_wakeup;
    ports->tick = (__typeof__(ports->tick))(uintptr_t)tick;
    ports->handle = (struct sw *)(uintptr_t)handle;
    ((void (*)(struct sw *, sw_release_owner, sw_copy_rest))(uintptr_t)set_owners)(ports->handle, release_owner, copy_for_switch);
    if (set_channels(ports, channels) < 0)
        Py_CLEAR(ports);
    return (PyObject *)ports;
}

static PyObject *py_switch_receive(SwitchPorts *ports, PyObject *args) {
    long long port;
    PyObject *frame;
    if (!PyArg_ParseTuple(args, "LS:receive", &port, &frame))
        return NULL;
    return none_or_error(switch_receive(ports, port, frame));
}

static PyObject *py_switch_serve(SwitchPorts *ports, PyObject *Py_UNUSED(none)) { return none_or_error(switch_serve(ports)); }

static PyObject *py_switch_observe(SwitchPorts *ports, PyObject *args) {
    PyObject *receive, *transmit;
    if (!PyArg_ParseTuple(args, "OO:observe", &receive, &transmit))
        return NULL;
    Py_XSETREF(ports->observed_receive, Py_NewRef(receive));
    Py_XSETREF(ports->observed_transmit, Py_NewRef(transmit));
    Py_RETURN_NONE;
}

static PyObject *py_switch_close(SwitchPorts *ports, PyObject *Py_UNUSED(none)) {
    ports->handle = NULL;
    Py_RETURN_NONE;
}

static int switch_traverse(SwitchPorts *ports, visitproc visit, void *arg) {
    Py_VISIT(ports->clock);
    Py_VISIT(ports->observed_receive);
    Py_VISIT(ports->observed_transmit);
    for (int port = 0; port < MAX_PORTS; port++)
        Py_VISIT(ports->channels[port]);
    return 0;
}

static int switch_clear(SwitchPorts *ports) {
    ports->handle = NULL;
    Py_CLEAR(ports->observed_receive);
    Py_CLEAR(ports->observed_transmit);
    for (int port = 0; port < MAX_PORTS; port++)
        Py_CLEAR(ports->channels[port]);
    return 0;
}

static void switch_dealloc(SwitchPorts *ports) {
    PyObject_GC_UnTrack(ports);
    switch_clear(ports);
    Py_DECREF(ports->clock);
    Py_TYPE(ports)->tp_free((PyObject *)ports);
}

static PyMethodDef switch_methods[] = {
    {"receive", (PyCFunction)py_switch_receive, METH_VARARGS, NULL},
    {"serve", (PyCFunction)py_switch_serve, METH_NOARGS, NULL},
    {"observe", (PyCFunction)py_switch_observe, METH_VARARGS, NULL},
    {"close", (PyCFunction)py_switch_close, METH_NOARGS, NULL},
    {0},
};
static PyTypeObject SwitchPortsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "simulation.core.native.SwitchPorts",
    .tp_basicsize = sizeof(SwitchPorts),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = switch_new,
    .tp_dealloc = (destructor)switch_dealloc,
    .tp_traverse = (traverseproc)switch_traverse,
    .tp_clear = (inquiry)switch_clear,
    .tp_methods = switch_methods,
};

#endif
