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
static size_t icrc_of_ours(const Expected *expected, int port, const uint8_t *frame, size_t length) {
    if (length < BTH_AT + BTH_LENGTH + ICRC_LENGTH)
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
    return UDP_AT + inner_length - ICRC_LENGTH;
}

/* The flow that Python makes of a prefix; its numbers go into *known. NULL after an exception. */
static PyObject *describe(const Expected *expected, const uint8_t *frame, size_t end, uint32_t seed, Flow *known) {
    const uint8_t *outer = frame + OUTER, *inner = frame + INNER;
    uint32_t port = get16(frame + UDP_AT), label = get16(inner + 2);
    uint32_t ev = expected->high_in_port ? port << 16 | label : label << 16 | port;
    unsigned traffic_class = get16(outer) >> 4 & 0xFF;
    int marked = (traffic_class & 3) == CE;
    PyObject *flow = PyObject_CallFunction(
        expected->make, "y#IIOOOiinI", (const char *)inner + 8, (Py_ssize_t)16, ev, traffic_class >> 2,
        marked ? Py_True : Py_False, Py_False, Py_True, INNER, BTH_AT, (Py_ssize_t)end, seed
    );
    if (!flow)
        return NULL;
    PyObject *number[] = {PyObject_GetAttrString(flow, "mask"), PyObject_GetAttrString(flow, "units")};
    uint64_t value[2];
    int done = number[0] && number[1] && unsigned_numbers(number, 2, value);
    Py_XDECREF(number[0]);
    Py_XDECREF(number[1]);
    if (!done) {
        Py_DECREF(flow);
        return NULL;
    }
    *known = (Flow){
        .flow = flow, .seed = seed, .mask = (uint32_t)value[0], .units = (uint32_t)value[1], .start = BTH_AT,
        .end = (uint16_t)end, .carried = expected->carried, .marked = (uint8_t)marked, .source_length = 16,
    };
    memcpy(known->prefix, frame, BTH_AT);
    memcpy(known->source, inner + 8, 16);
    return flow;
}

/* Whether the ICRC of a frame is right; its variant byte is zero. */
static int icrc_right(const uint8_t *bth, const uint8_t *end, uint32_t seed) {
    static const uint8_t ones[] = {0xFF};
    uint32_t crc = crc32_of(crc32_of(seed, bth, 4), ones, 1);
    uint8_t right[ICRC_LENGTH];
    put_icrc(right, crc32_of(crc, bth + 5, (size_t)(end - bth) - 5));
    return !memcmp(right, end, ICRC_LENGTH);
}

/* Learns the prefix of a frame that is meant for the NIC and whose ICRC is right. NULL: Python looks at it, or after an
 * exception. */
static const Flow *meet(const Expected *expected, Flows *flows, int port, const uint8_t *frame, size_t length, uint64_t hash) {
    size_t end = expected->make ? icrc_of_ours(expected, port, frame, length) : 0;
    if (!end || frame[BTH_AT + 4])
        return NULL;
    uint32_t seed = header_seed(frame + INNER, IPV6 + UDP);
    if (!icrc_right(frame + BTH_AT, frame + end, seed))
        return NULL;
    Flow known;
    PyObject *flow = describe(expected, frame, end, seed, &known);
    if (!flow)
        return NULL;
    known.hash = hash;
    const Flow *learned = learn_flow(flows, &known);
    Py_DECREF(flow);
    return learned;
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
