/* Data packets out: a path's header template, a message's part of the headers, payload, ICRC.
 *
 * A Message has the bytes of a request and what its packets carry alike.
 */
#ifndef MRC_TRANSMIT_H
#define MRC_TRANSMIT_H

#include "in_place.h"

#define MAX_HEADERS 48 /* BTH, METH, TSETH, RETH, ImmDt */

typedef struct {
    Sent sent;
    uint64_t address;
    uint32_t qpn, numbers, rkey, length, imm;
    uint16_t tick;
    uint8_t solicited; /* its bit in packets with immediate data, or 0 */
} Message;

static PyObject *message_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *buffer, *outbox;
    unsigned int qpn, tick, numbers, rkey, imm, solicited;
    unsigned long long address;
    if (no_keywords(kwargs)
        || !PyArg_ParseTuple(
            args, "OIIIKIIIO!", &buffer, &qpn, &tick, &numbers, &address, &rkey, &imm, &solicited, &OutboxType, &outbox
        ))
        return NULL;
    Message *message = hold(type, buffer, PyBUF_SIMPLE);
    if (!message)
        return NULL;
    message->address = address;
    message->qpn = qpn;
    message->numbers = numbers;
    message->rkey = rkey;
    message->length = (uint32_t)message->sent.held.bytes.len;
    message->imm = imm;
    message->tick = (uint16_t)tick;
    message->solicited = (uint8_t)solicited;
    if (!(qpn >> 24)) /* otherwise the BTH's variant byte is not what a packet in place has there */
        message->sent.outbox = (Outbox *)Py_NewRef(outbox);
    return (PyObject *)message;
}

static void message_dealloc(Message *message) {
    end_sent(&message->sent);
    holder_dealloc(&message->sent.held);
}

TYPE(Message, .tp_new = message_new, .tp_dealloc = (destructor)message_dealloc);

/* Writes the headers from the BTH on to `head`. */
static void put_headers(
    uint8_t *head, const Message *message, unsigned kind, uint32_t word, unsigned stamp, uint32_t offset, unsigned pad
) {
    int with_imm = kind == LAST_IMM || kind == ONLY_IMM;
    head[0] = (uint8_t)(WRITE_FIRST + kind);
    head[1] = (uint8_t)(pad << 4 | (with_imm ? message->solicited : 0));
    put16(head + 2, 0xFFFF);
    put32(head + 4, message->qpn);
    put32(head + 8, word);
    put32(head + 12, message->numbers);
    put16(head + 16, stamp);
    put16(head + 18, message->tick);
    put64(head + 20, message->address + offset);
    put32(head + 28, message->rkey);
    put32(head + 32, message->length);
    if (with_imm)
        put32(head + 36, message->imm);
}

/* data_frame(template, message, kind << 48 | stamp << 32 | word, offset << 16 | size): the frame of a segment of the message, or what
 * stands for it if the packet was left in the outbox. */
static PyObject *data_frame(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 4 || Py_TYPE(args[1]) != &MessageType) {
        PyErr_SetString(PyExc_TypeError, "data_frame takes a template, a message and two numbers.");
        return NULL;
    }
    uint64_t number[2];
    if (!is_template(args[0]) || !unsigned_numbers(args + 2, 2, number))
        return NULL;
    Template *template = (Template *)args[0];
    Message *message = (Message *)args[1];
    uint64_t kind = number[0] >> 48, offset = number[1] >> 16, size = number[1] & 0xFFFF;
    if (kind > ONLY_IMM || size > MAX_BODY - MAX_HEADERS || offset > message->length || size > message->length - offset) {
        PyErr_SetString(PyExc_ValueError, "The segment is not part of its message.");
        return NULL;
    }
    unsigned pad = -(unsigned)size & 3;
    size_t headers = kind == LAST_IMM || kind == ONLY_IMM ? 40 : 36, body = headers + size + pad;
    int in_place = stays_in_place(&message->sent, template->length + headers, size);
    uint8_t *at;
    PyObject *frame = NULL;
    if (in_place) {
        template_fit(template, (uint16_t)body);
        at = message->sent.outbox->head + template->length;
    } else if (!(frame = new_frame(template, body, &at))) {
        return NULL;
    }
    put_headers(at, message, (unsigned)kind, (uint32_t)number[0], number[0] >> 32 & 0xFFFF, (uint32_t)offset, pad);
    const uint8_t *source = (const uint8_t *)message->sent.held.bytes.buf + offset;
    if (in_place)
        return leave_in_place(&message->sent, template, headers, source, size);
    uint8_t *payload = at + headers;
    uint32_t crc = packet_crc(template->seed, at, headers);
    if (size)
        crc = crc32_copied(crc, payload, source, size);
    memset(payload + size, 0, pad);
    put_icrc(at + body, crc32_of(crc, payload + size, pad));
    return frame;
}
#endif
