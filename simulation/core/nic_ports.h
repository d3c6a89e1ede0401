/* The ports of a NIC: frames that arrive go into the NIC, a channel that is free gets its port's next frame, and the NIC is woken
 * when something is due.
 *
 * Idle ports are asked again after every input, so nobody is polled for nothing; the NIC's earliest deadline is one event in the
 * queue. Where packets occupy the NIC, they wait for each other in its PacketEngine.
 *
 * The NIC is in Python, so as little as possible is asked of it. While nobody observes its verbs, and they are Nic's own:
 *  - idle ports are asked all at once, and those whose queues are empty not at all (`transmit_first`);
 *  - nothing is announced while the NIC has no news (`has_news`);
 *  - a frame that the NIC's datapath carries is given to that directly (mrc_common/carry_frame.h). Unless it makes an answer due,
 *    it changes nothing that the NIC would be asked for, so the NIC is not asked;
 *  - a data packet may stay in place (mrc_common/packet_in_place.h). */
#ifndef NIC_PORTS_H
#define NIC_PORTS_H

#include "packet_engine.h"

typedef struct {
    PyObject_HEAD
    Clock *clock;
    PyObject *channels;                           /* a tuple, in the order of ports */
    PyObject *receive, *transmit, *wakeup, *tick; /* the NIC's verbs */
    PyObject *transmit_first, *has_news;          /* NULL while somebody observes the verbs, like the next four */
    PyObject *receiver, *answer_due, *outbox;     /* the first and last of the NIC's datapath */
    CarryFrame carry;
    PyObject *announce;                           /* called when the NIC may have completions or events; or NULL, or None */
    PyObject *left;                               /* called with each frame that leaves; likewise */
    int64_t wake_at;                              /* of the earliest wake-up in the event queue */
    PacketEngine engine;
} NicPorts;

static PyTypeObject NicPortsType;

static Py_ssize_t channel_count(const NicPorts *ports) { return PyTuple_GET_SIZE(ports->channels); }

static Channel *channel_at(const NicPorts *ports, Py_ssize_t at) { return (Channel *)PyTuple_GET_ITEM(ports->channels, at); }

static int nic_announce(NicPorts *ports) {
    if (!given(ports->announce))
        return 0;
    if (ports->has_news) {
        PyObject *news = call(ports->has_news, NULL, NULL);
        int any = news ? PyObject_IsTrue(news) : -1;
        Py_XDECREF(news);
        if (any <= 0)
            return any;
    }
    return discard(call(ports->announce, NULL, NULL));
}

/* ---- frames that leave ---- */

/* What the NIC answers; a data packet that it leaves in its outbox is in `left` there, and only its length is in the answer. */
static PyObject *ask_nic(NicPorts *ports, PyObject *verb, PyObject *port, PyObject *now) {
    Outbox *outbox = (Outbox *)ports->outbox;
    if (!outbox)
        return call(verb, port, now);
    Py_INCREF(outbox);
    Py_CLEAR(outbox->left);
    outbox->open = 1;
    PyObject *answer = call(verb, port, now);
    outbox->open = 0;
    Py_DECREF(outbox);
    return answer;
}

/* A frame that the NIC has answered with; a new reference, NULL after an error. */
static PyObject *answered_frame(NicPorts *ports, PyObject *frame) {
    Outbox *outbox = (Outbox *)ports->outbox;
    int stands_for_it = outbox && outbox->left && PyBytes_CheckExact(frame)
                        && (size_t)PyBytes_GET_SIZE(frame) == IN_PLACE_HEAD + outbox->left->length;
    return stands_for_it ? frame_from(outbox) : Py_NewRef(frame);
}

static int notify_left(NicPorts *ports, PyObject *frame) {
    PyObject *whole = whole_frame(frame);
    int done = whole ? discard(call(ports->left, whole, NULL)) : -1;
    Py_XDECREF(whole);
    return done;
}

/* A frame that the NIC has answered with leaves by a channel. */
static int leave(NicPorts *ports, Channel *channel, PyObject *answer, int64_t time) {
    PyObject *frame = answered_frame(ports, answer);
    Py_ssize_t size = frame ? frame_size(frame) : -1;
    int done = size < 0 ? -1 : 0;
    if (!done && occupies(&ports->engine))
        ports->engine.transmit_free = time + occupancy(&ports->engine, size);
    if (!done && given(ports->left))
        done = notify_left(ports, frame);
    if (!done)
        done = channel_send(channel, frame, time);
    Py_XDECREF(frame);
    return done;
}

/* The engine is busy: the port is asked later. */
static int refuse(NicPorts *ports, int64_t port) {
    wait_for_turn(&ports->engine, port);
    if (ports->engine.asking)
        return 0;
    ports->engine.asking = 1;
    return push(ports->clock, ports->engine.transmit_free, ASK, NULL, (PyObject *)ports, NULL, 0);
}

/* Ask one port: 1 if it sent a frame, 0 if not, -1 after an error. */
static int ask_port(NicPorts *ports, Channel *channel, PyObject *now, int64_t time) {
    if (time < ports->engine.transmit_free)
        return refuse(ports, channel->port);
    end_waiting(&ports->engine, channel->port);
    PyObject *port = PyLong_FromLongLong(channel->port);
    PyObject *answer = port ? ask_nic(ports, ports->transmit, port, now) : NULL;
    Py_XDECREF(port);
    int sent = !answer ? -1 : answer == Py_None ? 0 : leave(ports, channel, answer, time) < 0 ? -1 : 1;
    Py_XDECREF(answer);
    return sent;
}

/* Ask the idle ports from channel `from` on, all at once, for the first frame of any. Returns the channel after the one
 * that sent it; the number of channels if there was none, -1 after an error. */
static Py_ssize_t ask_together(NicPorts *ports, Py_ssize_t from, PyObject *now, int64_t time) {
    Py_ssize_t count = channel_count(ports), next = -1;
    unsigned long long idle = 0;
    for (Py_ssize_t at = from; at < count; at++)
        if (channel_at(ports, at)->idle)
            idle |= 1ULL << channel_at(ports, at)->port;
    if (!idle)
        return count;
    PyObject *mask = PyLong_FromUnsignedLongLong(idle);
    PyObject *answer = mask ? ask_nic(ports, ports->transmit_first, mask, now) : NULL;
    Py_XDECREF(mask);
    if (answer == Py_None) {
        next = count;
    } else if (answer && PyTuple_CheckExact(answer) && PyTuple_GET_SIZE(answer) == 2) {
        long long port = PyLong_AsLongLong(PyTuple_GET_ITEM(answer, 0));
        for (next = from; next < count && channel_at(ports, next)->port != port;)
            next++;
        next = next < count && leave(ports, channel_at(ports, next), PyTuple_GET_ITEM(answer, 1), time) == 0 ? next + 1 : -1;
    }
    if (next < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "a NIC answered with something else than a port that was asked and its frame");
    Py_XDECREF(answer);
    return next;
}

/* Ask the idle ports from channel `from` on, as ask_together, where packets occupy the NIC; while that is busy all are refused. */
static Py_ssize_t ask_engine(NicPorts *ports, Py_ssize_t from, PyObject *now, int64_t time) {
    Py_ssize_t count = channel_count(ports);
    int busy = time < ports->engine.transmit_free;
    Py_ssize_t next = busy ? count : ask_together(ports, from, now, time);
    /* whether these channels were idle before: the one that has sent is not any more */
    for (Py_ssize_t at = from; at < next; at++) {
        Channel *channel = channel_at(ports, at);
        if (!busy)
            end_waiting(&ports->engine, channel->port);
        else if (channel->idle && refuse(ports, channel->port) < 0)
            return -1;
    }
    return next;
}

/* Ask every idle port. */
static int ask_idle(NicPorts *ports, PyObject *now, int64_t time) {
    Py_ssize_t count = channel_count(ports), at = 0;
    while (ports->transmit_first && at >= 0 && at < count)
        at = occupies(&ports->engine) ? ask_engine(ports, at, now, time) : ask_together(ports, at, now, time);
    for (; at >= 0 && at < count; at++)
        if (channel_at(ports, at)->idle && ask_port(ports, channel_at(ports, at), now, time) < 0)
            return -1;
    return at < 0 ? -1 : 0;
}

/* ---- deadlines ---- */

/* When the NIC has something due: MAX_TIME for never, -1 after an error. */
static int64_t due_at(NicPorts *ports) {
    PyObject *answer = call(ports->wakeup, NULL, NULL);
    int64_t due = MAX_TIME;
    if (!answer || (answer != Py_None && clip(answer, 0, MAX_TIME, &due) < 0))
        due = -1;
    Py_XDECREF(answer);
    return due;
}

static int wake_later(NicPorts *ports, int64_t due) {
    if (due >= ports->wake_at)
        return 0;
    ports->wake_at = due;
    return push(ports->clock, due, WAKE_NIC, NULL, (PyObject *)ports, NULL, due);
}

/* Ask idle ports and do what is due until nothing is; when something will be. MAX_TIME for never, -1 after an error. */
static int64_t serve_idle(NicPorts *ports, PyObject *now, int64_t time) {
    for (;;) {
        if (ask_idle(ports, now, time) < 0)
            return -1;
        int64_t due = due_at(ports);
        if (due < 0 || due > time)
            return due;
        if (discard(call(ports->tick, now, NULL)) < 0)
            return -1;
    }
}

/* The NIC had some input. */
static int nic_poke(NicPorts *ports) {
    PyObject *now = PyLong_FromLongLong(ports->clock->now);
    int64_t due = now ? serve_idle(ports, now, ports->clock->now) : -1;
    Py_XDECREF(now);
    return due < 0 ? -1 : wake_later(ports, due);
}

static int tick_and_poke(NicPorts *ports, PyObject *now) {
    return discard(call(ports->tick, now, NULL)) < 0 ? -1 : nic_poke(ports);
}

/* ---- events ---- */

/* It is the time that a wake-up was asked for; if an earlier one was asked for meanwhile, that has done this one's work. */
static int nic_wake(NicPorts *ports, int64_t due) {
    if (due != ports->wake_at)
        return 0;
    ports->wake_at = MAX_TIME;
    PyObject *now = PyLong_FromLongLong(due);
    int done = now ? tick_and_poke(ports, now) : -1;
    Py_XDECREF(now);
    return done < 0 ? -1 : nic_announce(ports);
}

/* A channel of the NIC is free. */
static int nic_pull(NicPorts *ports, Channel *channel) {
    int64_t time = ports->clock->now;
    PyObject *now = PyLong_FromLongLong(time);
    int sent = now ? ask_port(ports, channel, now, time) : -1;
    if (!sent)
        channel->idle = 1;
    int64_t due = sent < 0 ? -1 : due_at(ports);
    int done = due < 0 ? -1 : 0;
    if (due >= 0 && due < ports->wake_at) /* if at once: sending here made another port ready */
        done = due <= time ? tick_and_poke(ports, now) : wake_later(ports, due);
    Py_XDECREF(now);
    return done;
}

/* The engine is free: who has waited longest is asked first, if it is idle, then all others that are. */
static int nic_ask_again(NicPorts *ports) {
    ports->engine.asking = 0;
    if (!ports->engine.count)
        return 0;
    for (Py_ssize_t at = 0, port = ports->engine.waiting[0]; at < channel_count(ports); at++) {
        Channel *channel = channel_at(ports, at);
        if (channel->port == port && channel->idle && nic_pull(ports, channel) < 0)
            return -1;
    }
    return nic_poke(ports);
}

/* A frame has arrived that makes an answer due. */
static int nic_answer(NicPorts *ports, PyObject *due) {
    PyObject *now = PyLong_FromLongLong(ports->clock->now);
    int done = now ? discard(call(ports->answer_due, due, now)) : -1;
    Py_XDECREF(now);
    return done < 0 || nic_poke(ports) < 0 ? -1 : nic_announce(ports);
}

/* The NIC is not asked after a frame that was carried, but its engine is: idle ports wait for it while it is busy, and those that
 * waited are asked if it is not. */
static int ask_engine_alone(NicPorts *ports) {
    PacketEngine *engine = &ports->engine;
    if (!occupies(engine))
        return 0;
    if (ports->clock->now >= engine->transmit_free)
        return engine->count && (nic_poke(ports) < 0 || nic_announce(ports) < 0) ? -1 : 0;
    for (Py_ssize_t at = 0; at < channel_count(ports); at++)
        if (channel_at(ports, at)->idle && refuse(ports, channel_at(ports, at)->port) < 0)
            return -1;
    return 0;
}

/* Give a frame to the NIC's datapath: 1 if it was carried, 0 if the NIC must receive it, -1 after an error. A NIC that has something
 * due by now must, since it is asked for that after any frame. */
static int nic_carry(NicPorts *ports, int64_t port, PyObject *frame) {
    if (!ports->carry || ports->wake_at <= ports->clock->now || is_cut(frame))
        return 0;
    FramePieces pieces = pieces_of(frame);
    PyObject *due = NULL;
    int carried = ports->carry(ports->receiver, (int)port, &pieces, &due);
    if (carried > 0 && (due ? nic_answer(ports, due) : ask_engine_alone(ports)) < 0)
        carried = -1;
    Py_XDECREF(due);
    return carried;
}

/* The NIC gets a frame. */
static int nic_take(NicPorts *ports, int64_t port, PyObject *frame) {
    int carried = nic_carry(ports, port, frame);
    if (carried)
        return carried < 0 ? -1 : 0;
    if (call_receive(ports->receive, port, frame, ports->clock->now) < 0 || nic_poke(ports) < 0)
        return -1;
    return nic_announce(ports);
}

/* A frame arrived: the NIC gets it at once, or once those before it are dealt with, and it too. */
static int nic_receive(NicPorts *ports, int64_t port, PyObject *frame) {
    PacketEngine *engine = &ports->engine;
    if (!occupies(engine) || is_pause(frame))
        return nic_take(ports, port, frame);
    int64_t begin = ports->clock->now > engine->receive_free ? ports->clock->now : engine->receive_free;
    engine->receive_free = begin + occupancy(engine, frame_size(frame));
    return push(ports->clock, engine->receive_free, DELIVER, NULL, (PyObject *)ports, frame, port);
}

/* ---- for Python: native.pyi says what each does ---- */

/* A tuple of channels in the order of their ports, which are those of a mask; NULL after an error. */
static PyObject *channels_in_order(PyObject *given_channels) {
    PyObject *channels = PySequence_Tuple(given_channels);
    int64_t least = 0;
    for (Py_ssize_t at = 0; channels && at < PyTuple_GET_SIZE(channels); at++) {
        Channel *channel = (Channel *)PyTuple_GET_ITEM(channels, at);
        if (Py_TYPE(channel) != &ChannelType || channel->port < least || channel->port >= MAX_NIC_PORTS) {
            PyErr_Format(PyExc_ValueError, "the channels of a NIC are in the order of its ports, 0 to %d", MAX_NIC_PORTS - 1);
            Py_CLEAR(channels);
        } else {
            least = channel->port + 1;
        }
    }
    return channels;
}

static PyObject *nic_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"clock", "channels", "packet", "pcie_rate", NULL};
    PyObject *clock, *channels, *packet, *pcie_rate;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!OOO:NicPorts", names, &ClockType, &clock, &channels, &packet, &pcie_rate))
        return NULL;
    PacketEngine engine = {0};
    if (clip(packet, 0, MAX_TIME, &engine.packet) < 0 || clip(pcie_rate, 0, MAX_TIME, &engine.pcie_rate) < 0)
        return NULL;
    PyObject *in_order = channels_in_order(channels);
    NicPorts *ports = in_order ? (NicPorts *)PyType_GenericNew(type, NULL, NULL) : NULL;
    if (!ports) {
        Py_XDECREF(in_order);
        return NULL;
    }
    ports->clock = (Clock *)Py_NewRef(clock);
    ports->channels = in_order;
    ports->engine = engine;
    ports->wake_at = MAX_TIME;
    ports->receive = Py_NewRef(Py_None); /* until there is a device */
    ports->transmit = Py_NewRef(Py_None);
    ports->wakeup = Py_NewRef(Py_None);
    ports->tick = Py_NewRef(Py_None);
    return (PyObject *)ports;
}

#define EACH_SHORTCUT(DO) DO(transmit_first) DO(has_news) DO(receiver) DO(answer_due) DO(outbox)

static void set_verbs(NicPorts *self, PyObject *receive, PyObject *transmit, PyObject *wakeup, PyObject *tick) {
    Py_XSETREF(self->receive, Py_NewRef(receive));
    Py_XSETREF(self->transmit, Py_NewRef(transmit));
    Py_XSETREF(self->wakeup, Py_NewRef(wakeup));
    Py_XSETREF(self->tick, Py_NewRef(tick));
    EACH_SHORTCUT(CLEAR_OBJECT)
    self->carry = NULL;
}

static PyObject *py_nic_drive(NicPorts *ports, PyObject *args) {
    PyObject *receive, *transmit, *wakeup, *tick;
    if (!PyArg_ParseTuple(args, "OOOO:drive", &receive, &transmit, &wakeup, &tick))
        return NULL;
    set_verbs(ports, receive, transmit, wakeup, tick);
    ports->wake_at = MAX_TIME;
    Py_CLEAR(ports->announce);
    Py_RETURN_NONE;
}

static PyObject *py_nic_observe(NicPorts *ports, PyObject *args) {
    PyObject *receive, *transmit, *wakeup, *tick;
    if (!PyArg_ParseTuple(args, "OOOO:observe", &receive, &transmit, &wakeup, &tick))
        return NULL;
    set_verbs(ports, receive, transmit, wakeup, tick);
    Py_RETURN_NONE;
}

static PyObject *py_nic_shorten(NicPorts *ports, PyObject *args) {
    PyObject *transmit_first, *has_news, *receiver, *capsule, *answer_due, *outbox;
    if (!PyArg_ParseTuple(args, "OOOOOO:shorten", &transmit_first, &has_news, &receiver, &capsule, &answer_due, &outbox))
        return NULL;
    CarryFrame *carry = PyCapsule_GetPointer(capsule, CARRY_FRAME_CAPSULE);
    if (!carry)
        return NULL;
    ports->carry = *carry;
    Py_XSETREF(ports->transmit_first, Py_NewRef(transmit_first));
    Py_XSETREF(ports->has_news, Py_NewRef(has_news));
    Py_XSETREF(ports->receiver, Py_NewRef(receiver));
    Py_XSETREF(ports->answer_due, Py_NewRef(answer_due));
    Py_XSETREF(ports->outbox, Py_NewRef(outbox));
    Py_RETURN_NONE;
}

static PyObject *py_nic_receive(NicPorts *ports, PyObject *args) {
    long long port;
    PyObject *frame;
    if (!PyArg_ParseTuple(args, "LS:receive", &port, &frame))
        return NULL;
    return none_or_error(nic_receive(ports, port, frame));
}

static PyObject *py_nic_poke(NicPorts *ports, PyObject *Py_UNUSED(none)) { return none_or_error(nic_poke(ports)); }

#define EACH_OBJECT_OF_NIC(DO) DO(channels) DO(receive) DO(transmit) DO(wakeup) DO(tick) DO(announce) DO(left) EACH_SHORTCUT(DO)

static int nic_traverse(NicPorts *self, visitproc visit, void *arg) {
    Py_VISIT(self->clock);
    EACH_OBJECT_OF_NIC(VISIT_OBJECT)
    return 0;
}

static int nic_clear(NicPorts *self) {
    set_verbs(self, Py_None, Py_None, Py_None, Py_None);
    Py_CLEAR(self->announce);
    Py_CLEAR(self->left);
    return 0;
}

static void nic_dealloc(NicPorts *self) {
    PyObject_GC_UnTrack(self);
    EACH_OBJECT_OF_NIC(CLEAR_OBJECT)
    Py_DECREF(self->clock);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef nic_methods[] = {
    {"drive", (PyCFunction)py_nic_drive, METH_VARARGS, NULL},
    {"observe", (PyCFunction)py_nic_observe, METH_VARARGS, NULL},
    {"shorten", (PyCFunction)py_nic_shorten, METH_VARARGS, NULL},
    {"receive", (PyCFunction)py_nic_receive, METH_VARARGS, NULL},
    {"poke", (PyCFunction)py_nic_poke, METH_NOARGS, NULL},
    {0},
};
static PyMemberDef nic_members[] = {
    {"announce", T_OBJECT, offsetof(NicPorts, announce), 0, NULL},
    {"left", T_OBJECT, offsetof(NicPorts, left), 0, NULL},
    {0},
};
static PyTypeObject NicPortsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "simulation.core.native.NicPorts",
    .tp_basicsize = sizeof(NicPorts),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = nic_new,
    .tp_dealloc = (destructor)nic_dealloc,
    .tp_traverse = (traverseproc)nic_traverse,
    .tp_clear = (inquiry)nic_clear,
    .tp_methods = nic_methods,
    .tp_members = nic_members,
};

#endif
