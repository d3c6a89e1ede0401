/* EV profiles: their attributes and fields. What concerns single EVs is in ev_entries.c. */
#include "ev_profile.h"

#include <stdlib.h>
#include <string.h>

#include "profile_change.h"

enum { MAX_FIELDS = 32 };

static const int KNOWN = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE | MRC_CTL_EV_PROFILE_MODE |
                         MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
                         MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP |
                         VENDOR_CFG;
static const int BOTH = MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;

static const struct {
    enum mrc_ctl_ev_mode mode;
    const char *name;
} modes[] = {{MRC_CTL_EV_MODE_AUTO, "auto"}, {MRC_CTL_EV_MODE_EXP, "explicit"}, {MRC_CTL_EV_MODE_GEN, "generated"}};
enum { MODES = sizeof modes / sizeof *modes };

static int add_mode(struct change *change, enum mrc_ctl_ev_mode mode) {
    for (size_t i = 0; i < MODES; i++)
        if (modes[i].mode == mode)
            return fprintf(member(change, "mode"), "\"%s\"", modes[i].name) < 0 ? ENOMEM : 0;
    return EINVAL;
}

static int add_events(struct change *change, int mask) {
    if (mask & ~(MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD))
        return EINVAL;
    FILE *stream = member(change, "events");
    fprintf(stream, "[%s%s%s]", mask & MRC_CTL_EV_GOOD ? "\"good\"" : "",
            mask == (MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD) ? "," : "",
            mask & MRC_CTL_EV_ASSUMED_BAD ? "\"assumed_bad\"" : "");
    return 0;
}

static int add_fields(struct change *change, const struct mrc_ctl_ev_profile_attr *attr) {
    const struct mrc_ctl_ev_field *fields = attr->ev_fields_op.fields;
    int count = attr->ev_fields_op.field_count;
    if (attr->ev_fields_op.op != MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS || count < 1 || !fields)
        return EINVAL;
    if (count > MAX_FIELDS)
        return E2BIG;
    FILE *stream = member(change, "fields");
    for (int i = 0; i < count; i++)
        fprintf(stream, "%s{\"width\":%u,\"init_val\":%u,\"minimum\":%u,\"maximum\":%u,\"mask\":%u}", i ? "," : "[",
                fields[i].width, fields[i].init_val, fields[i].min_val, fields[i].max_val, fields[i].mask);
    fputc(']', stream);
    return 0;
}

static int add_attributes(struct change *change, const struct mrc_ctl_ev_profile_attr *attr, int mask) {
    int error = mask & MRC_CTL_EV_PROFILE_MODE ? add_mode(change, attr->ev_mode) : 0;
    if (mask & MRC_CTL_EV_PROFILE_FMT_ID)
        fprintf(member(change, "ev_format"), "%llu", (unsigned long long)attr->ev_fmt_profile_id);
    if (mask & MRC_CTL_EV_PROFILE_COUNT)
        fprintf(member(change, "count"), "%u", attr->ev_count);
    if (mask & MRC_CTL_EV_PROFILE_MIN_ACTIVE)
        fprintf(member(change, "min_active"), "%u", attr->ev_min_active);
    if (!error && mask & MRC_CTL_EV_PROFILE_EVENT_MASK)
        error = add_events(change, attr->ev_event_mask);
    if (!error && mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP)
        error = add_fields(change, attr);
    return error;
}

static int change_profile(struct mrc_context *mrc, uint64_t id, const struct mrc_ctl_ev_profile_attr *attr, int mask) {
    struct change change;
    int error = begin_change(&change, mask & MRC_CTL_EV_PROFILE_STATE, attr->profile_state,
                             mask & MRC_CTL_EV_PROFILE_CUR_STATE, attr->cur_profile_state);
    if (!error)
        error = add_attributes(&change, attr, mask);
    if (!error)
        return send_change(&change, mrc, "modify_ev_profile", id);
    abandon_change(&change);
    return error;
}

/* EVs are replaced before a state is entered that needs them, and after one is left that does not allow it. */
static int modify(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask) {
    int with_evs = mask & MRC_CTL_EV_PROFILE_EV_OP, others = mask & ~(MRC_CTL_EV_PROFILE_EV_OP | VENDOR_CFG);
    int error = with_evs ? check_ev_op(attr, 0) : 0;
    int first = mask & MRC_CTL_EV_PROFILE_STATE && attr->profile_state == MRC_CTL_PROFILE_ONLINE;
    if (!error && with_evs && first)
        error = do_ev_op(mrc, id, attr);
    if (!error && others)
        error = change_profile(mrc, id, attr, others);
    if (!error && with_evs && !first)
        error = do_ev_op(mrc, id, attr);
    return error;
}

int mrc_ctl_modify_ev_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask) {
    if (!mrc || !attr || mask & ~KNOWN || (mask & BOTH) == BOTH)
        return minus_one(EINVAL);
    if (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP && attr->ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS)
        return mask & ~(MRC_CTL_EV_PROFILE_EV_FIELDS_OP | VENDOR_CFG) ? minus_one(EINVAL)
                                                                      : mrc_ctl_query_ev_profile(mrc, id, attr, mask);
    return minus_one(modify(mrc, id, attr, mask));
}

static int copy_fields(const char *answer, struct mrc_ctl_ev_profile_attr *attr) {
    struct mrc_ctl_ev_field found[MAX_FIELDS];
    int count = 0, room = attr->ev_fields_op.field_count;
    for (const char *at = answer; count < MAX_FIELDS && (at = json_next(at, "width"));)
        found[count++] = (struct mrc_ctl_ev_field){
            .width = (uint32_t)strtoul(at, NULL, 10),
            .init_val = (uint32_t)json_number(at, "init_val", 0),
            .min_val = (uint32_t)json_number(at, "minimum", 0),
            .max_val = (uint32_t)json_number(at, "maximum", 0),
            .mask = (uint32_t)json_number(at, "mask", 0),
        };
    if (room < 0 || (room && !attr->ev_fields_op.fields))
        return EINVAL;
    attr->ev_fields_op.field_count = count;
    if (room < count)
        return E2BIG;
    if (count)
        memcpy(attr->ev_fields_op.fields, found, (size_t)count * sizeof *found);
    return 0;
}

static void copy_attributes_of(const char *answer, struct mrc_ctl_ev_profile_attr *attr, int mask) {
    char mode[16];
    if (mask & MRC_CTL_EV_PROFILE_STATE)
        attr->profile_state = profile_state_named(answer);
    if (mask & (MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE))
        attr->cur_profile_state = profile_state_named(answer);
    json_text(answer, "mode", mode, sizeof mode);
    if (mask & MRC_CTL_EV_PROFILE_MODE) {
        attr->ev_mode = (enum mrc_ctl_ev_mode)0; /* of a profile that is not configured */
        for (size_t i = 0; i < MODES; i++)
            if (!strcmp(modes[i].name, mode))
                attr->ev_mode = modes[i].mode;
    }
    if (mask & MRC_CTL_EV_PROFILE_FMT_ID)
        attr->ev_fmt_profile_id = json_number(answer, "ev_format", 0);
    if (mask & MRC_CTL_EV_PROFILE_COUNT)
        attr->ev_count = (uint32_t)json_number(answer, "count", 0);
    if (mask & MRC_CTL_EV_PROFILE_MIN_ACTIVE)
        attr->ev_min_active = (uint32_t)json_number(answer, "min_active", 0);
    if (mask & MRC_CTL_EV_PROFILE_EVENT_MASK)
        attr->ev_event_mask = (strstr(answer, "\"good\"") ? MRC_CTL_EV_GOOD : 0) |
                              (strstr(answer, "\"assumed_bad\"") ? MRC_CTL_EV_ASSUMED_BAD : 0);
    if (mask & VENDOR_CFG)
        memset(attr->vendor_cfg, 0, sizeof attr->vendor_cfg);
}

static int query(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask) {
    char *answer;
    int error = mask & MRC_CTL_EV_PROFILE_EV_OP ? check_ev_op(attr, 1) : 0;
    if (error)
        return error;
    error = request_control(mrc, &answer, "{\"op\":\"programmed_ev_profile\",\"number\":%llu}", (unsigned long long)id);
    if (error)
        return error;
    copy_attributes_of(answer, attr, mask);
    if (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP)
        error = copy_fields(answer, attr);
    free(answer);
    return !error && mask & MRC_CTL_EV_PROFILE_EV_OP ? do_ev_op(mrc, id, attr) : error;
}

int mrc_ctl_query_ev_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask) {
    if (!mrc || !attr || mask & ~KNOWN || (mask & BOTH) == BOTH ||
        (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP && attr->ev_fields_op.op != MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS))
        return minus_one(EINVAL);
    return minus_one(query(mrc, id, attr, mask));
}
