/* Capabilities of a device, the versions of the API, and contexts, which all other objects belong to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

const struct for_libmrc *verbs(void) { return dlsym(RTLD_DEFAULT, FOR_LIBMRC); }

static int query(struct ibv_context *context, struct mrc_device_attr *attr, int *supported) {
    if (!context || !attr || !supported)
        return EINVAL;
    *supported = verbs() != NULL;
    if (!*supported)
        return 0;
    char *limits;
    int error = request_verb(context, &limits, "{\"op\":\"query_device\"}");
    if (error)
        return error;
    uint64_t unit = 128, resolution = json_number(limits, "mpr_resolution", unit);
    uint64_t wimm = json_number(limits, "max_wimm", 0), mpr = json_number(limits, "max_mpr", 0) * resolution / unit;
    *attr = (struct mrc_device_attr){
        .mrc_protocol_version = MRC_PROTOCOL_VERSION_1,
        .wimm_attr = {(uint16_t)wimm, (uint16_t)wimm},
        .mpr_attr = {(uint8_t)mpr, (uint8_t)((resolution + unit - 1) / unit)},
        .qp_attr = {MAX_QP_HINTS},
        .cap = MRC_DEVICE_CAP_TRIM_NACK | MRC_DEVICE_CAP_DYNAMIC_MPR | MRC_DEVICE_CAP_SVC_TIME,
    };
    free(limits);
    return 0;
}

int mrc_query_device(struct ibv_context *context, struct mrc_device_attr *attr, int *supported) {
    return minus_one(query(context, attr, supported));
}

int mrc_query_device_ex(struct ibv_context *context, struct mrc_context *mrc, struct mrc_device_attr *attr,
                        int *supported) {
    return minus_one(mrc && mrc->verbs != context ? EINVAL : query(context, attr, supported));
}

void mrc_query_version(uint32_t *current, uint32_t *oldest, uint32_t *vendor, uint32_t *oldest_vendor) {
    if (current)
        *current = MRC_API_CURRENT_VERSION;
    if (oldest)
        *oldest = MRC_API_LAST_SUPPORTED_VERSION;
    if (vendor)
        *vendor = MRC_VENDOR_API_CURRENT_VERSION;
    if (oldest_vendor)
        *oldest_vendor = MRC_VENDOR_API_LAST_SUPPORTED_VERSION;
}

/* The version that a number means; 0 if there is none. Numbers below 1.0.0, such as 1, are in use, and mean 1.0.0. */
static uint32_t version_of(uint32_t given, uint32_t current) {
    if (!given || given == MRC_API_VER_LATEST)
        return current;
    return given <= current ? given : 0;
}

struct mrc_context *mrc_create_context(struct ibv_context *context, struct mrc_context_attr *attr) {
    uint32_t used = attr ? attr->mrc_api_version_used : 0, vendor = attr ? attr->mrc_vendor_api_version_used : 0;
    uint32_t version = version_of(used, MRC_API_CURRENT_VERSION);
    if (!context || !version || !version_of(vendor, MRC_VENDOR_API_CURRENT_VERSION)) {
        errno = EINVAL;
        return NULL;
    }
    if (!verbs()) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    struct mrc_context *mrc = calloc(1, sizeof *mrc);
    if (!mrc)
        return NULL;
    mrc->verbs = context;
    mrc->version = version;
    pthread_mutex_init(&mrc->lock, NULL);
    verbs()->use_device(context);
    return mrc;
}

int mrc_destroy_context(struct mrc_context *mrc) {
    if (!mrc)
        return minus_one(EINVAL);
    pthread_mutex_lock(&mrc->lock);
    int in_use = mrc->objects > 0;
    pthread_mutex_unlock(&mrc->lock);
    if (in_use)
        return minus_one(EBUSY);
    if (mrc->controller)
        close_controller(mrc->controller);
    verbs()->release_device(mrc->verbs);
    pthread_mutex_destroy(&mrc->lock);
    free(mrc);
    return 0;
}

void add_object(struct mrc_context *mrc) {
    pthread_mutex_lock(&mrc->lock);
    mrc->objects++;
    pthread_mutex_unlock(&mrc->lock);
}

void remove_object(struct mrc_context *mrc) {
    pthread_mutex_lock(&mrc->lock);
    mrc->objects--;
    pthread_mutex_unlock(&mrc->lock);
}
