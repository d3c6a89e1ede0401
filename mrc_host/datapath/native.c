/* mrc_host.datapath.native: what the NIC does with each data packet, in C (see datapath/__init__.py and native.pyi). */
#include "python.h"

#include "receive.h"
#include "transmit.h"

/* crc32(bytes, crc=0, most=WIDE): the CRC of bytes, and a copy that was made with it, for tests, which also try it with less of
 * the processor's help. */
static PyObject *native_crc32(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer bytes;
    unsigned crc = 0;
    int most = WIDE, can = crc_folds;
    if (!PyArg_ParseTuple(args, "y*|Ii", &bytes, &crc, &most))
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
    {"crc32", native_crc32, METH_VARARGS, "CRC-32 of bytes, and of a copy that is made."},
    {"data_frame", FAST(data_frame), "The frame of a segment of a message."},
    {"rc_data_frame", FAST(rc_data_frame), "The same of an RC queue pair."},
    {"frame", FAST(whole_frame), "The frame of a packet, by its bytes."},
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
        &TemplateType, &OutboxType, &PacketInPlaceType, &MessageType, &RegionType, &ReceiverType, &CarrierType, &RcCarrierType,
    };
    const char *names[] = {"Template", "Outbox", "PacketInPlace", "Message", "Region", "Receiver", "Carrier", "RcCarrier"};
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
