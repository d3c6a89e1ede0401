/* A registered buffer; `release` takes it away from all who hold the region. */
#ifndef MRC_REGION_H
#define MRC_REGION_H

#include "python.h"

typedef struct {
    Holder held;
} Region;

static PyObject *region_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *buffer;
    if (no_keywords(kwargs) || !PyArg_ParseTuple(args, "O", &buffer))
        return NULL;
    return hold(type, buffer, PyBUF_WRITABLE);
}

static PyObject *region_release(Region *region, PyObject *Py_UNUSED(none)) {
    let_go(&region->held);
    Py_RETURN_NONE;
}

static PyMethodDef region_methods[] = {
    {"release", (PyCFunction)region_release, METH_NOARGS, "Let go of the buffer: nothing is placed there any more."},
    {NULL, NULL, 0, NULL},
};

TYPE(Region, .tp_new = region_new, .tp_dealloc = (destructor)holder_dealloc, .tp_methods = region_methods);

/* Where `size` bytes from `at` on are; NULL if they are not all in the region. */
static uint8_t *region_place(const Region *region, uint64_t at, size_t size) {
    const Py_buffer *bytes = &region->held.bytes;
    uint64_t end = at + size;
    return bytes->obj && end >= at && end <= (uint64_t)bytes->len ? (uint8_t *)bytes->buf + at : NULL;
}
#endif
