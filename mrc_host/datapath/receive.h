/* Data packets in: prefix, ICRC, queue pair, window, bitmap, and placement, for the common case.
 *
 * A Receiver belongs to one NIC and has a Carrier for each MRC queue pair that may receive. Python *grants*: it gives a carrier
 * the state of the queue pair's responder, and the messages whose place is known. From then on the carrier places packets of
 * these messages that are new, inside the window and unremarkable. Whatever calls for a decision is left to Python: a packet that
 * completes a message, makes a SACK due, is marked, repeated, retransmitted, carries immediate data, or does not fit. Before
 * Python looks at a queue pair it *takes* the run: what has changed since the grant, as one record. That ends the grant.
 *
 * All that a packet claims is checked here against what was granted; the region's bounds are checked once more before the copy.
 */
#ifndef MRC_RECEIVE_H
#define MRC_RECEIVE_H

#include "flows.h"
#include "python.h"

#define PSN_MASK 0xFFFFFF
#define AHEAD 4096 /* PSNs that the bitmap holds */
#define WORDS (AHEAD / 64)
#define MAX_MESSAGES 16
#define MAX_PLANES 64
#define QP_BUCKETS 256

#define FLAG_ACK_REQUEST 0x80 /* in the first byte of the BTH's control word */
#define FLAG_RTX 0x20
#define FLAG_TIMESTAMP 0x10
#define LEAST_COUNTED 1024

/* A registered buffer; `release` takes it away from all who hold the region. */
typedef struct {
    PyObject_HEAD
    Py_buffer bytes;
} Region;

static PyObject *region_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *buffer;
    if (no_keywords(kwargs) || !PyArg_ParseTuple(args, "O", &buffer))
        return NULL;
    Region *region = (Region *)type->tp_alloc(type, 0);
    if (region && PyObject_GetBuffer(buffer, &region->bytes, PyBUF_WRITABLE) < 0)
        Py_CLEAR(region);
    return (PyObject *)region;
}

static PyObject *region_release(Region *region, PyObject *unused) {
    (void)unused;
    if (region->bytes.obj)
        PyBuffer_Release(&region->bytes); /* which forgets the object */
    Py_RETURN_NONE;
}

static void region_dealloc(Region *region) {
    if (region->bytes.obj)
        PyBuffer_Release(&region->bytes);
    Py_TYPE(region)->tp_free((PyObject *)region);
}

static PyMethodDef region_methods[] = {
    {"release", (PyCFunction)region_release, METH_NOARGS, "Let go of the buffer: nothing is placed there any more."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject RegionType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "mrc_host.datapath.native.Region",
    .tp_basicsize = sizeof(Region),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = region_new,
    .tp_dealloc = (destructor)region_dealloc,
    .tp_methods = region_methods,
};

typedef struct {
    Region *region; /* NULL: there is no such message */
    int64_t msn, first, last; /* PSNs */
    uint64_t address, at; /* of the first byte: remote address, place in the region */
    uint32_t rkey, length;
} Incoming;

typedef struct Carrier Carrier;

typedef struct {
    PyObject_HEAD
    Flows flows[MAX_PLANES];
    int ports;
    int traced; /* Python wants to see every packet */
    uint64_t secret;
    Carrier *carriers[QP_BUCKETS];
} Receiver;

struct Carrier {
    PyObject_HEAD
    Receiver *receiver;
    Carrier *next; /* of its bucket */
    PyObject *low, *high; /* the acknowledgement generator's lists */
    uint32_t qpn, mtu, threshold;
    int32_t reach;
    int planes, granted;
    uint8_t source_length, source[16];
    /* the run */
    int64_t next_psn, max_psn, ack_requested, bytes;
    int64_t arrived, out_of_order, units; /* since the grant */
    int64_t lowest[MAX_PLANES], highest[MAX_PLANES];
    Incoming messages[MAX_MESSAGES]; /* by MSN */
    uint64_t bitmap[WORDS]; /* by PSN */
};

static int carrier_has(const Carrier *carrier, int64_t psn) { return carrier->bitmap[psn / 64 % WORDS] >> psn % 64 & 1; }

static void forget_message(Incoming *message) { Py_CLEAR(message->region); }

/* ---- one packet ---- */

typedef struct {
    const Flow *flow;
    const uint8_t *bth, *end;
    int plane;
} Packet;

/* Where the cumulative PSN will be when `psn`, the expected one, has arrived. */
static int64_t next_hole(const Carrier *carrier, int64_t psn) {
    do
        psn++;
    while (psn <= carrier->max_psn && carrier_has(carrier, psn));
    return psn;
}

static void advance(Carrier *carrier, int64_t to) {
    for (int64_t psn = carrier->next_psn; psn < to; psn++)
        carrier->bitmap[psn / 64 % WORDS] &= ~(1ull << psn % 64);
    carrier->next_psn = to;
}

/* Where the payload of a packet of this message belongs; NULL if it is not exactly what the message has there. */
static uint8_t *place_of(const Incoming *message, uint32_t mtu, int64_t psn, unsigned kind, const uint8_t *reth, size_t size) {
    uint64_t offset = (uint64_t)(psn - message->first) * mtu;
    if (psn < message->first || psn > message->last || offset > message->length)
        return NULL;
    size_t expected = psn == message->last ? message->length - offset : mtu;
    if (size != expected || (kind >= LAST) != (psn == message->last) || (kind == FIRST || kind >= ONLY) != (psn == message->first))
        return NULL;
    if (get64(reth) != message->address + offset || get32(reth + 8) != message->rkey || get32(reth + 12) != message->length)
        return NULL;
    const Py_buffer *bytes = &message->region->bytes;
    uint64_t at = message->at + offset, end = at + size;
    if (!bytes->obj || at < message->at || end < at || end > (uint64_t)bytes->len)
        return NULL;
    return (uint8_t *)bytes->buf + at;
}

/* Places a data packet whose ICRC is right; 0, and nothing has changed, if Python is to look at it. */
static int carry(Carrier *carrier, const Packet *packet) {
    const uint8_t *bth = packet->bth;
    unsigned kind = bth[0] - WRITE_FIRST;
    int stamped = bth[8] & FLAG_TIMESTAMP;
    const uint8_t *reth = bth + (stamped ? 20 : 16), *payload = reth + 16;
    if (kind > ONLY || kind == LAST_IMM || bth[8] & (FLAG_RTX | FLAG_ACK_REQUEST) || !packet->flow->carried)
        return 0;
    unsigned pad = bth[1] >> 4 & 3;
    if (payload + pad >= packet->end)
        return 0;
    size_t size = (size_t)(packet->end - payload) - pad;
    int64_t offset = ((int64_t)(get32(bth + 8) & PSN_MASK) - carrier->next_psn) & PSN_MASK;
    int64_t psn = carrier->next_psn + offset;
    if (offset >= carrier->reach || carrier_has(carrier, psn))
        return 0;
    unsigned msn = get16(bth + 14);
    const Incoming *message = &carrier->messages[msn % MAX_MESSAGES];
    if (!message->region || (message->msn & 0xFFFF) != msn)
        return 0;
    uint8_t *place = place_of(message, carrier->mtu, psn, kind, reth, size);
    if (!place)
        return 0;
    int64_t expected = offset ? carrier->next_psn : next_hole(carrier, psn);
    if (expected > message->last)
        return 0; /* the message is complete */
    int64_t bytes = carrier->bytes + (int64_t)(size > LEAST_COUNTED ? size : LEAST_COUNTED);
    if (bytes >= carrier->threshold || (carrier->ack_requested >= 0 && carrier->ack_requested < expected && psn < expected))
        return 0; /* a SACK is due */

    memcpy(place, payload, size);
    if (psn > carrier->max_psn)
        carrier->max_psn = psn;
    if (offset) {
        carrier->bitmap[psn / 64 % WORDS] |= 1ull << psn % 64;
        carrier->out_of_order++;
    } else {
        advance(carrier, expected);
    }
    int64_t *lowest = &carrier->lowest[packet->plane], *highest = &carrier->highest[packet->plane];
    if (*lowest < 0 || psn < *lowest)
        *lowest = psn;
    if (psn > *highest)
        *highest = psn;
    carrier->bytes = bytes;
    carrier->units += packet->flow->units;
    carrier->arrived++;
    return 1;
}

static Carrier *find_carrier(const Receiver *receiver, uint32_t qpn) {
    Carrier *carrier = receiver->carriers[qpn % QP_BUCKETS];
    while (carrier && carrier->qpn != qpn)
        carrier = carrier->next;
    return carrier;
}

/* The flow of a frame whose prefix is known and whose ICRC is right; NULL otherwise. */
static const Flow *check_frame(const Receiver *receiver, int port, const uint8_t *frame, size_t length) {
    if (length <= KIND_BYTE)
        return NULL;
    size_t prefix = prefix_length(frame);
    if (length < prefix)
        return NULL;
    const Flow *flow = find_flow(&receiver->flows[port], frame, prefix, prefix_hash(frame, prefix, receiver->secret));
    if (!flow || length < (size_t)flow->end + 4)
        return NULL;
    const uint8_t *bth = frame + flow->start, *end = frame + flow->end;
    if (bth[4])
        return NULL; /* the mask is for a zero there */
    uint32_t crc = crc32_of(flow->seed, bth, (size_t)(end - bth)) ^ flow->mask;
    uint32_t sent = end[0] | end[1] << 8 | end[2] << 16 | (uint32_t)end[3] << 24;
    return crc == sent ? flow : NULL;
}

/* Whether a frame with a right ICRC was carried. */
static int carry_frame(const Receiver *receiver, int port, const uint8_t *frame, const Flow *flow) {
    const uint8_t *bth = frame + flow->start;
    if (receiver->traced || flow->end - flow->start < 36 || bth[1] & 0x0F || (get16(bth + 2) & 0x7FFF) != 0x7FFF)
        return 0;
    Carrier *carrier = find_carrier(receiver, get32(bth + 4));
    if (!carrier || !carrier->granted || port >= carrier->planes)
        return 0;
    if (carrier->source_length != flow->source_length || memcmp(carrier->source, flow->source, flow->source_length))
        return 0;
    Packet packet = {flow, bth, frame + flow->end, port};
    return carry(carrier, &packet);
}

static int valid_port(const Receiver *receiver, long port) {
    if (port >= 0 && port < receiver->ports)
        return 1;
    PyErr_SetString(PyExc_ValueError, "There is no such port.");
    return 0;
}

/* receive(port, frame): True if the frame was carried, its Flow if its prefix is known and its ICRC right, otherwise None. */
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
    PyObject *result = Py_None;
    if (flow)
        result = carry_frame(receiver, (int)port, frame.buf, flow) ? Py_True : flow->flow;
    PyBuffer_Release(&frame);
    Py_INCREF(result);
    return result;
}

/* learn(port, prefix, flow, end, seed, mask, units, carried, source) */
static PyObject *receiver_learn(Receiver *receiver, PyObject *args) {
    int port, end, carried;
    unsigned seed, mask, units;
    Py_buffer prefix, source;
    PyObject *flow;
    if (!PyArg_ParseTuple(args, "iy*OiIIIpy*", &port, &prefix, &flow, &end, &seed, &mask, &units, &carried, &source))
        return NULL;
    PyObject *result = NULL;
    Flow *made = NULL;
    if (!valid_port(receiver, port))
        goto done;
    if (prefix.len > LONGEST || prefix.len <= KIND_BYTE || (size_t)prefix.len != prefix_length(prefix.buf) || source.len > 16
        || end < prefix.len + 12 || end > 0xFFFF) {
        PyErr_SetString(PyExc_ValueError, "This is no prefix of a frame.");
        goto done;
    }
    made = PyMem_Calloc(1, sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        goto done;
    }
    *made = (Flow){
        .hash = prefix_hash(prefix.buf, (size_t)prefix.len, receiver->secret), .flow = flow, .seed = seed, .mask = mask,
        .units = units, .start = (uint16_t)prefix.len, .end = (uint16_t)end, .carried = (uint8_t)carried,
        .source_length = (uint8_t)source.len,
    };
    memcpy(made->prefix, prefix.buf, (size_t)prefix.len);
    memcpy(made->source, source.buf, (size_t)source.len);
    Flows *flows = &receiver->flows[port];
    if (find_flow(flows, made->prefix, made->start, made->hash) || add_flow(flows, made) < 0) {
        PyMem_Free(made);
    } else {
        Py_INCREF(flow);
    }
    if (!PyErr_Occurred())
        result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&prefix);
    PyBuffer_Release(&source);
    return result;
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
    Py_TYPE(receiver)->tp_free((PyObject *)receiver);
}

static PyMethodDef receiver_methods[] = {
    {"receive", (PyCFunction)(void (*)(void))receiver_receive, METH_FASTCALL, "True if the frame was carried; its flow or None."},
    {"learn", (PyCFunction)receiver_learn, METH_VARARGS, "Know a prefix from now on."},
    {"trace", (PyCFunction)receiver_trace, METH_O, "Whether to carry no packet, so that each can be traced."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject ReceiverType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "mrc_host.datapath.native.Receiver",
    .tp_basicsize = sizeof(Receiver),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = receiver_new,
    .tp_dealloc = (destructor)receiver_dealloc,
    .tp_methods = receiver_methods,
};

/* ---- a queue pair's carrier ---- */

/* Carrier(receiver, qpn, source, mtu, reach, threshold, low, high) */
static PyObject *carrier_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *receiver, *low, *high;
    unsigned qpn, mtu, threshold;
    int reach;
    const char *source;
    Py_ssize_t length;
    if (no_keywords(kwargs)
        || !PyArg_ParseTuple(
            args, "O!Iy#IiIO!O!", &ReceiverType, &receiver, &qpn, &source, &length, &mtu, &reach, &threshold, &PyList_Type, &low,
            &PyList_Type, &high
        ))
        return NULL;
    Py_ssize_t planes = PyList_GET_SIZE(low);
    if (length > 16 || !mtu || reach < 1 || planes < 1 || planes > MAX_PLANES || PyList_GET_SIZE(high) != planes)
        return PyErr_Format(PyExc_ValueError, "No queue pair has this.");
    if (find_carrier((Receiver *)receiver, qpn))
        return PyErr_Format(PyExc_ValueError, "Queue pair %u has a carrier.", qpn);
    Carrier *carrier = (Carrier *)type->tp_alloc(type, 0);
    if (!carrier)
        return NULL;
    carrier->receiver = (Receiver *)Py_NewRef(receiver);
    carrier->low = Py_NewRef(low);
    carrier->high = Py_NewRef(high);
    carrier->planes = (int)planes;
    carrier->qpn = qpn;
    carrier->mtu = mtu;
    carrier->threshold = threshold;
    carrier->reach = reach < AHEAD - 64 ? reach : AHEAD - 64;
    carrier->source_length = (uint8_t)length;
    memcpy(carrier->source, source, (size_t)length);
    Carrier **bucket = &carrier->receiver->carriers[qpn % QP_BUCKETS];
    carrier->next = *bucket;
    *bucket = carrier;
    return (PyObject *)carrier;
}

static PyObject *carrier_close(Carrier *carrier, PyObject *unused) {
    (void)unused;
    if (carrier->receiver) {
        Carrier **at = &carrier->receiver->carriers[carrier->qpn % QP_BUCKETS];
        while (*at != carrier)
            at = &(*at)->next;
        *at = carrier->next;
        Py_CLEAR(carrier->receiver);
    }
    carrier->granted = 0;
    for (int i = 0; i < MAX_MESSAGES; i++)
        forget_message(&carrier->messages[i]);
    Py_RETURN_NONE;
}

static void carrier_dealloc(Carrier *carrier) {
    Py_DECREF(carrier_close(carrier, NULL));
    Py_XDECREF(carrier->low);
    Py_XDECREF(carrier->high);
    Py_TYPE(carrier)->tp_free((PyObject *)carrier);
}

/* message(msn, first, last, region, at, address, rkey, length): it may be carried from the next grant on. */
static PyObject *carrier_message(Carrier *carrier, PyObject *args) {
    long long msn, first, last;
    unsigned long long at, address;
    unsigned rkey, length;
    PyObject *region;
    if (!PyArg_ParseTuple(args, "LLLO!KKII", &msn, &first, &last, &RegionType, &region, &at, &address, &rkey, &length))
        return NULL;
    if (msn < 0 || first < 0 || last < first || last - first > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "No message is like this.");
    Incoming *message = &carrier->messages[msn % MAX_MESSAGES];
    Py_XDECREF(message->region);
    *message = (Incoming){(Region *)Py_NewRef(region), msn, first, last, address, at, rkey, length};
    Py_RETURN_NONE;
}

static int numbers(PyObject *list, int64_t *out, int count) {
    for (int i = 0; i < count && i < PyList_GET_SIZE(list); i++) {
        out[i] = PyLong_AsLongLong(PyList_GET_ITEM(list, i));
        if (out[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

static int set_bitmap(Carrier *carrier, PyObject *bitmap) {
    memset(carrier->bitmap, 0, sizeof carrier->bitmap);
    for (int64_t at = carrier->next_psn;; at += 32) { /* until nothing is left, or the bitmap is full */
        uint64_t word = PyLong_AsUnsignedLongLongMask(bitmap) & 0xFFFFFFFF;
        if (PyErr_Occurred())
            return -1;
        for (; word; word &= word - 1) {
            int64_t psn = at + __builtin_ctzll(word);
            carrier->bitmap[psn / 64 % WORDS] |= 1ull << psn % 64;
        }
        PyObject *by = PyLong_FromLong(32), *rest = by ? PyNumber_Rshift(bitmap, by) : NULL;
        Py_XDECREF(by);
        if (!rest)
            return -1;
        int more = PyObject_IsTrue(rest);
        Py_DECREF(bitmap);
        bitmap = rest;
        if (more <= 0 || at - carrier->next_psn >= AHEAD) {
            Py_DECREF(rest);
            return more < 0 ? -1 : 0;
        }
    }
}

/* grant(next_msn, next_psn, bitmap, max_psn, ack_requested, bytes); low and high are read from their lists. */
static PyObject *carrier_grant(Carrier *carrier, PyObject *const *args, Py_ssize_t count) {
    int64_t number[6];
    if (count != 6 || !carrier->receiver) {
        PyErr_SetString(PyExc_TypeError, "grant takes six numbers, until close.");
        return NULL;
    }
    for (int i = 0; i < 6; i++) {
        if (i == 2)
            continue;
        number[i] = PyLong_AsLongLong(args[i]);
        if (number[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    carrier->granted = 0;
    carrier->next_psn = number[1];
    carrier->max_psn = number[3];
    carrier->ack_requested = number[4];
    carrier->bytes = number[5];
    if (carrier->next_psn < 0 || carrier->max_psn < carrier->next_psn - 1 - (1 << 24))
        return PyErr_Format(PyExc_ValueError, "No responder is like this.");
    if (carrier->max_psn - carrier->next_psn >= AHEAD - 64)
        Py_RETURN_NONE; /* more than the bitmap holds */
    if (Py_SIZE(args[2]) || carrier->max_psn >= carrier->next_psn) {
        if (set_bitmap(carrier, Py_NewRef(args[2])) < 0)
            return NULL;
    } else {
        memset(carrier->bitmap, 0, sizeof carrier->bitmap);
    }
    if (numbers(carrier->low, carrier->lowest, carrier->planes) < 0 || numbers(carrier->high, carrier->highest, carrier->planes) < 0)
        return NULL;
    for (int i = 0; i < MAX_MESSAGES; i++)
        if (carrier->messages[i].region && carrier->messages[i].msn < number[0])
            forget_message(&carrier->messages[i]);
    carrier->arrived = carrier->out_of_order = carrier->units = 0;
    carrier->granted = 1;
    Py_RETURN_NONE;
}

static PyObject *get_bitmap(const Carrier *carrier) {
    uint64_t words[WORDS] = {0};
    int64_t most = carrier->max_psn - carrier->next_psn;
    for (int64_t i = 1; i <= most; i++)
        if (carrier_has(carrier, carrier->next_psn + i))
            words[i / 64] |= 1ull << i % 64;
    if (most < 64)
        return PyLong_FromUnsignedLongLong(words[0]);
    PyObject *bitmap = PyLong_FromUnsignedLongLong(words[most / 64]), *by = PyLong_FromLong(64);
    for (int64_t i = most / 64 - 1; bitmap && by && i >= 0; i--) {
        PyObject *shifted = PyNumber_Lshift(bitmap, by), *word = PyLong_FromUnsignedLongLong(words[i]);
        Py_DECREF(bitmap);
        bitmap = shifted && word ? PyNumber_Or(shifted, word) : NULL;
        Py_XDECREF(shifted);
        Py_XDECREF(word);
    }
    Py_XDECREF(by);
    return bitmap;
}

static int put_numbers(PyObject *list, const int64_t *from, int count) {
    for (int i = 0; i < count && i < PyList_GET_SIZE(list); i++) {
        PyObject *number = PyLong_FromLongLong(from[i]);
        if (!number || PyList_SetItem(list, i, number) < 0)
            return -1;
    }
    return 0;
}

/* take(): ends the grant; what was carried under it, or None for nothing. low and high go to their lists. */
static PyObject *carrier_take(Carrier *carrier, PyObject *unused) {
    (void)unused;
    int carried = carrier->granted && carrier->arrived;
    carrier->granted = 0;
    if (!carried)
        Py_RETURN_NONE;
    if (put_numbers(carrier->low, carrier->lowest, carrier->planes) < 0
        || put_numbers(carrier->high, carrier->highest, carrier->planes) < 0)
        return NULL;
    return Py_BuildValue(
        "LLLLNLL", (long long)carrier->arrived, (long long)carrier->out_of_order, (long long)carrier->units,
        (long long)carrier->next_psn, get_bitmap(carrier), (long long)carrier->max_psn,
        (long long)carrier->bytes
    );
}

static PyMethodDef carrier_methods[] = {
    {"message", (PyCFunction)carrier_message, METH_VARARGS, "Packets of this message may be carried."},
    {"grant", (PyCFunction)(void (*)(void))carrier_grant, METH_FASTCALL, "Carry packets, from this state on."},
    {"take", (PyCFunction)carrier_take, METH_NOARGS, "End the grant, and report what was carried."},
    {"close", (PyCFunction)carrier_close, METH_NOARGS, "The queue pair receives no more."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject CarrierType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "mrc_host.datapath.native.Carrier",
    .tp_basicsize = sizeof(Carrier),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = carrier_new,
    .tp_dealloc = (destructor)carrier_dealloc,
    .tp_methods = carrier_methods,
};
#endif
