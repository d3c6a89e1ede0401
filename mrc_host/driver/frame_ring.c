/* FrameRing: a NIC's end of the rings beside a link (mrc_common/frame_ring.h), for Python.
 *
 * What it sends goes through the ring, or through the packet socket at the link's interface while either end stands aside.
 * Like a socket it refuses a frame for which there is no room (EAGAIN), and says when there is room again. Nothing here
 * blocks. Its owner keeps the descriptors open. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "carrying.h"
#include "frame_ring.h"

#define LONGEST_TAKEN (1u << 16)

typedef struct {
    PyObject_HEAD
    Py_buffer memory;
    struct frame_ring receive, send;
    int bell, other_bell;
    int socket;              /* -1: none */
    Py_ssize_t longest;      /* frame in bytes */
    int aside;               /* at this end */
    int64_t sent;            /* of the frame received last */
    struct carrying carrying;
    uint8_t *taken;          /* out of the ring, for those who carry: the other end could change it there */
    size_t kept;             /* length of a frame there that is for receive_into; 0: none */
    size_t refused;          /* length of a frame for which there was no room; 0: there was */
    uint64_t broken;
} FrameRing;

static PyObject *ring_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"memory", "receiving", "bell", "other_bell", NULL};
    Py_buffer memory;
    unsigned receiving;
    int bell, other_bell;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "w*Iii", keywords, &memory, &receiving, &bell, &other_bell))
        return NULL;
    struct frame_ring receive, send;
    if (receiving > 1 || !frame_ring_place(&receive, memory.buf, (size_t)memory.len, receiving) ||
        !frame_ring_place(&send, memory.buf, (size_t)memory.len, 1 - receiving)) {
        PyBuffer_Release(&memory);
        PyErr_SetString(PyExc_ValueError, "this is no memory of rings");
        return NULL;
    }
    FrameRing *self = (FrameRing *)type->tp_alloc(type, 0);
    if (!self) {
        PyBuffer_Release(&memory);
        return NULL;
    }
    self->memory = memory;
    self->receive = receive;
    self->send = send;
    self->bell = bell;
    self->other_bell = other_bell;
    self->socket = -1;
    self->aside = 1;
    frame_ring_attach_consumer(&self->receive);
    frame_ring_attach_producer(&self->send);
    frame_ring_stand_aside(&self->receive, true);
    frame_ring_ring(other_bell);
    return (PyObject *)self;
}

static void ring_dealloc(FrameRing *self)
{
    PyTypeObject *type = Py_TYPE(self);
    carrying_forget(&self->carrying);
    PyMem_Free(self->taken);
    PyBuffer_Release(&self->memory);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *ring_connect(FrameRing *self, PyObject *arguments)
{
    if (!PyArg_ParseTuple(arguments, "in", &self->socket, &self->longest))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *ring_stand_aside(FrameRing *self, PyObject *on)
{
    int aside = PyObject_IsTrue(on);
    if (aside < 0)
        return NULL;
    self->aside = aside;
    frame_ring_stand_aside(&self->receive, aside);
    Py_RETURN_NONE;
}

static int64_t monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void flush(FrameRing *self)
{
    if (frame_ring_publish(&self->send))
        frame_ring_ring(self->other_bell);
}

/* 0, or the error why not. */
static int put(FrameRing *self, const void *frame, size_t length)
{
    if ((Py_ssize_t)length > self->longest || !frame_ring_fits(&self->send, length))
        return EMSGSIZE;
    self->refused = 0;
    if (frame_ring_put(&self->send, frame, length, monotonic()))
        return 0;
    flush(self); /* or the other end could not make room */
    if (!frame_ring_await_room(&self->send, length) && frame_ring_put(&self->send, frame, length, monotonic()))
        return 0;
    self->refused = length;
    return EAGAIN;
}

static PyObject *ring_send(FrameRing *self, PyObject *given)
{
    Py_buffer frame;
    if (PyObject_GetBuffer(given, &frame, PyBUF_SIMPLE))
        return NULL;
    Py_ssize_t length = frame.len;
    int error = 0;
    if (self->aside || frame_ring_aside(&self->send)) {
        length = send(self->socket, frame.buf, (size_t)frame.len, MSG_DONTWAIT);
        error = length < 0 ? errno : 0;
    } else {
        error = put(self, frame.buf, (size_t)length);
    }
    PyBuffer_Release(&frame);
    if (error) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromSsize_t(length);
}

static PyObject *ring_flush(FrameRing *self, PyObject *Py_UNUSED(none))
{
    flush(self);
    Py_RETURN_NONE;
}

static void release(FrameRing *self)
{
    if (frame_ring_release(&self->receive))
        frame_ring_ring(self->other_bell);
}

/* The length of the next frame, which is copied to `buffer`; 0 when there is none. */
static size_t take(FrameRing *self, void *buffer, size_t capacity)
{
    size_t length = frame_ring_take(&self->receive, buffer, capacity, &self->sent);
    if (length == FRAME_RING_BROKEN) {
        self->broken++;
        length = 0;
    }
    if (!length)
        release(self);
    return length;
}

static PyObject *ring_receive_into(FrameRing *self, PyObject *given)
{
    Py_buffer buffer;
    if (PyObject_GetBuffer(given, &buffer, PyBUF_WRITABLE))
        return NULL;
    size_t length = self->kept < (size_t)buffer.len ? self->kept : (size_t)buffer.len;
    self->kept = 0;
    if (length)
        memcpy(buffer.buf, self->taken, length);
    else
        length = take(self, buffer.buf, (size_t)buffer.len);
    PyBuffer_Release(&buffer);
    return PyLong_FromSize_t(length);
}

/* carry_to(receiver, carry_frame, port) */
static PyObject *ring_carry_to(FrameRing *self, PyObject *arguments)
{
    if (!self->taken && !(self->taken = PyMem_Malloc(LONGEST_TAKEN)))
        return PyErr_NoMemory();
    return carrying_set(&self->carrying, arguments);
}

/* carry(limit): frames and bytes that were carried, and what makes a SACK due or None. */
static PyObject *ring_carry(FrameRing *self, PyObject *limit)
{
    long most = PyLong_AsLong(limit);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    struct batch batch = {0};
    while (self->carrying.carry && batch.frames < most && !batch.due) {
        size_t length = self->kept ? self->kept : take(self, self->taken, LONGEST_TAKEN);
        int carried = length ? carrying_give(&self->carrying, self->taken, length, &batch) : 0;
        if (carried < 0)
            return NULL;
        self->kept = carried ? 0 : length;
        if (!carried)
            break;
    }
    return batch_result(&batch);
}

static PyObject *ring_release(FrameRing *self, PyObject *Py_UNUSED(none))
{
    release(self);
    Py_RETURN_NONE;
}

static PyObject *ring_pending(FrameRing *self, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(self->kept || frame_ring_pending(&self->receive));
}

/* Whether there is still no room for the frame that was refused. */
static int full(FrameRing *self)
{
    if (self->refused && (self->aside || frame_ring_aside(&self->send) ||
                          !frame_ring_await_room(&self->send, self->refused)))
        self->refused = 0;
    return self->refused != 0;
}

static PyObject *ring_full(FrameRing *self, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(full(self));
}

static PyObject *ring_arm(FrameRing *self, PyObject *Py_UNUSED(none))
{
    int idle = frame_ring_arm(&self->receive) && !self->kept;
    if (self->refused && !full(self))
        idle = 0;
    return PyBool_FromLong(idle);
}

static PyObject *ring_disarm(FrameRing *self, PyObject *Py_UNUSED(none))
{
    frame_ring_disarm(&self->receive);
    Py_RETURN_NONE;
}

static PyObject *ring_hear(FrameRing *self, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(frame_ring_hear(self->bell));
}

static PyObject *ring_fileno(FrameRing *self, PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(self->bell);
}

static PyObject *ring_get_sent(FrameRing *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->sent);
}

static PyObject *ring_get_refused(FrameRing *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(self->refused);
}

static PyObject *ring_get_broken(FrameRing *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(self->broken);
}

#define METHOD(name, flags) {#name, (PyCFunction)ring_##name, flags, NULL}

static PyMethodDef methods[] = {
    METHOD(connect, METH_VARARGS),  METHOD(stand_aside, METH_O),    METHOD(send, METH_O),
    METHOD(flush, METH_NOARGS),     METHOD(receive_into, METH_O),   METHOD(release, METH_NOARGS),
    METHOD(pending, METH_NOARGS),   METHOD(arm, METH_NOARGS),       METHOD(disarm, METH_NOARGS),
    METHOD(full, METH_NOARGS),      METHOD(fileno, METH_NOARGS),    METHOD(carry, METH_O),
    METHOD(hear, METH_NOARGS),      METHOD(carry_to, METH_VARARGS), {NULL, NULL, 0, NULL},
};

static PyGetSetDef values[] = {
    {"sent", (getter)ring_get_sent, NULL, NULL, NULL},
    {"refused", (getter)ring_get_refused, NULL, NULL, NULL},
    {"broken", (getter)ring_get_broken, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, ring_new}, {Py_tp_dealloc, ring_dealloc}, {Py_tp_methods, methods}, {Py_tp_getset, values}, {0, NULL},
};

static PyType_Spec spec = {"mrc_host.driver.frame_ring.FrameRing", sizeof(FrameRing), 0, Py_TPFLAGS_DEFAULT, slots};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "mrc_host.driver.frame_ring", .m_size = -1};

PyMODINIT_FUNC PyInit_frame_ring(void)
{
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&spec);
    if (!made || !type || PyModule_AddObject(made, "FrameRing", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
