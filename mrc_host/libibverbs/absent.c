/* Verbs that MRC lacks: shared receive queues, datagrams, multicast, address handles, import of other processes' objects.
 * Each is refused as a device without it does. Functions that this file does not have and the system's libibverbs has are
 * those for drivers of hardware, and ones newer than this library: the build adds them, refused likewise (build.py). */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>

#define NONE_HERE(type, name, ...)                                                                                     \
    type *name(__VA_ARGS__) {                                                                                          \
        errno = EOPNOTSUPP;                                                                                            \
        return NULL;                                                                                                   \
    }
#define REFUSED(name, ...)                                                                                             \
    int name(__VA_ARGS__) {                                                                                            \
        errno = EOPNOTSUPP;                                                                                            \
        return EOPNOTSUPP;                                                                                             \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"

NONE_HERE(struct ibv_srq, ibv_create_srq, struct ibv_pd *pd, struct ibv_srq_init_attr *init)
REFUSED(ibv_modify_srq, struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
REFUSED(ibv_query_srq, struct ibv_srq *srq, struct ibv_srq_attr *attr)
REFUSED(ibv_destroy_srq, struct ibv_srq *srq)

NONE_HERE(struct ibv_ah, ibv_create_ah, struct ibv_pd *pd, struct ibv_ah_attr *attr)
NONE_HERE(struct ibv_ah, ibv_create_ah_from_wc, struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
REFUSED(ibv_init_ah_from_wc, struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
        struct ibv_ah_attr *attr)
REFUSED(ibv_destroy_ah, struct ibv_ah *ah)
REFUSED(ibv_attach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
REFUSED(ibv_detach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)

NONE_HERE(struct ibv_context, ibv_import_device, int fd)
NONE_HERE(struct ibv_pd, ibv_import_pd, struct ibv_context *context, uint32_t handle)
NONE_HERE(struct ibv_mr, ibv_import_mr, struct ibv_pd *pd, uint32_t handle)
NONE_HERE(struct ibv_dm, ibv_import_dm, struct ibv_context *context, uint32_t handle)
NONE_HERE(struct ibv_mr, ibv_reg_dmabuf_mr, struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
          int access)
REFUSED(ibv_rereg_mr, struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length, int access)
REFUSED(ibv_resize_cq, struct ibv_cq *cq, int cqe)

REFUSED(ibv_set_ece, struct ibv_qp *qp, struct ibv_ece *ece)
REFUSED(ibv_query_ece, struct ibv_qp *qp, struct ibv_ece *ece)

/* Bytes of a write may arrive in any order. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags) {
    return 0;
}

void ibv_unimport_pd(struct ibv_pd *pd) {
}

void ibv_unimport_mr(struct ibv_mr *mr) {
}

void ibv_unimport_dm(struct ibv_dm *dm) {
}

/* There is no sysfs of this device. */
int ibv_read_sysfs_file(const char *directory, const char *file, char *text, size_t size);
int ibv_read_sysfs_file(const char *directory, const char *file, char *text, size_t size) {
    return -1;
}

const char *ibv_get_sysfs_path(void);
const char *ibv_get_sysfs_path(void) {
    return "/sys";
}
