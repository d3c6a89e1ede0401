/* CC profiles: NSCC with constants of its own, or no congestion control. A constant of 0 is the NIC's own. */
#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile_change.h"

static const int KNOWN = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE | MRC_CTL_CC_PROFILE_ALGORITHM |
                         MRC_CTL_CC_PROFILE_CONFIG | VENDOR_CFG;
static const char NSCC[] = "uet-1.0-nscc";

/* The application's locale may write fractions with a comma; JSON does not. */
static locale_t plain_numbers(locale_t *before) {
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", 0);
    *before = uselocale(plain);
    return plain;
}

static void usual_numbers(locale_t plain, locale_t before) {
    uselocale(before);
    if (plain)
        freelocale(plain);
}

/* All constants that are whole numbers, and those that are not. */
#define WHOLE(DO)                                                                                                      \
    DO(adjust_bytes_threshold)                                                                                         \
    DO(adjust_period_threshold)                                                                                        \
    DO(base_rtt) DO(max_cwnd) DO(qa_gate) DO(qa_threshold) DO(target_delay)
#define REAL(DO) DO(eta) DO(fi) DO(fi_scale) DO(gamma) DO(max_md_jump)

static int add_constants(struct change *change, const struct mrc_ctl_cc_nscc_cfg *config) {
    if (!config)
        return EINVAL;
    FILE *stream = member(change, "nscc");
    fprintf(stream, "{\"disable_qa\":%s", config->disable_qa ? "true" : "false");
#define PRINT(name)                                                                                                    \
    if (config->name)                                                                                                  \
        fprintf(stream, ",\"" #name "\":%u", (unsigned int)config->name);
    WHOLE(PRINT)
#undef PRINT
#define PRINT(name)                                                                                                    \
    if (!isfinite(config->name))                                                                                       \
        return EINVAL;                                                                                                 \
    if (config->name != 0)                                                                                             \
        fprintf(stream, ",\"" #name "\":%.9g", (double)config->name);
    REAL(PRINT)
#undef PRINT
    fputc('}', stream);
    return 0;
}

static int add_plain_constants(struct change *change, const struct mrc_ctl_cc_nscc_cfg *config) {
    locale_t before, plain = plain_numbers(&before);
    int error = add_constants(change, config);
    usual_numbers(plain, before);
    return error;
}

static int modify(struct mrc_context *mrc, uint64_t id, const struct mrc_ctl_cc_profile_attr *attr, int mask) {
    struct change change;
    int error = begin_change(&change, mask & MRC_CTL_CC_PROFILE_STATE, attr->profile_state,
                             mask & MRC_CTL_CC_PROFILE_CUR_STATE, attr->cur_profile_state);
    if (!error && mask & MRC_CTL_CC_PROFILE_ALGORITHM) {
        if (attr->algorithm && strcmp(attr->algorithm, NSCC))
            error = EINVAL;
        else
            fputs(attr->algorithm ? "true" : "false", member(&change, "controlled"));
    }
    if (!error && mask & MRC_CTL_CC_PROFILE_CONFIG)
        error = add_plain_constants(&change, attr->cc_config);
    if (!error)
        return send_change(&change, mrc, "modify_cc_profile", id);
    abandon_change(&change);
    return error;
}

int mrc_ctl_modify_cc_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_cc_profile_attr *attr, int mask) {
    return minus_one(!mrc || !attr || mask & ~KNOWN ? EINVAL : modify(mrc, id, attr, mask));
}

static void copy_constants(const char *answer, struct mrc_ctl_cc_nscc_cfg *config) {
    locale_t before, plain = plain_numbers(&before);
    *config = (struct mrc_ctl_cc_nscc_cfg){.disable_qa = (uint8_t)json_true(answer, "disable_qa")};
#define COPY(name) config->name = (__typeof__(config->name))json_number(answer, #name, 0);
    WHOLE(COPY)
#undef COPY
#define COPY(name) config->name = (float)json_real(answer, #name, 0);
    REAL(COPY)
#undef COPY
    usual_numbers(plain, before);
}

/* The configuration is copied to where `cc_config` points. */
int mrc_ctl_query_cc_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_cc_profile_attr *attr, int mask) {
    if (!mrc || !attr || mask & ~KNOWN || (mask & MRC_CTL_CC_PROFILE_CONFIG && !attr->cc_config))
        return minus_one(EINVAL);
    char *answer;
    int error =
        request_control(mrc, &answer, "{\"op\":\"programmed_cc_profile\",\"number\":%llu}", (unsigned long long)id);
    if (error)
        return minus_one(error);
    if (mask & MRC_CTL_CC_PROFILE_STATE)
        attr->profile_state = profile_state_named(answer);
    if (mask & (MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE))
        attr->cur_profile_state = profile_state_named(answer);
    if (mask & MRC_CTL_CC_PROFILE_ALGORITHM)
        attr->algorithm = json_true(answer, "controlled") ? NSCC : NULL;
    if (mask & MRC_CTL_CC_PROFILE_CONFIG)
        copy_constants(answer, (struct mrc_ctl_cc_nscc_cfg *)(uintptr_t)attr->cc_config);
    if (mask & VENDOR_CFG)
        memset(attr->vendor_cfg, 0, sizeof attr->vendor_cfg);
    free(answer);
    return 0;
}
