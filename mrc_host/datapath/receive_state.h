/* The receive state of an MRC queue pair: PSNs that arrived, arrivals that no SACK has shown, messages whose place is known.
 *
 * A responder creates it for its whole life. `placement.h` adds the packets that it places, and Python, which reads this state at any
 * time, those that it places itself (`add`). While `carries` is false, none is placed here. How far ahead of the expected PSN packets
 * are accepted, `reach`, determines the size of the bitmap. Packets of a `hashed` queue pair have no outer header, whatever the
 * NIC's entropy format is. Where they come `in_order`, one ahead of the expected one shows a loss, and makes a SACK due.
 */
#ifndef MRC_RECEIVE_STATE_H
#define MRC_RECEIVE_STATE_H

#include <stddef.h>
#include <structmember.h>

#include "region.h"

#define PSN_MASK 0xFFFFFF
#define MOST_REACH (255 * 128) /* PSNs: the widest range that can be offered */
#define MAX_MESSAGES 16
#define MAX_PLANES 64
#define QP_BUCKETS 256
#define SACK_BITS 64
#define LEAST_COUNTED 1024 /* bytes of a packet, until a SACK is due */
#define ACK_REQUEST (1u << 31) /* in the BTH's control word */
#define RTX (1u << 29)

typedef struct {
    Region *region; /* NULL: there is no such message */
    int64_t msn, first, last; /* PSNs */
    uint64_t address, at; /* of the first byte: remote address, place in the region */
    uint32_t rkey, length;
} Incoming;

typedef struct {
    int64_t lowest, highest; /* PSNs that arrived on a plane and were in no bitmap yet; -1 for none */
} Unshown;

typedef struct ReceiveState ReceiveState;
typedef struct RcReceiveState RcReceiveState; /* rc_receive_state.h */

/* The states of a receiver's queue pairs, by QPN; its first part. */
typedef struct {
    PyObject_HEAD
    ReceiveState *buckets[QP_BUCKETS];
    RcReceiveState *rc[QP_BUCKETS];
} ReceiveTable;

struct ReceiveState {
    PyObject_VAR_HEAD
    ReceiveTable *table;
    ReceiveState *next; /* of its bucket */
    uint32_t qpn, mtu, threshold;
    int32_t reach;
    char carries, hashed, in_order;
    uint8_t planes, source_length, source[16];
    int64_t first_psn, next_psn, max_psn, ack_requested, held_up;
    int64_t trimmed_request; /* PSN of the newest trimmed packet with the A bit; -1 for none */
    uint64_t arrived, out_of_order, units, pending_bytes;
    uint64_t *bitmap, word_mask; /* by PSN, a ring: all zero before next_psn and after max_psn */
    Incoming messages[MAX_MESSAGES]; /* by MSN */
    Unshown unshown[]; /* by plane */
};

static PyTypeObject ReceiverType;

/* ---- the bitmap ---- */

static uint64_t *word_of(const ReceiveState *state, int64_t psn) { return &state->bitmap[(uint64_t)psn / 64 & state->word_mask]; }

/* Whether a packet arrived, which is the expected one or ahead of it. */
static int has_arrived(const ReceiveState *state, int64_t psn) {
    return psn <= state->max_psn && *word_of(state, psn) >> psn % 64 & 1;
}

/* The 64 bits of the bitmap from `psn` on. */
static uint64_t bits_from(const ReceiveState *state, int64_t psn) {
    uint64_t low = *word_of(state, psn) >> psn % 64;
    return psn % 64 ? low | *word_of(state, psn + 64) << (64 - psn % 64) : low;
}

/* The first PSN from `psn` on that is missing. */
static int64_t hole_from(const ReceiveState *state, int64_t psn) {
    while (has_arrived(state, psn)) {
        uint64_t holes = ~bits_from(state, psn);
        psn += holes ? __builtin_ctzll(holes) : 64;
    }
    return psn;
}

/* How many packets beyond the expected one have arrived. */
static int64_t count_ahead(const ReceiveState *state) {
    int64_t count = 0;
    for (int64_t psn = state->next_psn; psn <= state->max_psn; psn += 64)
        count += __builtin_popcountll(bits_from(state, psn));
    return count;
}

/* ---- arrivals ---- */

typedef struct {
    int64_t psn;
    size_t size; /* of the payload */
    uint32_t units, word; /* nominal size, the BTH's control word */
    int plane;   /* on which it has to be shown; -1: a SACK of its own shows it */
    int marked;
} Arrival;

/* Whether a SACK is due now that a packet is here (ack_generator.py says when). */
static inline int makes_sack_due(ReceiveState *state, const Arrival *arrival) {
    int due = arrival->marked || (arrival->word & (ACK_REQUEST | RTX));
    if (arrival->psn >= state->next_psn) {
        if ((arrival->word & ACK_REQUEST) && arrival->psn > state->ack_requested)
            state->ack_requested = arrival->psn;
    } else if (state->ack_requested >= 0 && state->ack_requested < state->next_psn) {
        state->ack_requested = -1;
        due = 1;
    }
    state->pending_bytes += arrival->size > LEAST_COUNTED ? arrival->size : LEAST_COUNTED;
    due |= state->pending_bytes >= state->threshold || (state->in_order && arrival->psn >= state->next_psn) ||
           state->max_psn < state->trimmed_request;
    if (due)
        state->pending_bytes = 0;
    return due;
}

/* Adds a packet within reach that arrived for the first time; whether a SACK is due. What is missing behind a hole that a
 * retransmission fills has been missing for as long. */
static inline int add_arrival(ReceiveState *state, const Arrival *arrival) {
    int64_t psn = arrival->psn;
    if (psn > state->max_psn)
        state->max_psn = psn;
    if (psn != state->next_psn) {
        *word_of(state, psn) |= 1ull << psn % 64;
        state->out_of_order++;
        state->held_up++;
    } else {
        int64_t to = hole_from(state, psn + 1);
        for (; psn < to; psn++)
            *word_of(state, psn) &= ~(1ull << psn % 64);
        state->next_psn = to;
        int64_t ahead = arrival->word & RTX ? count_ahead(state) : 0;
        if (state->held_up > ahead)
            state->held_up = ahead;
    }
    if (arrival->plane >= 0) {
        Unshown *unshown = &state->unshown[arrival->plane];
        if (unshown->lowest < 0 || arrival->psn < unshown->lowest)
            unshown->lowest = arrival->psn;
        if (arrival->psn > unshown->highest)
            unshown->highest = arrival->psn;
    }
    state->units += arrival->units;
    state->arrived++;
    return makes_sack_due(state, arrival);
}

/* has(psn): whether a packet ahead of the expected one has arrived. */
static PyObject *receive_state_has(ReceiveState *state, PyObject *number) {
    int64_t psn;
    if (!signed_numbers(&number, 1, &psn))
        return NULL;
    return PyBool_FromLong(psn >= state->next_psn && has_arrived(state, psn));
}

/* add(psn, plane, size, units, word, marked): whether a SACK is due. */
static PyObject *receive_state_add(ReceiveState *state, PyObject *const *args, Py_ssize_t count) {
    int64_t number[6];
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "add takes six numbers.");
        return NULL;
    }
    if (!signed_numbers(args, 6, number))
        return NULL;
    int64_t psn = number[0], plane = number[1], size = number[2], units = number[3], word = number[4];
    if (psn < state->next_psn || psn - state->next_psn >= state->reach || has_arrived(state, psn) || plane < -1
        || plane >= state->planes || size < 0 || units < 0 || units > UINT32_MAX || word < 0 || word > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "No packet that may arrive is like this.");
    Arrival arrival = {psn, (size_t)size, (uint32_t)units, (uint32_t)word, (int)plane, number[5] != 0};
    return PyBool_FromLong(add_arrival(state, &arrival));
}

/* ---- messages ---- */

/* include(msn, first, last, region, at, address, rkey, length): packets of this message may be placed. */
static PyObject *receive_state_include(ReceiveState *state, PyObject *args) {
    long long msn, first, last;
    unsigned long long at, address;
    unsigned rkey, length;
    PyObject *region;
    if (!PyArg_ParseTuple(args, "LLLO!KKII", &msn, &first, &last, &RegionType, &region, &at, &address, &rkey, &length))
        return NULL;
    if (!state->table || msn < 0 || first < 0 || last < first || last - first > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "No message is like this.");
    Incoming *message = &state->messages[msn % MAX_MESSAGES];
    Region *before = message->region;
    *message = (Incoming){(Region *)Py_NewRef(region), msn, first, last, address, at, rkey, length};
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* forget(msn): this message is complete. */
static PyObject *receive_state_forget(ReceiveState *state, PyObject *number) {
    int64_t msn;
    if (!signed_numbers(&number, 1, &msn))
        return NULL;
    Incoming *message = &state->messages[(uint64_t)msn % MAX_MESSAGES];
    if (message->msn == msn)
        Py_CLEAR(message->region);
    Py_RETURN_NONE;
}

/* ---- its life ---- */

static ReceiveState *find_state(const ReceiveTable *table, uint32_t qpn) {
    ReceiveState *state = table->buckets[qpn % QP_BUCKETS];
    while (state && state->qpn != qpn)
        state = state->next;
    return state;
}

/* ReceiveState(receiver, qpn, source, first_psn, mtu, reach, threshold, planes) */
static PyObject *receive_state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *receiver;
    unsigned qpn, mtu, threshold;
    int reach, planes;
    long long first_psn;
    const char *source;
    Py_ssize_t length;
    if (no_keywords(kwargs)
        || !PyArg_ParseTuple(
            args, "O!Iy#LIiIi", &ReceiverType, &receiver, &qpn, &source, &length, &first_psn, &mtu, &reach, &threshold, &planes
        ))
        return NULL;
    if (length > 16 || !mtu || reach < 1 || reach > MOST_REACH || planes < 1 || planes > MAX_PLANES || first_psn < 0
        || first_psn > PSN_MASK)
        return PyErr_Format(PyExc_ValueError, "No queue pair has this.");
    ReceiveTable *table = (ReceiveTable *)receiver;
    if (find_state(table, qpn))
        return PyErr_Format(PyExc_ValueError, "Queue pair %u receives already.", qpn);
    ReceiveState *state = (ReceiveState *)type->tp_alloc(type, planes);
    if (!state)
        return NULL;
    size_t words = 1;
    while (words < (size_t)reach / 64 + 3) /* where a bitmap of a SACK begins at any PSN within reach */
        words *= 2;
    state->word_mask = words - 1;
    state->bitmap = PyMem_Calloc(words, sizeof *state->bitmap);
    if (!state->bitmap) {
        Py_DECREF(state);
        return PyErr_NoMemory();
    }
    state->table = (ReceiveTable *)Py_NewRef(receiver);
    state->planes = (uint8_t)planes;
    state->qpn = qpn;
    state->mtu = mtu;
    state->threshold = threshold;
    state->reach = reach;
    state->source_length = (uint8_t)length;
    memcpy(state->source, source, (size_t)length);
    state->carries = 1;
    state->first_psn = state->next_psn = first_psn;
    state->max_psn = first_psn - 1;
    state->ack_requested = state->trimmed_request = -1;
    for (int plane = 0; plane < planes; plane++)
        state->unshown[plane] = (Unshown){-1, -1};
    ReceiveState **bucket = &table->buckets[qpn % QP_BUCKETS];
    state->next = *bucket;
    *bucket = state;
    return (PyObject *)state;
}

static PyObject *receive_state_close(ReceiveState *state, PyObject *Py_UNUSED(none)) {
    if (state->table) {
        ReceiveState **at = &state->table->buckets[state->qpn % QP_BUCKETS];
        while (*at != state)
            at = &(*at)->next;
        *at = state->next;
        Py_CLEAR(state->table);
    }
    for (int i = 0; i < MAX_MESSAGES; i++)
        Py_CLEAR(state->messages[i].region);
    Py_RETURN_NONE;
}

static void receive_state_dealloc(ReceiveState *state) {
    Py_DECREF(receive_state_close(state, NULL));
    PyMem_Free(state->bitmap);
    Py_TYPE(state)->tp_free((PyObject *)state);
}
#endif
