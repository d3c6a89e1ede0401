/* Frames in: prefix, ICRC and queue pair of every one, and placement in the common case.
 *
 * A Receiver belongs to one NIC and knows the receive state of each queue pair that may receive (receive_state.h), those of RC
 * too (rc_receive_state.h).
 */
#ifndef MRC_RECEIVE_H
#define MRC_RECEIVE_H

#include "placement.h"
#include "prefixes.h"
#include "rc_receive_state.h"
#include "sack.h"

typedef struct {
    ReceiveTable table;
    Flows flows[MAX_PLANES];
    Expected expected;
    int ports;
    int traced; /* Python wants to see every packet */
    uint64_t secret;
    uint64_t links; /* a bit for each port that has one */
    struct {
        uint64_t frames, bytes;
    } unseen[MAX_PLANES]; /* by port: what was carried without Python */
} Receiver;

/* The flow with the prefix of a frame; NULL if it is not known, or the frame is too short. */
static Flow *flow_of(const Receiver *receiver, int port, const uint8_t *frame, size_t length) {
    size_t prefix = length > KIND_BYTE ? prefix_length(frame) : SIZE_MAX;
    return length < prefix
               ? NULL
               : find_flow(&receiver->flows[port], frame, prefix, prefix_hash(frame, prefix, receiver->secret));
}

/* Learns the flow of a frame whose ICRC is right; NULL without memory. */
static Flow *learn(Receiver *receiver, int port, Flow *flow) {
    flow->hash = prefix_hash(flow->prefix, flow->start, receiver->secret);
    return learn_flow(&receiver->flows[port], flow);
}

/* The flow of a whole frame, known before or learned now, and its ICRC. *flow becomes `parsed` if the frame was trimmed, and NULL after
 * an exception. */
static enum drop check_frame(Receiver *receiver, int port, const FramePieces *frame, Flow *parsed, Flow **flow) {
    *flow = flow_of(receiver, port, frame->head, frame->head_length);
    if (*flow && is_whole(*flow, frame))
        return icrc_matches(*flow, frame) ? ACCEPTED : DROP_ICRC;
    enum drop drop = parse_prefix(parsed, &receiver->expected, port, frame->head, frame->head_length);
    if (drop)
        return drop;
    if (!parsed->trimmed && !icrc_matches(parsed, frame))
        return DROP_ICRC;
    *flow = parsed->trimmed ? parsed : learn(receiver, port, parsed);
    return ACCEPTED;
}

/* The state of the queue pair that a packet of this flow is for; NULL: Python must look at it. */
static ReceiveState *state_of(const Receiver *receiver, int port, const Flow *flow, const uint8_t *bth) {
    if (flow->end - flow->start < 36 || bth[1] & 0x0F || (get16(bth + 2) & 0x7FFF) != 0x7FFF)
        return NULL;
    ReceiveState *found = find_state(&receiver->table, get32(bth + 4));
    if (!found || !found->carries || port >= found->planes || !(found->hashed ? !flow->routed : flow->carried))
        return NULL;
    return is_from(flow, found->source, found->source_length) ? found : NULL;
}

/* A packet that may be carried. */
typedef struct {
    const Flow *flow;
    RcReceiveState *rc; /* of its queue pair, or if it is NULL, `mrc`, which the rest is for */
    ReceiveState *mrc;
    Packet packet;
    int64_t psn; /* once it was carried; of RC, whether it requests an acknowledgement */
} Candidate;

/* Whether a packet may be carried, as far as its headers say, which are in the frame's first piece. */
static int find_candidate(Candidate *found, const Receiver *receiver, int port, const Flow *flow, const FramePieces *frame) {
    const uint8_t *bth = frame->head + flow->start;
    if (receiver->traced || flow->trimmed || frame->head_length < (size_t)flow->start + BTH_LENGTH)
        return 0;
    found->flow = flow;
    found->rc = rc_state_of(&receiver->table, flow, bth);
    if (found->rc)
        return 1;
    found->mrc = state_of(receiver, port, flow, bth);
    return found->mrc && frame->head_length >= (size_t)flow->start + 36 && read_packet(&found->packet, flow, frame, port);
}

/* Carries it; its ICRC is right. */
static enum outcome carry_candidate(Candidate *found, const FramePieces *frame) {
    return found->rc ? rc_carry(found->rc, found->flow, frame, &found->psn) : carry(found->mrc, &found->packet, &found->psn);
}

/* A packet was carried that makes an answer due: its QPN, PSN, timestamp and flow. Of RC, which has no use for the middle two, they are
 * whether it requests an acknowledgement, and 0. */
static PyObject *answer_due(Receiver *receiver, int port, const Candidate *carried) {
    int rc = carried->rc != NULL; /* Python may close the queue pair meanwhile */
    unsigned qpn = rc ? carried->rc->qpn : carried->mrc->qpn, stamp = rc ? 0 : carried->packet.stamp;
    PyObject *flow = flow_object(&receiver->expected, &receiver->flows[port], carried->flow);
    return flow ? Py_BuildValue("ILIN", qpn, (long long)carried->psn, stamp, flow) : NULL;
}

static int valid_port(const Receiver *receiver, long port) {
    if (port >= 0 && port < receiver->ports)
        return 1;
    PyErr_SetString(PyExc_ValueError, "There is no such port.");
    return 0;
}

/* receive(port, frame): True if the frame was carried; what `answer_due` says if that makes an answer due; its Flow if Python is to
 * take it; why it is dropped if its prefix or its ICRC is wrong. */
static PyObject *receiver_receive(Receiver *receiver, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "receive takes a port and a frame.");
        return NULL;
    }
    long port = PyLong_AsLong(args[0]);
    if ((port == -1 && PyErr_Occurred()) || !valid_port(receiver, port))
        return NULL;
    if (!receiver->expected.make)
        return PyErr_Format(PyExc_ValueError, "This receiver expects nothing yet.");
    Py_buffer frame;
    if (PyObject_GetBuffer(args[1], &frame, PyBUF_SIMPLE) < 0)
        return NULL;
    FramePieces whole = {.head = frame.buf, .head_length = (size_t)frame.len};
    Flow parsed, *flow;
    enum drop drop = check_frame(receiver, (int)port, &whole, &parsed, &flow);
    enum outcome outcome = FOR_PYTHON;
    Candidate found;
    if (!drop && flow && find_candidate(&found, receiver, (int)port, flow, &whole))
        outcome = carry_candidate(&found, &whole);
    PyBuffer_Release(&frame);
    if (drop)
        return Py_NewRef(PyTuple_GET_ITEM(receiver->expected.drops, drop - 1));
    if (!flow)
        return NULL;
    if (outcome == ANSWER_DUE)
        return answer_due(receiver, (int)port, &found);
    return outcome == CARRIED ? Py_NewRef(Py_True) : flow_object(&receiver->expected, &receiver->flows[port], flow);
}

/* The flow of a frame in pieces whose prefix was not known and whose ICRC is right; NULL for all other frames, and after an exception. */
static Flow *meet(Receiver *receiver, int port, const FramePieces *frame) {
    Flow parsed;
    if (!receiver->expected.make || (frame->rest_length && frame->head_length < MAX_PREFIX + BTH_LENGTH)
        || parse_prefix(&parsed, &receiver->expected, port, frame->head, frame->head_length + frame->rest_length) || parsed.trimmed
        || !icrc_matches(&parsed, frame))
        return NULL;
    return learn(receiver, port, &parsed);
}

/* As mrc_common/carry_frame.h says. Whether a packet may be carried is known before its ICRC is: most that may not are SACKs. */
static int carry_pieces(PyObject *object, int port, const FramePieces *frame, PyObject **due) {
    Receiver *receiver = (Receiver *)object;
    *due = NULL;
    if (port < 0 || port >= receiver->ports || !(receiver->links >> port & 1))
        return 0;
    Flow *flow = flow_of(receiver, port, frame->head, frame->head_length);
    int met = !flow;
    if (met && !(flow = meet(receiver, port, frame)))
        return PyErr_Occurred() ? -1 : 0;
    Candidate found;
    if (!find_candidate(&found, receiver, port, flow, frame)
        || (!met && !(is_whole(flow, frame) && icrc_matches(flow, frame))))
        return 0;
    enum outcome outcome = carry_candidate(&found, frame);
    if (outcome == FOR_PYTHON)
        return 0;
    receiver->unseen[port].frames++;
    receiver->unseen[port].bytes += frame->head_length + frame->rest_length;
    if (outcome == ANSWER_DUE)
        *due = answer_due(receiver, port, &found);
    return outcome == ANSWER_DUE && !*due ? -1 : 1;
}

/* unseen(port): frames and bytes that were carried without Python. */
static PyObject *receiver_unseen(Receiver *receiver, PyObject *number) {
    long port = PyLong_AsLong(number);
    if ((port == -1 && PyErr_Occurred()) || !valid_port(receiver, port))
        return NULL;
    unsigned long long frames = receiver->unseen[port].frames, bytes = receiver->unseen[port].bytes;
    return Py_BuildValue("KK", frames, bytes);
}

/* links(mask): ports that have a link. */
static PyObject *receiver_links(Receiver *receiver, PyObject *mask) {
    unsigned long long links = PyLong_AsUnsignedLongLong(mask);
    if (links == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    receiver->links = links;
    Py_RETURN_NONE;
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
        receiver->links = UINT64_MAX;
    }
    return (PyObject *)receiver;
}

static void receiver_dealloc(Receiver *receiver) {
    for (int port = 0; port < receiver->ports; port++)
        forget_flows(&receiver->flows[port]);
    Py_XDECREF(receiver->expected.make);
    Py_XDECREF(receiver->expected.drops);
    Py_TYPE(receiver)->tp_free((PyObject *)receiver);
}

static PyMethodDef receiver_methods[] = {
    {"receive", FAST(receiver_receive), "What became of a frame."},
    {"expect", (PyCFunction)receiver_expect, METH_VARARGS, "Learn prefixes that are like this."},
    {"links", (PyCFunction)receiver_links, METH_O, "Which ports have a link."},
    {"unseen", (PyCFunction)receiver_unseen, METH_O, "What was carried without Python."},
    {"trace", (PyCFunction)receiver_trace, METH_O, "Whether to carry no packet, so that each can be traced."},
    {NULL, NULL, 0, NULL},
};

TYPE(Receiver, .tp_new = receiver_new, .tp_dealloc = (destructor)receiver_dealloc, .tp_methods = receiver_methods);
#endif
