/* NicNode and PacketEngine as Python sees them. */
#ifndef NIC_TYPES_H
#define NIC_TYPES_H

#include "frame_path.h"

#define VISIT_PART(field) Py_VISIT(self->field);
#define CLEAR_PART(field) Py_CLEAR(self->field);

/* ---- NicNode for Python: the hot part of NicNode in simulation/nodes.py, by the names that it has there ---- */

static PyObject *none_or_error(int done) {
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_node_receive(NicNode *node, PyObject *const *args, Py_ssize_t count) {
    if (count == 2)
        return none_or_error(node_receive(node, args[0], args[1]));
    PyErr_SetString(PyExc_TypeError, "receive(port, frame)");
    return NULL;
}

static PyObject *py_node_pull(NicNode *node, PyObject *const *args, Py_ssize_t count) {
    if (count == 2 && PyObject_TypeCheck(args[0], &ChannelType))
        return none_or_error(node_pull(node, (Channel *)args[0]));
    PyErr_SetString(PyExc_TypeError, "pull(channel, None)");
    return NULL;
}

static PyObject *py_node_ask(NicNode *node, PyObject *port) {
    long long number = PyLong_AsLongLong(port);
    return number == -1 && PyErr_Occurred() ? NULL : none_or_error(node_ask(node, number));
}

static PyObject *py_node_poke(NicNode *node, PyObject *Py_UNUSED(none)) { return none_or_error(node_poke(node)); }

/* _carry(receiver, capsule, answer_due, outbox): frames for the NIC go to its datapath first, while `_receive` is what it is now, and its
 * packets may stay in place; _carry() ends that. */
static PyObject *py_node_carry(NicNode *node, PyObject *args) {
    PyObject *receiver = NULL, *capsule = NULL, *answer_due = NULL, *outbox = NULL;
    if (!PyArg_ParseTuple(args, "|OOOO:_carry", &receiver, &capsule, &answer_due, &outbox))
        return NULL;
    CarryFrame *carry = NULL;
    if (outbox && !(carry = PyCapsule_GetPointer(capsule, CARRY_FRAME_CAPSULE)))
        return NULL;
    node->carry = carry ? *carry : NULL;
    Py_XSETREF(node->receiver, Py_XNewRef(carry ? receiver : NULL));
    Py_XSETREF(node->answer_due, Py_XNewRef(carry ? answer_due : NULL));
    Py_XSETREF(node->outbox, Py_XNewRef(outbox));
    Py_XSETREF(node->own_receive, Py_XNewRef(carry ? node->receive : NULL));
    Py_RETURN_NONE;
}

static PyObject *node_channels(NicNode *node, void *Py_UNUSED(closure)) {
    return node->channels ? Py_NewRef(node->channels) : PyTuple_New(0);
}

static int node_set_channels(NicNode *node, PyObject *value, void *Py_UNUSED(closure)) {
    PyObject *channels = value && !node->channels ? PySequence_Tuple(value) : NULL;
    for (Py_ssize_t at = 0; channels && at < PyTuple_GET_SIZE(channels); at++)
        if (!PyObject_TypeCheck(PyTuple_GET_ITEM(channels, at), &ChannelType))
            Py_CLEAR(channels);
    if (!channels) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a node gets its channels, which are native, once");
        return -1;
    }
    node->channels = channels;
    return 0;
}

#define EACH_PART(DO)                                                                                                  \
    DO(clock) DO(channels) DO(receive) DO(transmit) DO(wakeup) DO(tick) DO(announce) DO(own_transmit)                  \
    DO(transmit_first) DO(nic_transmit) DO(has_news) DO(engine) DO(own_receive) DO(receiver) DO(answer_due) DO(outbox)

static int node_traverse(NicNode *self, visitproc visit, void *arg) {
    EACH_PART(VISIT_PART)
    return 0;
}

static int node_clear(NicNode *self) {
    EACH_PART(CLEAR_PART)
    return 0;
}

static void node_dealloc(NicNode *node) {
    PyObject_GC_UnTrack(node);
    node_clear(node);
    Py_TYPE(node)->tp_free((PyObject *)node);
}

static PyMethodDef node_methods[] = {
    {"receive", (PyCFunction)(void (*)(void))py_node_receive, METH_FASTCALL, "A frame arrived."},
    {"pull", (PyCFunction)(void (*)(void))py_node_pull, METH_FASTCALL, "The channel is free."},
    {"ask", (PyCFunction)py_node_ask, METH_O, "Ask a port before all others that are idle."},
    {"poke", (PyCFunction)py_node_poke, METH_NOARGS, "The NIC had some input."},
    {"_carry", (PyCFunction)py_node_carry, METH_VARARGS, "Give frames to the NIC's datapath first."},
    {0},
};
#define PART(name, field) {name, T_OBJECT_EX, offsetof(NicNode, field), 0, NULL}
static PyMemberDef node_members[] = {
    PART("_clock", clock), PART("_receive", receive), PART("_transmit", transmit), PART("_wakeup", wakeup),
    PART("_tick", tick), PART("announce", announce), PART("_own_transmit", own_transmit),
    PART("_transmit_first", transmit_first), PART("_nic_transmit", nic_transmit), PART("_has_news", has_news),
    PART("engine", engine),
    {"_wake_at", T_LONGLONG, offsetof(NicNode, wake_at), 0, NULL}, {0},
};
static PyGetSetDef node_getset[] = {{"_channels", (getter)node_channels, (setter)node_set_channels, NULL, NULL}, {0}};
static PyTypeObject NicNodeType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "native_core.NicNode",
    .tp_basicsize = sizeof(NicNode),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)node_dealloc,
    .tp_traverse = (traverseproc)node_traverse,
    .tp_clear = (inquiry)node_clear,
    .tp_methods = node_methods,
    .tp_members = node_members,
    .tp_getset = node_getset,
};

/* ---- PacketEngine for Python: the hot part of simulation/packet_engine.py ---- */

static PyObject *py_engine_receive(PacketEngine *engine, PyObject *const *args, Py_ssize_t count) {
    long long port = count == 2 ? PyLong_AsLongLong(args[0]) : -1;
    if (count != 2 || !has_parts(args[1]))
        PyErr_SetString(PyExc_TypeError, "receive(port, frame)");
    return none_or_error(PyErr_Occurred() ? -1 : engine_receive(engine, port, args[1]));
}

static PyObject *py_engine_busy(PacketEngine *engine, PyObject *args) {
    long long port, now;
    int busy = PyArg_ParseTuple(args, "LL:_busy", &port, &now) ? engine_busy(engine, port, now) : -1;
    return busy < 0 ? NULL : PyBool_FromLong(busy);
}

static PyObject *py_engine_occupy(PacketEngine *engine, PyObject *args) {
    long long now;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "nL:_occupy", &size, &now))
        return NULL;
    engine_occupy(engine, size, now);
    Py_RETURN_NONE;
}

#define EACH_OF_ENGINE(DO) DO(clock) DO(deliver) DO(ask) DO(refused)

static int engine_traverse(PacketEngine *self, visitproc visit, void *arg) {
    EACH_OF_ENGINE(VISIT_PART)
    return 0;
}

static int engine_clear(PacketEngine *self) {
    EACH_OF_ENGINE(CLEAR_PART)
    return 0;
}

static void engine_dealloc(PacketEngine *engine) {
    PyObject_GC_UnTrack(engine);
    engine_clear(engine);
    Py_TYPE(engine)->tp_free((PyObject *)engine);
}

static PyMethodDef engine_methods[] = {
    {"receive", (PyCFunction)(void (*)(void))py_engine_receive, METH_FASTCALL, "A frame arrived."},
    {"_busy", (PyCFunction)py_engine_busy, METH_VARARGS, NULL},
    {"_occupy", (PyCFunction)py_engine_occupy, METH_VARARGS, NULL},
    {0},
};
#define ENGINE_PART(name, field) {name, T_OBJECT_EX, offsetof(PacketEngine, field), 0, NULL}
#define ENGINE_TIME(name, field) {name, T_LONGLONG, offsetof(PacketEngine, field), 0, NULL}
static PyMemberDef engine_members[] = {
    ENGINE_PART("_clock", clock), ENGINE_PART("_deliver", deliver), ENGINE_PART("_ask", ask), ENGINE_PART("_refused", refused),
    ENGINE_TIME("_transmit_free", transmit_free), ENGINE_TIME("_receive_free", receive_free),
    ENGINE_TIME("_packet", packet), ENGINE_TIME("_rate", rate),
    {"_asking", T_BOOL, offsetof(PacketEngine, asking), 0, NULL}, {0},
};
static PyTypeObject PacketEngineType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "native_core.PacketEngine",
    .tp_basicsize = sizeof(PacketEngine),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)engine_dealloc,
    .tp_traverse = (traverseproc)engine_traverse,
    .tp_clear = (inquiry)engine_clear,
    .tp_methods = engine_methods,
    .tp_members = engine_members,
};

#endif
