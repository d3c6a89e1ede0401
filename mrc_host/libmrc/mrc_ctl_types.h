/* The types and constants of the OCP's MRC API 1.0.1, of controllers; as in mrc_types.h. */
#ifndef MRC_CTL_TYPES_H
#define MRC_CTL_TYPES_H

#include "mrc_types.h"

#define MRC_CTL_API_VER_MAJOR_OFFSET 24
#define MRC_CTL_API_VER_MINOR_OFFSET 16
#define MRC_CTL_API_VER_SUBMINOR_OFFSET 0
#define MRC_CTL_API_VER_LATEST MRC_API_VER(0xFF, 0xFF, 0xFFFF)
#define MRC_CTL_API_CURRENT_VERSION MRC_API_VER(1, 0, 1)
#define MRC_CTL_API_LAST_SUPPORTED_VERSION MRC_API_VER(0, 0, 0)
#define MRC_CTL_VENDOR_API_CURRENT_VERSION MRC_API_VER(1, 0, 0)
#define MRC_CTL_VENDOR_API_LAST_SUPPORTED_VERSION MRC_API_VER(0, 0, 0)
#define MRC_CTL_MAX_VENDOR_CFG_SIZE 128
#define MRC_CTL_EV_MAX_BYTES 32

enum mrc_ctl_protocol_version { MRC_CTL_PROTOCOL_VERSION_0 = 0, MRC_CTL_PROTOCOL_VERSION_1 = 1 << 0 };

enum mrc_ctl_profile_state { MRC_CTL_PROFILE_INIT, MRC_CTL_PROFILE_OFFLINE, MRC_CTL_PROFILE_ONLINE };

/* The device and its ports */

enum mrc_ctl_attr_opt {
    MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE = 1 << 0,
    MRC_CTL_OPT_CAP_CC_PROFILE_MODIFY_ONLINE = 1 << 1,
    MRC_CTL_OPT_CAP_EV_EVENT = 1 << 2,
    MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE = 1 << 3,
    MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT = 1 << 4,
    MRC_CTL_OPT_CAP_EP_OP_EV_PROBE = 1 << 5,
};

struct mrc_ctl_device_attr {
    uint32_t mrc_ctl_protocol_version;
    struct {
        uint32_t ev_max_fmt_profiles, ev_max_profiles;
        uint32_t ev_max_count, ev_free_count, ev_max_count_profile, ev_count_align;
        uint32_t ev_max_width; /* bits */
        uint32_t ev_fmt_mode_mask, ev_mode_mask;
        uint32_t ev_op_max_entries; /* 0: no limit */
    } ev;
    struct {
        uint32_t cc_max_profiles;
        const char **algorithms; /* the last is NULL */
    } cc;
    uint32_t phy_port_mask; /* bit N is port N, from 1 */
    uint32_t opt_attr;      /* bits of enum mrc_ctl_attr_opt */
};

enum mrc_ctl_port_admin_state { MRC_CTL_PORT_ADMIN_DISABLED = 0, MRC_CTL_PORT_ADMIN_ENABLED = 1 };

enum mrc_ctl_port_attr_mask { MRC_CTL_PORT_ADMIN_STATE = 1 << 0 };

struct mrc_ctl_port_attr {
    enum mrc_ctl_port_admin_state port_admin_state;
};

/* EV format profiles */

enum mrc_ctl_ev_fmt_mode {
    MRC_CTL_EV_FMT_MODE_STEV = 1 << 0,
    MRC_CTL_EV_FMT_MODE_SRV6 = 1 << 1,
    MRC_CTL_EV_FMT_MODE_UDP = 1 << 2,
};

enum mrc_ctl_ev_fmt_op { MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, MRC_CTL_EV_FMT_OP_QUERY_FIELDS };

enum mrc_ctl_ev_fmt_profile_attr_mask {
    MRC_CTL_EV_FMT_PROFILE_STATE = 1 << 0,
    MRC_CTL_EV_FMT_PROFILE_CUR_STATE = 1 << 1,
    MRC_CTL_EV_FMT_PROFILE_MODE = 1 << 2,
    MRC_CTL_EV_FMT_PROFILE_OP = 1 << 3,
    MRC_CTL_EV_FMT_VENDOR_CFG = 1 << 31,
};

struct mrc_ctl_ev_fmt_field {
    uint8_t width;
};

struct mrc_ctl_ev_fmt_profile_attr {
    enum mrc_ctl_profile_state profile_state, cur_profile_state;
    enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
    struct {
        enum mrc_ctl_ev_fmt_op op;
        struct mrc_ctl_ev_fmt_field *fmt_fields;
        int fmt_field_count;
    } ev_fmt_op;
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* EVs and EV profiles */

typedef uint8_t mrc_ctl_ev_t[MRC_CTL_EV_MAX_BYTES];

struct mrc_ctl_ev {
    mrc_ctl_ev_t val;
    uint8_t port; /* from 1; 0 in an entry that is not populated */
};

enum mrc_ctl_ev_state {
    MRC_CTL_EV_GOOD = 1 << 0,
    MRC_CTL_EV_ASSUMED_BAD = 1 << 1,
    MRC_CTL_EV_DENIED = 1 << 2,
    MRC_CTL_EV_UNKNOWN = 1 << 31,
};

enum mrc_ctl_ev_mode {
    MRC_CTL_EV_MODE_AUTO = 1 << 0,
    MRC_CTL_EV_MODE_EXP = 1 << 1,
    MRC_CTL_EV_MODE_GEN = 1 << 2,
};

enum mrc_ctl_ev_op {
    MRC_CTL_EV_OP_REPLACE_EV,
    MRC_CTL_EV_OP_MODIFY_EV_STATE,
    MRC_CTL_EV_OP_QUERY_EV_STATE,
    MRC_CTL_EV_OP_QUERY_EV_ARRAY,
};

enum mrc_ctl_ev_fields_op { MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS };

enum mrc_ctl_ev_profile_attr_mask {
    MRC_CTL_EV_PROFILE_STATE = 1 << 0,
    MRC_CTL_EV_PROFILE_CUR_STATE = 1 << 1,
    MRC_CTL_EV_PROFILE_MODE = 1 << 2,
    MRC_CTL_EV_PROFILE_FMT_ID = 1 << 3,
    MRC_CTL_EV_PROFILE_COUNT = 1 << 4,
    MRC_CTL_EV_PROFILE_MIN_ACTIVE = 1 << 5,
    MRC_CTL_EV_PROFILE_EVENT_MASK = 1 << 6,
    MRC_CTL_EV_PROFILE_EV_OP = 1 << 7,
    MRC_CTL_EV_PROFILE_EV_FIELDS_OP = 1 << 8,
    MRC_CTL_EV_PROFILE_VENDOR_CFG = 1 << 31,
};

struct mrc_ctl_ev_field {
    uint32_t width, init_val, min_val, max_val, mask; /* the limits are of the bits in the mask */
};

enum mrc_ctl_ev_op_flags { MRC_CTL_EV_OP_F_ALL_COPIES = 1 << 0 };

struct mrc_ctl_ev_op_entry {
    struct mrc_ctl_ev ev, ev_new;
    enum mrc_ctl_ev_state state;
    uint32_t flags;
};

struct mrc_ctl_ev_profile_attr {
    enum mrc_ctl_profile_state profile_state, cur_profile_state;
    enum mrc_ctl_ev_mode ev_mode;
    uint64_t ev_fmt_profile_id;
    uint32_t ev_count, ev_min_active;
    int ev_event_mask;
    struct {
        enum mrc_ctl_ev_op op;
        struct mrc_ctl_ev_op_entry *entries;
        int entry_count;
    } ev_op;
    struct {
        enum mrc_ctl_ev_fields_op op;
        struct mrc_ctl_ev_field *fields;
        int field_count;
    } ev_fields_op;
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* CC profiles */

enum mrc_ctl_cc_profile_attr_mask {
    MRC_CTL_CC_PROFILE_STATE = 1 << 0,
    MRC_CTL_CC_PROFILE_CUR_STATE = 1 << 1,
    MRC_CTL_CC_PROFILE_ALGORITHM = 1 << 2,
    MRC_CTL_CC_PROFILE_CONFIG = 1 << 3,
    MRC_CTL_CC_PROFILE_VENDOR_CFG = 1 << 31,
};

struct mrc_ctl_cc_profile_attr {
    enum mrc_ctl_profile_state profile_state, cur_profile_state;
    const char *algorithm; /* NULL: none */
    const void *cc_config;
    uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

struct mrc_ctl_cc_nscc_cfg {
    uint8_t disable_qa;
    uint32_t adjust_bytes_threshold, adjust_period_threshold, base_rtt; /* bytes, ns, ns */
    float eta, fi, fi_scale, gamma, max_md_jump;
    uint32_t max_cwnd; /* bytes */
    uint8_t qa_gate;
    uint32_t qa_threshold, target_delay; /* ns */
};

/* EV events */

struct mrc_ctl_ev_event {
    uint64_t profile_id;
    struct mrc_ctl_ev ev;
    uint32_t drop_count;
    enum mrc_ctl_ev_state state; /* not in versions before 1.0.1 */
};

/* Endpoint requests */

enum mrc_ctl_ep_op_type { MRC_CTL_EP_OP_EV_PROBE, MRC_CTL_EP_OP_PORT_STATUS_UPDATE };

struct mrc_ctl_ep_req {
    uint16_t req_id;
    union ibv_gid sgid, dgid;
    enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
    struct mrc_ctl_ev req_ev;
    union {
        struct {
            uint32_t port_status;
        } port_status_update;
    } op;
};

struct mrc_ctl_ep_rsp {
    uint16_t req_id;
    uint8_t port;     /* from 1 */
    unsigned int rtt; /* ns */
    uint8_t adj_svc_time;
};

#endif
