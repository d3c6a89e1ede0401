/* What the parts of the extension have in common. */
#ifndef MRC_PYTHON_H
#define MRC_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "bytes.h"
#include "crc32.h"

/* Opcodes of data packets (wire/opcodes.py), and how far they are from the first of them. */
enum { WRITE_FIRST = 0xC6, RC_WRITE_FIRST = 0x06 };
enum { FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM };

#define BTH_LENGTH 12

/* A type whose objects are structs of the same name; the rest are the fields that it has beside. */
#define TYPE(Name, ...)                                                                                                \
    static PyTypeObject Name##Type = {                                                                                 \
        PyVarObject_HEAD_INIT(NULL, 0)                                                                                 \
        .tp_name = "mrc_host.datapath.native." #Name,                                                                  \
        .tp_basicsize = sizeof(Name),                                                                                  \
        .tp_flags = Py_TPFLAGS_DEFAULT,                                                                                \
        __VA_ARGS__                                                                                                    \
    }

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static int no_keywords(PyObject *kwargs) {
    if (!kwargs || !PyDict_GET_SIZE(kwargs))
        return 0;
    PyErr_SetString(PyExc_TypeError, "No argument has a name.");
    return 1;
}

#if LONG_MAX == INT64_MAX
#define AS_INT64 PyLong_AsLong /* for numbers beyond 30 bits it takes a fraction of the time that PyLong_AsLongLong takes */
#else
#define AS_INT64 PyLong_AsLongLong
#endif

/* `count` arguments as numbers; 0 after an exception. */
static int signed_numbers(PyObject *const *args, int count, int64_t *out) {
    for (int i = 0; i < count; i++) {
        out[i] = AS_INT64(args[i]);
        if (out[i] == -1 && PyErr_Occurred())
            return 0;
    }
    return 1;
}

/* The same for numbers below 2^63 that are not negative. */
static int unsigned_numbers(PyObject *const *args, int count, uint64_t *out) {
    for (int i = 0; i < count; i++) {
        int64_t number = AS_INT64(args[i]);
        if (number < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_OverflowError, "This number cannot be negative.");
            return 0;
        }
        out[i] = (uint64_t)number;
    }
    return 1;
}

/* What holds on to bytes of somebody else; the first part of such objects. */
typedef struct {
    PyObject_HEAD
    Py_buffer bytes; /* without an object: let go */
} Holder;

/* A new object of a type that begins with a Holder. */
static void *hold(PyTypeObject *type, PyObject *buffer, int flags) {
    Holder *holder = (Holder *)type->tp_alloc(type, 0);
    if (holder && PyObject_GetBuffer(buffer, &holder->bytes, flags) < 0)
        Py_CLEAR(holder);
    return holder;
}

static void let_go(Holder *holder) {
    if (holder->bytes.obj)
        PyBuffer_Release(&holder->bytes); /* which forgets the object */
}

static void holder_dealloc(Holder *holder) {
    let_go(holder);
    Py_TYPE(holder)->tp_free((PyObject *)holder);
}
#endif
