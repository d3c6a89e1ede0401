/* The header template of an entropy value and class: everything before the BTH (wire/encap.py makes it).
 *
 * Only the lengths in it depend on the packet; they are patched in when they change, and with them the CRC of what the ICRC
 * covers in it.
 */
#ifndef MRC_TEMPLATE_H
#define MRC_TEMPLATE_H

#include "python.h"

#define ICRC_LENGTH 4
#define ETHERNET 14
#define UDP 8
#define IPV4 20
#define IPV6 40
#define MAX_PREFIX 126
/* An outer IPv6 payload has 16 bits of length; 24 bytes of it may be a Segment Routing Header. */
#define MAX_BODY (0xFFFF - 24 - IPV6 - UDP - ICRC_LENGTH)

typedef struct {
    PyObject_HEAD
    uint8_t prefix[MAX_PREFIX];
    uint16_t length;
    uint16_t inner; /* where the IP header begins that the ICRC covers */
    uint16_t body;  /* for which the lengths are now */
    uint32_t seed;  /* CRC from the ones in place of a LRH to the end of the UDP header */
} Template;

static PyTypeObject TemplateType;

/* The CRC of what the ICRC covers before the BTH: ones in place of a LRH, and IP and UDP header, `size` bytes. */
static uint32_t header_seed(const uint8_t *headers, size_t size) {
    uint8_t covered[8 + IPV6 + UDP];
    uint8_t *ip = covered + 8;
    memset(covered, 0xFF, 8);
    memcpy(ip, headers, size);
    if (size == IPV4 + UDP) {
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF;
    } else {
        ip[0] |= 0x0F;
        ip[1] = ip[2] = ip[3] = ip[7] = 0xFF;
    }
    ip[size - 2] = ip[size - 1] = 0xFF;
    return crc32_of(0, covered, 8 + size);
}

static uint32_t template_seed(const Template *template) {
    return header_seed(template->prefix + template->inner, (size_t)(template->length - template->inner));
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

static Template *template_copy(const Template *template) {
    Template *made = PyObject_New(Template, &TemplateType);
    if (made)
        memcpy((char *)made + sizeof(PyObject), (const char *)template + sizeof(PyObject), sizeof *made - sizeof(PyObject));
    return made;
}

/* Whether a template can carry an entropy value in these fields. */
static int has_entropy(const Template *template, int64_t label, int64_t udp_port) {
    int ipv4 = template->length - template->inner == IPV4 + UDP;
    return label >= 0 && label <= (ipv4 ? 0 : 0xFFFF) && udp_port >= 0 && udp_port <= 0xFFFF;
}

static void put_entropy(Template *template, int64_t label, int64_t udp_port) {
    if (template->length - template->inner != IPV4 + UDP)
        put16(template->prefix + template->inner + 2, (uint32_t)label);
    put16(template->prefix + template->length - UDP, (uint32_t)udp_port);
    template->seed = template_seed(template);
}

/* on_path(ethernet, outer, label, udp_port): the template of the same class on another path; `outer` is empty without an outer
 * header. */
static PyObject *template_on_path(Template *template, PyObject *args) {
    const char *ethernet, *outer;
    Py_ssize_t ethernet_length, outer_length;
    int label, udp_port;
    if (!PyArg_ParseTuple(args, "y#y#ii", &ethernet, &ethernet_length, &outer, &outer_length, &label, &udp_port))
        return NULL;
    int routed = template->inner == ETHERNET + IPV6;
    if (ethernet_length != ETHERNET || outer_length != (routed ? 16 : 0) || template->length == MAX_PREFIX
        || !has_entropy(template, label, udp_port))
        return PyErr_Format(PyExc_ValueError, "This template has no such path.");
    Template *made = template_copy(template);
    if (!made)
        return NULL;
    memcpy(made->prefix, ethernet, ETHERNET);
    memcpy(made->prefix + ETHERNET + 24, outer, (size_t)outer_length);
    put_entropy(made, label, udp_port);
    return (PyObject *)made;
}

/* with_entropy(label, udp_port): the template of the same class on the same path with another entropy value. */
static PyObject *template_with_entropy(Template *template, PyObject *const *args, Py_ssize_t count) {
    int64_t fields[2];
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "with_entropy takes a flow label and a UDP port.");
    if (!signed_numbers(args, 2, fields))
        return NULL;
    if (!has_entropy(template, fields[0], fields[1]))
        return PyErr_Format(PyExc_ValueError, "This template has no such entropy value.");
    Template *made = template_copy(template);
    if (made)
        put_entropy(made, fields[0], fields[1]);
    return (PyObject *)made;
}

static PyMethodDef template_methods[] = {
    {"on_path", (PyCFunction)template_on_path, METH_VARARGS, "The template of the same class on another path."},
    {"with_entropy", FAST(template_with_entropy), "The template of the same path with another entropy value."},
    {NULL, NULL, 0, NULL},
};

TYPE(Template, .tp_new = template_new, .tp_methods = template_methods);

/* A frame with room for `body` bytes from the BTH on, and for the ICRC; NULL after an exception. *bth is where they begin. */
static PyObject *new_frame(Template *template, size_t body, uint8_t **bth) {
    template_fit(template, (uint16_t)body);
    PyObject *frame = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(template->length + body + ICRC_LENGTH));
    if (!frame)
        return NULL;
    uint8_t *at = (uint8_t *)PyBytes_AS_STRING(frame);
    memcpy(at, template->prefix, template->length);
    *bth = at + template->length;
    return frame;
}

static void seal_frame(const Template *template, uint8_t *bth, size_t body) {
    put_icrc(bth + body, packet_crc(template->seed, bth, body));
}

static int is_template(PyObject *given) {
    if (Py_TYPE(given) == &TemplateType)
        return 1;
    PyErr_SetString(PyExc_TypeError, "A frame is made from a template.");
    return 0;
}

/* frame(template, body): the frame of a packet with these bytes from the BTH on. */
static PyObject *whole_frame(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "frame takes a template and bytes.");
        return NULL;
    }
    if (!is_template(args[0]))
        return NULL;
    size_t body = (size_t)PyBytes_GET_SIZE(args[1]);
    if (body < BTH_LENGTH || body > MAX_BODY)
        return PyErr_Format(PyExc_ValueError, "A packet has %d to %d bytes after its prefix, not %zu.", BTH_LENGTH, MAX_BODY, body);
    uint8_t *bth;
    PyObject *frame = new_frame((Template *)args[0], body, &bth);
    if (frame) {
        memcpy(bth, PyBytes_AS_STRING(args[1]), body);
        seal_frame((Template *)args[0], bth, body);
    }
    return frame;
}
#endif
