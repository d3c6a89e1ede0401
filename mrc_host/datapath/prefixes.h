/* Prefixes of received frames: everything before the BTH, checked completely and described in a Flow.
 *
 * All that template.h builds is accepted, as switches leave it: with an outer header the current uSID is this port's. Anything else is
 * dropped, for the first reason that applies.
 */
#ifndef MRC_PREFIXES_H
#define MRC_PREFIXES_H

#include "carry_frame.h"
#include "flows.h"

#define MIN_TRIMMED_BODY 20 /* BTH, METH, TSETH: what a trimming switch must keep (docs/protocol.md §1.10) */
#define CE 3
#define NOMINAL (IPV6 + UDP + ICRC_LENGTH) /* what counts of a packet beside what is between BTH and ICRC */
#define UNIT 256                           /* bytes, in which it is counted (docs/protocol.md §4) */

/* Why a frame is dropped; Python gives the values of its `Drop` in this order. */
enum drop {
    ACCEPTED, DROP_MALFORMED, DROP_SHORT, DROP_MAC, DROP_ETHERTYPE, DROP_IP_HEADER, DROP_ADDRESS, DROP_UDP_PORT, DROP_LENGTH, DROP_ICRC,
    DROP_REASONS
};

/* What a NIC expects in front of the BTH. */
typedef struct {
    PyObject *make;  /* the class of flows; NULL: nothing is expected yet */
    PyObject *drops; /* a tuple, by enum drop less one */
    uint64_t trimmed; /* DSCPs of trimmed packets, a bit each */
    uint16_t udp_port;
    uint8_t high_in_port; /* which half of an entropy value the UDP source port is */
    uint8_t label_counts; /* the other half is the flow label; otherwise a value has 16 bits */
    uint8_t routed;       /* MRC packets have an outer header here */
    uint8_t ipv4;
    uint8_t address[16];
    uint8_t heads[MAX_PLANES][12]; /* by port: destination address of Ethernet frames, and the beginning of the outer one */
} Expected;

typedef struct {
    uint8_t size, dscp, ecn, following;
    uint16_t label, length; /* the flow label's low 16 bits; what follows, in bytes */
    const uint8_t *source, *destination;
} IpHeader;

static int read_ipv6(IpHeader *header, const uint8_t *at) {
    *header = (IpHeader){
        IPV6, get16(at) >> 6 & 63, get16(at) >> 4 & 3, at[6], get16(at + 2), get16(at + 4), at + 8, at + 24,
    };
    return at[0] >> 4 == 6;
}

/* 0 with options, with a wrong checksum, or for a fragment. */
static int read_ipv4(IpHeader *header, const uint8_t *at) {
    *header = (IpHeader){IPV4, at[1] >> 2, at[1] & 3, at[9], 0, (uint16_t)(get16(at + 2) - IPV4), at + 12, at + 16};
    return at[0] == 0x45 && !(get16(at + 6) & ~DONT_FRAGMENT) && ipv4_sum(at) == 0xFFFF && get16(at + 2) >= IPV4;
}

/* An address in IPv6 form. */
static void put_address(uint8_t *to, const uint8_t *from, int ipv4) {
    memcpy(to, mapped, sizeof mapped);
    memcpy(to + (ipv4 ? 12 : 0), from, ipv4 ? 4 : 16);
}

static int is_trimmed(const Expected *expected, const IpHeader *outer) { return expected->trimmed >> outer->dscp & 1; }

/* The inner header at `at`, and UDP behind it; the ECN mark and the class are those of `outer`. */
static enum drop parse_inner(
    Flow *flow, const Expected *expected, const uint8_t *frame, size_t length, size_t at, const IpHeader *outer, const IpHeader *inner
) {
    int ipv4 = expected->ipv4;
    size_t start = at + inner->size + UDP;
    const uint8_t *udp = frame + start - UDP;
    uint32_t port = get16(udp);
    flow->trimmed = (uint8_t)is_trimmed(expected, outer);
    if (!flow->trimmed && at + inner->size + inner->length > length)
        return DROP_LENGTH;
    if (inner->following != NEXT_UDP)
        return DROP_IP_HEADER;
    if (memcmp(inner->destination, expected->address + (ipv4 ? 12 : 0), ipv4 ? 4 : 16))
        return DROP_ADDRESS;
    if (get16(udp + 2) != expected->udp_port)
        return DROP_UDP_PORT;
    flow->ev = !expected->label_counts ? port : expected->high_in_port ? port << 16 | inner->label : (uint32_t)inner->label << 16 | port;
    flow->dscp = outer->dscp;
    flow->marked = outer->ecn == CE;
    flow->routed = outer != inner;
    flow->carried = flow->routed == expected->routed && !flow->trimmed;
    flow->start = (uint32_t)start;
    put_address(flow->source, inner->source, ipv4);
    if (flow->trimmed) {
        flow->end = (uint32_t)length;
        return length < start + MIN_TRIMMED_BODY ? DROP_SHORT : ACCEPTED;
    }
    if (get16(udp + 4) != inner->length || inner->length < UDP + BTH_LENGTH + ICRC_LENGTH)
        return DROP_LENGTH;
    flow->end = (uint32_t)(start + inner->length - UDP - ICRC_LENGTH);
    flow->seed = header_seed(frame + at, start - at);
    flow->mask = mask_of(flow->end - start);
    flow->units = (uint32_t)((flow->end - start + NOMINAL + UNIT - 1) / UNIT);
    memcpy(flow->prefix, frame, start);
    return ACCEPTED;
}

/* A frame with an outer header: the current uSID must be ours, and no segment be left. */
static enum drop parse_outer(
    Flow *flow, const Expected *expected, int port, const uint8_t *frame, size_t length, const IpHeader *outer
) {
    size_t start = ETHERNET + IPV6, at = start;
    const uint8_t *srh = frame + start;
    IpHeader inner;
    int trimmed = is_trimmed(expected, outer);
    if (memcmp(outer->destination, expected->heads[port] + 6, 6))
        return DROP_ADDRESS;
    if (!trimmed && start + outer->length > length)
        return DROP_LENGTH;
    if (outer->following == NEXT_ROUTING) {
        if (srh[0] != NEXT_IPV6 || srh[1] != SRH / 8 - 1 || srh[2] != SEGMENT_ROUTING || srh[3])
            return DROP_IP_HEADER;
        at += SRH;
    }
    if (length < at + IPV6 + UDP + BTH_LENGTH)
        return DROP_SHORT;
    if (!read_ipv6(&inner, frame + at))
        return DROP_IP_HEADER;
    if (!trimmed && outer->length != at - start + IPV6 + inner.length)
        return DROP_LENGTH;
    return parse_inner(flow, expected, frame, length, at, outer, &inner);
}

/* Describes the prefix of a frame of so many bytes, the first of which, up to a BTH behind the longest prefix, are at `frame`; or says why
 * it is not for this NIC. The ICRC is not checked here. */
static enum drop parse_prefix(Flow *flow, const Expected *expected, int port, const uint8_t *frame, size_t length) {
    IpHeader outer;
    memset(flow, 0, sizeof *flow);
    if (length <= KIND_BYTE)
        return DROP_MALFORMED;
    if (length < ETHERNET + IPV4 + UDP + BTH_LENGTH + ICRC_LENGTH)
        return DROP_SHORT;
    if (memcmp(frame, expected->heads[port], 6))
        return DROP_MAC;
    if (get16(frame + 12) != (expected->ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6))
        return DROP_ETHERTYPE;
    if (!expected->ipv4 && length < ETHERNET + IPV6 + UDP + BTH_LENGTH + ICRC_LENGTH)
        return DROP_SHORT;
    if (!(expected->ipv4 ? read_ipv4 : read_ipv6)(&outer, frame + ETHERNET))
        return DROP_IP_HEADER;
    if (!expected->ipv4 && (outer.following == NEXT_IPV6 || outer.following == NEXT_ROUTING))
        return parse_outer(flow, expected, port, frame, length, &outer);
    return parse_inner(flow, expected, frame, length, ETHERNET, &outer, &outer);
}

/* Whether a frame is as long as its lengths say. */
static int is_whole(const Flow *flow, const FramePieces *frame) {
    return frame->head_length + frame->rest_length >= (size_t)flow->end + ICRC_LENGTH;
}

static uint8_t byte_at(const FramePieces *frame, size_t at) {
    return at < frame->head_length ? frame->head[at] : frame->rest[at - frame->head_length];
}

/* The same of a packet in place, if its ICRC is where this flow has it; `bth` is in the frame's head. */
static int head_matches(const Flow *flow, const FramePieces *frame, const uint8_t *bth) {
    const PacketInPlace *packet = frame->in_place;
    return packet->payload && frame->head_length + frame->rest_length == (size_t)flow->end + ICRC_LENGTH
           && packet->body == flow->end - flow->start
           && crc32_of(flow->seed, bth, frame->head_length - flow->start) == packet->crc;
}

/* Whether the ICRC of a whole frame of this flow is right. */
static int icrc_matches(const Flow *flow, const FramePieces *frame) {
    size_t end = flow->end, first = end < frame->head_length ? end : frame->head_length;
    const uint8_t *bth = frame->head + flow->start;
    uint32_t crc, sent = 0;
    if (first < (size_t)flow->start + BTH_LENGTH)
        return 0;
    if (frame->in_place)
        return head_matches(flow, frame, bth);
    crc = bth[VARIANT] ? packet_crc(flow->seed, bth, first - flow->start) : crc32_of(flow->seed, bth, first - flow->start);
    if (end > first)
        crc = crc32_of(crc, frame->rest, end - first);
    for (size_t i = 0; i < ICRC_LENGTH; i++)
        sent |= (uint32_t)byte_at(frame, end + i) << 8 * i;
    return (bth[VARIANT] ? crc : crc ^ flow->mask) == sent;
}

static PyObject *make_flow(const Expected *expected, const Flow *flow) {
    PyObject *make = Py_NewRef(expected->make);
    PyObject *made = PyObject_CallFunction(
        make, "y#IiOOOII", (const char *)flow->source, (Py_ssize_t)16, flow->ev, flow->dscp, flow->marked ? Py_True : Py_False,
        flow->trimmed ? Py_True : Py_False, flow->routed ? Py_True : Py_False, flow->start, flow->end
    );
    Py_DECREF(make);
    return made;
}

/* What Python knows a flow by, made when it is first needed; a new reference, NULL after an exception. Python may change the table
 * meanwhile, so the flow is looked up again. */
static PyObject *flow_object(const Expected *expected, const Flows *flows, const Flow *flow) {
    if (flow->flow)
        return Py_NewRef(flow->flow);
    Flow copy = *flow;
    PyObject *made = make_flow(expected, &copy);
    Flow *known = made && !copy.trimmed ? find_flow(flows, copy.prefix, copy.start, copy.hash) : NULL;
    if (known && !known->flow)
        known->flow = Py_NewRef(made);
    return made;
}

/* expect(make, drops, address, udp_port, high_in_port, label_counts, routed, trimmed, heads) */
static int set_expected(Expected *expected, int ports, PyObject *args) {
    PyObject *make, *drops, *heads;
    const char *address;
    Py_ssize_t length;
    int udp_port, high_in_port, label_counts, routed;
    unsigned long long trimmed;
    if (!PyArg_ParseTuple(
            args, "OO!y#ipppKO!", &make, &PyTuple_Type, &drops, &address, &length, &udp_port, &high_in_port, &label_counts, &routed,
            &trimmed, &PyList_Type, &heads
        ))
        return -1;
    if (length != 16 || udp_port < 0 || udp_port > 0xFFFF || PyList_GET_SIZE(heads) != ports || PyTuple_GET_SIZE(drops) != DROP_REASONS - 1) {
        PyErr_Format(
            PyExc_ValueError, "A NIC expects an address of 16 bytes, a UDP port below 65536, %d heads and %d reasons.", ports, DROP_REASONS - 1
        );
        return -1;
    }
    for (int port = 0; port < ports; port++) {
        PyObject *head = PyList_GET_ITEM(heads, port);
        if (!PyBytes_Check(head) || PyBytes_GET_SIZE(head) != sizeof expected->heads[port]) {
            PyErr_SetString(PyExc_ValueError, "The head of a port's frames has 12 bytes.");
            return -1;
        }
        memcpy(expected->heads[port], PyBytes_AS_STRING(head), sizeof expected->heads[port]);
    }
    memcpy(expected->address, address, 16);
    expected->ipv4 = !memcmp(address, mapped, sizeof mapped);
    expected->udp_port = (uint16_t)udp_port;
    expected->high_in_port = (uint8_t)high_in_port;
    expected->label_counts = (uint8_t)label_counts;
    expected->routed = (uint8_t)routed;
    expected->trimmed = trimmed;
    Py_XSETREF(expected->make, Py_NewRef(make));
    Py_XSETREF(expected->drops, Py_NewRef(drops));
    return 0;
}

/* read_prefix(frame): where the inner IP header and the BTH begin, UDP source port, the flow label's low 16 bits, source and destination of the inner packet, of
 * a frame that may be for anybody; None if there is no inner packet. */
static PyObject *read_prefix(PyObject *module, PyObject *argument) {
    (void)module;
    Py_buffer frame;
    if (PyObject_GetBuffer(argument, &frame, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *bytes = frame.buf;
    size_t length = (size_t)frame.len, start = length > KIND_BYTE ? prefix_length(bytes) : SIZE_MAX;
    int ipv4 = length >= start && get16(bytes + 12) == ETHERTYPE_IPV4;
    size_t at = start - UDP - (ipv4 ? IPV4 : IPV6);
    IpHeader inner;
    uint8_t source[16], destination[16];
    int found = length >= start && (ipv4 ? read_ipv4 : read_ipv6)(&inner, bytes + at);
    unsigned port = found ? get16(bytes + start - UDP) : 0;
    if (found) {
        put_address(source, inner.source, ipv4);
        put_address(destination, inner.destination, ipv4);
    }
    PyBuffer_Release(&frame);
    if (!found)
        Py_RETURN_NONE;
    return Py_BuildValue(
        "IIIIy#y#", (unsigned)at, (unsigned)start, port, (unsigned)inner.label, source, (Py_ssize_t)16, destination, (Py_ssize_t)16
    );
}
#endif
