/* What the responder of a queue pair grants: its state, and the messages whose place is known.
 *
 * Python *grants*; from then on this is the state that counts, and `placement.h` changes it with each packet that it carries.
 * Before Python reads or changes it, it *takes* the run: what has changed since the grant, as one record. That ends the grant.
 * A SACK (sack.h) can be built from it without ending it.
 */
#ifndef MRC_CARRIER_H
#define MRC_CARRIER_H

#include <endian.h>

#include "region.h"

#define AHEAD 4096 /* PSNs that the bitmap holds */
#define WORDS (AHEAD / 64)
#define MAX_MESSAGES 16
#define MAX_PLANES 64
#define QP_BUCKETS 256
#define LAST_PSN ((int64_t)1 << 62) /* far beyond any that a queue pair reaches */

typedef struct {
    Region *region; /* NULL: there is no such message */
    int64_t msn, first, last; /* PSNs */
    uint64_t address, at; /* of the first byte: remote address, place in the region */
    uint32_t rkey, length;
} Incoming;

typedef struct {
    int64_t lowest, highest; /* PSNs that arrived on a plane and were in no bitmap yet; -1 for none */
} Unshown;

typedef struct Carrier Carrier;
typedef struct RcCarrier RcCarrier; /* rc_carrier.h */

/* The carriers of a receiver, by QPN; its first part. */
typedef struct {
    PyObject_HEAD
    Carrier *buckets[QP_BUCKETS];
    RcCarrier *rc[QP_BUCKETS];
} CarrierTable;

struct Carrier {
    PyObject_VAR_HEAD
    CarrierTable *table;
    Carrier *next; /* of its bucket */
    PyObject *low, *high; /* the acknowledgement generator's lists */
    uint32_t qpn, mtu, threshold;
    int32_t reach;
    uint8_t planes, granted, source_length, source[16];
    int64_t next_msn; /* messages before it are complete and forgotten */
    /* the run */
    int64_t next_psn, max_psn, ack_requested, bytes, held_up;
    int64_t arrived, out_of_order, units; /* since the grant */
    uint64_t changed; /* planes whose `unshown` differs from the lists */
    uint64_t bitmap[WORDS]; /* by PSN; all zero before next_psn and after max_psn */
    Incoming messages[MAX_MESSAGES]; /* by MSN */
    Unshown unshown[]; /* by plane */
};

static PyTypeObject ReceiverType;

static int carrier_has(const Carrier *carrier, int64_t psn) { return carrier->bitmap[psn / 64 % WORDS] >> psn % 64 & 1; }

static void carrier_put(Carrier *carrier, int64_t psn) { carrier->bitmap[psn / 64 % WORDS] |= 1ull << psn % 64; }

/* The 64 bits of the bitmap from `psn` on. */
static uint64_t carrier_word(const Carrier *carrier, int64_t psn) {
    uint64_t low = carrier->bitmap[psn / 64 % WORDS] >> psn % 64;
    return psn % 64 ? low | carrier->bitmap[(psn / 64 + 1) % WORDS] << (64 - psn % 64) : low;
}

static Carrier *find_carrier(const CarrierTable *table, uint32_t qpn) {
    Carrier *carrier = table->buckets[qpn % QP_BUCKETS];
    while (carrier && carrier->qpn != qpn)
        carrier = carrier->next;
    return carrier;
}

/* ---- its life ---- */

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
    CarrierTable *table = (CarrierTable *)receiver;
    if (find_carrier(table, qpn))
        return PyErr_Format(PyExc_ValueError, "Queue pair %u has a carrier.", qpn);
    Carrier *carrier = (Carrier *)type->tp_alloc(type, planes);
    if (!carrier)
        return NULL;
    carrier->table = (CarrierTable *)Py_NewRef(receiver);
    carrier->low = Py_NewRef(low);
    carrier->high = Py_NewRef(high);
    carrier->planes = (uint8_t)planes;
    carrier->qpn = qpn;
    carrier->mtu = mtu;
    carrier->threshold = threshold;
    carrier->reach = reach < AHEAD - 64 ? reach : AHEAD - 64;
    carrier->source_length = (uint8_t)length;
    memcpy(carrier->source, source, (size_t)length);
    carrier->max_psn = -1;
    Carrier **bucket = &table->buckets[qpn % QP_BUCKETS];
    carrier->next = *bucket;
    *bucket = carrier;
    return (PyObject *)carrier;
}

static PyObject *carrier_close(Carrier *carrier, PyObject *Py_UNUSED(none)) {
    if (carrier->table) {
        Carrier **at = &carrier->table->buckets[carrier->qpn % QP_BUCKETS];
        while (*at != carrier)
            at = &(*at)->next;
        *at = carrier->next;
        Py_CLEAR(carrier->table);
    }
    carrier->granted = 0;
    for (int i = 0; i < MAX_MESSAGES; i++)
        Py_CLEAR(carrier->messages[i].region);
    Py_RETURN_NONE;
}

static void carrier_dealloc(Carrier *carrier) {
    Py_DECREF(carrier_close(carrier, NULL));
    Py_XDECREF(carrier->low);
    Py_XDECREF(carrier->high);
    Py_TYPE(carrier)->tp_free((PyObject *)carrier);
}

/* ---- what is granted ---- */

/* message(msn, first, last, region, at, address, rkey, length): it may be carried from the next grant on. */
static PyObject *carrier_message(Carrier *carrier, PyObject *args) {
    long long msn, first, last;
    unsigned long long at, address;
    unsigned rkey, length;
    PyObject *region;
    if (!PyArg_ParseTuple(args, "LLLO!KKII", &msn, &first, &last, &RegionType, &region, &at, &address, &rkey, &length))
        return NULL;
    if (msn < carrier->next_msn || first < 0 || last < first || last - first > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "No message is like this.");
    Incoming *message = &carrier->messages[msn % MAX_MESSAGES];
    Region *before = message->region;
    *message = (Incoming){(Region *)Py_NewRef(region), msn, first, last, address, at, rkey, length};
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static void forget_messages(Carrier *carrier, int64_t next_msn) {
    int64_t msn = carrier->next_msn;
    if (msn < next_msn - MAX_MESSAGES)
        msn = next_msn - MAX_MESSAGES;
    for (; msn < next_msn; msn++)
        if (carrier->messages[msn % MAX_MESSAGES].msn < next_msn)
            Py_CLEAR(carrier->messages[msn % MAX_MESSAGES].region);
    carrier->next_msn = next_msn;
}

/* No packet ahead of the expected one has arrived. */
static void clear_bitmap(Carrier *carrier) {
    int64_t from = carrier->next_psn / 64, to = carrier->max_psn / 64;
    if (to - from >= WORDS)
        memset(carrier->bitmap, 0, sizeof carrier->bitmap);
    else
        for (; from <= to; from++)
            carrier->bitmap[from % WORDS] = 0;
}

/* How many words of 64 bits the PSNs from next_psn to max_psn take. */
static Py_ssize_t bitmap_words(const Carrier *carrier) { return (Py_ssize_t)((carrier->max_psn - carrier->next_psn) / 64 + 1); }

/* Bit i of a Python number stands for next_psn + i; -1 after an exception. Beyond max_psn there is none. */
static int set_bitmap(Carrier *carrier, PyObject *bitmap) {
    Py_ssize_t count = bitmap_words(carrier);
    uint64_t words[WORDS];
    if (count == 1) {
        words[0] = PyLong_AsUnsignedLongLongMask(bitmap);
        if (PyErr_Occurred())
            return -1;
    } else {
        PyObject *bytes = PyObject_CallMethod((PyObject *)&PyLong_Type, "to_bytes", "Ons", bitmap, 8 * count, "little");
        if (!bytes)
            return -1;
        memcpy(words, PyBytes_AS_STRING(bytes), (size_t)(8 * count));
        Py_DECREF(bytes);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t word = le64toh(words[i]);
        int64_t at = carrier->next_psn + 64 * i;
        if (i == count - 1)
            word &= ~0ull >> (63 - (carrier->max_psn - at));
        carrier->bitmap[at / 64 % WORDS] |= word << at % 64;
        if (at % 64)
            carrier->bitmap[(at / 64 + 1) % WORDS] |= word >> (64 - at % 64);
    }
    return 0;
}

static PyObject *get_bitmap(const Carrier *carrier) {
    if (carrier->max_psn < carrier->next_psn)
        return PyLong_FromLong(0);
    Py_ssize_t count = bitmap_words(carrier);
    if (count == 1)
        return PyLong_FromUnsignedLongLong(carrier_word(carrier, carrier->next_psn));
    uint64_t words[WORDS];
    for (Py_ssize_t i = 0; i < count; i++)
        words[i] = htole64(carrier_word(carrier, carrier->next_psn + 64 * i));
    return PyObject_CallMethod((PyObject *)&PyLong_Type, "from_bytes", "y#s", (const char *)words, 8 * count, "little");
}

/* Between the acknowledgement generator's lists, which may have become shorter meanwhile, and `unshown`. */
static int read_unshown(Carrier *carrier) {
    for (int plane = 0; plane < carrier->planes; plane++) {
        if (plane >= PyList_GET_SIZE(carrier->low) || plane >= PyList_GET_SIZE(carrier->high))
            break;
        PyObject *both[] = {PyList_GET_ITEM(carrier->low, plane), PyList_GET_ITEM(carrier->high, plane)};
        int64_t number[2];
        if (!signed_numbers(both, 2, number))
            return -1;
        carrier->unshown[plane] = (Unshown){number[0], number[1]};
    }
    carrier->changed = 0;
    return 0;
}

static int write_number(PyObject *list, int at, int64_t value) {
    PyObject *number = at < PyList_GET_SIZE(list) ? PyLong_FromLongLong(value) : NULL;
    return number ? PyList_SetItem(list, at, number) : PyErr_Occurred() ? -1 : 0;
}

static int write_unshown(Carrier *carrier) {
    for (; carrier->changed; carrier->changed &= carrier->changed - 1) {
        int plane = __builtin_ctzll(carrier->changed);
        if (write_number(carrier->low, plane, carrier->unshown[plane].lowest) < 0
            || write_number(carrier->high, plane, carrier->unshown[plane].highest) < 0)
            return -1;
    }
    return 0;
}

/* grant(next_msn, next_psn, bitmap, max_psn, ack_requested, bytes, held_up); low and high are read from their lists. */
static PyObject *carrier_grant(Carrier *carrier, PyObject *const *args, Py_ssize_t count) {
    int64_t msn_psn[2], rest[4];
    if (count != 7 || !carrier->table || !PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "grant takes seven numbers, until close.");
        return NULL;
    }
    if (!signed_numbers(args, 2, msn_psn) || !signed_numbers(args + 3, 4, rest))
        return NULL;
    int64_t next_psn = msn_psn[1], max_psn = rest[0];
    if (msn_psn[0] < carrier->next_msn || next_psn < 0 || next_psn >= LAST_PSN || max_psn < next_psn - 1 - (1 << 24)
        || max_psn >= LAST_PSN)
        return PyErr_Format(PyExc_ValueError, "No responder is like this.");
    carrier->granted = 0;
    clear_bitmap(carrier);
    carrier->next_psn = next_psn;
    carrier->max_psn = max_psn;
    carrier->ack_requested = rest[1];
    carrier->bytes = rest[2];
    carrier->held_up = rest[3];
    forget_messages(carrier, msn_psn[0]);
    if (max_psn - next_psn >= AHEAD - 64) {
        carrier->max_psn = next_psn - 1; /* more than the bitmap holds, so nothing is granted */
        Py_RETURN_NONE;
    }
    if (max_psn >= next_psn && set_bitmap(carrier, args[2]) < 0)
        return NULL;
    if (read_unshown(carrier) < 0)
        return NULL;
    carrier->arrived = carrier->out_of_order = carrier->units = 0;
    carrier->granted = 1;
    Py_RETURN_NONE;
}

/* take(): ends the grant; what was carried under it and the state as it is now, or None if nothing has changed. */
static PyObject *carrier_take(Carrier *carrier, PyObject *Py_UNUSED(none)) {
    int news = carrier->granted && (carrier->arrived || carrier->changed);
    carrier->granted = 0;
    if (!news)
        Py_RETURN_NONE;
    if (write_unshown(carrier) < 0)
        return NULL;
    return Py_BuildValue(
        "LLLLNLLLL", (long long)carrier->arrived, (long long)carrier->out_of_order, (long long)carrier->units,
        (long long)carrier->next_psn, get_bitmap(carrier), (long long)carrier->max_psn, (long long)carrier->ack_requested,
        (long long)carrier->bytes, (long long)carrier->held_up
    );
}
#endif
