/* How long packets occupy a NIC: the hot part of PacketEngine in simulation/packet_engine.py, by the names that it has there.
 *
 * Frames for the NIC wait in the event queue without Python. Outwards nic_node.h asks the engine before it asks the NIC. */
#ifndef PACKET_ENGINE_H
#define PACKET_ENGINE_H

#include "frame.h"

#define ETHERTYPE_AT 12
#define PAUSE_ETHERTYPE 0x8808

typedef struct {
    PyObject_HEAD
    PyObject *clock, *deliver, *ask, *refused; /* `refused` is a dict, for its order */
    long long transmit_free, receive_free;     /* ns */
    long long packet, rate;                    /* ns a packet; b/s of PCIe, 0 for no limit */
    char asking;
} PacketEngine;

static PyTypeObject PacketEngineType;

static PacketEngine *packet_engine(PyObject *object) {
    return object && is_a(object, &PacketEngineType) ? (PacketEngine *)object : NULL;
}

/* As HardwareTiming.occupancy. */
static int64_t occupancy(const PacketEngine *engine, Py_ssize_t size) {
    if (engine->rate <= 0)
        return engine->packet;
    unsigned __int128 took = ((unsigned __int128)size * BITS + (unsigned __int128)engine->rate - 1) / engine->rate;
    int64_t pcie = took < MAX_TIME ? (int64_t)took : MAX_TIME;
    return pcie > engine->packet ? pcie : engine->packet;
}

/* ---- out ---- */

static int engine_refuse(PacketEngine *engine, long long port) {
    if (!engine->refused || !PyDict_Check(engine->refused)) {
        PyErr_SetString(PyExc_AttributeError, "this engine has no ports yet");
        return -1;
    }
    PyObject *key = PyLong_FromLongLong(port);
    int done = key ? PyDict_SetItem(engine->refused, key, Py_None) : -1;
    Py_XDECREF(key);
    if (done < 0 || engine->asking)
        return done;
    Clock *clock = clock_of(engine->clock);
    engine->asking = 1;
    return clock ? push(clock, engine->transmit_free, ASK, NULL, (PyObject *)engine, NULL, 0) : -1;
}

static int engine_has_refused(const PacketEngine *engine) {
    return engine->refused && PyDict_Check(engine->refused) && PyDict_GET_SIZE(engine->refused) > 0;
}

/* The port is asked: it waits no more. */
static int engine_forget(PacketEngine *engine, long long port) {
    if (!engine_has_refused(engine))
        return 0;
    PyObject *key = PyLong_FromLongLong(port);
    int known = key ? PyDict_Contains(engine->refused, key) : -1;
    if (known > 0)
        known = PyDict_DelItem(engine->refused, key);
    Py_XDECREF(key);
    return known < 0 ? -1 : 0;
}

/* 1: the engine is busy, and the port will be asked later; 0: it may be asked now; -1 after an error. */
static int engine_busy(PacketEngine *engine, long long port, int64_t now) {
    if (now < engine->transmit_free)
        return engine_refuse(engine, port) < 0 ? -1 : 1;
    return engine_forget(engine, port);
}

static void engine_occupy(PacketEngine *engine, Py_ssize_t size, int64_t now) {
    engine->transmit_free = now + occupancy(engine, size);
}

/* The engine is free: who has waited longest is asked first. */
static int engine_ask_again(PacketEngine *engine) {
    PyObject *port, *none, *result;
    Py_ssize_t at = 0;
    engine->asking = 0;
    if (!engine_has_refused(engine) || !engine->ask || !PyDict_Next(engine->refused, &at, &port, &none))
        return 0;
    Py_INCREF(port);
    result = PyObject_CallOneArg(engine->ask, port);
    Py_DECREF(port);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* ---- in ---- */

/* The node behind the engine, if that is native and takes frames itself. */
static NicNode *node_behind(const PacketEngine *engine) {
    PyObject *self = engine->deliver && PyCFunction_Check(engine->deliver) ? PyCFunction_GET_SELF(engine->deliver) : NULL;
    return self && is_a(self, &NicNodeType) ? (NicNode *)self : NULL;
}

static int is_pause(PyObject *frame) {
    FramePieces pieces = pieces_of(frame);
    return pieces.head_length >= ETHERTYPE_AT + 2
           && (pieces.head[ETHERTYPE_AT] << 8 | pieces.head[ETHERTYPE_AT + 1]) == PAUSE_ETHERTYPE;
}

/* When the NIC gets a frame of a size that arrives now. */
static int64_t engine_takes(PacketEngine *engine, Py_ssize_t size, int64_t now) {
    int64_t begin = now > engine->receive_free ? now : engine->receive_free;
    engine->receive_free = begin + occupancy(engine, size);
    return engine->receive_free;
}
#endif
