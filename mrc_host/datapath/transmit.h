/* Data packets out: a path's header template, a message's part of the headers, payload, ICRC.
 *
 * A Message has the bytes of a request and what its packets carry alike. The bytes of a gather list are given with each packet.
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
    unsigned int qpn, tick, numbers, rkey, length, imm, solicited;
    unsigned long long address;
    if (no_keywords(kwargs)
        || !PyArg_ParseTuple(
            args, "OIIIKIIIIO!", &buffer, &qpn, &tick, &numbers, &address, &rkey, &length, &imm, &solicited, &OutboxType, &outbox
        ))
        return NULL;
    Message *message = hold(type, buffer, PyBUF_SIMPLE);
    if (!message)
        return NULL;
    message->address = address;
    message->qpn = qpn;
    message->numbers = numbers;
    message->rkey = rkey;
    message->length = length;
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

/* A packet that is to be built: `word` is the BTH's control word. */
typedef struct {
    unsigned kind, stamp, pad;
    uint32_t word, offset;
} Segment;

static int has_imm(unsigned kind) { return kind == LAST_IMM || kind == ONLY_IMM; }

/* Whether a packet of RC says where its message goes. */
static int has_reth(unsigned kind) { return kind == FIRST || kind >= ONLY; }

static void put_bth(uint8_t *head, const Message *message, unsigned opcode, const Segment *segment) {
    head[0] = (uint8_t)opcode;
    head[1] = (uint8_t)(segment->pad << 4 | (has_imm(segment->kind) ? message->solicited : 0));
    put16(head + 2, 0xFFFF);
    put32(head + 4, message->qpn);
    put32(head + 8, segment->word);
}

static void put_reth(uint8_t *to, const Message *message, uint64_t address) {
    put64(to, address);
    put32(to + 8, message->rkey);
    put32(to + 12, message->length);
}

/* MRC's headers from the BTH on: their length, and how they are written to `head`. */
static size_t mrc_headers(unsigned kind) { return has_imm(kind) ? 40 : 36; }

static void put_mrc_headers(uint8_t *head, const Message *message, const Segment *segment) {
    put_bth(head, message, WRITE_FIRST + segment->kind, segment);
    put32(head + 12, message->numbers);
    put16(head + 16, segment->stamp);
    put16(head + 18, message->tick);
    put_reth(head + 20, message, message->address + segment->offset);
    if (has_imm(segment->kind))
        put32(head + 36, message->imm);
}

/* The same of RC. */
static size_t rc_headers(unsigned kind) { return BTH_LENGTH + (has_reth(kind) ? 16 : 0) + (has_imm(kind) ? 4 : 0); }

static void put_rc_headers(uint8_t *head, const Message *message, const Segment *segment) {
    size_t at = BTH_LENGTH;
    put_bth(head, message, RC_WRITE_FIRST + segment->kind, segment);
    if (has_reth(segment->kind)) {
        put_reth(head + at, message, message->address);
        at += 16;
    }
    if (has_imm(segment->kind))
        put32(head + at, message->imm);
}

/* The frame of a segment with this payload; if that `stays` where it is, perhaps only what stands for it, and the packet is left in the
 * outbox. */
static PyObject *build_segment(
    Template *template, Message *message, const Segment *segment, const uint8_t *source, size_t size, int rc, int stays
) {
    size_t headers = rc ? rc_headers(segment->kind) : mrc_headers(segment->kind), body = headers + size + segment->pad;
    int in_place = stays && stays_in_place(&message->sent, template->length + headers, size);
    uint8_t *at;
    PyObject *frame = NULL;
    if (in_place) {
        template_fit(template, (uint16_t)body);
        at = message->sent.outbox->head + template->length;
    } else if (!(frame = new_frame(template, body, &at))) {
        return NULL;
    }
    if (rc)
        put_rc_headers(at, message, segment);
    else
        put_mrc_headers(at, message, segment);
    if (in_place)
        return leave_in_place(&message->sent, template, headers, source, size);
    uint8_t *payload = at + headers;
    uint32_t crc = written_crc(template->seed, at, headers);
    if (size)
        crc = crc32_copied(crc, payload, source, size);
    memset(payload + size, 0, segment->pad);
    put_icrc(at + body, crc32_of(crc, payload + size, segment->pad));
    return frame;
}

/* The frame of a segment of a message. */
static PyObject *segment_frame(PyObject *const *args, Py_ssize_t count, int rc) {
    if ((count != 4 && count != 5) || Py_TYPE(args[1]) != &MessageType) {
        PyErr_SetString(PyExc_TypeError, "data_frame takes a template, a message, two numbers, and perhaps bytes.");
        return NULL;
    }
    uint64_t number[2];
    if (!is_template(args[0]) || !unsigned_numbers(args + 2, 2, number))
        return NULL;
    Template *template = (Template *)args[0];
    Message *message = (Message *)args[1];
    uint64_t kind = number[0] >> 48, offset = number[1] >> 16, size = number[1] & 0xFFFF;
    uint64_t held = count == 5 ? message->length : (uint64_t)message->sent.held.bytes.len;
    if (kind > ONLY_IMM || size > MAX_BODY - MAX_HEADERS || offset > held || size > held - offset) {
        PyErr_SetString(PyExc_ValueError, "The segment is not part of its message.");
        return NULL;
    }
    Segment segment = {
        (unsigned)kind, number[0] >> 32 & 0xFFFF, -(unsigned)size & 3, (uint32_t)number[0], (uint32_t)offset,
    };
    if (count == 4)
        return build_segment(template, message, &segment, (const uint8_t *)message->sent.held.bytes.buf + offset, size, rc, 1);
    Py_buffer payload;
    if (PyObject_GetBuffer(args[4], &payload, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *frame = NULL;
    if ((uint64_t)payload.len == size)
        frame = build_segment(template, message, &segment, payload.buf, size, rc, 0);
    else
        PyErr_SetString(PyExc_ValueError, "The segment has another length than its bytes.");
    PyBuffer_Release(&payload);
    return frame;
}

/* data_frame(template, message, kind << 48 | stamp << 32 | word, offset << 16 | size, payload): without a payload it is the message's. */
static PyObject *data_frame(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    return segment_frame(args, count, 0);
}

/* The same of an RC queue pair, which has no timestamps. */
static PyObject *rc_data_frame(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    return segment_frame(args, count, 1);
}
#endif
