/* The controller's half of the API, on a NIC with two ports whose entropy values are SRv6 paths. */
#include "control_cases.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FORMAT = 13, PROFILE = 77, CC = 5, MAX_EVS = 4096 };

#define FAILS(call, error) CHECK((call) == -1 && errno == (error))

void control_device(struct end *a, struct end *b) {
    struct mrc_ctl_device_attr attr, same;
    int supported = 0;
    CHECK(!mrc_ctl_query_device(a->verbs, &attr));
    CHECK(attr.mrc_ctl_protocol_version == MRC_CTL_PROTOCOL_VERSION_1 && attr.ev.ev_max_width == 32);
    CHECK(attr.ev.ev_fmt_mode_mask == MRC_CTL_EV_FMT_MODE_SRV6 && attr.ev.ev_count_align == 1);
    CHECK(attr.ev.ev_mode_mask == (MRC_CTL_EV_MODE_AUTO | MRC_CTL_EV_MODE_EXP | MRC_CTL_EV_MODE_GEN));
    CHECK(attr.ev.ev_max_count_profile == 4096 && attr.ev.ev_free_count == attr.ev.ev_max_count);
    CHECK(!strcmp(attr.cc.algorithms[0], "uet-1.0-nscc") && !attr.cc.algorithms[1]);
    CHECK(attr.phy_port_mask == 6 && attr.opt_attr == (MRC_CTL_OPT_CAP_EV_EVENT | MRC_CTL_OPT_CAP_EP_OP_EV_PROBE));
    CHECK(!mrc_ctl_query_device_ex(a->verbs, a->mrc, &same, &supported) && supported);
    CHECK(same.phy_port_mask == attr.phy_port_mask && same.ev.ev_max_count == attr.ev.ev_max_count);
    FAILS(mrc_ctl_query_device_ex(a->verbs, b->mrc, &same, &supported), EINVAL);
    uint32_t current, oldest, vendor, oldest_vendor;
    mrc_ctl_query_version(&current, &oldest, &vendor, &oldest_vendor);
    CHECK(current == 0x01000001 && !oldest && vendor == 0x01000000 && !oldest_vendor);
}

static void set_port(struct end *end, uint8_t port, enum mrc_ctl_port_admin_state state) {
    struct mrc_ctl_port_attr attr = {state}, known = {!state};
    CHECK(!mrc_ctl_modify_port(end->mrc, port, &attr, MRC_CTL_PORT_ADMIN_STATE));
    CHECK(!mrc_ctl_query_port(end->mrc, port, &known, MRC_CTL_PORT_ADMIN_STATE) && known.port_admin_state == state);
}

void ports(struct end *a, struct end *b) {
    struct mrc_ctl_port_attr attr = {MRC_CTL_PORT_ADMIN_DISABLED};
    struct ibv_port_attr verbs;
    for (uint8_t port = 1; port <= 2; port++)
        set_port(a, port, MRC_CTL_PORT_ADMIN_ENABLED);
    set_port(a, 2, MRC_CTL_PORT_ADMIN_DISABLED);
    CHECK(!post_write(a, b, 0, 50000, 1, 0)); /* over the other */
    wait_success(a, 1);
    CHECK(!ibv_query_port(a->verbs, 1, &verbs) && verbs.state == IBV_PORT_ACTIVE);
    set_port(a, 1, MRC_CTL_PORT_ADMIN_DISABLED);
    struct mrc_async_event event;
    CHECK(!mrc_get_async_event(a->mrc, &event) && event.event_type == IBV_EVENT_PORT_ERR);
    CHECK(!ibv_query_port(a->verbs, 1, &verbs) && verbs.state == IBV_PORT_DOWN);
    set_port(a, 1, MRC_CTL_PORT_ADMIN_ENABLED);
    CHECK(!mrc_get_async_event(a->mrc, &event) && event.event_type == IBV_EVENT_PORT_ACTIVE);
    set_port(a, 2, MRC_CTL_PORT_ADMIN_ENABLED);
    static const uint8_t absent[] = {0, 3, 255};
    for (size_t i = 0; i < sizeof absent; i++) {
        FAILS(mrc_ctl_modify_port(a->mrc, absent[i], &attr, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
        FAILS(mrc_ctl_query_port(a->mrc, absent[i], &attr, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
    }
}

static void expect_event(struct ibv_context *verbs, enum ibv_event_type type, int port) {
    struct ibv_async_event event;
    CHECK(!ibv_get_async_event(verbs, &event));
    CHECK(event.event_type == type && event.element.port_num == port);
    ibv_ack_async_event(&event);
}

static enum ibv_port_state state_of(struct ibv_context *verbs, uint8_t port) {
    struct ibv_port_attr attr;
    CHECK(!ibv_query_port(verbs, port, &attr));
    return attr.state;
}

void plane_ports(struct end *a, struct end *b) {
    (void)a;
    setenv("MRC_PLANE_PORTS", "1", 1); /* MRC_AGENT is that of `b` */
    struct ibv_context *verbs = ibv_open_device(b->verbs->device);
    unsetenv("MRC_PLANE_PORTS");
    CHECK(verbs);
    struct ibv_device_attr device;
    CHECK(!ibv_query_device(verbs, &device) && device.phys_port_cnt == 3);
    CHECK(!ibv_query_device(b->verbs, &device) && device.phys_port_cnt == 1);
    union ibv_gid gid, whole;
    CHECK(!ibv_query_gid(verbs, 3, 1, &gid) && !ibv_query_gid(verbs, 1, 1, &whole) && !memcmp(&gid, &whole, 16));
    struct ibv_gid_entry entries[12];
    CHECK(ibv_query_gid_table(verbs, entries, 12, 0) == 12 && entries[11].port_num == 3 && entries[11].gid_index == 3);
    CHECK(ibv_query_gid_table(verbs, entries, 11, 0) == -EINVAL);
    set_port(b, 2, MRC_CTL_PORT_ADMIN_DISABLED);
    expect_event(verbs, IBV_EVENT_PORT_ERR, 3);
    CHECK(state_of(verbs, 1) == IBV_PORT_ACTIVE && state_of(verbs, 2) == IBV_PORT_ACTIVE);
    CHECK(state_of(verbs, 3) == IBV_PORT_DOWN);
    set_port(b, 1, MRC_CTL_PORT_ADMIN_DISABLED);
    expect_event(verbs, IBV_EVENT_PORT_ERR, 1);
    expect_event(verbs, IBV_EVENT_PORT_ERR, 2);
    set_port(b, 2, MRC_CTL_PORT_ADMIN_ENABLED);
    expect_event(verbs, IBV_EVENT_PORT_ACTIVE, 1);
    expect_event(verbs, IBV_EVENT_PORT_ACTIVE, 3);
    set_port(b, 1, MRC_CTL_PORT_ADMIN_ENABLED);
    expect_event(verbs, IBV_EVENT_PORT_ACTIVE, 2);
    struct ibv_port_attr attr;
    CHECK(ibv_query_port(verbs, 0, &attr) == EINVAL && ibv_query_port(verbs, 4, &attr) == EINVAL);
    CHECK(ibv_query_port(b->verbs, 2, &attr) == EINVAL);
    struct ibv_pd *pd = ibv_alloc_pd(verbs);
    struct ibv_cq *cq = ibv_create_cq(verbs, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
    struct ibv_qp *pair = ibv_create_qp(pd, &init);
    CHECK(pair);
    struct ibv_qp_attr to_init = {.qp_state = IBV_QPS_INIT, .port_num = 2};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    CHECK(ibv_modify_qp(pair, &to_init, mask) == EINVAL);
    to_init.port_num = 1;
    CHECK(!ibv_modify_qp(pair, &to_init, mask));
    CHECK(!ibv_destroy_qp(pair) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(verbs));
    for (int i = 0; i < 2; i++) { /* those of the port that stands for all planes */
        struct mrc_async_event event;
        CHECK(!mrc_get_async_event(b->mrc, &event) && event.element.port_num == 1);
    }
}

static int set_format(struct end *end, enum mrc_ctl_profile_state state, struct mrc_ctl_ev_fmt_field *fields,
                      int count) {
    struct mrc_ctl_ev_fmt_profile_attr attr = {
        .profile_state = state,
        .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6,
        .ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, fields, count},
    };
    int others = fields ? MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP : 0;
    return mrc_ctl_modify_ev_fmt_profile(end->mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_STATE | others);
}

static int set_profile(struct end *end, enum mrc_ctl_profile_state state) {
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = state};
    return mrc_ctl_modify_ev_profile(end->mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_STATE);
}

static void format_online(struct end *end) {
    struct mrc_ctl_ev_fmt_field fields[] = {{9}, {10}, {3}, {10}}, found[5];
    CHECK(!set_format(end, MRC_CTL_PROFILE_OFFLINE, fields, 4));
    CHECK(!set_format(end, MRC_CTL_PROFILE_ONLINE, NULL, 0));
    struct mrc_ctl_ev_fmt_profile_attr attr = {.ev_fmt_op = {MRC_CTL_EV_FMT_OP_QUERY_FIELDS, found, 3}};
    int mask = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP;
    FAILS(mrc_ctl_query_ev_fmt_profile(end->mrc, FORMAT, &attr, mask), E2BIG);
    CHECK(attr.ev_fmt_op.fmt_field_count == 4);
    CHECK(!mrc_ctl_query_ev_fmt_profile(end->mrc, FORMAT, &attr, mask) && !memcmp(found, fields, sizeof fields));
    CHECK(attr.cur_profile_state == MRC_CTL_PROFILE_ONLINE && attr.ev_fmt_mode == MRC_CTL_EV_FMT_MODE_SRV6);
}

static void format_gone(struct end *end) {
    CHECK(!set_format(end, MRC_CTL_PROFILE_OFFLINE, NULL, 0));
    CHECK(!set_format(end, MRC_CTL_PROFILE_INIT, NULL, 0));
}

/* The entries of a profile; 0 is the NIC's default, which has every path. */
static int entries_of(struct end *end, uint64_t id, struct mrc_ctl_ev_op_entry *entries) {
    struct mrc_ctl_ev_profile_attr attr = {.ev_op = {MRC_CTL_EV_OP_QUERY_EV_ARRAY, NULL, 0}};
    FAILS(mrc_ctl_query_ev_profile(end->mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP), E2BIG);
    CHECK(attr.ev_op.entry_count > 0 && attr.ev_op.entry_count <= MAX_EVS);
    attr.ev_op.entries = entries;
    CHECK(!mrc_ctl_query_ev_profile(end->mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP));
    return attr.ev_op.entry_count;
}

static int ev_op(struct end *end, enum mrc_ctl_ev_op op, struct mrc_ctl_ev_op_entry *entries, int count) {
    struct mrc_ctl_ev_profile_attr attr = {.ev_op = {op, entries, count}};
    return mrc_ctl_modify_ev_profile(end->mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_EV_OP);
}

static int configure(struct end *end, enum mrc_ctl_ev_mode mode, uint32_t count, struct mrc_ctl_ev_field *fields,
                     int field_count) {
    struct mrc_ctl_ev_profile_attr attr = {
        .profile_state = MRC_CTL_PROFILE_OFFLINE,
        .ev_mode = mode,
        .ev_fmt_profile_id = FORMAT,
        .ev_count = count,
        .ev_min_active = 1,
        .ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD,
        .ev_fields_op = {MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, fields, field_count},
    };
    return mrc_ctl_modify_ev_profile(end->mrc, PROFILE, &attr,
                                     MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                                         MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
                                         MRC_CTL_EV_PROFILE_EVENT_MASK |
                                         (fields ? MRC_CTL_EV_PROFILE_EV_FIELDS_OP : 0));
}

/* An explicit profile of entries, online. */
static void program(struct end *end, const struct mrc_ctl_ev_op_entry *entries, int count) {
    CHECK(!configure(end, MRC_CTL_EV_MODE_EXP, (uint32_t)count, NULL, 0));
    FAILS(set_profile(end, MRC_CTL_PROFILE_ONLINE), EINVAL); /* nothing is populated */
    struct mrc_ctl_ev_op_entry *replacements = calloc((size_t)count, sizeof *replacements);
    for (int i = 0; i < count; i++)
        replacements[i].ev_new = entries[i].ev;
    CHECK(!ev_op(end, MRC_CTL_EV_OP_REPLACE_EV, replacements, count));
    free(replacements);
    CHECK(!set_profile(end, MRC_CTL_PROFILE_ONLINE));
}

static void use_profile(struct end *a, struct end *b) {
    struct mrc_qp_attr attr = {.profile = {.ev_profile_id = PROFILE}};
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL));
    CHECK(!step(b, IBV_QPS_RESET, NULL, 0, NULL) && !step(b, IBV_QPS_INIT, NULL, 0, NULL));
    CHECK(!step(a, IBV_QPS_INIT, &attr, MRC_QP_EV_PROFILE_ID, NULL));
    next_life();
    CHECK(!step(a, IBV_QPS_RTR, NULL, 0, b) && !step(b, IBV_QPS_RTR, NULL, 0, a));
    CHECK(!step(a, IBV_QPS_RTS, NULL, 0, NULL) && !step(b, IBV_QPS_RTS, NULL, 0, NULL));
    CHECK(!mrc_query_qp(a->qp, NULL, 0, &attr, MRC_QP_EV_PROFILE_ID, NULL) && attr.profile.ev_profile_id == PROFILE);
    CHECK(!post_write(a, b, 0, 200000, 9, 0));
    wait_success(a, 9);
}

void explicit_profile(struct end *a, struct end *b) {
    static struct mrc_ctl_ev_op_entry all[MAX_EVS], found[MAX_EVS];
    int count = entries_of(a, 0, all);
    CHECK(count >= 4 && all[0].state == MRC_CTL_EV_GOOD && all[0].ev.port == 1 && all[count - 1].ev.port == 2);
    FAILS(configure(a, MRC_CTL_EV_MODE_EXP, 2, NULL, 0), EINVAL); /* without a format */
    format_online(a);
    struct mrc_ctl_ev_op_entry two[2] = {all[0], all[count - 1]};
    program(a, two, 2);
    FAILS(ev_op(a, MRC_CTL_EV_OP_REPLACE_EV, two, 1), EINVAL); /* it is online */
    use_profile(a, b);
    CHECK(entries_of(a, PROFILE, found) == 2);
    CHECK(!memcmp(&found[0].ev, &two[0].ev, sizeof two[0].ev) && !memcmp(&found[1].ev, &two[1].ev, sizeof two[1].ev));
    FAILS(set_profile(a, MRC_CTL_PROFILE_OFFLINE), EBUSY);
    FAILS(set_format(a, MRC_CTL_PROFILE_OFFLINE, NULL, 0), EBUSY);
    two[1].state = MRC_CTL_EV_DENIED;
    CHECK(!ev_op(a, MRC_CTL_EV_OP_MODIFY_EV_STATE, &two[1], 1));
    struct mrc_ctl_ev_profile_attr states = {.ev_op = {MRC_CTL_EV_OP_QUERY_EV_STATE, found, 2}};
    CHECK(!mrc_ctl_query_ev_profile(a->mrc, PROFILE, &states, MRC_CTL_EV_PROFILE_EV_OP));
    CHECK(found[0].state == MRC_CTL_EV_GOOD && found[1].state == MRC_CTL_EV_DENIED);
    CHECK(!post_write(a, b, 0, 100000, 10, 0)); /* over what is left */
    wait_success(a, 10);
    two[1].state = MRC_CTL_EV_GOOD;
    CHECK(!ev_op(a, MRC_CTL_EV_OP_MODIFY_EV_STATE, &two[1], 1));
    two[1].ev.val[0] ^= 0x7F;
    FAILS(ev_op(a, MRC_CTL_EV_OP_MODIFY_EV_STATE, &two[1], 1), ENOENT);
    two[1].ev.val[20] = 1;
    FAILS(ev_op(a, MRC_CTL_EV_OP_MODIFY_EV_STATE, &two[1], 1), EINVAL);
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL));
    CHECK(!set_profile(a, MRC_CTL_PROFILE_OFFLINE) && !set_profile(a, MRC_CTL_PROFILE_INIT)); /* no life has it */
    connect_ends(a, b);
    format_gone(a);
}

void generated_profile(struct end *a, struct end *b) {
    static struct mrc_ctl_ev_op_entry found[MAX_EVS];
    struct mrc_ctl_ev_field known[4],
        fields[] = {{9, 0, 0, 0, 0}, {10, 0, 0, 0, 0}, {3, 0, 0, 1, 7}, {10, 0, 0, 1, 0x3FF}};
    format_online(a);
    fields[2].max_val = 8; /* wider than its mask */
    FAILS(configure(a, MRC_CTL_EV_MODE_GEN, 4, fields, 4), EINVAL);
    fields[2].max_val = 1;
    CHECK(!configure(a, MRC_CTL_EV_MODE_GEN, 4, fields, 4) && !set_profile(a, MRC_CTL_PROFILE_ONLINE));
    struct mrc_ctl_ev_profile_attr attr = {.ev_fields_op = {MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS, known, 3}};
    int mask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
               MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK |
               MRC_CTL_EV_PROFILE_EV_FIELDS_OP;
    FAILS(mrc_ctl_query_ev_profile(a->mrc, PROFILE, &attr, mask), E2BIG);
    CHECK(!mrc_ctl_query_ev_profile(a->mrc, PROFILE, &attr, mask) && !memcmp(known, fields, sizeof fields));
    CHECK(attr.profile_state == MRC_CTL_PROFILE_ONLINE && attr.ev_mode == MRC_CTL_EV_MODE_GEN && attr.ev_count == 4);
    CHECK(attr.ev_fmt_profile_id == FORMAT && attr.ev_min_active == 1);
    CHECK(attr.ev_event_mask == (MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD));
    use_profile(a, b);
    CHECK(entries_of(a, PROFILE, found) == 4);
    connect_ends(a, b);
    struct mrc_qp_attr none = {0};
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL) && !step(a, IBV_QPS_INIT, &none, MRC_QP_EV_PROFILE_ID, NULL));
    CHECK(!set_profile(a, MRC_CTL_PROFILE_OFFLINE) && !set_profile(a, MRC_CTL_PROFILE_INIT));
    format_gone(a);
}

static int set_cc(struct end *end, enum mrc_ctl_profile_state state, const char *algorithm,
                  const struct mrc_ctl_cc_nscc_cfg *config, int mask) {
    struct mrc_ctl_cc_profile_attr attr = {.profile_state = state, .algorithm = algorithm, .cc_config = config};
    return mrc_ctl_modify_cc_profile(end->mrc, CC, &attr, MRC_CTL_CC_PROFILE_STATE | mask);
}

void cc_profile(struct end *a, struct end *b) {
    struct mrc_ctl_cc_nscc_cfg found,
        config = {.base_rtt = 50000, .gamma = 0.75f, .max_md_jump = 0.5f, .max_cwnd = 100000};
    struct mrc_ctl_cc_profile_attr attr = {.cc_config = &found};
    FAILS(set_cc(a, MRC_CTL_PROFILE_ONLINE, NULL, NULL, 0), EINVAL);
    FAILS(set_cc(a, MRC_CTL_PROFILE_OFFLINE, "reno", NULL, MRC_CTL_CC_PROFILE_ALGORITHM), EINVAL);
    CHECK(!set_cc(a, MRC_CTL_PROFILE_OFFLINE, "uet-1.0-nscc", NULL, MRC_CTL_CC_PROFILE_ALGORITHM));
    config.eta = NAN;
    FAILS(set_cc(a, MRC_CTL_PROFILE_ONLINE, NULL, &config, MRC_CTL_CC_PROFILE_CONFIG), EINVAL);
    config.eta = 0;
    CHECK(!set_cc(a, MRC_CTL_PROFILE_ONLINE, NULL, &config, MRC_CTL_CC_PROFILE_CONFIG));
    int mask = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM | MRC_CTL_CC_PROFILE_CONFIG;
    CHECK(!mrc_ctl_query_cc_profile(a->mrc, CC, &attr, mask) && attr.profile_state == MRC_CTL_PROFILE_ONLINE);
    CHECK(!strcmp(attr.algorithm, "uet-1.0-nscc") && found.base_rtt == 50000 && found.gamma == 0.75f);
    CHECK(found.max_md_jump == 0.5f && found.max_cwnd == 100000 && found.eta == 0 && !found.disable_qa);
    struct mrc_qp_attr with = {.profile = {.cc_profile_id = CC}}, without = {0};
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL) && !step(a, IBV_QPS_INIT, &with, MRC_QP_CC_PROFILE_ID, NULL));
    FAILS(set_cc(a, MRC_CTL_PROFILE_OFFLINE, NULL, NULL, 0), EBUSY);
    CHECK(!step(b, IBV_QPS_RESET, NULL, 0, NULL) && !step(b, IBV_QPS_INIT, NULL, 0, NULL));
    next_life();
    CHECK(!step(a, IBV_QPS_RTR, NULL, 0, b) && !step(b, IBV_QPS_RTR, NULL, 0, a));
    CHECK(!step(a, IBV_QPS_RTS, NULL, 0, NULL) && !step(b, IBV_QPS_RTS, NULL, 0, NULL));
    CHECK(!post_write(a, b, 0, 300000, 4, 0));
    wait_success(a, 4);
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL) && !step(a, IBV_QPS_INIT, &without, MRC_QP_CC_PROFILE_ID, NULL));
    CHECK(!set_cc(a, MRC_CTL_PROFILE_OFFLINE, NULL, NULL, 0) && !set_cc(a, MRC_CTL_PROFILE_INIT, NULL, NULL, 0));
    CHECK(!set_cc(a, MRC_CTL_PROFILE_OFFLINE, NULL, NULL, MRC_CTL_CC_PROFILE_ALGORITHM)); /* none */
    CHECK(!set_cc(a, MRC_CTL_PROFILE_ONLINE, NULL, NULL, 0));
    CHECK(!mrc_ctl_query_cc_profile(a->mrc, CC, &attr, mask) && !attr.algorithm);
    CHECK(!set_cc(a, MRC_CTL_PROFILE_OFFLINE, NULL, NULL, 0) && !set_cc(a, MRC_CTL_PROFILE_INIT, NULL, NULL, 0));
}

void probes(struct end *a, struct end *b) {
    static struct mrc_ctl_ev_op_entry all[MAX_EVS];
    int paths = entries_of(a, 0, all), count = 0, seen = 0;
    struct mrc_ctl_ep_req requests[2] = {0};
    struct mrc_ctl_ep_rsp responses[2];
    for (int i = 0; i < 2; i++) {
        requests[i] = (struct mrc_ctl_ep_req){.req_id = (uint16_t)(500 + i),
                                              .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6,
                                              .req_ev = all[i ? paths - 1 : 0].ev};
        CHECK(!ibv_query_gid(a->verbs, 1, 3, &requests[i].sgid) && !ibv_query_gid(b->verbs, 1, 3, &requests[i].dgid));
    }
#define PROBE(timeout)                                                                                                 \
    mrc_ctl_ep_batch_send_wait(a->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests, 2, timeout, responses, &count)
    CHECK(!PROBE(2000000000) && count == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(responses[i].rtt > 0 && responses[i].port >= 1 && responses[i].port <= 2 && responses[i].adj_svc_time);
        seen |= 1 << (responses[i].req_id - 500);
    }
    CHECK(seen == 3);
    set_port(a, 2, MRC_CTL_PORT_ADMIN_DISABLED);
    FAILS(PROBE(2000000000), ETIMEDOUT); /* time for the one that is answered, on a machine that stalls */
    CHECK(count == 1 && responses[0].req_id == 500);
    set_port(a, 2, MRC_CTL_PORT_ADMIN_ENABLED);
    requests[1].req_id = 500;
    FAILS(PROBE(1000000), EINVAL); /* two of one number */
    requests[1].req_id = 501;
    requests[1].dgid.raw[15] ^= 0x40;
    FAILS(PROBE(1000000), EINVAL); /* nobody's address */
    requests[1].dgid = requests[0].dgid;
    requests[1].req_ev.val[3] ^= 0x7F;
    FAILS(PROBE(1000000), EINVAL); /* no path: values have 16 bits */
    requests[1].req_ev = requests[0].req_ev;
    requests[1].sgid = requests[1].dgid;
    FAILS(PROBE(1000000), EINVAL); /* not this NIC */
    requests[1].sgid = requests[0].sgid;
    FAILS(mrc_ctl_ep_batch_send_wait(a->mrc, 0, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, requests, 2, 1000, responses, &count),
          ENOTSUP);
    FAILS(mrc_ctl_ep_batch_send_wait(a->mrc, 64, MRC_CTL_EP_OP_EV_PROBE, requests, 2, 1000, responses, &count), EINVAL);
    FAILS(mrc_ctl_ep_batch_send_wait(a->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests, 0, 1000, responses, &count), EINVAL);
    FAILS(mrc_ctl_ep_batch_send_wait(a->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests, 1025, 1000, responses, &count),
          EINVAL);
    FAILS(mrc_ctl_ep_batch_send_wait(a->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests, 1, 0, responses, &count), EINVAL);
}

/* Write until an EV enters a state, and return it. */
static struct mrc_ctl_ev_event next_event(struct end *a, struct end *b, struct mrc_cq *cq,
                                          enum mrc_ctl_ev_state state) {
    time_t deadline = time(NULL) + 30;
    struct mrc_ctl_ev_event event;
    do {
        CHECK(time(NULL) < deadline);
        CHECK(!post_write(a, b, 0, 100000, 3, 0));
        wait_success(a, 3);
    } while (mrc_ctl_poll_ev_event(cq, 1, &event) < 1 || event.state != state);
    return event;
}

/* Somebody cuts a link when this says so, and restores it. */
void ev_events(struct end *a, struct end *b) {
    static struct mrc_ctl_ev_op_entry all[MAX_EVS];
    struct mrc_ctl_ev_event event, old[3];
    struct mrc_comp_channel *channel;
    struct mrc_cq *cq, *due, *small;
    void *context;
    int count = entries_of(a, 0, all);
    CHECK(!mrc_create_comp_channel(a->mrc, &channel));
    cq = mrc_ctl_create_ev_event_cq(a->mrc, 1000, (void *)88, channel, 0);
    small = mrc_ctl_create_ev_event_cq(a->mrc, 1, NULL, NULL, 0);
    CHECK(cq && small);
    struct mrc_context *first = mrc_create_context(a->verbs, &(struct mrc_context_attr){0x01000000, 0});
    struct mrc_cq *of_first = mrc_ctl_create_ev_event_cq(first, 10, NULL, NULL, 0);
    CHECK(of_first);
    format_online(a);
    program(a, all, count);
    CHECK(!mrc_ctl_poll_ev_event(cq, 1, &event));
    use_profile(a, b);
    while (mrc_ctl_poll_ev_event(cq, 1, &event) == 1)
        ; /* on a busy machine a packet of that write may have seemed lost */
    CHECK(!mrc_req_notify_cq(cq, 0));
    puts("cut");
    fflush(stdout);
    event = next_event(a, b, cq, MRC_CTL_EV_ASSUMED_BAD);
    CHECK(event.profile_id == PROFILE && (event.ev.port == 1 || event.ev.port == 2) && !event.drop_count);
    CHECK(!mrc_get_cq_event(channel, &due, &context) && due == cq && context == (void *)88);
    mrc_ack_cq_events(cq, 1);
    memset(old, 0xEE, sizeof old);
    CHECK(mrc_ctl_poll_ev_event(of_first, 1, old) == 1 && old[0].profile_id == PROFILE);
    CHECK(((unsigned char *)old)[offsetof(struct mrc_ctl_ev_event, state)] == 0xEE); /* version 1.0.0 has no state */
    puts("restore");
    fflush(stdout);
    event = next_event(a, b, cq, MRC_CTL_EV_GOOD);
    CHECK(event.profile_id == PROFILE);
    CHECK(mrc_ctl_poll_ev_event(small, 1, &event) == 1 && !event.drop_count); /* the first; later ones had no room */
    CHECK(!mrc_ctl_poll_ev_event(small, 1, &event) || event.drop_count == 1);
    CHECK(mrc_destroy_context(a->mrc) == -1 && errno == EBUSY);
    CHECK(!mrc_destroy_cq(of_first) && !mrc_destroy_context(first));
    CHECK(!mrc_destroy_cq(small) && !mrc_destroy_cq(cq) && !mrc_destroy_comp_channel(channel));
    struct mrc_qp_attr none = {0};
    CHECK(!step(a, IBV_QPS_RESET, NULL, 0, NULL) && !step(a, IBV_QPS_INIT, &none, MRC_QP_EV_PROFILE_ID, NULL));
    CHECK(!set_profile(a, MRC_CTL_PROFILE_OFFLINE) && !set_profile(a, MRC_CTL_PROFILE_INIT));
    format_gone(a);
}

void control_wrong(struct end *a, struct end *b) {
    struct mrc_ctl_ev_profile_attr ev = {0};
    struct mrc_ctl_ev_fmt_profile_attr format = {0};
    struct mrc_ctl_cc_profile_attr cc = {0};
    struct mrc_ctl_port_attr port = {0};
    struct mrc_ctl_ev_event event;
    int both = MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP, unknown = 1 << 20;
    (void)b;
    FAILS(mrc_ctl_query_device(NULL, NULL), EINVAL);
    FAILS(mrc_ctl_query_device(a->verbs, NULL), EINVAL);
    FAILS(mrc_ctl_query_device_ex(a->verbs, NULL, NULL, NULL), EINVAL);
    mrc_ctl_query_version(NULL, NULL, NULL, NULL);
    FAILS(mrc_ctl_query_port(NULL, 1, &port, 1), EINVAL);
    FAILS(mrc_ctl_query_port(a->mrc, 1, NULL, 1), EINVAL);
    FAILS(mrc_ctl_modify_port(a->mrc, 1, &port, 2), EINVAL);
    FAILS(mrc_ctl_modify_ev_fmt_profile(NULL, 1, &format, 0), EINVAL);
    FAILS(mrc_ctl_modify_ev_fmt_profile(a->mrc, 1, NULL, 0), EINVAL);
    FAILS(mrc_ctl_modify_ev_fmt_profile(a->mrc, 1, &format, unknown), EINVAL);
    FAILS(mrc_ctl_modify_ev_fmt_profile(a->mrc, 1, &format, MRC_CTL_EV_FMT_PROFILE_OP), EINVAL);
    FAILS(mrc_ctl_query_ev_fmt_profile(a->mrc, 1, &format, MRC_CTL_EV_FMT_PROFILE_OP), EINVAL);
    format.profile_state = (enum mrc_ctl_profile_state)9;
    FAILS(mrc_ctl_modify_ev_fmt_profile(a->mrc, 1, &format, MRC_CTL_EV_FMT_PROFILE_STATE), EINVAL);
    struct mrc_ctl_ev_fmt_field many[33] = {{1}}, wide[2] = {{32}, {1}};
    FAILS(set_format(a, MRC_CTL_PROFILE_OFFLINE, many, 33), E2BIG);
    FAILS(set_format(a, MRC_CTL_PROFILE_OFFLINE, wide, 2), E2BIG);
    FAILS(set_format(a, MRC_CTL_PROFILE_OFFLINE, many, -1), EINVAL);
    FAILS(set_format(a, MRC_CTL_PROFILE_OFFLINE, &many[1], 2), EINVAL); /* of no bits */
    FAILS(mrc_ctl_modify_ev_profile(NULL, 1, &ev, 0), EINVAL);
    FAILS(mrc_ctl_modify_ev_profile(a->mrc, 1, &ev, both), EINVAL);
    FAILS(mrc_ctl_query_ev_profile(a->mrc, 1, &ev, both), EINVAL);
    FAILS(mrc_ctl_query_ev_profile(a->mrc, 1, &ev, unknown), EINVAL);
    FAILS(mrc_ctl_modify_ev_profile(a->mrc, 1, &ev, MRC_CTL_EV_PROFILE_EV_OP), EINVAL);
    FAILS(mrc_ctl_query_ev_profile(a->mrc, 1, &ev, MRC_CTL_EV_PROFILE_EV_OP), EINVAL);
    FAILS(mrc_ctl_modify_ev_profile(a->mrc, 1, &ev, MRC_CTL_EV_PROFILE_MODE), EINVAL);
    CHECK(!mrc_ctl_query_ev_profile(a->mrc, 4711, &ev, MRC_CTL_EV_PROFILE_STATE));
    CHECK(ev.profile_state == MRC_CTL_PROFILE_INIT); /* as every profile that nobody has configured */
    FAILS(mrc_ctl_modify_cc_profile(a->mrc, 1, NULL, 0), EINVAL);
    FAILS(mrc_ctl_modify_cc_profile(a->mrc, 1, &cc, MRC_CTL_CC_PROFILE_CONFIG), EINVAL);
    FAILS(mrc_ctl_query_cc_profile(a->mrc, 1, &cc, MRC_CTL_CC_PROFILE_CONFIG), EINVAL);
    static const int sizes[] = {0, -1, 65537};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CHECK(!mrc_ctl_create_ev_event_cq(a->mrc, sizes[i], NULL, NULL, 0) && errno == EINVAL);
    CHECK(!mrc_ctl_create_ev_event_cq(NULL, 1, NULL, NULL, 0) && errno == EINVAL);
    CHECK(mrc_ctl_poll_ev_event(NULL, 1, &event) == -EINVAL && mrc_ctl_poll_ev_event(a->cq, 1, &event) == -EINVAL);
    struct mrc_cq *cq = mrc_ctl_create_ev_event_cq(a->mrc, 1, NULL, NULL, 0);
    struct ibv_wc entry;
    struct mrc_qp_init_attr init = {.send_cq = cq, .recv_cq = a->cq, .pd = a->pd};
    CHECK(mrc_ctl_poll_ev_event(cq, 1, NULL) == -EINVAL && mrc_ctl_poll_ev_event(cq, -1, &event) == -EINVAL);
    CHECK(mrc_poll_cq(cq, 1, &entry) == -1 && errno == EINVAL);
    CHECK(!mrc_create_qp(a->mrc, &init) && errno == EINVAL); /* not a queue for completions */
    CHECK(!mrc_destroy_cq(cq));
    FAILS(mrc_ctl_ep_batch_send_wait(NULL, 0, MRC_CTL_EP_OP_EV_PROBE, NULL, 1, 1, NULL, NULL), EINVAL);
}

/* With the socket of applications alone, nothing of this is permitted. */
void application(struct end *a, struct end *b) {
    struct mrc_ctl_port_attr port = {0};
    struct mrc_ctl_device_attr device;
    (void)b;
    CHECK(!mrc_ctl_query_device(a->verbs, &device));
    FAILS(mrc_ctl_query_port(a->mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EPERM);
    FAILS(mrc_ctl_modify_port(a->mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EPERM);
    FAILS(set_profile(a, MRC_CTL_PROFILE_OFFLINE), EPERM);
    FAILS(set_format(a, MRC_CTL_PROFILE_OFFLINE, NULL, 0), EPERM);
    FAILS(set_cc(a, MRC_CTL_PROFILE_OFFLINE, NULL, NULL, 0), EPERM);
    CHECK(!mrc_ctl_create_ev_event_cq(a->mrc, 1, NULL, NULL, 0) && errno == EPERM);
}

/* The agent ends the controller's connection at the first probe. */
void control_lost(struct end *a, struct end *b) {
    struct mrc_ctl_ep_req request = {.req_id = 1};
    struct mrc_ctl_ep_rsp response;
    struct mrc_ctl_ev_event event;
    struct mrc_ctl_ev_profile_attr ev = {0};
    int count = 7;
    struct mrc_cq *cq = mrc_ctl_create_ev_event_cq(a->mrc, 4, NULL, NULL, 0);
    CHECK(cq && !ibv_query_gid(a->verbs, 1, 0, &request.sgid) && !ibv_query_gid(b->verbs, 1, 0, &request.dgid));
    FAILS(mrc_ctl_ep_batch_send_wait(a->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, &request, 1, 1000, &response, &count), EIO);
    CHECK(!count && mrc_ctl_poll_ev_event(cq, 1, &event) == -EIO);
    FAILS(mrc_ctl_query_ev_profile(a->mrc, 1, &ev, MRC_CTL_EV_PROFILE_STATE), EIO);
    FAILS(set_profile(a, MRC_CTL_PROFILE_OFFLINE), EIO);
    FAILS(set_format(a, MRC_CTL_PROFILE_OFFLINE, NULL, 0), EIO);
    FAILS(set_cc(a, MRC_CTL_PROFILE_OFFLINE, NULL, NULL, 0), EIO);
    CHECK(!mrc_ctl_create_ev_event_cq(a->mrc, 4, NULL, NULL, 0) && errno == EIO);
    CHECK(!mrc_destroy_cq(cq));
}

static void *query_often(void *argument) {
    struct end *end = argument;
    for (int i = 0; i < 100; i++) {
        struct mrc_ctl_ev_profile_attr attr;
        struct mrc_cq *cq = mrc_ctl_create_ev_event_cq(end->mrc, 4, NULL, NULL, 0);
        CHECK(cq && !mrc_ctl_query_ev_profile(end->mrc, 0, &attr, MRC_CTL_EV_PROFILE_STATE));
        CHECK(attr.profile_state == MRC_CTL_PROFILE_ONLINE && !mrc_destroy_cq(cq));
    }
    return NULL;
}

/* Threads of one controller, while another programs and probes. */
void controllers(struct end *a, struct end *b) {
    pthread_t others[2];
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&others[i], NULL, query_often, a));
    probes(a, b);
    cc_profile(a, b);
    for (int i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
}
