/* What the responder of an RC queue pair grants: the packets in the middle of a message, in order, and those behind a gap.
 *
 * As with a Carrier (carrier.h), Python grants, and takes what was carried before it reads or changes its own state. A packet that is
 * placed is the one expected, fills a path MTU, and is neither the first nor the last of its message; if it requests an
 * acknowledgement, Python is notified. Once Python has reported a gap, packets with payload behind it are dropped until the expected one
 * arrives. Python is also notified of marked packets. All else is for Python: what begins or ends a message, the first packet behind a
 * gap, and duplicates.
 */
#ifndef MRC_RC_CARRIER_H
#define MRC_RC_CARRIER_H

#include "placement.h"

#define SHORTEST_OUTER 102   /* bytes of a prefix with an outer header, which RC has not */

struct RcCarrier {
    PyObject_HEAD
    CarrierTable *table;
    RcCarrier *next; /* of its bucket */
    Region *region;  /* of the message; NULL: no packet is placed */
    uint64_t at, remaining; /* where the next byte goes in the region; what is missing of the message */
    uint64_t arrived; /* packets placed since the grant */
    uint64_t dropped; /* packets behind the gap */
    int gap;          /* it is reported, and packets behind it are dropped */
    uint32_t qpn, mtu, expected; /* the PSN, 24 bits */
    uint8_t source_length, source[16];
};

static RcCarrier *find_rc_carrier(const CarrierTable *table, uint32_t qpn) {
    RcCarrier *carrier = table->rc[qpn % QP_BUCKETS];
    while (carrier && carrier->qpn != qpn)
        carrier = carrier->next;
    return carrier;
}

/* ---- packets ---- */

/* Whether the packet, of `length` bytes behind its BTH, is the one in the middle of a message that is granted. */
static int is_expected(const RcCarrier *carrier, int kind, size_t length) {
    return carrier->region && kind == MIDDLE && length == carrier->mtu && carrier->remaining > carrier->mtu;
}

/* Whether the packet is behind a gap, and would be well-formed if it were not. Empty messages are for Python. */
static int is_behind_gap(const RcCarrier *carrier, uint32_t ahead, int kind, size_t length) {
    static const uint8_t headers[] = {[FIRST] = 16, [LAST_IMM] = 4, [ONLY] = 16, [ONLY_IMM] = 20};
    return carrier->gap && ahead <= PSN_MASK / 2 && length > headers[kind];
}

/* Who expects this packet, or drops it behind a gap; NULL: Python must look at it. */
static RcCarrier *rc_carrier_of(const CarrierTable *table, const Flow *flow, const uint8_t *bth) {
    size_t size = (size_t)(flow->end - flow->start), others = BTH_LENGTH + (bth[1] >> 4 & 3);
    int kind = bth[0] - RC_WRITE_FIRST;
    if (kind < FIRST || kind > ONLY_IMM || flow->start >= SHORTEST_OUTER || bth[1] & 0x0F
        || (get16(bth + 2) & 0x7FFF) != 0x7FFF || size < others)
        return NULL;
    RcCarrier *found = find_rc_carrier(table, get32(bth + 4));
    if (!found || !(found->region || found->gap))
        return NULL;
    uint32_t ahead = (get32(bth + 8) - found->expected) & PSN_MASK;
    if (!(ahead ? is_behind_gap(found, ahead, kind, size - others) : is_expected(found, kind, size - others)))
        return NULL;
    return is_from(flow, found->source, found->source_length) ? found : NULL;
}

/* Places the packet, whose ICRC is right, or drops it behind a gap; if it is for Python, nothing has changed. *asks becomes whether it
 * requests an acknowledgement; only then, or if it is marked, an answer may be due. */
static enum outcome rc_carry(RcCarrier *carrier, const Flow *flow, const FramePieces *frame, int64_t *asks) {
    const uint8_t *bth = frame->head + flow->start;
    *asks = 0;
    if (carrier->gap) {
        carrier->dropped++;
        return flow->marked ? ANSWER_DUE : CARRIED;
    }
    uint8_t *place = region_place(carrier->region, carrier->at, carrier->mtu);
    Payload payload;
    if (!place || !find_payload(&payload, frame, (size_t)flow->start + BTH_LENGTH, carrier->mtu))
        return FOR_PYTHON;
    place_payload(place, &payload);
    carrier->at += carrier->mtu;
    carrier->remaining -= carrier->mtu;
    carrier->expected = (carrier->expected + 1) & PSN_MASK;
    carrier->arrived++;
    *asks = (bth[8] & FLAG_ACK_REQUEST) != 0;
    return *asks || flow->marked ? ANSWER_DUE : CARRIED;
}

/* ---- its life ---- */

/* RcCarrier(receiver, qpn, source, mtu) */
static PyObject *rc_carrier_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *receiver;
    unsigned qpn, mtu;
    const char *source;
    Py_ssize_t length;
    if (no_keywords(kwargs) || !PyArg_ParseTuple(args, "O!Iy#I", &ReceiverType, &receiver, &qpn, &source, &length, &mtu))
        return NULL;
    if (length > 16 || !mtu || mtu > UINT16_MAX)
        return PyErr_Format(PyExc_ValueError, "No queue pair has this.");
    CarrierTable *table = (CarrierTable *)receiver;
    if (find_rc_carrier(table, qpn))
        return PyErr_Format(PyExc_ValueError, "Queue pair %u has a carrier.", qpn);
    RcCarrier *carrier = (RcCarrier *)type->tp_alloc(type, 0);
    if (!carrier)
        return NULL;
    carrier->table = (CarrierTable *)Py_NewRef(receiver);
    carrier->qpn = qpn;
    carrier->mtu = mtu;
    carrier->source_length = (uint8_t)length;
    memcpy(carrier->source, source, (size_t)length);
    RcCarrier **bucket = &table->rc[qpn % QP_BUCKETS];
    carrier->next = *bucket;
    *bucket = carrier;
    return (PyObject *)carrier;
}

/* grant(psn, region, at, remaining): the message's next packet is `psn`, and belongs to offset `at` of its region. */
static PyObject *rc_carrier_grant(RcCarrier *carrier, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || Py_TYPE(args[1]) != &RegionType) {
        PyErr_SetString(PyExc_TypeError, "grant takes a PSN, a region and two numbers.");
        return NULL;
    }
    uint64_t psn, numbers[2];
    if (!unsigned_numbers(args, 1, &psn) || !unsigned_numbers(args + 2, 2, numbers))
        return NULL;
    if (!carrier->table)
        return PyErr_Format(PyExc_ValueError, "This queue pair receives no more.");
    carrier->expected = (uint32_t)psn & PSN_MASK;
    carrier->at = numbers[0];
    carrier->remaining = numbers[1];
    carrier->arrived = 0;
    carrier->gap = 0;
    Py_XSETREF(carrier->region, (Region *)Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

/* drop_behind(psn): this packet is missing, which was reported. */
static PyObject *rc_carrier_drop_behind(RcCarrier *carrier, PyObject *number) {
    uint64_t psn;
    if (!unsigned_numbers(&number, 1, &psn))
        return NULL;
    if (!carrier->table)
        return PyErr_Format(PyExc_ValueError, "This queue pair receives no more.");
    carrier->expected = (uint32_t)psn & PSN_MASK;
    carrier->gap = 1;
    carrier->arrived = 0;
    Py_CLEAR(carrier->region);
    Py_RETURN_NONE;
}

/* carried(): packets placed since the grant, which goes on. */
static PyObject *rc_carrier_carried(RcCarrier *carrier, PyObject *Py_UNUSED(none)) {
    return PyLong_FromUnsignedLongLong(carrier->arrived);
}

/* take(): packets placed since the grant, which ends, whichever it was. */
static PyObject *rc_carrier_take(RcCarrier *carrier, PyObject *Py_UNUSED(none)) {
    uint64_t arrived = carrier->arrived;
    carrier->arrived = 0;
    carrier->gap = 0;
    Py_CLEAR(carrier->region);
    return PyLong_FromUnsignedLongLong(arrived);
}

/* take_dropped(): packets dropped behind gaps since this was called last. */
static PyObject *rc_carrier_take_dropped(RcCarrier *carrier, PyObject *Py_UNUSED(none)) {
    uint64_t dropped = carrier->dropped;
    carrier->dropped = 0;
    return PyLong_FromUnsignedLongLong(dropped);
}

static PyObject *rc_carrier_close(RcCarrier *carrier, PyObject *Py_UNUSED(none)) {
    if (carrier->table) {
        RcCarrier **at = &carrier->table->rc[carrier->qpn % QP_BUCKETS];
        while (*at != carrier)
            at = &(*at)->next;
        *at = carrier->next;
        Py_CLEAR(carrier->table);
    }
    carrier->gap = 0;
    Py_CLEAR(carrier->region);
    Py_RETURN_NONE;
}

static void rc_carrier_dealloc(RcCarrier *carrier) {
    Py_DECREF(rc_carrier_close(carrier, NULL));
    Py_TYPE(carrier)->tp_free((PyObject *)carrier);
}

static PyMethodDef rc_carrier_methods[] = {
    {"grant", FAST(rc_carrier_grant), "Place packets from this state on."},
    {"drop_behind", (PyCFunction)rc_carrier_drop_behind, METH_O, "Drop packets behind this one."},
    {"carried", (PyCFunction)rc_carrier_carried, METH_NOARGS, "Packets placed since the grant."},
    {"take", (PyCFunction)rc_carrier_take, METH_NOARGS, "The same, and end the grant."},
    {"take_dropped", (PyCFunction)rc_carrier_take_dropped, METH_NOARGS, "Packets dropped since the last call."},
    {"close", (PyCFunction)rc_carrier_close, METH_NOARGS, "The queue pair receives no more."},
    {NULL, NULL, 0, NULL},
};

TYPE(RcCarrier, .tp_new = rc_carrier_new, .tp_dealloc = (destructor)rc_carrier_dealloc, .tp_methods = rc_carrier_methods);
#endif
