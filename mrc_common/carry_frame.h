/* How the simulation's core gives a frame to a NIC's datapath without entering Python.
 *
 * mrc_host/datapath/receive.h has the function, in a capsule of its module; simulation/core/nic_ports.h calls it.
 */
#ifndef MRC_CARRY_FRAME_H
#define MRC_CARRY_FRAME_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#include "packet_in_place.h"

#define CARRY_FRAME_CAPSULE "mrc_host.datapath.native.carry_frame"

/* A frame in one piece or two; the headers of every packet are in the first. Of a packet in place, which is known then, `rest` has
 * the payload alone, and the lengths are those that the frame would have. */
typedef struct {
    const uint8_t *head, *rest;
    size_t head_length, rest_length;
    const PacketInPlace *in_place;
} FramePieces;

/* 1: the frame was carried; 0: nothing has changed, and Python must receive it; -1 after an exception. *due becomes what
 * Nic.answer_due takes, a new reference, if the frame makes an answer due. */
typedef int (*CarryFrame)(PyObject *receiver, int port, const FramePieces *frame, PyObject **due);

#endif
