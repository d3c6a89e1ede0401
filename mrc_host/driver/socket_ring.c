/* SocketRing: a packet socket's receive ring (packet_ring.h), for Python.
 *
 * Its owner keeps the descriptor open until `close`. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "carrying.h"
#include "packet_ring.h"

typedef struct {
    PyObject_HEAD
    struct packet_ring ring;
    struct carrying carrying;
    int fd;
    int64_t stamp; /* of the frame that receive_into took last */
} SocketRing;

static PyObject *failed(int error)
{
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *ring_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"fd", "slots", "longest", NULL};
    int fd;
    unsigned slots, longest;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "iII", keywords, &fd, &slots, &longest))
        return NULL;
    if (!slots || slots > 1u << 20 || !longest || longest > 1u << 17)
        return PyErr_Format(PyExc_ValueError, "No ring has %u slots of %u bytes.", slots, longest);
    SocketRing *self = (SocketRing *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->fd = fd;
    int error = packet_ring_map(&self->ring, fd, slots, longest);
    if (error) {
        Py_DECREF(self);
        return failed(-error);
    }
    return (PyObject *)self;
}

static PyObject *ring_discard(SocketRing *self, PyObject *Py_UNUSED(none))
{
    struct tpacket2_hdr *slot;
    for (unsigned left = self->ring.slots; left && (slot = packet_ring_next(&self->ring)); left--)
        packet_ring_release(&self->ring, slot);
    Py_RETURN_NONE;
}

static PyObject *ring_close(SocketRing *self, PyObject *Py_UNUSED(none))
{
    carrying_forget(&self->carrying);
    packet_ring_unmap(&self->ring);
    self->fd = -1; /* the number may become that of another file */
    Py_RETURN_NONE;
}

static void ring_dealloc(SocketRing *self)
{
    PyTypeObject *type = Py_TYPE(self);
    carrying_forget(&self->carrying);
    packet_ring_unmap(&self->ring);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *ring_receive_into(SocketRing *self, PyObject *given)
{
    struct tpacket2_hdr *slot = packet_ring_next(&self->ring);
    if (!slot)
        return PyLong_FromLong(0);
    Py_buffer buffer;
    if (PyObject_GetBuffer(given, &buffer, PyBUF_WRITABLE))
        return NULL;
    size_t length = slot->tp_snaplen < (size_t)buffer.len ? slot->tp_snaplen : (size_t)buffer.len;
    memcpy(buffer.buf, packet_ring_frame(slot), length);
    self->stamp = packet_ring_stamp(slot);
    packet_ring_release(&self->ring, slot);
    PyBuffer_Release(&buffer);
    return PyLong_FromSize_t(length);
}

/* carry(limit): frames and bytes that were carried, and what makes a SACK due or None. */
static PyObject *ring_carry(SocketRing *self, PyObject *limit)
{
    long most = PyLong_AsLong(limit);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    struct batch batch = {0};
    struct tpacket2_hdr *slot;
    while (batch.frames < most && !batch.due && (slot = packet_ring_next(&self->ring))) {
        int carried = carrying_give(&self->carrying, packet_ring_frame(slot), slot->tp_snaplen, &batch);
        if (carried < 0)
            return NULL;
        if (!carried)
            break;
        packet_ring_release(&self->ring, slot);
    }
    return batch_result(&batch);
}

static PyObject *ring_carry_to(SocketRing *self, PyObject *arguments) { return carrying_set(&self->carrying, arguments); }

static PyObject *ring_stamp(SocketRing *self, PyObject *Py_UNUSED(none)) { return PyLong_FromLongLong(self->stamp); }

static PyObject *ring_send(SocketRing *self, PyObject *given)
{
    Py_buffer frame;
    if (PyObject_GetBuffer(given, &frame, PyBUF_SIMPLE))
        return NULL;
    ssize_t sent = send(self->fd, frame.buf, (size_t)frame.len, MSG_DONTWAIT);
    PyBuffer_Release(&frame);
    return sent < 0 ? failed(errno) : PyLong_FromSsize_t(sent);
}

#define METHOD(name, flags) {#name, (PyCFunction)ring_##name, flags, NULL}

static PyMethodDef methods[] = {
    METHOD(close, METH_NOARGS), METHOD(receive_into, METH_O), METHOD(carry, METH_O), METHOD(carry_to, METH_VARARGS),
    METHOD(stamp, METH_NOARGS), METHOD(send, METH_O),         METHOD(discard, METH_NOARGS),
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, ring_new}, {Py_tp_dealloc, ring_dealloc}, {Py_tp_methods, methods}, {0, NULL},
};

static PyType_Spec spec = {"mrc_host.driver.socket_ring.SocketRing", sizeof(SocketRing), 0, Py_TPFLAGS_DEFAULT, slots};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "mrc_host.driver.socket_ring", .m_size = -1};

PyMODINIT_FUNC PyInit_socket_ring(void)
{
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&spec);
    if (!made || !type || PyModule_AddObject(made, "SocketRing", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
