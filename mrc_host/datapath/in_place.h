/* Data packets that are left where they are (mrc_common/packet_in_place.h).
 *
 * An outbox is a NIC's. A message knows how many of its packets are under way; when it ends, they get copies of their payload.
 */
#ifndef MRC_IN_PLACE_H
#define MRC_IN_PLACE_H

#include "packet_in_place.h"
#include "template.h"

#define LEAST_IN_PLACE (2 * IN_PLACE_HEAD) /* bytes of a frame; shorter ones are copied */

/* How many packets of a message are under way; the first part of a message after what it holds. */
typedef struct {
    Holder held;
    Outbox *outbox; /* NULL: all of its frames are built */
    uint32_t under_way;
} Sent;

static void no_longer_under_way(PacketInPlace *packet) {
    *packet->link = packet->next;
    if (packet->next)
        packet->next->link = packet->link;
    packet->link = NULL;
    ((Sent *)packet->message)->under_way--;
    packet->message = NULL;
}

/* The packet gets a copy of its payload. */
static void bring_along(PacketInPlace *packet) {
    uint8_t *copy = PyMem_Malloc(packet->payload_length);
    if (copy)
        memcpy(copy, packet->payload, packet->payload_length);
    packet->payload = copy;
    no_longer_under_way(packet);
}

static void in_place_dealloc(PacketInPlace *packet) {
    if (packet->link)
        no_longer_under_way(packet);
    else
        PyMem_Free((void *)packet->payload);
    PyObject_Free(packet);
}

TYPE(PacketInPlace, .tp_dealloc = (destructor)in_place_dealloc);

static void in_place_copy(const PacketInPlace *packet, uint8_t *to, size_t length) {
    uint8_t trailer[3 + ICRC_LENGTH] = {0};
    size_t payload = packet->payload_length, pad = packet->length - payload - ICRC_LENGTH, first = length < payload ? length : payload;
    uint32_t crc = packet->crc;
    if (packet->payload)
        memcpy(to, packet->payload, first);
    else
        memset(to, 0, first);
    if (length <= payload)
        return;
    if (packet->payload)
        crc = crc32_of(crc32_of(crc, packet->payload, payload), trailer, pad) ^ mask_of(packet->body);
    put_icrc(trailer + pad, packet->payload ? crc : ~crc);
    memcpy(to + payload, trailer, length - payload);
}

/* ---- outboxes ---- */

static void keep_payloads(Outbox *outbox, const void *message) {
    for (PacketInPlace *packet = outbox->under_way, *next; packet; packet = next) {
        next = packet->next;
        if (!message || packet->message == message)
            bring_along(packet);
    }
}

static PyObject *outbox_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    return no_keywords(kwargs) || !PyArg_ParseTuple(args, "") ? NULL : type->tp_alloc(type, 0);
}

static PyObject *outbox_keep_payloads(Outbox *outbox, PyObject *Py_UNUSED(none)) {
    keep_payloads(outbox, NULL);
    Py_RETURN_NONE;
}

static PyObject *outbox_trace(Outbox *outbox, PyObject *on) {
    outbox->traced = PyObject_IsTrue(on);
    Py_RETURN_NONE;
}

static void outbox_dealloc(Outbox *outbox) {
    Py_XDECREF(outbox->left);
    Py_TYPE(outbox)->tp_free((PyObject *)outbox);
}

static PyMethodDef outbox_methods[] = {
    {"keep_payloads", (PyCFunction)outbox_keep_payloads, METH_NOARGS, "Frames under way get copies of their payloads."},
    {"trace", (PyCFunction)outbox_trace, METH_O, "Whether to leave nothing there, so that each frame can be traced."},
    {NULL, NULL, 0, NULL},
};

TYPE(Outbox, .tp_new = outbox_new, .tp_dealloc = (destructor)outbox_dealloc, .tp_methods = outbox_methods);

/* The message has ended. */
static void end_sent(Sent *sent) {
    if (sent->under_way)
        keep_payloads(sent->outbox, sent);
    Py_CLEAR(sent->outbox);
}

/* Bytes of a length that stand for a frame; nobody looks at them. A new reference. */
static PyObject *stand_in(size_t length) {
    static PyObject *latest; /* most frames have the same length */
    if (!latest || (size_t)PyBytes_GET_SIZE(latest) != length) {
        PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
        if (!made)
            return NULL;
        memset(PyBytes_AS_STRING(made), 0, length);
        Py_XSETREF(latest, made);
    }
    return Py_NewRef(latest);
}

/* Whether a frame with so many bytes before its payload, and `size` of that, need not be built. */
static int stays_in_place(const Sent *sent, size_t before, size_t size) {
    return sent->outbox && sent->outbox->open && !sent->outbox->traced && before + size >= LEAST_IN_PLACE;
}

/* Leaves a packet in the outbox, in whose head the headers from the BTH on are already, `headers` bytes. What Python gets in place
 * of the frame; NULL after an exception. */
static PyObject *leave_in_place(Sent *sent, const Template *template, size_t headers, const uint8_t *payload, size_t size) {
    Outbox *outbox = sent->outbox;
    size_t at = template->length + headers, first = IN_PLACE_HEAD - at, pad = -size & 3;
    PyObject *frame = stand_in(at + size + pad + ICRC_LENGTH);
    PacketInPlace *packet = frame ? PyObject_New(PacketInPlace, &PacketInPlaceType) : NULL;
    if (!packet) {
        Py_XDECREF(frame);
        return NULL;
    }
    memcpy(outbox->head, template->prefix, template->length);
    memcpy(outbox->head + at, payload, first);
    packet->payload = payload + first;
    packet->payload_length = (uint32_t)(size - first);
    packet->length = (uint32_t)(size - first + pad + ICRC_LENGTH);
    packet->body = (uint32_t)(headers + size + pad);
    packet->crc = crc32_of(template->seed, outbox->head + template->length, IN_PLACE_HEAD - template->length);
    packet->copy = in_place_copy;
    packet->message = sent;
    sent->under_way++;
    packet->next = outbox->under_way;
    packet->link = &outbox->under_way;
    if (packet->next)
        packet->next->link = &packet->next;
    outbox->under_way = packet;
    Py_XSETREF(outbox->left, packet);
    return frame;
}
#endif
