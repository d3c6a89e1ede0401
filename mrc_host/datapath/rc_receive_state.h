/* The receive state of an RC queue pair: the expected PSN, where the message under way goes, and whether a gap was reported.
 *
 * A responder creates it for its whole life, as of MRC (receive_state.h). A packet that is placed here is the one expected, fills a path
 * MTU, and is neither the first nor the last of its message; if it requests an acknowledgement, Python is notified. Once a gap was
 * reported, packets with payload behind it are dropped until the expected one arrives. Python is also notified of marked packets. All
 * else is for Python: what begins or ends a message, the first packet behind a gap, and duplicates.
 */
#ifndef MRC_RC_RECEIVE_STATE_H
#define MRC_RC_RECEIVE_STATE_H

#include "placement.h"

#define SHORTEST_OUTER 102   /* bytes of a prefix with an outer header, which RC has not */

struct RcReceiveState {
    PyObject_HEAD
    ReceiveTable *table;
    RcReceiveState *next; /* of its bucket */
    Region *region;  /* of the message under way; NULL: there is none */
    uint64_t at, remaining; /* where the next byte goes in the region; what is missing of the message */
    uint64_t arrived, out_of_order; /* packets placed, and those dropped for being ahead of the expected one */
    int64_t next_psn; /* the expected one */
    char gap, carries;
    uint32_t qpn, mtu;
    uint8_t source_length, source[16];
};

static RcReceiveState *find_rc_state(const ReceiveTable *table, uint32_t qpn) {
    RcReceiveState *state = table->rc[qpn % QP_BUCKETS];
    while (state && state->qpn != qpn)
        state = state->next;
    return state;
}

/* ---- packets ---- */

static uint32_t how_far_ahead(const RcReceiveState *state, const uint8_t *bth) {
    return (get32(bth + 8) - (uint32_t)state->next_psn) & PSN_MASK;
}

/* Whether the expected packet, of `length` bytes behind its BTH, is in the middle of the message under way. */
static int is_in_the_middle(const RcReceiveState *state, int kind, size_t length) {
    return state->region && kind == MIDDLE && length == state->mtu && state->remaining > state->mtu;
}

/* Whether the packet is behind a gap, and would be well-formed if it were not. Empty messages are for Python. */
static int is_behind_gap(const RcReceiveState *state, uint32_t ahead, int kind, size_t length) {
    static const uint8_t headers[] = {[FIRST] = 16, [LAST_IMM] = 4, [ONLY] = 16, [ONLY_IMM] = 20};
    return state->gap && ahead <= PSN_MASK / 2 && length > headers[kind];
}

/* The state of the queue pair that expects this packet, or drops it behind a gap; NULL: Python must look at it. */
static RcReceiveState *rc_state_of(const ReceiveTable *table, const Flow *flow, const uint8_t *bth) {
    size_t size = (size_t)(flow->end - flow->start), others = BTH_LENGTH + (bth[1] >> 4 & 3);
    int kind = bth[0] - RC_WRITE_FIRST;
    if (kind < FIRST || kind > ONLY_IMM || flow->start >= SHORTEST_OUTER || bth[1] & 0x0F
        || (get16(bth + 2) & 0x7FFF) != 0x7FFF || size < others)
        return NULL;
    RcReceiveState *found = find_rc_state(table, get32(bth + 4));
    if (!found || !found->carries)
        return NULL;
    uint32_t ahead = how_far_ahead(found, bth);
    if (!(ahead ? is_behind_gap(found, ahead, kind, size - others) : is_in_the_middle(found, kind, size - others)))
        return NULL;
    return is_from(flow, found->source, found->source_length) ? found : NULL;
}

/* The expected packet has arrived. */
static void rc_advance(RcReceiveState *state, uint64_t at, uint64_t remaining) {
    state->at = at;
    state->remaining = remaining;
    state->next_psn++;
    state->arrived++;
    state->gap = 0;
}

/* Places the packet, whose ICRC is right, or drops it behind a gap; if it is for Python, nothing has changed. *asks becomes whether it
 * requests an acknowledgement; only then, or if it is marked, an answer may be due. */
static enum outcome rc_carry(RcReceiveState *state, const Flow *flow, const FramePieces *frame, int64_t *asks) {
    const uint8_t *bth = frame->head + flow->start;
    *asks = 0;
    if (how_far_ahead(state, bth)) {
        state->out_of_order++;
        return flow->marked ? ANSWER_DUE : CARRIED;
    }
    uint8_t *place = region_place(state->region, state->at, state->mtu);
    Payload payload;
    if (!place || !find_payload(&payload, frame, (size_t)flow->start + BTH_LENGTH, state->mtu))
        return FOR_PYTHON;
    place_payload(place, &payload);
    rc_advance(state, state->at + state->mtu, state->remaining - state->mtu);
    *asks = (get32(bth + 8) & ACK_REQUEST) != 0;
    return *asks || flow->marked ? ANSWER_DUE : CARRIED;
}

/* add(region, at, remaining): the expected packet has arrived. The next byte of its message belongs to offset `at` of the region, which
 * is None at its end, and so many are missing. */
static PyObject *rc_receive_state_add(RcReceiveState *state, PyObject *const *args, Py_ssize_t count) {
    uint64_t number[2];
    if (count != 3 || (args[0] != Py_None && Py_TYPE(args[0]) != &RegionType)) {
        PyErr_SetString(PyExc_TypeError, "add takes a region or None, and two numbers.");
        return NULL;
    }
    if (!unsigned_numbers(args + 1, 2, number))
        return NULL;
    rc_advance(state, number[0], number[1]);
    Py_XSETREF(state->region, args[0] == Py_None ? NULL : (Region *)Py_NewRef(args[0]));
    Py_RETURN_NONE;
}

/* drop_ahead(): a packet ahead of the expected one was dropped; whether that is a gap not reported before. */
static PyObject *rc_receive_state_drop_ahead(RcReceiveState *state, PyObject *Py_UNUSED(none)) {
    int new = !state->gap;
    state->out_of_order++;
    state->gap = 1;
    return PyBool_FromLong(new);
}

/* ---- its life ---- */

/* RcReceiveState(receiver, qpn, source, first_psn, mtu) */
static PyObject *rc_receive_state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *receiver;
    unsigned qpn, mtu;
    const char *source;
    Py_ssize_t length;
    long long first_psn;
    if (no_keywords(kwargs)
        || !PyArg_ParseTuple(args, "O!Iy#LI", &ReceiverType, &receiver, &qpn, &source, &length, &first_psn, &mtu))
        return NULL;
    if (length > 16 || !mtu || mtu > UINT16_MAX || first_psn < 0 || first_psn > PSN_MASK)
        return PyErr_Format(PyExc_ValueError, "No queue pair has this.");
    ReceiveTable *table = (ReceiveTable *)receiver;
    if (find_rc_state(table, qpn))
        return PyErr_Format(PyExc_ValueError, "Queue pair %u receives already.", qpn);
    RcReceiveState *state = (RcReceiveState *)type->tp_alloc(type, 0);
    if (!state)
        return NULL;
    state->table = (ReceiveTable *)Py_NewRef(receiver);
    state->qpn = qpn;
    state->mtu = mtu;
    state->next_psn = first_psn;
    state->carries = 1;
    state->source_length = (uint8_t)length;
    memcpy(state->source, source, (size_t)length);
    RcReceiveState **bucket = &table->rc[qpn % QP_BUCKETS];
    state->next = *bucket;
    *bucket = state;
    return (PyObject *)state;
}

static PyObject *rc_receive_state_close(RcReceiveState *state, PyObject *Py_UNUSED(none)) {
    if (state->table) {
        RcReceiveState **at = &state->table->rc[state->qpn % QP_BUCKETS];
        while (*at != state)
            at = &(*at)->next;
        *at = state->next;
        Py_CLEAR(state->table);
    }
    Py_CLEAR(state->region);
    Py_RETURN_NONE;
}

static void rc_receive_state_dealloc(RcReceiveState *state) {
    Py_DECREF(rc_receive_state_close(state, NULL));
    Py_TYPE(state)->tp_free((PyObject *)state);
}

static PyMethodDef rc_receive_state_methods[] = {
    {"add", FAST(rc_receive_state_add), "The expected packet has arrived."},
    {"drop_ahead", (PyCFunction)rc_receive_state_drop_ahead, METH_NOARGS, "A packet ahead of the expected one was dropped."},
    {"close", (PyCFunction)rc_receive_state_close, METH_NOARGS, "The queue pair receives no more."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef rc_receive_state_members[] = {
    {"carries", T_BOOL, offsetof(RcReceiveState, carries), 0, "Whether packets are placed or dropped without Python."},
    {"gap", T_BOOL, offsetof(RcReceiveState, gap), 0, "Whether the expected packet was reported missing."},
    {"next_psn", T_LONGLONG, offsetof(RcReceiveState, next_psn), READONLY, "The expected PSN."},
    {"at", T_ULONGLONG, offsetof(RcReceiveState, at), READONLY, "Where the next byte of the message belongs."},
    {"remaining", T_ULONGLONG, offsetof(RcReceiveState, remaining), READONLY, "Bytes missing of the message."},
    {"arrived", T_ULONGLONG, offsetof(RcReceiveState, arrived), READONLY, "Packets that arrived."},
    {"out_of_order", T_ULONGLONG, offsetof(RcReceiveState, out_of_order), READONLY, "Packets dropped behind gaps."},
    {NULL, 0, 0, 0, NULL},
};

TYPE(
    RcReceiveState, .tp_new = rc_receive_state_new, .tp_dealloc = (destructor)rc_receive_state_dealloc,
    .tp_methods = rc_receive_state_methods, .tp_members = rc_receive_state_members
);
#endif
