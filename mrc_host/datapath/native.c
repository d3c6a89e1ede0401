/* mrc_host.datapath.native: what the NIC does with each data packet, in C (see datapath/__init__.py and native.pyi). */
#include "python.h"

#include "receive.h"
#include "transmit.h"

#define LONG 65536 /* bytes; while more are read other threads may run */

/* The last argument, a CRC to continue; 0 after an exception. */
static int crc_given(PyObject *argument, uint32_t *crc) {
    uint64_t given;
    if (!unsigned_numbers(&argument, 1, &given))
        return 0;
    *crc = (uint32_t)given;
    return given == *crc || (PyErr_SetString(PyExc_OverflowError, "A CRC has 32 bits."), 0);
}

/* crc32(bytes, crc=0) */
static PyObject *native_crc32(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Py_buffer bytes;
    uint32_t crc = 0;
    if (count != 1 && count != 2)
        return PyErr_Format(PyExc_TypeError, "crc32(bytes, crc=0)");
    if ((count == 2 && !crc_given(args[1], &crc)) || PyObject_GetBuffer(args[0], &bytes, PyBUF_SIMPLE) < 0)
        return NULL;
    PyThreadState *state = bytes.len < LONG ? NULL : PyEval_SaveThread();
    crc = crc32_of(crc, bytes.buf, (size_t)bytes.len);
    if (state)
        PyEval_RestoreThread(state);
    PyBuffer_Release(&bytes);
    return PyLong_FromUnsignedLong(crc);
}

/* copy_and_crc32(target, source, crc=0): copies all of source to the beginning of target, which is elsewhere; the CRC of that. */
static PyObject *native_copy_and_crc32(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Py_buffer target, source;
    uint32_t crc = 0;
    if (count != 2 && count != 3)
        return PyErr_Format(PyExc_TypeError, "copy_and_crc32(target, source, crc=0)");
    if ((count == 3 && !crc_given(args[2], &crc)) || PyObject_GetBuffer(args[0], &target, PyBUF_WRITABLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[1], &source, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&target);
        return NULL;
    }
    int fits = source.len <= target.len;
    if (fits) {
        PyThreadState *state = source.len < LONG ? NULL : PyEval_SaveThread();
        crc = crc32_copied(crc, target.buf, source.buf, (size_t)source.len);
        if (state)
            PyEval_RestoreThread(state);
    } else {
        PyErr_SetString(PyExc_ValueError, "The target is shorter than what is to be copied to it.");
    }
    PyBuffer_Release(&source);
    PyBuffer_Release(&target);
    return fits ? PyLong_FromUnsignedLong(crc) : NULL;
}

/* crc32_with(most, bytes, crc): for tests, with no more of the processor's help than that; the CRC, that of a copy, the copy. */
static PyObject *native_crc32_with(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer bytes;
    unsigned crc;
    int most, can = crc_folds;
    if (!PyArg_ParseTuple(args, "iy*I", &most, &bytes, &crc))
        return NULL;
    crc_folds = can < most ? can : most;
    uint32_t read = crc32_of(crc, bytes.buf, (size_t)bytes.len), copied = 0;
    PyObject *copy = PyBytes_FromStringAndSize(NULL, bytes.len);
    if (copy)
        copied = crc32_copied(crc, (uint8_t *)PyBytes_AS_STRING(copy), bytes.buf, (size_t)bytes.len);
    crc_folds = can;
    PyBuffer_Release(&bytes);
    return copy ? Py_BuildValue("IIN", read, copied, copy) : NULL;
}

static PyMethodDef native_methods[] = {
    {"crc32", FAST(native_crc32), "CRC-32 of bytes."},
    {"copy_and_crc32", FAST(native_copy_and_crc32), "Copies bytes; their CRC-32."},
    {"crc32_with", native_crc32_with, METH_VARARGS, "CRC-32 of bytes, and of a copy that is made, for tests."},
    {"data_frame", FAST(data_frame), "The frame of a segment of a message."},
    {"rc_data_frame", FAST(rc_data_frame), "The same of an RC queue pair."},
    {"frame", FAST(whole_frame), "The frame of a packet, by its bytes."},
    {"read_prefix", read_prefix, METH_O, "What the headers in front of a BTH say."},
    {"icrc", icrc_of_packet, METH_VARARGS, "The ICRC of a packet."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef native_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "native",
    .m_doc = "The NIC's datapath in C.",
    .m_size = -1,
    .m_methods = native_methods,
};

PyMODINIT_FUNC PyInit_native(void) {
    PyTypeObject *types[] = {
        &TemplateType, &OutboxType, &PacketInPlaceType, &MessageType, &RegionType, &ReceiverType, &ReceiveStateType,
        &RcReceiveStateType,
    };
    const char *names[] = {
        "Template", "Outbox", "PacketInPlace", "Message", "Region", "Receiver", "ReceiveState", "RcReceiveState",
    };
    crc_setup();
    PyObject *module = PyModule_Create(&native_module);
    for (int i = 0; module && i < (int)(sizeof names / sizeof *names); i++)
        if (PyType_Ready(types[i]) < 0 || PyModule_AddObject(module, names[i], Py_NewRef((PyObject *)types[i])) < 0)
            Py_CLEAR(module);
    static CarryFrame carry_frame = carry_pieces;
    PyObject *capsule = module ? PyCapsule_New(&carry_frame, CARRY_FRAME_CAPSULE, NULL) : NULL;
    if (!capsule || PyModule_AddObject(module, "carry_frame", capsule) < 0) {
        Py_XDECREF(capsule);
        Py_CLEAR(module);
    }
    return module;
}
