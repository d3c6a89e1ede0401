/* The control device: what a controller may program, and the NIC's ports: one for each plane, while verbs has one for all. */
#include <stdlib.h>
#include <string.h>

#include "controller.h"

/* NSCC, by its common name; no name is no congestion control. */
static const char *algorithms[] = {"uet-1.0-nscc", NULL};

static uint32_t format_mode(const char *limits) {
    char mode[16];
    json_text(limits, "mode", mode, sizeof mode);
    if (!strcmp(mode, "stev"))
        return MRC_CTL_EV_FMT_MODE_STEV;
    return strcmp(mode, "udp") ? MRC_CTL_EV_FMT_MODE_SRV6 : MRC_CTL_EV_FMT_MODE_UDP;
}

static int query(struct ibv_context *context, struct mrc_ctl_device_attr *attr) {
    char *limits;
    int error = request_verb(context, &limits, "{\"op\":\"control_limits\"}");
    if (error)
        return error;
    uint32_t profiles = (uint32_t)json_number(limits, "max_profiles", 0),
             evs = (uint32_t)json_number(limits, "max_evs", 0);
    uint32_t ports = (uint32_t)json_number(limits, "ports", 0), all = profiles * evs;
    *attr = (struct mrc_ctl_device_attr){
        .mrc_ctl_protocol_version = MRC_CTL_PROTOCOL_VERSION_1,
        .ev =
            {
                .ev_max_fmt_profiles = profiles,
                .ev_max_profiles = profiles,
                .ev_max_count = all,
                .ev_free_count = all - (uint32_t)json_number(limits, "evs_in_use", 0),
                .ev_max_count_profile = evs,
                .ev_count_align = 1,
                .ev_max_width = 32,
                .ev_fmt_mode_mask = format_mode(limits),
                .ev_mode_mask = MRC_CTL_EV_MODE_AUTO | MRC_CTL_EV_MODE_EXP | MRC_CTL_EV_MODE_GEN,
            },
        .cc = {.cc_max_profiles = profiles, .algorithms = algorithms},
        .phy_port_mask = ports < 31 ? ((1u << ports) - 1) << 1 : UINT32_MAX << 1,
        .opt_attr = MRC_CTL_OPT_CAP_EV_EVENT | MRC_CTL_OPT_CAP_EP_OP_EV_PROBE,
    };
    free(limits);
    return 0;
}

int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *attr) {
    if (!context || !attr)
        return minus_one(EINVAL);
    return minus_one(verbs() ? query(context, attr) : EOPNOTSUPP);
}

int mrc_ctl_query_device_ex(struct ibv_context *context, struct mrc_context *mrc, struct mrc_ctl_device_attr *attr,
                            int *supported) {
    if (!context || !attr || !supported || (mrc && mrc->verbs != context))
        return minus_one(EINVAL);
    *supported = verbs() != NULL;
    return minus_one(*supported ? query(context, attr) : 0);
}

void mrc_ctl_query_version(uint32_t *current, uint32_t *oldest, uint32_t *vendor, uint32_t *oldest_vendor) {
    mrc_query_version(current, oldest, vendor, oldest_vendor); /* the same numbers */
}

int mrc_ctl_query_port(struct mrc_context *mrc, uint8_t port, struct mrc_ctl_port_attr *attr, int mask) {
    if (!mrc || !attr || !port || mask & ~MRC_CTL_PORT_ADMIN_STATE)
        return minus_one(EINVAL);
    char *answer;
    int error = request_control(mrc, &answer, "{\"op\":\"port_enabled\",\"number\":%d}", port - 1);
    if (!error && mask)
        attr->port_admin_state = json_true(answer, "result") ? MRC_CTL_PORT_ADMIN_ENABLED : MRC_CTL_PORT_ADMIN_DISABLED;
    free(error ? NULL : answer);
    return minus_one(error);
}

int mrc_ctl_modify_port(struct mrc_context *mrc, uint8_t port, struct mrc_ctl_port_attr *attr, int mask) {
    if (!mrc || !attr || !port || mask & ~MRC_CTL_PORT_ADMIN_STATE ||
        (mask && attr->port_admin_state != MRC_CTL_PORT_ADMIN_ENABLED &&
         attr->port_admin_state != MRC_CTL_PORT_ADMIN_DISABLED))
        return minus_one(EINVAL);
    if (!mask)
        return 0;
    return minus_one(request_control(mrc, NULL, "{\"op\":\"enable_port\",\"number\":%d,\"enabled\":%s}", port - 1,
                                     attr->port_admin_state == MRC_CTL_PORT_ADMIN_ENABLED ? "true" : "false"));
}
