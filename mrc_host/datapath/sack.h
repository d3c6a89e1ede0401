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

/* sack(remote_qpn, flags, psn, probe_id, entropy, stamp, mpr, out_of_order, units): its bytes from the BTH on, or None.
 *
 * It answers packet `psn`, or with a probe_id other than -1 a probe. `flags` are mark and probe, the last two numbers the counts
 * before the grant. The bitmap begins at the expected PSN, so there is no such SACK where one does not reach the newest PSN, and
 * then there is one for all planes. None: that, or there is no grant. */
static PyObject *carrier_sack(Carrier *carrier, PyObject *const *args, Py_ssize_t count) {
    int64_t number[9];
    if (count != 9) {
        PyErr_SetString(PyExc_TypeError, "sack takes nine numbers.");
        return NULL;
    }
    if (!signed_numbers(args, 9, number))
        return NULL;
    if (!carrier->granted || carrier->max_psn - carrier->next_psn >= SACK_BITS)
        Py_RETURN_NONE;
    int64_t remote_qpn = number[0], psn = number[2], probe_id = number[3], cack = carrier->next_psn - 1;
    PyObject *body = PyBytes_FromStringAndSize(NULL, SACK_LENGTH);
    if (!body)
        return NULL;
    uint8_t *at = (uint8_t *)PyBytes_AS_STRING(body);
    at[0] = SACK;
    at[1] = 0;
    put16(at + 2, 0xFFFF);
    put32(at + 4, (uint32_t)remote_qpn);
    put32(at + 8, (uint32_t)cack & 0xFFFFFF);
    put16(at + 12, (uint32_t)number[1]);
    put16(at + 14, (uint16_t)(probe_id >= 0 ? probe_id : ahead_of(psn, cack)));
    put32(at + 16, (uint32_t)number[4]);
    put16(at + 20, carrier->qpn & 0xFFFF);
    put16(at + 22, (uint32_t)remote_qpn & 0xFFFF);
    put32(at + 24, (uint32_t)cack & 0xFFFFFF);
    at[28] = CC_NSCC << 4;
    at[29] = (uint8_t)number[6];
    put16(at + 30, 1); /* from where the bitmap begins back to the cumulative PSN */
    put64(at + 32, carrier_word(carrier, carrier->next_psn));
    put16(at + 40, (uint32_t)number[5]);
    put16(at + 42, ((uint32_t)number[7] + (uint32_t)carrier->out_of_order) & 0x7FFF);
    put32(at + 44, ((uint32_t)number[8] + (uint32_t)carrier->units) & 0xFFFFFF);
    for (int plane = 0; plane < carrier->planes; plane++) { /* it shows all that has arrived */
        Unshown *unshown = &carrier->unshown[plane];
        if (unshown->lowest != -1 || unshown->highest != -1) {
            *unshown = (Unshown){-1, -1};
            carrier->changed |= 1ull << plane;
        }
    }
    return body;
}

static PyMethodDef carrier_methods[] = {
    {"message", (PyCFunction)carrier_message, METH_VARARGS, "Packets of this message may be carried."},
    {"grant", FAST(carrier_grant), "Carry packets, from this state on."},
    {"take", (PyCFunction)carrier_take, METH_NOARGS, "End the grant, and report what was carried."},
    {"sack", FAST(carrier_sack), "A SACK for what was carried; the grant goes on."},
    {"close", (PyCFunction)carrier_close, METH_NOARGS, "The queue pair receives no more."},
    {NULL, NULL, 0, NULL},
};

TYPE(
    Carrier, .tp_itemsize = sizeof(Unshown), .tp_new = carrier_new, .tp_dealloc = (destructor)carrier_dealloc,
    .tp_methods = carrier_methods
);
#endif
