/* Data packets whose payload is still where the application wrote it, on their way through the simulation's core.
 *
 * While the core asks a NIC for a frame, it *opens* the NIC's outbox. Then the NIC's datapath leaves a data packet there instead
 * of building a frame: its head, and a reference to the rest. What Python gets to see is bytes of the frame's length with nothing
 * in them. The rest is read where the packet arrives, or where somebody wants to see all of it; the ICRC is calculated
 * only then. The receiver compares CRCs of the head: those of what follows are the same if it is the same.
 *
 * An application may use its memory again once a message has ended. Packets of the message that are still on their way get a
 * copy then, so everybody sees what was sent.
 *
 * mrc_host/datapath/in_place.h makes them; simulation/core/frame.h carries them. */
#ifndef MRC_PACKET_IN_PLACE_H
#define MRC_PACKET_IN_PLACE_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#define IN_PLACE_HEAD 192 /* bytes of the head: all headers, and the beginning of the payload */

typedef struct packet_in_place PacketInPlace;
typedef struct outbox Outbox;

struct packet_in_place {
    PyObject_HEAD
    PacketInPlace *next, **link; /* in the outbox, while the payload is the message's; link is NULL once it is a copy */
    void *message;               /* NULL likewise */
    const uint8_t *payload;      /* what is not in the head; NULL if there was no memory for a copy: then it is damaged */
    void (*copy)(const PacketInPlace *packet, uint8_t *to, size_t length); /* the first bytes after the head */
    uint32_t length;             /* of what is after the head: payload, padding, ICRC */
    uint32_t payload_length;     /* of which are payload */
    uint32_t body;               /* what the ICRC covers from the BTH on, in bytes */
    uint32_t crc;                /* of what it covers up to the end of the head, with the BTH's variant byte as it is */
};

struct outbox {
    PyObject_HEAD
    int open, traced; /* while the NIC's event trace shows each frame, all are built */
    PacketInPlace *left;      /* what was left there since it was opened */
    PacketInPlace *under_way; /* all whose payload is a message's */
    uint8_t head[IN_PLACE_HEAD]; /* of what was left there */
};

#endif
