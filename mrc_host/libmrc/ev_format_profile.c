/* EV format profiles: how wide the fields of an EV are. */
#include <stdlib.h>
#include <string.h>

#include "profile_change.h"

enum { MAX_FIELDS = 32, MAX_WIDTH = 32 };

static const int KNOWN = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE | MRC_CTL_EV_FMT_PROFILE_MODE |
                         MRC_CTL_EV_FMT_PROFILE_OP | VENDOR_CFG;

static const struct {
    enum mrc_ctl_ev_fmt_mode mode;
    const char *name;
} modes[] = {{MRC_CTL_EV_FMT_MODE_STEV, "stev"}, {MRC_CTL_EV_FMT_MODE_SRV6, "srv6"}, {MRC_CTL_EV_FMT_MODE_UDP, "udp"}};
enum { MODES = sizeof modes / sizeof *modes };

static int add_mode(struct change *change, enum mrc_ctl_ev_fmt_mode mode) {
    for (size_t i = 0; i < MODES; i++)
        if (modes[i].mode == mode)
            return fprintf(member(change, "mode"), "\"%s\"", modes[i].name) < 0 ? ENOMEM : 0;
    return EINVAL;
}

static int add_fields(struct change *change, const struct mrc_ctl_ev_fmt_field *fields, int count) {
    if (count < 1 || !fields)
        return EINVAL;
    if (count > MAX_FIELDS)
        return E2BIG;
    unsigned int width = 0;
    FILE *stream = member(change, "widths");
    for (int i = 0; i < count; i++) {
        width += fields[i].width;
        fprintf(stream, "%s%u", i ? "," : "[", fields[i].width);
    }
    fputc(']', stream);
    return width > MAX_WIDTH ? E2BIG : 0;
}

static int modify(struct mrc_context *mrc, uint64_t id, const struct mrc_ctl_ev_fmt_profile_attr *attr, int mask) {
    struct change change;
    int error = begin_change(&change, mask & MRC_CTL_EV_FMT_PROFILE_STATE, attr->profile_state,
                             mask & MRC_CTL_EV_FMT_PROFILE_CUR_STATE, attr->cur_profile_state);
    if (!error && mask & MRC_CTL_EV_FMT_PROFILE_MODE)
        error = add_mode(&change, attr->ev_fmt_mode);
    if (!error && mask & MRC_CTL_EV_FMT_PROFILE_OP) {
        int is_modify = attr->ev_fmt_op.op == MRC_CTL_EV_FMT_OP_MODIFY_FIELDS;
        error = is_modify ? add_fields(&change, attr->ev_fmt_op.fmt_fields, attr->ev_fmt_op.fmt_field_count) : EINVAL;
    }
    if (!error)
        return send_change(&change, mrc, "modify_ev_format", id);
    abandon_change(&change);
    return error;
}

/* QUERY_FIELDS may be asked for in a modification, too. */
int mrc_ctl_modify_ev_fmt_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr *attr,
                                  int mask) {
    if (!mrc || !attr || mask & ~KNOWN)
        return minus_one(EINVAL);
    if (mask & MRC_CTL_EV_FMT_PROFILE_OP && attr->ev_fmt_op.op == MRC_CTL_EV_FMT_OP_QUERY_FIELDS)
        return mask & ~(MRC_CTL_EV_FMT_PROFILE_OP | VENDOR_CFG) ? minus_one(EINVAL)
                                                                : mrc_ctl_query_ev_fmt_profile(mrc, id, attr, mask);
    return minus_one(modify(mrc, id, attr, mask));
}

static int copy_fields(const char *answer, struct mrc_ctl_ev_fmt_profile_attr *attr) {
    uint8_t widths[MAX_FIELDS];
    int count = 0, room = attr->ev_fmt_op.fmt_field_count;
    const char *at = json_next(answer, "widths");
    if (at && at[0] == '[' && at[1] != ']')
        do {
            char *end;
            widths[count++] = (uint8_t)strtoul(at + 1, &end, 10);
            at = end;
        } while (*at == ',' && count < MAX_FIELDS);
    if (room < 0 || (room && !attr->ev_fmt_op.fmt_fields))
        return EINVAL;
    attr->ev_fmt_op.fmt_field_count = count;
    if (room < count)
        return E2BIG;
    for (int i = 0; i < count; i++)
        attr->ev_fmt_op.fmt_fields[i].width = widths[i];
    return 0;
}

int mrc_ctl_query_ev_fmt_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr *attr,
                                 int mask) {
    int with_fields = mask & MRC_CTL_EV_FMT_PROFILE_OP;
    if (!mrc || !attr || mask & ~KNOWN || (with_fields && attr->ev_fmt_op.op != MRC_CTL_EV_FMT_OP_QUERY_FIELDS))
        return minus_one(EINVAL);
    char *answer, mode[16];
    int error =
        request_control(mrc, &answer, "{\"op\":\"programmed_ev_format\",\"number\":%llu}", (unsigned long long)id);
    if (error)
        return minus_one(error);
    if (mask & MRC_CTL_EV_FMT_PROFILE_STATE)
        attr->profile_state = profile_state_named(answer);
    if (mask & (MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE))
        attr->cur_profile_state = profile_state_named(answer);
    json_text(answer, "mode", mode, sizeof mode);
    if (mask & MRC_CTL_EV_FMT_PROFILE_MODE) {
        attr->ev_fmt_mode = (enum mrc_ctl_ev_fmt_mode)0; /* of a profile that is not configured */
        for (size_t i = 0; i < MODES; i++)
            if (!strcmp(modes[i].name, mode))
                attr->ev_fmt_mode = modes[i].mode;
    }
    if (mask & VENDOR_CFG)
        memset(attr->vendor_cfg, 0, sizeof attr->vendor_cfg);
    if (with_fields)
        error = copy_fields(answer, attr);
    free(answer);
    return minus_one(error);
}
