#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ev_profile.h"

int check_ev_op(const struct mrc_ctl_ev_profile_attr *attr, int query) {
    int count = attr->ev_op.entry_count;
    switch (attr->ev_op.op) {
    case MRC_CTL_EV_OP_REPLACE_EV:
    case MRC_CTL_EV_OP_MODIFY_EV_STATE: return query || count < 1 || !attr->ev_op.entries ? EINVAL : 0;
    case MRC_CTL_EV_OP_QUERY_EV_STATE: return count < 1 || !attr->ev_op.entries ? EINVAL : 0;
    case MRC_CTL_EV_OP_QUERY_EV_ARRAY: return count < 0 || (count && !attr->ev_op.entries) ? EINVAL : 0;
    default: return EINVAL;
    }
}

/* An EV in the profile, which has no port and no value where it is not populated. */
static int is_unpopulated(const struct mrc_ctl_ev *ev) {
    static const struct mrc_ctl_ev unpopulated;
    return !memcmp(ev, &unpopulated, sizeof unpopulated);
}

static int deny(struct mrc_context *mrc, uint64_t id, const struct mrc_ctl_ev *ev, int denied) {
    uint32_t value;
    if (!ev_value(ev, &value))
        return EINVAL;
    return request_control(mrc, NULL, "{\"op\":\"deny_ev\",\"number\":%llu,\"ev\":%u,\"denied\":%s}",
                           (unsigned long long)id, value, denied ? "true" : "false");
}

static int replace(struct mrc_context *mrc, uint64_t id, const struct mrc_ctl_ev_op_entry *entry) {
    uint32_t old, new;
    char was[16] = "null";
    if (!ev_value(&entry->ev, &old) || !ev_value(&entry->ev_new, &new) || !entry->ev_new.port ||
        entry->flags & ~(uint32_t)MRC_CTL_EV_OP_F_ALL_COPIES)
        return EINVAL;
    if (entry->state && entry->state != MRC_CTL_EV_GOOD && entry->state != MRC_CTL_EV_DENIED &&
        entry->state != MRC_CTL_EV_UNKNOWN)
        return EINVAL;
    if (!is_unpopulated(&entry->ev))
        snprintf(was, sizeof was, "%u", old);
    int error = request_control(mrc, NULL,
                                "{\"op\":\"replace_evs\",\"number\":%llu,\"replacements\":[{\"old\":%s,\"new\":"
                                "{\"ev\":%u,\"port\":%d},\"all_copies\":%s}]}",
                                (unsigned long long)id, was, new, entry->ev_new.port - 1,
                                entry->flags & MRC_CTL_EV_OP_F_ALL_COPIES ? "true" : "false");
    return !error && entry->state == MRC_CTL_EV_DENIED ? deny(mrc, id, &entry->ev_new, 1) : error;
}

static int modify_state(struct mrc_context *mrc, uint64_t id, const struct mrc_ctl_ev_op_entry *entry) {
    if (entry->state != MRC_CTL_EV_GOOD && entry->state != MRC_CTL_EV_DENIED)
        return EINVAL;
    return deny(mrc, id, &entry->ev, entry->state == MRC_CTL_EV_DENIED);
}

/* Read the entry at `at`, which is behind its key "ev". */
static void parse_entry(const char *at, struct mrc_ctl_ev_op_entry *entry) {
    char state[16];
    json_text(at, "state", state, sizeof state);
    if (*at < '0' || *at > '9') { /* null */
        entry->ev = (struct mrc_ctl_ev){0};
        entry->state = MRC_CTL_EV_UNKNOWN;
        return;
    }
    entry->ev = ev_with((uint32_t)strtoul(at, NULL, 10), (unsigned int)json_number(at, "port", UINT32_MAX));
    entry->state = ev_state_named(state);
}

static int query_state(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_op_entry *entry) {
    uint32_t value;
    char *answer;
    if (!ev_value(&entry->ev, &value))
        return EINVAL;
    int error = request_control(mrc, &answer, "{\"op\":\"programmed_evs\",\"number\":%llu,\"ev\":%u}",
                                (unsigned long long)id, value);
    if (error)
        return error;
    struct mrc_ctl_ev_op_entry known = {.state = MRC_CTL_EV_UNKNOWN};
    const char *at = json_next(answer, "ev");
    if (at)
        parse_entry(at, &known);
    entry->state = known.state;
    free(answer);
    return 0;
}

/* Entries come in pages. */
static int query_array(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr) {
    int room = attr->ev_op.entry_count, read = 0, total = 0;
    do {
        char *answer;
        int before = read;
        int error = request_control(mrc, &answer, "{\"op\":\"programmed_evs\",\"number\":%llu,\"first\":%d}",
                                    (unsigned long long)id, read);
        if (error)
            return error;
        total = (int)json_number(answer, "total", 0);
        attr->ev_op.entry_count = total;
        if (total > room) {
            free(answer);
            return E2BIG;
        }
        for (const char *at = answer; read < total && (at = json_next(at, "ev"));)
            parse_entry(at, &attr->ev_op.entries[read++]);
        free(answer);
        if (read == before)
            break;
    } while (read < total);
    return 0;
}

int do_ev_op(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr) {
    if (attr->ev_op.op == MRC_CTL_EV_OP_QUERY_EV_ARRAY)
        return query_array(mrc, id, attr);
    int error = 0;
    for (int i = 0; i < attr->ev_op.entry_count && !error; i++) {
        struct mrc_ctl_ev_op_entry *entry = &attr->ev_op.entries[i];
        if (attr->ev_op.op == MRC_CTL_EV_OP_REPLACE_EV)
            error = replace(mrc, id, entry);
        else if (attr->ev_op.op == MRC_CTL_EV_OP_MODIFY_EV_STATE)
            error = modify_state(mrc, id, entry);
        else
            error = query_state(mrc, id, entry);
    }
    return error;
}
