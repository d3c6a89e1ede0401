/* Frames in: prefix, ICRC and queue pair of every one, and placement in the common case.
 *
 * A Receiver belongs to one NIC and has a Carrier for each MRC queue pair that may receive (carrier.h).
 */
#ifndef MRC_RECEIVE_H
#define MRC_RECEIVE_H

#include "placement.h"
#include "prefixes.h"
#include "sack.h"

typedef struct {
    CarrierTable table;
    Flows flows[MAX_PLANES];
    Expected expected;
    int ports;
    int traced; /* Python wants to see every packet */
    uint64_t secret;
} Receiver;

/* The flow of a frame whose prefix is known, or learned now, and whose ICRC is right; NULL otherwise. */
static const Flow *check_frame(Receiver *receiver, int port, const uint8_t *frame, size_t length) {
    if (length <= KIND_BYTE)
        return NULL;
    size_t prefix = prefix_length(frame);
    if (length < prefix)
        return NULL;
    Flows *flows = &receiver->flows[port];
    uint64_t hash = prefix_hash(frame, prefix, receiver->secret);
    const Flow *flow = find_flow(flows, frame, prefix, hash);
    if (!flow)
        return meet(&receiver->expected, flows, port, frame, length, hash);
    if (length < (size_t)flow->end + ICRC_LENGTH)
        return NULL;
    const uint8_t *bth = frame + flow->start, *end = frame + flow->end;
    if (bth[4])
        return NULL; /* the mask is for a zero there */
    uint32_t crc = crc32_of(flow->seed, bth, (size_t)(end - bth)) ^ flow->mask;
    uint32_t sent = end[0] | end[1] << 8 | end[2] << 16 | (uint32_t)end[3] << 24;
    return crc == sent ? flow : NULL;
}

/* What becomes of a frame whose ICRC is right: if it was carried, *carrier, *packet and *psn say by whom, and what it is. */
static enum outcome carry_frame(
    const Receiver *receiver, int port, const uint8_t *frame, const Flow *flow, Carrier **carrier, Packet *packet, int64_t *psn
) {
    const uint8_t *bth = frame + flow->start;
    if (receiver->traced || flow->end - flow->start < 36 || bth[1] & 0x0F || (get16(bth + 2) & 0x7FFF) != 0x7FFF)
        return FOR_PYTHON;
    Carrier *found = *carrier = find_carrier(&receiver->table, get32(bth + 4));
    if (!found || !found->granted || port >= found->planes)
        return FOR_PYTHON;
    if (found->source_length != flow->source_length || memcmp(found->source, flow->source, flow->source_length))
        return FOR_PYTHON;
    return read_packet(packet, flow, bth, frame + flow->end, port) ? carry(found, packet, psn) : FOR_PYTHON;
}

/* A packet was carried that makes a SACK due: its QPN, PSN, timestamp and flow. */
static PyObject *sack_due(const Carrier *carrier, const Packet *packet, int64_t psn) {
    return Py_BuildValue("ILIO", carrier->qpn, (long long)psn, packet->stamp, packet->flow->flow);
}

static int valid_port(const Receiver *receiver, long port) {
    if (port >= 0 && port < receiver->ports)
        return 1;
    PyErr_SetString(PyExc_ValueError, "There is no such port.");
    return 0;
}

/* receive(port, frame): True if the frame was carried; what `sack_due` says if that makes a SACK due; its Flow if its prefix and
 * its ICRC are right; None if Python is to find out. */
static PyObject *receiver_receive(Receiver *receiver, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "receive takes a port and a frame.");
        return NULL;
    }
    long port = PyLong_AsLong(args[0]);
    if ((port == -1 && PyErr_Occurred()) || !valid_port(receiver, port))
        return NULL;
    Py_buffer frame;
    if (PyObject_GetBuffer(args[1], &frame, PyBUF_SIMPLE) < 0)
        return NULL;
    const Flow *flow = check_frame(receiver, (int)port, frame.buf, (size_t)frame.len);
    enum outcome outcome = FOR_PYTHON;
    Carrier *carrier;
    Packet packet;
    int64_t psn;
    if (flow)
        outcome = carry_frame(receiver, (int)port, frame.buf, flow, &carrier, &packet, &psn);
    PyBuffer_Release(&frame);
    if (!flow && PyErr_Occurred())
        return NULL;
    if (outcome == SACK_DUE)
        return sack_due(carrier, &packet, psn);
    return Py_NewRef(outcome == CARRIED ? Py_True : flow ? flow->flow : Py_None);
}

/* learn(port, prefix, flow, end, seed, mask, units, carried, marked, source) */
static PyObject *receiver_learn(Receiver *receiver, PyObject *args) {
    int port, end, carried, marked;
    unsigned seed, mask, units;
    Py_buffer prefix, source;
    PyObject *flow;
    if (!PyArg_ParseTuple(args, "iy*OiIIIppy*", &port, &prefix, &flow, &end, &seed, &mask, &units, &carried, &marked, &source))
        return NULL;
    PyObject *result = NULL;
    if (!valid_port(receiver, port))
        goto done;
    if (prefix.len > LONGEST || prefix.len <= KIND_BYTE || (size_t)prefix.len != prefix_length(prefix.buf) || source.len > 16
        || end < prefix.len + 12 || end > 0xFFFF) {
        PyErr_SetString(PyExc_ValueError, "This is no prefix of a frame.");
        goto done;
    }
    Flow known = {
        .hash = prefix_hash(prefix.buf, (size_t)prefix.len, receiver->secret), .flow = flow, .seed = seed, .mask = mask,
        .units = units, .start = (uint16_t)prefix.len, .end = (uint16_t)end, .carried = (uint8_t)carried,
        .marked = (uint8_t)marked, .source_length = (uint8_t)source.len,
    };
    memcpy(known.prefix, prefix.buf, (size_t)prefix.len);
    memcpy(known.source, source.buf, (size_t)source.len);
    Flows *flows = &receiver->flows[port];
    if (find_flow(flows, known.prefix, known.start, known.hash) || learn_flow(flows, &known))
        result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&prefix);
    PyBuffer_Release(&source);
    return result;
}

static PyObject *receiver_expect(Receiver *receiver, PyObject *args) {
    if (set_expected(&receiver->expected, receiver->ports, args) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *receiver_trace(Receiver *receiver, PyObject *on) {
    receiver->traced = PyObject_IsTrue(on);
    Py_RETURN_NONE;
}

static PyObject *receiver_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    int ports;
    unsigned long long secret;
    if (no_keywords(kwargs) || !PyArg_ParseTuple(args, "iK", &ports, &secret))
        return NULL;
    if (ports < 1 || ports > MAX_PLANES)
        return PyErr_Format(PyExc_ValueError, "A receiver has 1 to %d ports, not %d.", MAX_PLANES, ports);
    Receiver *receiver = (Receiver *)type->tp_alloc(type, 0);
    if (receiver) {
        receiver->ports = ports;
        receiver->secret = secret;
    }
    return (PyObject *)receiver;
}

static void receiver_dealloc(Receiver *receiver) {
    for (int port = 0; port < receiver->ports; port++)
        forget_flows(&receiver->flows[port]);
    Py_XDECREF(receiver->expected.make);
    Py_TYPE(receiver)->tp_free((PyObject *)receiver);
}

static PyMethodDef receiver_methods[] = {
    {"receive", FAST(receiver_receive), "What became of a frame."},
    {"expect", (PyCFunction)receiver_expect, METH_VARARGS, "Learn prefixes that are like this."},
    {"learn", (PyCFunction)receiver_learn, METH_VARARGS, "Know a prefix from now on."},
    {"trace", (PyCFunction)receiver_trace, METH_O, "Whether to carry no packet, so that each can be traced."},
    {NULL, NULL, 0, NULL},
};

TYPE(Receiver, .tp_new = receiver_new, .tp_dealloc = (destructor)receiver_dealloc, .tp_methods = receiver_methods);
#endif
