/* A SACK from the state of a carrier, without ending the grant (wire/control.py, transport/ack_generator.py). */
#ifndef MRC_SACK_H
#define MRC_SACK_H

#include "carrier.h"

enum { SACK = 0xDC, SACK_LENGTH = 48, SACK_BITS = 64, CC_NSCC = 0 };

/* How far `psn` is ahead of `cack`, in 16 bits. */
static int16_t ahead_of(int64_t psn, int64_t cack) {
    int64_t offset;
    if (__builtin_sub_overflow(psn, cack, &offset))
        return psn < cack ? INT16_MIN : INT16_MAX;
    return (int16_t)(offset < INT16_MIN ? INT16_MIN : offset > INT16_MAX ? INT16_MAX : offset);
}

/* First PSN of the bitmap where one does not reach the newest PSN: AckGenerator._choose_base. `again` is the PSN of the
 * retransmission that the SACK answers, or -1. */
static int64_t choose_base(const Carrier *carrier, int64_t again) {
    int64_t expected = carrier->next_psn, lowest = INT64_MAX, top = -1;
    if (again >= 0)
        return again - SACK_BITS + 1 > expected ? again - SACK_BITS + 1 : expected;
    for (int plane = 0; plane < carrier->planes; plane++) {
        const Unshown *unshown = &carrier->unshown[plane];
        int64_t low = unshown->lowest > expected ? unshown->lowest : expected;
        if (unshown->lowest >= 0 && unshown->highest >= expected && low < lowest)
            lowest = low;
    }
    if (lowest == INT64_MAX)
        return carrier->max_psn - SACK_BITS + 1;
    int64_t end = lowest < LAST_PSN ? lowest + SACK_BITS : lowest;
    for (int plane = 0; plane < carrier->planes; plane++) {
        const Unshown *unshown = &carrier->unshown[plane];
        int64_t high = unshown->highest < end - 1 ? unshown->highest : end - 1;
        if (unshown->lowest >= 0 && unshown->highest >= expected && unshown->lowest < end && high > top)
            top = high;
    }
    return top - SACK_BITS + 1 > expected ? top - SACK_BITS + 1 : expected;
}

/* A bitmap from `base` on is shown: whether there are arrivals beyond it, not shown yet. */
static int show(Carrier *carrier, int64_t base) {
    int64_t end = base + SACK_BITS;
    int more = 0;
    for (int plane = 0; plane < carrier->planes; plane++) {
        Unshown *unshown = &carrier->unshown[plane], left = {-1, -1};
        if (unshown->highest >= end) {
            left = (Unshown){unshown->lowest > end ? unshown->lowest : end, unshown->highest};
            more = 1;
        }
        if (unshown->lowest != left.lowest || unshown->highest != left.highest)
            carrier->changed |= 1ull << plane;
        *unshown = left;
    }
    return more;
}

/* What the state of a carrier does not say. */
typedef struct {
    int64_t remote_qpn, flags, entropy, stamp, mpr;
    int64_t out_of_order, units; /* counts before the grant */
    int16_t offset; /* of the packet that is answered from the cumulative PSN, or the number of a probe */
} SackFields;

/* A SACK with a bitmap from `base` on: its bytes from the BTH on. */
static PyObject *sack_body(const Carrier *carrier, int64_t base, const SackFields *fields) {
    int64_t cack = carrier->next_psn - 1;
    PyObject *body = PyBytes_FromStringAndSize(NULL, SACK_LENGTH);
    if (!body)
        return NULL;
    uint8_t *at = (uint8_t *)PyBytes_AS_STRING(body);
    at[0] = SACK;
    at[1] = 0;
    put16(at + 2, 0xFFFF);
    put32(at + 4, (uint32_t)fields->remote_qpn);
    put32(at + 8, (uint32_t)cack & 0xFFFFFF);
    put16(at + 12, (uint32_t)fields->flags);
    put16(at + 14, (uint16_t)fields->offset);
    put32(at + 16, (uint32_t)fields->entropy);
    put16(at + 20, carrier->qpn & 0xFFFF);
    put16(at + 22, (uint32_t)fields->remote_qpn & 0xFFFF);
    put32(at + 24, (uint32_t)cack & 0xFFFFFF);
    at[28] = CC_NSCC << 4;
    at[29] = (uint8_t)fields->mpr;
    put16(at + 30, (uint32_t)(base - cack));
    put64(at + 32, carrier_word(carrier, base));
    put16(at + 40, (uint32_t)fields->stamp);
    put16(at + 42, ((uint32_t)fields->out_of_order + (uint32_t)carrier->out_of_order) & 0x7FFF);
    put32(at + 44, ((uint32_t)fields->units + (uint32_t)carrier->units) & 0xFFFFFF);
    return body;
}

/* sack(remote_qpn, flags, psn, probe_id, entropy, stamp, mpr, out_of_order, units, again): its bytes from the BTH on, or None.
 *
 * It answers packet `psn`, or with a probe_id other than -1 a probe. `flags` are mark and probe, the two numbers after `mpr` the
 * counts before the grant, `again` is `psn` if that was sent more than once, else -1. Where a bitmap from the expected PSN on does
 * not reach the newest PSN, there are more numbers for Python: a tuple of the bytes, the first PSN of the bitmap, the expected PSN,
 * the newest, how many packets it holds up, whether the bitmap leaves arrivals to be shown, and how many arrived since the grant.
 * None: there is no grant, or a probe needs a sweep. */
static PyObject *carrier_sack(Carrier *carrier, PyObject *const *args, Py_ssize_t count) {
    int64_t number[10];
    if (count != 10) {
        PyErr_SetString(PyExc_TypeError, "sack takes ten numbers.");
        return NULL;
    }
    if (!signed_numbers(args, 10, number))
        return NULL;
    int64_t psn = number[2], probe_id = number[3];
    int wide = carrier->max_psn - carrier->next_psn >= SACK_BITS;
    if (!carrier->granted || (wide && (probe_id >= 0 || number[9] > carrier->max_psn)))
        Py_RETURN_NONE;
    int64_t base = wide ? choose_base(carrier, number[9]) : carrier->next_psn;
    if (base > carrier->max_psn && wide)
        Py_RETURN_NONE; /* no packet like this has arrived */
    int16_t offset = probe_id >= 0 ? (int16_t)probe_id : ahead_of(psn, carrier->next_psn - 1);
    SackFields fields = {number[0], number[1], number[4], number[5], number[6], number[7], number[8], offset};
    PyObject *body = sack_body(carrier, base, &fields);
    if (!body)
        return NULL;
    if (!wide) {
        show(carrier, INT64_MAX - SACK_BITS); /* all that has arrived */
        return body;
    }
    int more = show(carrier, base);
    return Py_BuildValue(
        "NLLLLNL", body, (long long)base, (long long)carrier->next_psn, (long long)carrier->max_psn, (long long)carrier->held_up,
        PyBool_FromLong(more), (long long)carrier->arrived
    );
}

/* ---- the sweep ---- */

/* next_base(psn, everything): the first PSN of a sweep's next bitmap, `psn` or later, and unless `everything` is to be shown, at a
 * hole; -1 when there is none before the newest PSN, None without a grant. */
static PyObject *carrier_next_base(Carrier *carrier, PyObject *const *args, Py_ssize_t count) {
    int64_t number[2];
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "next_base takes two numbers.");
        return NULL;
    }
    if (!signed_numbers(args, 2, number))
        return NULL;
    if (!carrier->granted)
        Py_RETURN_NONE;
    int64_t base = number[0] > carrier->next_psn ? number[0] : carrier->next_psn;
    while (!number[1] && base <= carrier->max_psn && carrier_has(carrier, base)) {
        uint64_t holes = ~carrier_word(carrier, base);
        base += holes ? __builtin_ctzll(holes) : 64;
    }
    return PyLong_FromLongLong(base <= carrier->max_psn ? base : -1);
}

/* sweep_sack(base, remote_qpn, entropy, mpr, out_of_order, units): a SACK that answers no packet, with a bitmap from `base` on, which
 * next_base has just given. */
static PyObject *carrier_sweep_sack(Carrier *carrier, PyObject *const *args, Py_ssize_t count) {
    int64_t number[6];
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "sweep_sack takes six numbers.");
        return NULL;
    }
    if (!signed_numbers(args, 6, number))
        return NULL;
    if (!carrier->granted || number[0] < carrier->next_psn || number[0] > carrier->max_psn)
        return PyErr_Format(PyExc_ValueError, "This bitmap shows nothing that is granted.");
    SackFields fields = {
        .remote_qpn = number[1], .entropy = number[2], .mpr = number[3], .out_of_order = number[4], .units = number[5]
    };
    return sack_body(carrier, number[0], &fields);
}

static PyMethodDef carrier_methods[] = {
    {"message", (PyCFunction)carrier_message, METH_VARARGS, "Packets of this message may be carried."},
    {"grant", FAST(carrier_grant), "Carry packets, from this state on."},
    {"take", (PyCFunction)carrier_take, METH_NOARGS, "End the grant, and report what was carried."},
    {"sack", FAST(carrier_sack), "A SACK for what was carried; the grant goes on."},
    {"next_base", FAST(carrier_next_base), "Where the next bitmap of a sweep begins."},
    {"sweep_sack", FAST(carrier_sweep_sack), "A SACK of a sweep; the grant goes on."},
    {"close", (PyCFunction)carrier_close, METH_NOARGS, "The queue pair receives no more."},
    {NULL, NULL, 0, NULL},
};

TYPE(
    Carrier, .tp_itemsize = sizeof(Unshown), .tp_new = carrier_new, .tp_dealloc = (destructor)carrier_dealloc,
    .tp_methods = carrier_methods
);
#endif
