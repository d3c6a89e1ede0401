/* Frames that a port of a NIC receives, given to the NIC's datapath without Python as long as that carries them.
 *
 * A batch ends at the first frame that Python must receive, or that makes an answer due (mrc_common/carry_frame.h). */
#ifndef CARRYING_H
#define CARRYING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "carry_frame.h"

/* Who carries the frames of a port; `carry` is NULL while nobody does. */
struct carrying {
    PyObject *receiver;
    CarryFrame carry;
    int port;
};

static void carrying_forget(struct carrying *carrying)
{
    carrying->carry = NULL;
    Py_CLEAR(carrying->receiver);
}

/* carry_to(receiver, carry_frame, port) */
static PyObject *carrying_set(struct carrying *carrying, PyObject *arguments)
{
    PyObject *receiver, *capsule;
    int port;
    if (!PyArg_ParseTuple(arguments, "OOi", &receiver, &capsule, &port))
        return NULL;
    const CarryFrame *carry = PyCapsule_GetPointer(capsule, CARRY_FRAME_CAPSULE);
    if (!carry)
        return NULL;
    carrying_forget(carrying);
    carrying->receiver = Py_NewRef(receiver);
    carrying->carry = *carry;
    carrying->port = port;
    Py_RETURN_NONE;
}

struct batch {
    Py_ssize_t frames, bytes;
    PyObject *due; /* what Nic.answer_due takes; NULL: no SACK is due */
};

/* 1: the frame was carried and counted; 0: it is for Python; -1 after an exception. */
static int carrying_give(const struct carrying *carrying, const uint8_t *frame, size_t length, struct batch *batch)
{
    FramePieces whole = {.head = frame, .head_length = length};
    int carried = carrying->carry ? carrying->carry(carrying->receiver, carrying->port, &whole, &batch->due) : 0;
    if (carried > 0) {
        batch->frames++;
        batch->bytes += (Py_ssize_t)length;
    }
    return carried;
}

/* Frames and bytes carried, and what makes an answer due or None; takes the reference of that. */
static PyObject *batch_result(const struct batch *batch)
{
    PyObject *due = batch->due ? batch->due : Py_NewRef(Py_None);
    return Py_BuildValue("nnN", batch->frames, batch->bytes, due);
}
#endif
