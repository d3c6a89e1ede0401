/* A queue pair that had lives before, with other attributes, has those of its last life alone, like a new one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mrc_ends.h"

static const int MASKS[3] = {
    MRC_QP_HINT | MRC_QP_VENDOR_CFG,
    MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST,
    MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_RETRY_CNT | MRC_QP_TIMEOUT | MRC_QP_CAP,
};

struct life {
    struct mrc_qp_attr attr;
    int given, early; /* attributes, and those that are given before their step */
    int steps;        /* 0: RESET only, 3: to RTS */
};

static struct life random_life(unsigned int *seed, struct mrc_qp_hint *hint) {
    struct life life = {.given = rand_r(seed), .early = rand_r(seed), .steps = rand_r(seed) % 4};
    life.attr = (struct mrc_qp_attr){
        .mpr = {(uint8_t)(1 + rand_r(seed) % 255), (uint8_t)(1 + rand_r(seed) % 255)},
        .wimm = {(uint16_t)(1 + rand_r(seed) % 32767), (uint16_t)(1 + rand_r(seed) % 32767)},
        .timeout = (uint8_t)(rand_r(seed) % 25),
        .retry = {(uint8_t)(rand_r(seed) % 8), (uint8_t)(rand_r(seed) % 26)},
        .qp_hint = rand_r(seed) % 2 ? hint : NULL,
        .cap = (uint32_t)rand_r(seed) % 8,
        .vendor_cfg = {(uint8_t)rand_r(seed)},
    };
    return life;
}

static void begin(struct end *end, const struct end *peer, struct life *life) {
    static const enum ibv_qp_state states[3] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    int all = MASKS[0] | MASKS[1] | MASKS[2], given = life->given & all, early = given & life->early;
    for (int i = 0; i < life->steps; i++)
        CHECK(!step(end, states[i], &life->attr, i ? given & ~early & MASKS[i] : early | (given & MASKS[0]), peer));
}

static void compare(struct end *one, struct end *two) {
    int all = MASKS[0] | MASKS[1] | MASKS[2] | MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID;
    struct mrc_qp_attr a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    CHECK(!mrc_query_qp(one->qp, NULL, 0, &a, all, NULL) && !mrc_query_qp(two->qp, NULL, 0, &b, all, NULL));
    CHECK(a.mpr.mpr == b.mpr.mpr && a.mpr.mpr_dest == b.mpr.mpr_dest);
    CHECK(a.wimm.max_wimm == b.wimm.max_wimm && a.wimm.max_wimm_dest == b.wimm.max_wimm_dest);
    CHECK(a.timeout == b.timeout && a.retry.linear_cnt == b.retry.linear_cnt && a.retry.exp_cnt == b.retry.exp_cnt);
    CHECK(a.qp_hint == b.qp_hint && a.cap == b.cap && !memcmp(a.vendor_cfg, b.vendor_cfg, sizeof a.vendor_cfg));
    CHECK(a.profile.ev_profile_id == b.profile.ev_profile_id && a.profile.cc_profile_id == b.profile.cc_profile_id);
}

/* The test compares what the NIC has of both queue pairs, too, until it closes standard input. */
void lives(struct end *a, struct end *b) {
    const char *chosen = getenv("SEED");
    unsigned int seed = chosen ? (unsigned int)strtoul(chosen, NULL, 10) : 1;
    struct mrc_qp_hint *hint = mrc_create_qp_hint(a->mrc, &(struct mrc_qp_hint_init_attr){{.num_send_peers = 3}});
    struct end fresh = *a;
    fresh.qp = another_qp(a);
    CHECK(hint && fresh.qp && !step(a, IBV_QPS_RESET, NULL, 0, NULL));
    for (int i = 0; i < 5; i++) {
        struct life life = random_life(&seed, hint);
        next_life();
        begin(a, b, &life);
        CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL));
        compare(a, &fresh);
    }
    struct life last = random_life(&seed, hint);
    last.steps = 3;
    next_life();
    begin(a, b, &last);
    begin(&fresh, b, &last);
    compare(a, &fresh);
    printf("ready\n");
    fflush(stdout);
    getchar();
    CHECK(!mrc_destroy_qp(fresh.qp) && !step(a, IBV_QPS_RESET, NULL, 0, NULL) && !mrc_destroy_qp_hint(hint));
}
