/* The types and constants of the OCP's MRC API 1.0.1, of applications: the names and layouts that programs are compiled
 * with. A test compares them with a copy of the OCP's headers. */
#ifndef MRC_TYPES_H
#define MRC_TYPES_H

#include <infiniband/verbs.h>
#include <stdint.h>

#define MRC_API_VER_MAJOR_OFFSET 24
#define MRC_API_VER_MINOR_OFFSET 16
#define MRC_API_VER_SUBMINOR_OFFSET 0
#define MRC_API_VER(major, minor, subminor)                                                                            \
    ((uint32_t)(major) << MRC_API_VER_MAJOR_OFFSET | (uint32_t)(minor) << MRC_API_VER_MINOR_OFFSET |                   \
     (uint32_t)(subminor) << MRC_API_VER_SUBMINOR_OFFSET)
#define MRC_API_VER_LATEST MRC_API_VER(0xFF, 0xFF, 0xFFFF)
#define MRC_API_CURRENT_VERSION MRC_API_VER(1, 0, 1)
#define MRC_API_LAST_SUPPORTED_VERSION MRC_API_VER(0, 0, 0)
#define MRC_VENDOR_API_CURRENT_VERSION MRC_API_VER(1, 0, 0)
#define MRC_VENDOR_API_LAST_SUPPORTED_VERSION MRC_API_VER(0, 0, 0)
#define MRC_MAX_VENDOR_CFG_SIZE 128

struct mrc_context;
struct mrc_comp_channel;
struct mrc_cq;
struct mrc_qp;
struct mrc_qp_hint;

enum mrc_protocol_version { MRC_PROTOCOL_VERSION_0 = 0, MRC_PROTOCOL_VERSION_1 = 1 << 0 };

enum mrc_device_cap {
    MRC_DEVICE_CAP_TRIM_NACK = 1 << 0,
    MRC_DEVICE_CAP_DYNAMIC_MPR = 1 << 1,
    MRC_DEVICE_CAP_SVC_TIME = 1 << 2,
};

struct mrc_device_attr {
    uint32_t mrc_protocol_version; /* bits of enum mrc_protocol_version */
    struct {
        uint16_t max_wimm, max_wimm_dest;
    } wimm_attr;
    struct {
        uint8_t max_mpr, mpr_resolution; /* 128 PSNs each */
    } mpr_attr;
    struct {
        uint32_t max_qp_hint;
    } qp_attr;
    uint32_t cap; /* bits of enum mrc_device_cap */
};

struct mrc_context_attr {
    uint32_t mrc_api_version_used, mrc_vendor_api_version_used; /* 0: the newest */
};

struct mrc_qp_hint_attr {
    int num_qps_per_peer, num_send_peers, num_remote_recv_peers;
    uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

enum mrc_qp_hint_attr_mask {
    MRC_QP_HINT_NUM_QPS_PER_PEER = 1 << 0,
    MRC_QP_HINT_NUM_SEND_PEERS = 1 << 1,
    MRC_QP_HINT_NUM_REMOTE_RECV_PEERS = 1 << 2,
    MRC_QP_HINT_VENDOR_CFG = 1 << 31,
};

struct mrc_qp_hint_init_attr {
    struct mrc_qp_hint_attr attr;
};

struct mrc_qp_init_attr {
    void *qp_context;
    struct mrc_cq *send_cq, *recv_cq;
    struct ibv_qp_cap cap;
    int sq_sig_all;
    struct ibv_pd *pd;
    uint64_t send_ops_flags;
    enum mrc_protocol_version protocol_version;
};

enum mrc_qp_attr_mask {
    MRC_QP_MAX_WIMM = 1 << 0,
    MRC_QP_MAX_WIMM_DEST = 1 << 1,
    MRC_QP_MPR = 1 << 2,
    MRC_QP_MPR_DEST = 1 << 3,
    MRC_QP_TIMEOUT = 1 << 4,
    MRC_QP_EV_PROFILE_ID = 1 << 5,
    MRC_QP_CC_PROFILE_ID = 1 << 6,
    MRC_QP_HINT = 1 << 7,
    MRC_QP_RETRY_CNT = 1 << 8,
    MRC_QP_CAP = 1 << 9,
    MRC_QP_VENDOR_CFG = 1 << 31,
};

enum mrc_qp_cap {
    MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED = 1 << 0,
    MRC_QP_CAP_DYNAMIC_MPR = 1 << 1,
    MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED = 1 << 2,
};

/* Without "dest" the limits are those of this end's requests, with it those that it grants its peer. */
struct mrc_qp_attr {
    struct {
        uint8_t mpr, mpr_dest;
    } mpr;
    struct {
        uint16_t max_wimm, max_wimm_dest;
    } wimm;
    uint8_t timeout;
    struct {
        uint64_t ev_profile_id, cc_profile_id;
    } profile;
    struct {
        uint8_t linear_cnt, exp_cnt;
    } retry;
    struct mrc_qp_hint *qp_hint;
    uint32_t cap; /* bits of enum mrc_qp_cap */
    uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

struct mrc_async_event {
    union {
        struct mrc_cq *cq;
        struct mrc_qp *qp;
        int port_num;
    } element;
    enum ibv_event_type event_type;
};

#endif
