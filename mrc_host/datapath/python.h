/* What the parts of the extension have in common. */
#ifndef MRC_PYTHON_H
#define MRC_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "bytes.h"
#include "crc32.h"

/* Opcodes of data packets (wire/opcodes.py), and how far they are from the first of them. */
enum { WRITE_FIRST = 0xC6 };
enum { FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM };

static int no_keywords(PyObject *kwargs) {
    if (!kwargs || !PyDict_GET_SIZE(kwargs))
        return 0;
    PyErr_SetString(PyExc_TypeError, "No argument has a name.");
    return 1;
}

/* The ICRC of a packet with these bytes from the BTH on, which ones replace one of; `seed` is for what is before them. */
static uint32_t packet_crc(uint32_t seed, uint8_t *bth, size_t size) {
    uint8_t sent = bth[4];
    bth[4] = 0xFF;
    uint32_t crc = crc32_of(seed, bth, size);
    bth[4] = sent;
    return crc;
}

static void put_icrc(uint8_t *at, uint32_t crc) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(crc >> 8 * i);
}
#endif
