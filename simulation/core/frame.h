/* A frame as a switch sends it: headers of its own, and the rest where it was before, which frames share: in bytes that a NIC has
 * built, or in a packet in place (mrc_common/packet_in_place.h).
 *
 * On channels a frame is bytes, or a Frame; whoever looks at it from Python gets bytes. */
#ifndef FRAME_H
#define FRAME_H

#include "carry_frame.h"
#include "python_calls.h"
#include "switch.h"

typedef struct {
    PyObject_VAR_HEAD
    PyObject *owner;  /* of the rest: bytes, or a PacketInPlace */
    const char *rest; /* where it is, if that is bytes; otherwise the packet knows */
    Py_ssize_t rest_len;
    char head[1];
} Frame;

static PyTypeObject FrameType;

static int is_frame(PyObject *frame) { return Py_TYPE(frame) == &FrameType; }

/* -1, with TypeError, if it is no frame. */
static Py_ssize_t frame_size(PyObject *frame) {
    if (is_frame(frame))
        return Py_SIZE(frame) + ((Frame *)frame)->rest_len;
    if (PyBytes_CheckExact(frame))
        return PyBytes_GET_SIZE(frame);
    PyErr_Format(PyExc_TypeError, "a frame is bytes, not %s", Py_TYPE(frame)->tp_name);
    return -1;
}

static const PacketInPlace *in_place(const PyObject *owner) {
    return PyBytes_CheckExact(owner) ? NULL : (const PacketInPlace *)owner;
}

static void copy_rest(PyObject *owner, const void *rest, void *to, size_t length) {
    const PacketInPlace *packet = in_place(owner);
    if (packet)
        packet->copy(packet, to, length);
    else
        memcpy(to, rest, length);
}

/* As bytes, a new reference. */
static PyObject *whole_frame(PyObject *frame) {
    if (!is_frame(frame))
        return Py_NewRef(frame);
    const Frame *self = (Frame *)frame;
    PyObject *whole = PyBytes_FromStringAndSize(NULL, frame_size(frame));
    if (whole) {
        memcpy(PyBytes_AS_STRING(whole), self->head, (size_t)Py_SIZE(frame));
        copy_rest(self->owner, self->rest, PyBytes_AS_STRING(whole) + Py_SIZE(frame), (size_t)self->rest_len);
    }
    return whole;
}

/* Call the verb `receive` of a device, which others may replace meanwhile, with the whole frame. */
static int call_receive(PyObject *verb, int64_t port, PyObject *frame, int64_t now) {
    PyObject *whole = whole_frame(frame);
    Py_INCREF(verb);
    int done = whole ? discard(PyObject_CallFunction(verb, "LOL", (long long)port, whole, (long long)now)) : -1;
    Py_DECREF(verb);
    Py_XDECREF(whole);
    return done;
}

/* As a switch takes it; the reference to its owner is borrowed. */
static struct sw_frame parts_of(PyObject *frame) {
    if (is_frame(frame)) {
        Frame *self = (Frame *)frame;
        return (struct sw_frame){self->head, self->rest, (size_t)Py_SIZE(frame), (size_t)self->rest_len, self->owner};
    }
    const char *bytes = PyBytes_AS_STRING(frame);
    size_t length = (size_t)PyBytes_GET_SIZE(frame);
    if (length <= 2 * SW_HEAD)
        return (struct sw_frame){bytes, NULL, length, 0, NULL};
    return (struct sw_frame){bytes, bytes + SW_HEAD, SW_HEAD, length - SW_HEAD, frame};
}

/* As a NIC's datapath takes it. */
static FramePieces pieces_of(PyObject *frame) {
    if (!is_frame(frame))
        return (FramePieces){.head = (uint8_t *)PyBytes_AS_STRING(frame), .head_length = (size_t)PyBytes_GET_SIZE(frame)};
    const Frame *self = (Frame *)frame;
    const PacketInPlace *packet = in_place(self->owner);
    return (FramePieces){
        (const uint8_t *)self->head, packet ? packet->payload : (const uint8_t *)self->rest, (size_t)Py_SIZE(frame),
        (size_t)self->rest_len, packet};
}

/* A packet in place of which a switch has cut something off: only as bytes can it be looked at. */
static int is_cut(PyObject *frame) {
    const PacketInPlace *packet = is_frame(frame) ? in_place(((Frame *)frame)->owner) : NULL;
    return packet && (size_t)((Frame *)frame)->rest_len != packet->length;
}

/* A frame of these parts, whose reference it takes; NULL after an error. */
static PyObject *frame_of(const struct sw_frame *parts) {
    Frame *frame = PyObject_NewVar(Frame, &FrameType, (Py_ssize_t)parts->head_len);
    if (!frame) {
        Py_DECREF((PyObject *)parts->owner);
        return NULL;
    }
    memcpy(frame->head, parts->head, parts->head_len);
    frame->owner = parts->owner;
    frame->rest = parts->rest;
    frame->rest_len = (Py_ssize_t)parts->rest_len;
    return (PyObject *)frame;
}

/* What a switch sends, as a new reference in *context; NULL there, and an error set, if there is no memory. */
static void take_frame(void *context, const struct sw_frame *parts) {
    PyObject **made = context;
    *made = parts->owner ? frame_of(parts) : PyBytes_FromStringAndSize(parts->head, (Py_ssize_t)parts->head_len);
}

/* What a NIC has left in its outbox, as a frame; NULL after an error. */
static PyObject *frame_from(Outbox *outbox) {
    PacketInPlace *packet = outbox->left;
    struct sw_frame parts = {outbox->head, packet->payload, IN_PLACE_HEAD, packet->length, packet};
    outbox->left = NULL;
    return frame_of(&parts);
}

/* A switch has dropped a frame, or needs all of it, maybe in a verb that was called without the interpreter lock. */
static void copy_for_switch(void *owner, const void *rest, void *to, size_t length) {
    PyGILState_STATE state = PyGILState_Ensure();
    copy_rest(owner, rest, to, length);
    PyGILState_Release(state);
}

static void release_owner(void *owner) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)owner);
    PyGILState_Release(state);
}

static void frame_dealloc(Frame *frame) {
    Py_DECREF(frame->owner);
    PyObject_Free(frame);
}

static PyTypeObject FrameType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "simulation.core.native.Frame",
    .tp_basicsize = offsetof(Frame, head),
    .tp_itemsize = 1,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)frame_dealloc,
};

#endif
