/* The header template of an entropy value and class: everything before the BTH, built from its fields.
 *
 * *SRv6*: Ethernet, outer IPv6 whose destination is the uSID list, optionally a Segment Routing Header, inner IPv6 to the NIC's own
 * address, UDP: 102 or 126 bytes. *Plain IPv6*: 62 bytes, *plain IPv4*: 42 bytes; the structured and UDP formats of MRC and RoCE use
 * these (docs/protocol.md §1.1, §1.3). IPv4 addresses are 16 bytes here too, in their IPv6 form ::ffff:a.b.c.d. UDP checksums are zero,
 * as in RoCEv2 over IPv6; the ICRC protects the inner packet.
 *
 * Only the lengths in a template depend on the packet; they are patched in when they change, and with them the CRC of what the ICRC
 * covers in it.
 */
#ifndef MRC_TEMPLATE_H
#define MRC_TEMPLATE_H

#include "icrc.h"

#define ETHERNET 14
#define SRH 24 /* one segment */
#define MAX_PREFIX (ETHERNET + IPV6 + SRH + IPV6 + UDP)
#define MAX_BODY (0xFFFF - SRH - IPV6 - UDP - ICRC_LENGTH) /* an outer IPv6 payload has 16 bits of length */
enum { NEXT_UDP = 17, NEXT_IPV6 = 41, NEXT_ROUTING = 43 };
enum { ETHERTYPE_IPV4 = 0x0800, ETHERTYPE_IPV6 = 0x86DD };
enum { DONT_FRAGMENT = 0x4000, SEGMENT_ROUTING = 4 };

typedef struct {
    PyObject_HEAD
    uint8_t prefix[MAX_PREFIX];
    uint16_t length;
    uint16_t inner; /* where the IP header begins that the ICRC covers */
    uint16_t body;  /* for which the lengths are now, in bytes from the BTH on without the ICRC */
    uint32_t seed;  /* CRC from the ones in place of a LRH to the end of the UDP header */
} Template;

static PyTypeObject TemplateType;

static uint32_t template_seed(const Template *template) {
    return header_seed(template->prefix + template->inner, (size_t)(template->length - template->inner));
}

/* The ones' complement sum of an IPv4 header; 0xFFFF when its checksum is right. */
static uint32_t ipv4_sum(const uint8_t *ip) {
    uint32_t sum = 0;
    for (int at = 0; at < IPV4; at += 2)
        sum += get16(ip + at);
    sum = (sum & 0xFFFF) + (sum >> 16);
    return (sum & 0xFFFF) + (sum >> 16);
}

static void put_ipv4_checksum(uint8_t *ip) {
    put16(ip + 10, 0);
    put16(ip + 10, 0xFFFF - ipv4_sum(ip));
}

static void template_fit(Template *template, uint16_t body) {
    uint8_t *prefix = template->prefix, *ip = prefix + template->inner, *udp = prefix + template->length - UDP;
    uint16_t more = (uint16_t)(body - template->body);
    if (!more)
        return;
    put16(udp + 4, get16(udp + 4) + more);
    if (template->length - template->inner == IPV4 + UDP) {
        put16(ip + 2, get16(ip + 2) + more);
        put_ipv4_checksum(ip);
    } else {
        put16(ip + 4, get16(ip + 4) + more);
        if (template->inner != ETHERNET)
            put16(prefix + ETHERNET + 4, get16(prefix + ETHERNET + 4) + more);
    }
    template->body = body;
    template->seed = template_seed(template);
}

/* What the headers of a template have in common. */
typedef struct {
    const uint8_t *source, *destination;
    unsigned dscp, ecn, hop_limit;
} Addressed;

static const uint8_t mapped[12] = {[10] = 0xFF, 0xFF}; /* the beginning of an IPv4 address in IPv6 form */

/* IPv6 header, `length` bytes of payload behind it; returns where it ends. */
static uint8_t *put_ipv6(uint8_t *at, const Addressed *given, const uint8_t *destination, unsigned label, unsigned length, int next) {
    put32(at, 6u << 28 | given->dscp << 22 | given->ecn << 20 | label);
    put16(at + 4, length);
    at[6] = (uint8_t)next;
    at[7] = (uint8_t)given->hop_limit;
    memcpy(at + 8, given->source, 16);
    memcpy(at + 24, destination, 16);
    return at + IPV6;
}

static uint8_t *put_ipv4(uint8_t *at, const Addressed *given, unsigned length) {
    at[0] = 0x45;
    at[1] = (uint8_t)(given->dscp << 2 | given->ecn);
    put16(at + 2, IPV4 + length);
    put16(at + 4, 0);
    put16(at + 6, DONT_FRAGMENT);
    at[8] = (uint8_t)given->hop_limit;
    at[9] = NEXT_UDP;
    memcpy(at + 12, given->source + 12, 4);
    memcpy(at + 16, given->destination + 12, 4);
    put_ipv4_checksum(at);
    return at + IPV4;
}

/* Segment Routing Header with one segment, before an IPv6 header (RFC 8754). */
static uint8_t *put_srh(uint8_t *at, const uint8_t *segment, unsigned left) {
    const uint8_t fixed[8] = {NEXT_IPV6, SRH / 8 - 1, SEGMENT_ROUTING, (uint8_t)left};
    memcpy(at, fixed, sizeof fixed);
    memcpy(at + 8, segment, 16);
    return at + SRH;
}

/* Template(ethernet, outer, segment, segments_left, source, destination, label, source_port, udp_port, dscp, ecn, hop_limit): `ethernet`
 * is the first 12 bytes of frames. `outer` is empty without an outer header, `segment` without a Segment Routing Header. */
static PyObject *template_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    const char *ethernet, *outer, *segment, *source, *destination;
    Py_ssize_t ethernet_length, outer_length, segment_length, source_length, destination_length;
    unsigned left, label, source_port, udp_port;
    Addressed given;
    if (no_keywords(kwargs)
        || !PyArg_ParseTuple(
            args, "y#y#y#Iy#y#IIIIII", &ethernet, &ethernet_length, &outer, &outer_length, &segment, &segment_length, &left, &source,
            &source_length, &destination, &destination_length, &label, &source_port, &udp_port, &given.dscp, &given.ecn, &given.hop_limit
        ))
        return NULL;
    if (ethernet_length != 12 || (outer_length && outer_length != 16) || (segment_length && (segment_length != 16 || !outer_length))
        || source_length != 16 || destination_length != 16)
        return PyErr_Format(PyExc_ValueError, "MAC addresses have 6 bytes, and others 16; only with an outer one there is a segment.");
    int ipv4 = !memcmp(source, mapped, sizeof mapped);
    if (ipv4 && (outer_length || label || memcmp(destination, mapped, sizeof mapped)))
        return PyErr_Format(PyExc_ValueError, "IPv4 packets go to IPv4 addresses, and have neither an outer header nor a flow label.");
    if (left > 1 || label > 0xFFFF || source_port > 0xFFFF || udp_port > 0xFFFF || given.dscp > 63 || given.ecn > 3 || given.hop_limit > 255)
        return PyErr_Format(PyExc_ValueError, "A field of the headers has fewer bits than its value.");
    Template *template = (Template *)type->tp_alloc(type, 0);
    if (!template)
        return NULL;
    given.source = (const uint8_t *)source;
    given.destination = (const uint8_t *)destination;
    unsigned srh = segment_length ? SRH : 0, length = UDP + ICRC_LENGTH;
    uint8_t *at = template->prefix + ETHERNET;
    memcpy(template->prefix, ethernet, 12);
    put16(template->prefix + 12, ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    if (outer_length)
        at = put_ipv6(at, &given, (const uint8_t *)outer, 0, srh + IPV6 + length, srh ? NEXT_ROUTING : NEXT_IPV6);
    if (srh)
        at = put_srh(at, (const uint8_t *)segment, left);
    template->inner = (uint16_t)(at - template->prefix);
    at = ipv4 ? put_ipv4(at, &given, length) : put_ipv6(at, &given, given.destination, label, length, NEXT_UDP);
    put16(at, source_port);
    put16(at + 2, udp_port);
    put16(at + 4, length);
    put16(at + 6, 0);
    template->length = (uint16_t)(at + UDP - template->prefix);
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
    put_icrc(bth + body, written_crc(template->seed, bth, body));
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
