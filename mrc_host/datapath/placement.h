/* One data packet whose ICRC is right: checked against what is granted, and placed.
 *
 * All that a packet claims is checked here; the region's bounds are checked once more before the copy. Whatever calls for a
 * decision is left to Python: a packet that completes a message, is repeated, retransmitted, carries immediate data, or does not
 * fit. A marked one makes a SACK due.
 */
#ifndef MRC_PLACEMENT_H
#define MRC_PLACEMENT_H

#include "carrier.h"
#include "carry_frame.h"
#include "flows.h"

#define PSN_MASK 0xFFFFFF
#define FLAG_ACK_REQUEST 0x80 /* in the first byte of the BTH's control word */
#define FLAG_RTX 0x20
#define FLAG_TIMESTAMP 0x10
#define LEAST_COUNTED 1024

enum outcome { FOR_PYTHON, CARRIED, ANSWER_DUE };

typedef struct {
    const uint8_t *begin, *rest;
    size_t size, first; /* how much of it is not in `rest` */
} Payload;

typedef struct {
    const Flow *flow;
    const uint8_t *bth, *reth;
    Payload payload;
    unsigned kind, stamp;
    int ack_request, plane;
} Packet;

/* Finds the payload, `size` bytes from `at` on, which is in the frame's first piece; 0 if it is not all there. */
static int find_payload(Payload *payload, const FramePieces *frame, size_t at, size_t size) {
    size_t first = frame->head_length - at;
    *payload = (Payload){frame->head + at, frame->rest, size, first < size ? first : size};
    return !frame->in_place || size - payload->first <= frame->in_place->payload_length;
}

static void place_payload(uint8_t *place, const Payload *payload) {
    memcpy(place, payload->begin, payload->first);
    if (payload->size > payload->first) /* a packet in place may be there already */
        memmove(place + payload->first, payload->rest, payload->size - payload->first);
}

/* What the headers say, which are in the frame's first piece; 0 if Python is to look at them. */
static int read_packet(Packet *packet, const Flow *flow, const FramePieces *frame, int plane) {
    const uint8_t *bth = frame->head + flow->start;
    int stamped = bth[8] & FLAG_TIMESTAMP;
    *packet = (Packet){
        .flow = flow, .bth = bth, .reth = bth + (stamped ? 20 : 16),
        .kind = bth[0] - (unsigned)WRITE_FIRST, .stamp = stamped ? get16(bth + 16) : 0,
        .ack_request = bth[8] & FLAG_ACK_REQUEST, .plane = plane,
    };
    size_t at = (size_t)(packet->reth + 16 - frame->head), pad = bth[1] >> 4 & 3;
    if (packet->kind > ONLY || packet->kind == LAST_IMM || bth[8] & FLAG_RTX || !flow->carried || at + pad >= flow->end)
        return 0;
    return find_payload(&packet->payload, frame, at, flow->end - at - pad);
}

/* Where the cumulative PSN will be when `psn`, the expected one, has arrived. */
static int64_t next_hole(const Carrier *carrier, int64_t psn) {
    do
        psn++;
    while (psn <= carrier->max_psn && carrier_has(carrier, psn));
    return psn;
}

static void advance(Carrier *carrier, int64_t to) {
    for (int64_t psn = carrier->next_psn; psn < to; psn++)
        carrier->bitmap[psn / 64 % WORDS] &= ~(1ull << psn % 64);
    carrier->next_psn = to;
}

/* Where the payload belongs; NULL if it is not exactly what the message has there. */
static uint8_t *place_of(const Incoming *message, uint32_t mtu, int64_t psn, const Packet *packet) {
    uint64_t offset = (uint64_t)(psn - message->first) * mtu;
    if (psn < message->first || psn > message->last || offset > message->length)
        return NULL;
    unsigned kind = packet->kind;
    const uint8_t *reth = packet->reth;
    size_t expected = psn == message->last ? message->length - offset : mtu;
    if (packet->payload.size != expected || (kind >= LAST) != (psn == message->last)
        || (kind == FIRST || kind >= ONLY) != (psn == message->first))
        return NULL;
    if (get64(reth) != message->address + offset || get32(reth + 8) != message->rkey || get32(reth + 12) != message->length)
        return NULL;
    uint64_t at = message->at + offset;
    return at < message->at ? NULL : region_place(message->region, at, packet->payload.size);
}

/* Whether a SACK is due, as AckGenerator.arrived says; the packet has arrived. */
static int count_arrival(Carrier *carrier, int64_t psn, const Packet *packet) {
    int due = packet->ack_request != 0;
    if (psn >= carrier->next_psn) {
        if (due && psn > carrier->ack_requested)
            carrier->ack_requested = psn;
    } else if (carrier->ack_requested >= 0 && carrier->ack_requested < carrier->next_psn) {
        carrier->ack_requested = -1;
        due = 1;
    }
    carrier->bytes += (int64_t)(packet->payload.size > LEAST_COUNTED ? packet->payload.size : LEAST_COUNTED);
    if (carrier->bytes >= carrier->threshold || packet->flow->marked)
        due = 1;
    if (due)
        carrier->bytes = 0;
    return due;
}

/* Places a packet; if it is for Python, nothing has changed. *psn is its own. */
static enum outcome carry(Carrier *carrier, const Packet *packet, int64_t *psn) {
    int64_t offset = ((int64_t)(get32(packet->bth + 8) & PSN_MASK) - carrier->next_psn) & PSN_MASK;
    *psn = carrier->next_psn + offset;
    if (offset >= carrier->reach || carrier_has(carrier, *psn))
        return FOR_PYTHON;
    unsigned msn = get16(packet->bth + 14);
    const Incoming *message = &carrier->messages[msn % MAX_MESSAGES];
    if (!message->region || (message->msn & 0xFFFF) != msn)
        return FOR_PYTHON;
    uint8_t *place = place_of(message, carrier->mtu, *psn, packet);
    if (!place)
        return FOR_PYTHON;
    int64_t expected = offset ? carrier->next_psn : next_hole(carrier, *psn);
    if (expected > message->last)
        return FOR_PYTHON; /* the message is complete */

    place_payload(place, &packet->payload);
    if (*psn > carrier->max_psn)
        carrier->max_psn = *psn;
    if (offset) {
        carrier_put(carrier, *psn);
        carrier->out_of_order++;
        if (carrier->held_up < LAST_PSN)
            carrier->held_up++;
    } else {
        advance(carrier, expected);
        carrier->held_up = 0;
    }
    Unshown *unshown = &carrier->unshown[packet->plane];
    if (unshown->lowest < 0 || *psn < unshown->lowest)
        unshown->lowest = *psn;
    if (*psn > unshown->highest)
        unshown->highest = *psn;
    carrier->changed |= 1ull << packet->plane;
    carrier->units += packet->flow->units;
    carrier->arrived++;
    return count_arrival(carrier, *psn, packet) ? ANSWER_DUE : CARRIED;
}
#endif
