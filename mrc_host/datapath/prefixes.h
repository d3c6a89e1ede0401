/* A prefix that was not seen before, in the encapsulation that fabrics use: Ethernet, outer IPv6 without a Segment Routing Header,
 * inner IPv6, UDP.
 *
 * Accepts what wire/encap.py's FrameParser accepts, and says nothing about the rest: Python finds out why that is dropped, or
 * parses another encapsulation.
 */
#ifndef MRC_PREFIXES_H
#define MRC_PREFIXES_H

#include "flows.h"
#include "template.h"

#define OUTER ETHERNET
#define INNER (OUTER + IPV6)
#define UDP_AT (INNER + IPV6)
#define BTH_AT (UDP_AT + UDP)
#define NEXT_IPV6 41
#define NEXT_UDP 17
#define CE 3
#define NOMINAL (IPV6 + UDP + ICRC_LENGTH) /* what counts of a packet beside what is between BTH and ICRC */
#define UNIT 256                           /* bytes, in which it is counted (docs/protocol.md §4) */

/* What a NIC expects in front of the BTH. */
typedef struct {
    PyObject *make; /* the class of flows; NULL: nothing is expected, so Python looks at every new prefix */
    uint64_t trimmed; /* DSCPs of trimmed packets, a bit each */
    uint16_t udp_port;
    uint8_t high_in_port; /* which half of an entropy value the UDP source port is */
    uint8_t carried;      /* MRC has this encapsulation here */
    uint8_t address[16];
    uint8_t heads[MAX_PLANES][12]; /* by port: destination address of Ethernet frames, and the beginning of the outer one */
} Expected;

/* Where the ICRC is in a frame that is meant for the NIC; 0: Python looks at it. */
static size_t icrc_of_ours(const Expected *expected, int port, const FramePieces *pieces) {
    const uint8_t *frame = pieces->head;
    size_t length = pieces->head_length + pieces->rest_length;
    if (pieces->head_length < BTH_AT + BTH_LENGTH || length < BTH_AT + BTH_LENGTH + ICRC_LENGTH)
        return 0;
    const uint8_t *head = expected->heads[port], *outer = frame + OUTER, *inner = frame + INNER, *udp = frame + UDP_AT;
    size_t outer_length = get16(outer + 4), inner_length = get16(inner + 4);
    if (memcmp(frame, head, 6) || get16(frame + 12) != 0x86DD || outer[0] >> 4 != 6 || outer[6] != NEXT_IPV6
        || memcmp(outer + 24, head + 6, 6) || expected->trimmed >> (get16(outer) >> 6 & 63) & 1)
        return 0;
    if (INNER + outer_length > length || outer_length != IPV6 + inner_length || inner[0] >> 4 != 6 || inner[6] != NEXT_UDP
        || memcmp(inner + 24, expected->address, 16))
        return 0;
    if (get16(udp + 2) != expected->udp_port || get16(udp + 4) != inner_length || inner_length < UDP + BTH_LENGTH + ICRC_LENGTH)
        return 0;
    size_t end = UDP_AT + inner_length - ICRC_LENGTH;
    return end <= UINT16_MAX ? end : 0;
}

static uint8_t byte_at(const FramePieces *frame, size_t at) {
    return at < frame->head_length ? frame->head[at] : frame->rest[at - frame->head_length];
}

/* The same of a packet in place, if its ICRC is where this flow has it; `bth` is in the frame's head. */
static int head_matches(const Flow *flow, const FramePieces *frame, const uint8_t *bth) {
    const PacketInPlace *packet = frame->in_place;
    return packet->payload && frame->head_length + frame->rest_length == (size_t)flow->end + ICRC_LENGTH
           && packet->body == (uint32_t)(flow->end - flow->start)
           && crc32_of(flow->seed, bth, frame->head_length - flow->start) == packet->crc;
}

/* Whether the ICRC of a frame of this flow is right; 0 also if the BTH's variant byte is not zero, for which the mask is. */
static int icrc_matches(const Flow *flow, const FramePieces *frame) {
    size_t end = flow->end, first = end < frame->head_length ? end : frame->head_length;
    const uint8_t *bth = frame->head + flow->start;
    if (frame->head_length + frame->rest_length < end + ICRC_LENGTH || first < (size_t)flow->start + BTH_LENGTH || bth[4])
        return 0;
    if (frame->in_place)
        return head_matches(flow, frame, bth);
    uint32_t crc = crc32_of(flow->seed, bth, first - flow->start), sent = 0;
    if (end > first)
        crc = crc32_of(crc, frame->rest, end - first);
    for (size_t i = 0; i < ICRC_LENGTH; i++)
        sent |= (uint32_t)byte_at(frame, end + i) << 8 * i;
    return (crc ^ flow->mask) == sent;
}

/* As mask_constant of wire/icrc.py: what ones in place of byte 4 add to the CRC of so many bytes, 5 or more. */
static uint32_t mask_of(size_t length) {
    static const uint8_t first[5] = {[4] = 0xFF}, zeros[4096];
    static size_t known_length; /* most packets have the same one; the interpreter lock is held here */
    static uint32_t known_mask;
    if (length == known_length)
        return known_mask;
    uint32_t crc = crc32_of(UINT32_MAX, first, sizeof first);
    for (size_t left = length - sizeof first, part; left; left -= part) {
        part = left < sizeof zeros ? left : sizeof zeros;
        crc = crc32_of(crc, zeros, part);
    }
    known_length = length;
    known_mask = ~crc;
    return known_mask;
}

/* Learns the prefix of a frame that is meant for the NIC and whose ICRC is right. NULL: Python looks at it, or after an
 * exception. */
static Flow *meet(const Expected *expected, Flows *flows, int port, const FramePieces *frame, uint64_t hash) {
    size_t end = expected->make ? icrc_of_ours(expected, port, frame) : 0;
    if (!end)
        return NULL;
    const uint8_t *outer = frame->head + OUTER, *inner = frame->head + INNER;
    Flow known = {
        .hash = hash, .seed = header_seed(inner, IPV6 + UDP), .mask = mask_of(end - BTH_AT),
        .units = (uint32_t)((end - BTH_AT + NOMINAL + UNIT - 1) / UNIT), .start = BTH_AT, .end = (uint16_t)end,
        .carried = expected->carried, .marked = (get16(outer) >> 4 & 3) == CE, .source_length = 16,
    };
    memcpy(known.prefix, frame->head, BTH_AT);
    memcpy(known.source, inner + 8, 16);
    return icrc_matches(&known, frame) ? learn_flow(flows, &known) : NULL;
}

/* What Python knows a flow by, made when it is first needed; a new reference, NULL after an exception. Python may change the table
 * meanwhile, so the flow is looked up again. */
static PyObject *flow_object(const Expected *expected, const Flows *flows, const Flow *flow) {
    if (flow->flow)
        return Py_NewRef(flow->flow);
    Flow copy = *flow;
    const uint8_t *outer = copy.prefix + OUTER, *inner = copy.prefix + INNER;
    uint32_t port = get16(copy.prefix + UDP_AT), label = get16(inner + 2);
    uint32_t ev = expected->high_in_port ? port << 16 | label : label << 16 | port;
    PyObject *make = Py_NewRef(expected->make);
    PyObject *made = PyObject_CallFunction(
        make, "y#IIOOOiiiI", (const char *)inner + 8, (Py_ssize_t)16, ev, get16(outer) >> 6 & 63,
        copy.marked ? Py_True : Py_False, Py_False, Py_True, INNER, BTH_AT, (int)copy.end, copy.seed
    );
    Py_DECREF(make);
    Flow *known = made ? find_flow(flows, copy.prefix, copy.start, copy.hash) : NULL;
    if (known && !known->flow)
        known->flow = Py_NewRef(made);
    return made;
}

/* expect(make, address, udp_port, high_in_port, trimmed, carried, heads) */
static int set_expected(Expected *expected, int ports, PyObject *args) {
    PyObject *make, *heads;
    const char *address;
    Py_ssize_t length;
    int udp_port, high_in_port, carried;
    unsigned long long trimmed;
    if (!PyArg_ParseTuple(
            args, "Oy#ipKpO!", &make, &address, &length, &udp_port, &high_in_port, &trimmed, &carried, &PyList_Type, &heads
        ))
        return -1;
    if (length != 16 || udp_port < 0 || udp_port > 0xFFFF || PyList_GET_SIZE(heads) != ports) {
        PyErr_SetString(PyExc_ValueError, "No NIC is like this.");
        return -1;
    }
    for (int port = 0; port < ports; port++) {
        PyObject *head = PyList_GET_ITEM(heads, port);
        if (!PyBytes_Check(head) || PyBytes_GET_SIZE(head) != sizeof expected->heads[port]) {
            PyErr_SetString(PyExc_ValueError, "No port is like this.");
            return -1;
        }
        memcpy(expected->heads[port], PyBytes_AS_STRING(head), sizeof expected->heads[port]);
    }
    memcpy(expected->address, address, 16);
    expected->udp_port = (uint16_t)udp_port;
    expected->high_in_port = (uint8_t)high_in_port;
    expected->trimmed = trimmed;
    expected->carried = (uint8_t)carried;
    Py_XSETREF(expected->make, Py_NewRef(make));
    return 0;
}
#endif
