/* What each kind of event does: a channel is free, a frame arrives, somebody is woken. */
#ifndef EVENTS_H
#define EVENTS_H

#include "nic_ports.h"
#include "switch_ports.h"

/* Whoever is called is kept alive, since it may be replaced meanwhile. */
static int channel_free(Channel *channel) {
    PyObject *sender = Py_NewRef(channel->sender ? channel->sender : Py_None);
    int done;
    if (Py_TYPE(sender) == &SwitchPortsType)
        done = switch_pull((SwitchPorts *)sender, channel);
    else if (Py_TYPE(sender) == &NicPortsType)
        done = nic_pull((NicPorts *)sender, channel);
    else
        done = discard(PyObject_CallMethod(sender, "pull", "O", channel));
    Py_DECREF(sender);
    return done;
}

static int deliver(Channel *channel, PyObject *frame) {
    PyObject *receiver = Py_NewRef(channel->receiver ? channel->receiver : Py_None);
    int done;
    if (Py_TYPE(receiver) == &SwitchPortsType)
        done = switch_receive((SwitchPorts *)receiver, channel->to_port, frame);
    else if (Py_TYPE(receiver) == &NicPortsType)
        done = nic_receive((NicPorts *)receiver, channel->to_port, frame);
    else
        done = discard(PyObject_CallMethod(receiver, "receive", "LN", (long long)channel->to_port, whole_frame(frame)));
    Py_DECREF(receiver);
    return done;
}

/* The watcher gets the frame, and what delivers it. */
static int deliver_watched(Channel *channel, PyObject *whole) {
    PyObject *watcher = Py_NewRef(channel->watcher);
    PyObject *receive = PyObject_GetAttrString(channel->receiver ? channel->receiver : Py_None, "receive");
    int done = receive ? discard(PyObject_CallMethod(watcher, "arrived", "OO", whole, receive)) : -1;
    Py_XDECREF(receive);
    Py_DECREF(watcher);
    return done;
}

/* The last bit of a frame has come. */
static int channel_arrive(Channel *channel, PyObject *frame, int64_t epoch) {
    if (epoch != channel->epoch)
        return channel_lose(channel, frame, "on its way when the link went down");
    if (!given(channel->traced) && !given(channel->watcher))
        return deliver(channel, frame);
    PyObject *whole = whole_frame(frame);
    int done = whole ? 0 : -1;
    if (!done && given(channel->traced))
        done = discard(PyObject_CallFunction(channel->traced, "LLLO", (long long)channel->clock->now, (long long)channel->to_number,
                                             (long long)channel->to_port, whole));
    if (!done)
        done = given(channel->watcher) ? deliver_watched(channel, whole) : deliver(channel, frame);
    Py_XDECREF(whole);
    return done;
}

static int handle_event(const struct event *event) {
    switch (event->kind) {
    case FREE:
        return channel_free((Channel *)event->a);
    case ARRIVE:
        return channel_arrive((Channel *)event->a, event->b, event->epoch);
    case WAKE_SWITCH:
        return switch_wake((SwitchPorts *)event->a, event->epoch);
    case WAKE_NIC:
        return nic_wake((NicPorts *)event->a, event->epoch);
    case ASK:
        return nic_ask_again((NicPorts *)event->a);
    case DELIVER:
        return nic_take((NicPorts *)event->a, event->epoch, event->b);
    default:
        return discard(call(event->handler, event->a, event->b));
    }
}

#endif
