/* Known prefixes of one port: what prefixes.h made of the bytes before the BTH, found by these bytes.
 *
 * Only prefixes of frames whose ICRC was right are learned, and none of trimmed frames. The table is open addressing over
 * pointers; it doubles when half full, and forgets everything when it has MAX_FLOWS.
 */
#ifndef MRC_FLOWS_H
#define MRC_FLOWS_H

#include "template.h"

#define MAX_FLOWS 16384
#define KIND_BYTE 20 /* tells the encapsulations apart: IPv6's next header, or IPv4's flags */

typedef struct {
    uint64_t hash;
    PyObject *flow; /* NULL: nobody has needed it yet (flow_object) */
    uint32_t seed, mask, units;
    uint32_t start, end; /* where the BTH and the ICRC begin; the prefix is all before the BTH */
    uint32_t ev;
    uint8_t dscp;        /* of the outermost header, as the next */
    uint8_t marked;      /* by ECN */
    uint8_t trimmed;     /* by a switch: there is no ICRC, and `end` is that of the frame */
    uint8_t routed;      /* by an outer header */
    uint8_t carried;     /* its packets may be carried: they have the encapsulation that MRC has here */
    uint8_t source[16];
    uint8_t prefix[MAX_PREFIX];
} Flow;

typedef struct {
    Flow **slots;
    size_t mask, count; /* slots less one */
} Flows;

/* The length of a frame's prefix; only right for what parse_prefix accepts. */
static size_t prefix_length(const uint8_t *frame) {
    switch (frame[KIND_BYTE]) {
    case NEXT_IPV6: return MAX_PREFIX - SRH;
    case NEXT_ROUTING: return MAX_PREFIX;
    case 0: case DONT_FRAGMENT >> 8: return ETHERNET + IPV4 + UDP;
    default: return ETHERNET + IPV6 + UDP;
    }
}

static uint64_t prefix_hash(const uint8_t *prefix, size_t length, uint64_t secret) {
    uint64_t hash = secret ^ length, word;
    for (; length >= 8; prefix += 8, length -= 8) {
        memcpy(&word, prefix, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, prefix, length);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static Flow *find_flow(const Flows *flows, const uint8_t *frame, size_t length, uint64_t hash) {
    if (!flows->slots)
        return NULL;
    for (size_t at = hash & flows->mask; flows->slots[at]; at = (at + 1) & flows->mask) {
        Flow *flow = flows->slots[at];
        if (flow->hash == hash && flow->start == length && !memcmp(flow->prefix, frame, length))
            return flow;
    }
    return NULL;
}

static int is_from(const Flow *flow, const uint8_t *source, size_t length) {
    return length == sizeof flow->source && !memcmp(flow->source, source, length);
}

static void forget_flows(Flows *flows) {
    for (size_t at = 0; flows->slots && at <= flows->mask; at++)
        if (flows->slots[at]) {
            Py_XDECREF(flows->slots[at]->flow);
            PyMem_Free(flows->slots[at]);
        }
    PyMem_Free(flows->slots);
    memset(flows, 0, sizeof *flows);
}

static void place_flow(Flow **slots, size_t mask, Flow *flow) {
    size_t at = flow->hash & mask;
    while (slots[at])
        at = (at + 1) & mask;
    slots[at] = flow;
}

/* Takes `flow`, which is not known yet; -1 without memory. */
static int add_flow(Flows *flows, Flow *flow) {
    if (flows->count >= MAX_FLOWS)
        forget_flows(flows);
    if (!flows->slots || 2 * (flows->count + 1) > flows->mask) {
        size_t size = flows->slots ? 2 * (flows->mask + 1) : 64;
        Flow **slots = PyMem_Calloc(size, sizeof *slots);
        if (!slots) {
            PyErr_NoMemory();
            return -1;
        }
        for (size_t at = 0; flows->slots && at <= flows->mask; at++)
            if (flows->slots[at])
                place_flow(slots, size - 1, flows->slots[at]);
        PyMem_Free(flows->slots);
        flows->slots = slots;
        flows->mask = size - 1;
    }
    place_flow(flows->slots, flows->mask, flow);
    flows->count++;
    return 0;
}

/* Keeps a copy of a flow that is not known yet, and a reference to its object; NULL without memory. */
static Flow *learn_flow(Flows *flows, const Flow *flow) {
    Flow *made = PyMem_Malloc(sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    *made = *flow;
    if (add_flow(flows, made) < 0) {
        PyMem_Free(made);
        return NULL;
    }
    Py_XINCREF(made->flow);
    return made;
}
#endif
