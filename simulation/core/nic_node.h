/* What NicNode in simulation/nodes.py does for its device, call for call. Three things are spared: a port whose queues are
 * empty is not asked (`Nic.transmit_first` knows); nothing is announced while the NIC has no news; and a frame that the NIC's
 * datapath carries is given to that directly. Unless it makes an answer due, such a frame changes nothing that the NIC would be
 * asked for, so it is not asked. */
#ifndef NIC_NODE_H
#define NIC_NODE_H

#include "packet_engine.h"

#define MAX_NIC_PORTS 62 /* bits of a mask of ports */

static int channel_send(Channel *channel, PyObject *frame, int64_t now);

static int discard(PyObject *result) {
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* `callable`, which others may replace meanwhile, with up to two arguments. */
static PyObject *call(PyObject *callable, PyObject *first, PyObject *second) {
    if (!callable) {
        PyErr_SetString(PyExc_AttributeError, "this node has no device yet");
        return NULL;
    }
    PyObject *arguments[] = {first, second};
    Py_INCREF(callable);
    PyObject *result = PyObject_Vectorcall(callable, arguments, second ? 2 : first ? 1 : 0, NULL);
    Py_DECREF(callable);
    return result;
}

/* Whether nobody has replaced the verb with which the node asks its NIC for frames. */
static int asks_itself(const NicNode *node) {
    return node->own_transmit && node->own_transmit != Py_None && node->transmit == node->own_transmit;
}

/* What the NIC's own verb answers; a data packet that it leaves in its outbox is in `left` there, and only its length is in the answer. */
static PyObject *ask_nic(NicNode *node, PyObject *verb, PyObject *first, PyObject *now) {
    Outbox *outbox = (Outbox *)node->outbox;
    if (!outbox)
        return call(verb, first, now);
    Py_INCREF(outbox);
    Py_CLEAR(outbox->left);
    outbox->open = 1;
    PyObject *answer = call(verb, first, now);
    outbox->open = 0;
    Py_DECREF(outbox);
    return answer;
}

/* A frame that the NIC has answered with; a new reference, NULL after an error. */
static PyObject *answered_frame(NicNode *node, PyObject *frame) {
    Outbox *outbox = (Outbox *)node->outbox;
    int stands_for_it = outbox && outbox->left && PyBytes_CheckExact(frame)
                        && (size_t)PyBytes_GET_SIZE(frame) == IN_PLACE_HEAD + outbox->left->length;
    return stands_for_it ? frame_from(outbox) : Py_NewRef(frame);
}

/* Send the frame, if the answer of a device is one: 1, 0 for None, -1 after an error. Takes the answer's reference. */
static int send_answer(Channel *channel, PyObject *answer, int64_t now) {
    int sent = !answer ? -1 : answer == Py_None ? 0 : channel_send(channel, answer, now) < 0 ? -1 : 1;
    Py_XDECREF(answer);
    return sent;
}

static Py_ssize_t channel_count(NicNode *node) { return node->channels ? PyTuple_GET_SIZE(node->channels) : 0; }

static Channel *channel_at(NicNode *node, Py_ssize_t at) { return (Channel *)PyTuple_GET_ITEM(node->channels, at); }

/* Ask the idle ports from channel `from` on, all at once, for the first frame of any. Returns the channel after the one
 * that sent it; the number of channels if there was none, -1 after an error. */
static Py_ssize_t ask_together(NicNode *node, Py_ssize_t from, PyObject *now, int64_t time) {
    Py_ssize_t count = channel_count(node);
    unsigned long long ports = 0;
    for (Py_ssize_t at = from; at < count; at++)
        if (channel_at(node, at)->idle)
            ports |= 1ULL << channel_at(node, at)->port;
    if (!ports)
        return count;
    PyObject *mask = PyLong_FromUnsignedLongLong(ports);
    PyObject *answer = mask ? ask_nic(node, node->transmit_first, mask, now) : NULL;
    Py_XDECREF(mask);
    if (!answer || answer == Py_None) {
        Py_XDECREF(answer);
        return answer ? count : -1;
    }
    Py_ssize_t sent = -1;
    if (PyTuple_CheckExact(answer) && PyTuple_GET_SIZE(answer) == 2) {
        long long port = PyLong_AsLongLong(PyTuple_GET_ITEM(answer, 0));
        for (Py_ssize_t at = from; at < count && sent < 0 && !PyErr_Occurred(); at++)
            if (channel_at(node, at)->port == port)
                sent = at;
    }
    if (sent < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "a NIC answered with something else than a port that was asked and its frame");
    PacketEngine *engine = packet_engine(node->engine);
    if (sent >= 0 && engine)
        engine_occupy(engine, PyObject_Size(PyTuple_GET_ITEM(answer, 1)), time);
    PyObject *frame = sent >= 0 ? answered_frame(node, PyTuple_GET_ITEM(answer, 1)) : NULL;
    if (sent >= 0 && (!frame || channel_send(channel_at(node, sent), frame, time) < 0))
        sent = -2;
    Py_XDECREF(frame);
    Py_DECREF(answer);
    return sent < 0 ? -1 : sent + 1;
}

/* Ask the idle ports from channel `from` on, as ask_together, while packets occupy the NIC: those that wait for that are refused. */
static Py_ssize_t ask_engine(NicNode *node, PacketEngine *engine, Py_ssize_t from, PyObject *now, int64_t time) {
    Py_ssize_t count = channel_count(node), next = count;
    int busy = time < engine->transmit_free;
    if (!busy && (next = ask_together(node, from, now, time)) < 0)
        return -1;
    /* whether these channels were idle before: the one that has sent is not any more */
    for (Py_ssize_t at = from; at < next; at++) {
        Channel *channel = channel_at(node, at);
        if (busy ? channel->idle && engine_busy(engine, channel->port, time) < 0 : engine_forget(engine, channel->port) < 0)
            return -1;
    }
    return next;
}

/* Ask every idle port. */
static int ask_idle(NicNode *node, PyObject *now, int64_t time) {
    Py_ssize_t count = channel_count(node), at = 0;
    if (asks_itself(node)) {
        PacketEngine *engine = packet_engine(node->engine);
        while (at >= 0 && at < count)
            at = engine ? ask_engine(node, engine, at, now, time) : ask_together(node, at, now, time);
        return at < 0 ? -1 : 0;
    }
    for (PyObject *port; at < count; at++) {
        Channel *channel = channel_at(node, at);
        if (!channel->idle)
            continue;
        port = PyLong_FromLongLong(channel->port);
        int sent = port ? send_answer(channel, call(node->transmit, port, now), time) : -1;
        Py_XDECREF(port);
        if (sent < 0)
            return -1;
    }
    return 0;
}

/* When the NIC has something due: MAX_TIME for never, -1 after an error. */
static int64_t due_at(NicNode *node) {
    PyObject *answer = call(node->wakeup, NULL, NULL);
    if (!answer || answer == Py_None) {
        Py_XDECREF(answer);
        return answer ? MAX_TIME : -1;
    }
    int overflow;
    long long due = PyLong_AsLongLongAndOverflow(answer, &overflow);
    Py_DECREF(answer);
    if (due == -1 && !overflow && PyErr_Occurred())
        return -1;
    return overflow > 0 || due > MAX_TIME ? MAX_TIME : due < 0 ? 0 : due;
}

static int wake_at(NicNode *node, Clock *clock, int64_t due) {
    if (due >= node->wake_at)
        return 0;
    node->wake_at = due;
    return push(clock, due, WAKE, NULL, (PyObject *)node, NULL, due);
}

/* Ask idle ports and do what is due until nothing is; when something will be. MAX_TIME for never, -1 after an error. */
static int64_t serve_idle(NicNode *node, PyObject *now, int64_t time) {
    for (;;) {
        if (ask_idle(node, now, time) < 0)
            return -1;
        int64_t due = due_at(node);
        if (due < 0 || due > time)
            return due;
        if (discard(call(node->tick, now, NULL)) < 0)
            return -1;
    }
}

static int node_poke(NicNode *node) {
    Clock *clock = clock_of(node->clock);
    PyObject *now = clock ? PyLong_FromLongLong(clock->now) : NULL;
    int64_t due = now ? serve_idle(node, now, clock->now) : -1;
    Py_XDECREF(now);
    return due < 0 ? -1 : wake_at(node, clock, due);
}

static int node_announce(NicNode *node) {
    if (!node->announce || node->announce == Py_None)
        return 0;
    if (node->has_news && node->has_news != Py_None) {
        PyObject *news = call(node->has_news, NULL, NULL);
        int any = news ? PyObject_IsTrue(news) : -1;
        Py_XDECREF(news);
        if (any <= 0)
            return any;
    }
    return discard(call(node->announce, NULL, NULL));
}

/* A frame has arrived that makes an answer due. */
static int node_answer_due(NicNode *node, PyObject *due, int64_t time) {
    PyObject *now = PyLong_FromLongLong(time);
    int done = now ? discard(call(node->answer_due, due, now)) : -1;
    Py_XDECREF(now);
    return done < 0 || node_poke(node) < 0 ? -1 : node_announce(node);
}

/* The NIC is not asked after a frame that was carried, but its engine is: idle ports wait for it while it is busy, and those that
 * waited are asked if it is not. */
static int ask_engine_alone(NicNode *node, PacketEngine *engine, int64_t time) {
    if (!engine)
        return 0;
    if (time >= engine->transmit_free)
        return engine_has_refused(engine) && (node_poke(node) < 0 || node_announce(node) < 0) ? -1 : 0;
    for (Py_ssize_t at = 0; at < channel_count(node); at++)
        if (channel_at(node, at)->idle && engine_refuse(engine, channel_at(node, at)->port) < 0)
            return -1;
    return 0;
}

/* Give a frame to the NIC's datapath: 1 if it was carried, 0 if the NIC must receive it, -1 after an error. */
static int node_carry(NicNode *node, int64_t port, const FramePieces *frame) {
    Clock *clock = node->carry && node->receive == node->own_receive ? clock_of(node->clock) : NULL;
    if (!clock || node->wake_at <= clock->now || port > MAX_NIC_PORTS)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *due;
    int carried = node->carry(node->receiver, (int)port, frame, &due);
    if (carried > 0
        && (due ? node_answer_due(node, due, clock->now) : ask_engine_alone(node, packet_engine(node->engine), clock->now)) < 0)
        carried = -1;
    Py_XDECREF(due);
    return carried;
}

static int node_receive(NicNode *node, PyObject *port, PyObject *frame) {
    Clock *clock = clock_of(node->clock);
    PyObject *now = clock ? PyLong_FromLongLong(clock->now) : NULL;
    PyObject *arguments[] = {port, frame, now}, *verb = node->receive;
    if (!now || !verb)
        return discard(now ? call(NULL, NULL, NULL) : NULL);
    Py_INCREF(verb);
    int done = discard(PyObject_Vectorcall(verb, arguments, 3, NULL));
    Py_DECREF(verb);
    Py_DECREF(now);
    return done < 0 || node_poke(node) < 0 ? -1 : node_announce(node);
}

static int node_tick_and_poke(NicNode *node, PyObject *now) {
    return discard(call(node->tick, now, NULL)) < 0 ? -1 : node_poke(node);
}

/* It is the time that a wake-up was asked for; if an earlier one was asked for meanwhile, that has done this one's work. */
static int node_wake(NicNode *node, int64_t due) {
    if (due != node->wake_at)
        return 0;
    node->wake_at = MAX_TIME;
    PyObject *now = PyLong_FromLongLong(due);
    int done = now ? node_tick_and_poke(node, now) : -1;
    Py_XDECREF(now);
    return done < 0 ? -1 : node_announce(node);
}

/* The next frame of a port, None if there is none; NULL after an error. */
static PyObject *node_transmit(NicNode *node, PyObject *port, PyObject *now, int64_t time) {
    if (!asks_itself(node))
        return call(node->transmit, port, now);
    PacketEngine *engine = packet_engine(node->engine);
    int busy = engine ? engine_busy(engine, PyLong_AsLongLong(port), time) : 0;
    if (busy)
        return busy < 0 ? NULL : Py_NewRef(Py_None);
    PyObject *answer = ask_nic(node, engine ? node->nic_transmit : node->transmit, port, now);
    if (!answer || answer == Py_None)
        return answer;
    if (engine)
        engine_occupy(engine, PyObject_Size(answer), time);
    PyObject *frame = answered_frame(node, answer);
    Py_DECREF(answer);
    return frame;
}

static int node_pull(NicNode *node, Channel *channel) {
    Clock *clock = clock_of(node->clock);
    PyObject *now = clock ? PyLong_FromLongLong(clock->now) : NULL;
    PyObject *port = now ? PyLong_FromLongLong(channel->port) : NULL;
    int sent = port ? send_answer(channel, node_transmit(node, port, now, clock->now), clock->now) : -1;
    if (!sent)
        channel->idle = 1;
    int64_t due = sent < 0 ? -1 : due_at(node);
    int done = due < 0 ? -1 : 0;
    if (due >= 0 && due < node->wake_at) /* if at once: sending here made another port ready */
        done = due <= clock->now ? node_tick_and_poke(node, now) : wake_at(node, clock, due);
    Py_XDECREF(port);
    Py_XDECREF(now);
    return done;
}

/* Ask a port, if it is idle, before all others that are. */
static int node_ask(NicNode *node, long long port) {
    for (Py_ssize_t at = 0; at < channel_count(node); at++) {
        Channel *channel = channel_at(node, at);
        if (channel->port == port && channel->idle && node_pull(node, channel) < 0)
            return -1;
    }
    return node_poke(node);
}

#endif
