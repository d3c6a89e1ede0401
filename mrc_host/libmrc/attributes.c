/* Attributes that MRC adds to a queue pair: which step takes each, what values it may have, and its name at the agent.
 *
 * An attribute may be given before the step that takes it, and has no effect until then. Limits without "dest" are of
 * this end's requests, so they are what its peer accepts: the agent calls those "dest". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

enum { MAX_LINEAR = 7, UNLIMITED = 25, MAX_TIMEOUT = 24, AGENT_UNLIMITED = 255, MAX_DYNAMIC_MPR = 255 };

static const int FOR_INIT = MRC_QP_HINT | MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID;
static const int FOR_RTR = MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST;
static const int FOR_RTS = MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_RETRY_CNT | MRC_QP_TIMEOUT;
static const int ANY_TIME = MRC_QP_CAP | MRC_QP_VENDOR_CFG; /* the bits of CAP have their own steps */

/* Attributes whose step a queue pair has done. */
static int past(enum ibv_qp_state state) {
    switch (state) {
    case IBV_QPS_RESET: return 0;
    case IBV_QPS_INIT: return FOR_INIT;
    case IBV_QPS_RTR: return FOR_INIT | FOR_RTR;
    default: return FOR_INIT | FOR_RTR | FOR_RTS | MRC_QP_CAP;
    }
}

int check_attributes(const struct mrc_qp_attr *attr, int mask, enum ibv_qp_state from, enum ibv_qp_state to) {
    const uint32_t caps =
        MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED | MRC_QP_CAP_DYNAMIC_MPR | MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED;
    if (mask & ~(FOR_INIT | FOR_RTR | FOR_RTS | ANY_TIME) || (mask && !attr))
        return EINVAL;
    if (mask & past(to == IBV_QPS_RESET ? IBV_QPS_RESET : from))
        return EINVAL;
    if (mask & MRC_QP_RETRY_CNT && (attr->retry.linear_cnt > MAX_LINEAR || attr->retry.exp_cnt > UNLIMITED))
        return EINVAL;
    if (mask & MRC_QP_TIMEOUT && attr->timeout > MAX_TIMEOUT)
        return EINVAL;
    return mask & MRC_QP_CAP && attr->cap & ~caps ? EINVAL : 0;
}

void copy_attributes(struct mrc_qp_attr *to, const struct mrc_qp_attr *from, int mask) {
#define COPY(bit, field)                                                                                               \
    if (mask & (bit))                                                                                                  \
    to->field = from->field
    COPY(MRC_QP_MAX_WIMM, wimm.max_wimm);
    COPY(MRC_QP_MAX_WIMM_DEST, wimm.max_wimm_dest);
    COPY(MRC_QP_MPR, mpr.mpr);
    COPY(MRC_QP_MPR_DEST, mpr.mpr_dest);
    COPY(MRC_QP_TIMEOUT, timeout);
    COPY(MRC_QP_EV_PROFILE_ID, profile.ev_profile_id);
    COPY(MRC_QP_CC_PROFILE_ID, profile.cc_profile_id);
    COPY(MRC_QP_HINT, qp_hint);
    COPY(MRC_QP_RETRY_CNT, retry);
    COPY(MRC_QP_CAP, cap);
#undef COPY
    if (mask & MRC_QP_VENDOR_CFG)
        memcpy(to->vendor_cfg, from->vendor_cfg, sizeof to->vendor_cfg);
}

static void print_init(const struct mrc_qp_attr *attr, int given, char *text, size_t size) {
    size_t length = 0;
    if (given & MRC_QP_EV_PROFILE_ID)
        length += (size_t)snprintf(text, size, ",\"ev_profile\":%llu", (unsigned long long)attr->profile.ev_profile_id);
    if (given & MRC_QP_CC_PROFILE_ID && attr->profile.cc_profile_id)
        length += (size_t)snprintf(text + length, size - length, ",\"cc_profile\":\"%llu\"",
                                   (unsigned long long)attr->profile.cc_profile_id);
    if (given & MRC_QP_HINT && attr->qp_hint) {
        struct mrc_qp_hint_attr hint = {0};
        mrc_query_qp_hint(attr->qp_hint, &hint,
                          MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_SEND_PEERS |
                              MRC_QP_HINT_NUM_REMOTE_RECV_PEERS);
        length += (size_t)snprintf(text + length, size - length,
                                   ",\"num_qps_per_peer\":%d,\"num_send_peers\":%d,\"num_remote_recv_peers\":%d",
                                   hint.num_qps_per_peer, hint.num_send_peers, hint.num_remote_recv_peers);
    }
}

static void print_rtr(const struct mrc_qp_attr *attr, int given, char *text, size_t size) {
    size_t length = 0;
    if (given & MRC_QP_MPR_DEST)
        length += (size_t)snprintf(text, size, ",\"mpr\":%u", attr->mpr.mpr_dest);
    if (given & MRC_QP_MAX_WIMM_DEST)
        length += (size_t)snprintf(text + length, size - length, ",\"max_wimm\":%u", attr->wimm.max_wimm_dest);
    if (given & MRC_QP_CAP && attr->cap & MRC_QP_CAP_DYNAMIC_MPR)
        length += (size_t)snprintf(text + length, size - length, ",\"dynamic_mpr\":%d", MAX_DYNAMIC_MPR);
}

static void print_rts(const struct mrc_qp_attr *attr, int given, char *text, size_t size) {
    size_t length = 0;
    if (given & MRC_QP_MPR)
        length += (size_t)snprintf(text, size, ",\"mpr_dest\":%u", attr->mpr.mpr);
    if (given & MRC_QP_MAX_WIMM)
        length += (size_t)snprintf(text + length, size - length, ",\"max_wimm_dest\":%u", attr->wimm.max_wimm);
    if (given & MRC_QP_TIMEOUT) /* 0 means none in verbs; the longest, then */
        length += (size_t)snprintf(text + length, size - length, ",\"timeout\":%d",
                                   attr->timeout ? attr->timeout : MAX_TIMEOUT);
    if (given & MRC_QP_RETRY_CNT) {
        int linear = attr->retry.linear_cnt, doubling = attr->retry.exp_cnt;
        length += (size_t)snprintf(text + length, size - length, ",\"linear_retries\":%d,\"retry_count\":%d", linear,
                                   doubling == UNLIMITED ? AGENT_UNLIMITED : linear + doubling);
    }
    if (given & MRC_QP_CAP && attr->cap & MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED)
        length += (size_t)snprintf(text + length, size - length, ",\"trim_nack_dest\":false");
}

void format_changes(const struct mrc_qp_attr *attr, int given, enum ibv_qp_state to, char changes[CHANGES_SIZE]) {
    changes[0] = 0;
    switch (to) {
    case IBV_QPS_INIT: print_init(attr, given, changes, CHANGES_SIZE); break;
    case IBV_QPS_RTR: print_rtr(attr, given, changes, CHANGES_SIZE); break;
    case IBV_QPS_RTS: print_rts(attr, given, changes, CHANGES_SIZE); break;
    default: break;
    }
}

void parse_attributes(const char *answer, struct mrc_qp_attr *attr) {
    char profile[32], *end;
    uint64_t linear = json_number(answer, "linear_retries", MAX_LINEAR),
             retries = json_number(answer, "retry_count", 0);
    *attr = (struct mrc_qp_attr){
        .mpr = {(uint8_t)json_number(answer, "mpr_dest", 0), (uint8_t)json_number(answer, "mpr", 0)},
        .wimm = {(uint16_t)json_number(answer, "max_wimm_dest", 0), (uint16_t)json_number(answer, "max_wimm", 0)},
        .timeout = (uint8_t)json_number(answer, "timeout", 0),
        .profile.ev_profile_id = json_number(answer, "ev_profile", 0),
    };
    json_text(answer, "cc_profile", profile, sizeof profile);
    attr->profile.cc_profile_id = strtoull(profile, &end, 10); /* one with a name of another kind has no number */
    if (*end)
        attr->profile.cc_profile_id = 0;
    attr->retry.linear_cnt = (uint8_t)(retries < linear ? retries : linear);
    uint64_t doubling = retries - attr->retry.linear_cnt;
    attr->retry.exp_cnt = (uint8_t)(retries == AGENT_UNLIMITED || doubling > UNLIMITED ? UNLIMITED : doubling);
    attr->cap = (json_number(answer, "dynamic_mpr", 0) ? MRC_QP_CAP_DYNAMIC_MPR : 0) |
                (json_true(answer, "trim_nack_dest") ? 0 : MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED);
}
