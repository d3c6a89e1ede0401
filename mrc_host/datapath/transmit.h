/* Data packets out: a path's header template, a message's part of the headers, payload, ICRC.
 *
 * A Template is everything before the BTH for one path and traffic class (wire/encap.py makes it). Only the lengths in it depend
 * on the packet; they are patched in when they change, and with them the CRC of what the ICRC covers in it. A Message has the
 * bytes of a request and what its packets carry alike.
 */
#ifndef MRC_TRANSMIT_H
#define MRC_TRANSMIT_H

#include "python.h"

#define ICRC_LENGTH 4
#define BTH_VARIANT 4 /* the byte of the BTH that counts as ones */
#define ETHERNET 14
#define UDP 8
#define IPV4 20
#define IPV6 40
#define MAX_PREFIX 126
#define MAX_HEADERS 48 /* BTH, METH, TSETH, RETH, ImmDt */
#define MAX_BODY 0xFC00

typedef struct {
    PyObject_HEAD
    uint8_t prefix[MAX_PREFIX];
    uint16_t length;
    uint16_t inner; /* where the IP header begins that the ICRC covers */
    uint16_t body;  /* for which the lengths are now */
    uint32_t seed;  /* CRC from the ones in place of a LRH to the end of the UDP header */
} Template;

static uint32_t template_seed(const Template *template) {
    uint8_t covered[8 + IPV6 + UDP];
    uint8_t *ip = covered + 8;
    size_t size = (size_t)(template->length - template->inner);
    memset(covered, 0xFF, 8);
    memcpy(ip, template->prefix + template->inner, size);
    if (size == IPV4 + UDP) {
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF;
    } else {
        ip[0] |= 0x0F;
        ip[1] = ip[2] = ip[3] = ip[7] = 0xFF;
    }
    ip[size - 2] = ip[size - 1] = 0xFF;
    return crc32_of(0, covered, 8 + size);
}

static void ipv4_checksum(uint8_t *ip) {
    uint32_t sum = 0;
    put16(ip + 10, 0);
    for (int at = 0; at < IPV4; at += 2)
        sum += get16(ip + at);
    sum = (sum & 0xFFFF) + (sum >> 16);
    put16(ip + 10, ~(sum + (sum >> 16)) & 0xFFFF);
}

static void template_fit(Template *template, uint16_t body) {
    uint8_t *prefix = template->prefix, *ip = prefix + template->inner, *udp = prefix + template->length - UDP;
    uint16_t more = (uint16_t)(body - template->body);
    if (!more)
        return;
    put16(udp + 4, get16(udp + 4) + more);
    if (template->length - template->inner == IPV4 + UDP) {
        put16(ip + 2, get16(ip + 2) + more);
        ipv4_checksum(ip);
    } else {
        put16(ip + 4, get16(ip + 4) + more);
        if (template->inner != ETHERNET)
            put16(prefix + ETHERNET + 4, get16(prefix + ETHERNET + 4) + more);
    }
    template->body = body;
    template->seed = template_seed(template);
}

static PyObject *template_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    const char *prefix;
    Py_ssize_t length;
    int body;
    if (no_keywords(kwargs) || !PyArg_ParseTuple(args, "y#i", &prefix, &length, &body))
        return NULL;
    int ipv4 = length == ETHERNET + IPV4 + UDP;
    if (!ipv4 && (length < ETHERNET + IPV6 + UDP || length > MAX_PREFIX))
        return PyErr_Format(PyExc_ValueError, "A prefix has 42 or 62 to %d bytes, not %zd.", MAX_PREFIX, length);
    if (body < 0 || body > MAX_BODY)
        return PyErr_Format(PyExc_ValueError, "A packet carries 0 to %d bytes after its prefix, not %d.", MAX_BODY, body);
    Template *template = (Template *)type->tp_alloc(type, 0);
    if (!template)
        return NULL;
    memcpy(template->prefix, prefix, (size_t)length);
    template->length = (uint16_t)length;
    template->inner = (uint16_t)(length - UDP - (ipv4 ? IPV4 : IPV6));
    template->body = (uint16_t)body;
    template->seed = template_seed(template);
    return (PyObject *)template;
}

static PyTypeObject TemplateType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "mrc_host.datapath.native.Template",
    .tp_basicsize = sizeof(Template),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = template_new,
};

typedef struct {
    PyObject_HEAD
    Py_buffer bytes;
    uint64_t address;
    uint32_t qpn, numbers, rkey, length, imm;
    uint16_t tick;
    uint8_t solicited; /* its bit in packets with immediate data, or 0 */
} Message;

static PyObject *message_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *buffer;
    unsigned int qpn, tick, numbers, rkey, imm, solicited;
    unsigned long long address;
    if (no_keywords(kwargs)
        || !PyArg_ParseTuple(args, "OIIIKIII", &buffer, &qpn, &tick, &numbers, &address, &rkey, &imm, &solicited))
        return NULL;
    Message *message = (Message *)type->tp_alloc(type, 0);
    if (!message)
        return NULL;
    if (PyObject_GetBuffer(buffer, &message->bytes, PyBUF_SIMPLE) < 0) {
        Py_DECREF(message);
        return NULL;
    }
    message->address = address;
    message->qpn = qpn;
    message->numbers = numbers;
    message->rkey = rkey;
    message->length = (uint32_t)message->bytes.len;
    message->imm = imm;
    message->tick = (uint16_t)tick;
    message->solicited = (uint8_t)solicited;
    return (PyObject *)message;
}

static void message_dealloc(Message *message) {
    if (message->bytes.obj)
        PyBuffer_Release(&message->bytes);
    Py_TYPE(message)->tp_free((PyObject *)message);
}

static PyTypeObject MessageType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "mrc_host.datapath.native.Message",
    .tp_basicsize = sizeof(Message),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = message_new,
    .tp_dealloc = (destructor)message_dealloc,
};

/* Writes the headers from the BTH on to `head`, and returns their length. */
static size_t put_headers(
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
    return with_imm ? 40 : 36;
}

/* data_frame(template, message, kind, word, stamp, offset, size): the frame of a segment of the message. */
static PyObject *data_frame(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 7 || Py_TYPE(args[0]) != &TemplateType || Py_TYPE(args[1]) != &MessageType) {
        PyErr_SetString(PyExc_TypeError, "data_frame takes a template, a message and five numbers.");
        return NULL;
    }
    Template *template = (Template *)args[0];
    const Message *message = (const Message *)args[1];
    unsigned long number[5];
    for (int i = 0; i < 5; i++) {
        number[i] = PyLong_AsUnsignedLong(args[2 + i]);
        if (number[i] == (unsigned long)-1 && PyErr_Occurred())
            return NULL;
    }
    unsigned long kind = number[0], offset = number[3], size = number[4];
    if (kind > ONLY_IMM || size > MAX_BODY - MAX_HEADERS || offset > message->length || size > message->length - offset) {
        PyErr_SetString(PyExc_ValueError, "The segment is not part of its message.");
        return NULL;
    }
    unsigned pad = -(unsigned)size & 3;
    uint8_t head[MAX_HEADERS];
    size_t headers = put_headers(head, message, (unsigned)kind, (uint32_t)number[1], (unsigned)number[2], (uint32_t)offset, pad);
    size_t body = headers + size + pad;
    template_fit(template, (uint16_t)body);
    PyObject *frame = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(template->length + body + ICRC_LENGTH));
    if (!frame)
        return NULL;
    uint8_t *at = (uint8_t *)PyBytes_AS_STRING(frame);
    memcpy(at, template->prefix, template->length);
    at += template->length;
    memcpy(at, head, headers);
    if (size)
        memcpy(at + headers, (const uint8_t *)message->bytes.buf + offset, size);
    memset(at + headers + size, 0, pad);
    put_icrc(at + body, packet_crc(template->seed, at, body));
    return frame;
}
#endif
