/* One data packet whose ICRC is right: checked against the receive state of its queue pair, and placed.
 *
 * All that a packet claims is checked here; the region's bounds are checked once more before the copy. Whatever calls for a
 * decision is left to Python: a packet that completes a message, is repeated, retransmitted, carries immediate data, or does not
 * fit.
 */
#ifndef MRC_PLACEMENT_H
#define MRC_PLACEMENT_H

#include "carry_frame.h"
#include "flows.h"
#include "receive_state.h"

#define FLAG_TIMESTAMP 0x10 /* in the first byte of the BTH's control word */

enum outcome { FOR_PYTHON, CARRIED, ANSWER_DUE };

typedef struct {
    const uint8_t *begin, *rest;
    size_t size, first; /* how much of it is not in `rest` */
} Payload;

typedef struct {
    const Flow *flow;
    const uint8_t *bth, *reth;
    Payload payload;
    uint32_t word; /* the BTH's control word */
    unsigned kind, stamp;
    int plane;
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
        .word = get32(bth + 8), .plane = plane,
    };
    size_t at = (size_t)(packet->reth + 16 - frame->head), pad = bth[1] >> 4 & 3;
    if (packet->kind > ONLY || packet->kind == LAST_IMM || packet->word & RTX || at + pad >= flow->end)
        return 0;
    return find_payload(&packet->payload, frame, at, flow->end - at - pad);
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

/* Places a packet; if it is for Python, nothing has changed. *psn is its own. */
static enum outcome carry(ReceiveState *state, const Packet *packet, int64_t *psn) {
    int64_t offset = ((int64_t)packet->word - state->next_psn) & PSN_MASK;
    *psn = state->next_psn + offset;
    if (offset >= state->reach || has_arrived(state, *psn))
        return FOR_PYTHON;
    unsigned msn = get16(packet->bth + 14);
    const Incoming *message = &state->messages[msn % MAX_MESSAGES];
    if (!message->region || (message->msn & 0xFFFF) != msn)
        return FOR_PYTHON;
    uint8_t *place = place_of(message, state->mtu, *psn, packet);
    if (!place || (!offset && hole_from(state, *psn + 1) > message->last)) /* the message is complete */
        return FOR_PYTHON;

    place_payload(place, &packet->payload);
    Arrival arrival = {*psn, packet->payload.size, packet->flow->units, packet->word, packet->plane, packet->flow->marked};
    return add_arrival(state, &arrival) ? ANSWER_DUE : CARRIED;
}
#endif
