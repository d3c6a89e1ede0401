/* The devices: mrc0 is the NIC with all its planes. With MRC_PLANE_DEVICES=1 in the environment there is a device for each
 * plane as well, mrc0_p0 and so on, as if the host had a NIC in each: its port is that plane's, and its queue pairs send
 * data and answers on that plane only.
 *
 * As with RoCE, the GID of such a device is the address of the host's interface there, <prefix>:<T0>:1:<plane>::<n>, where
 * the NIC's own is <prefix>:<T0>::<n> (topologies/addressing.py). So a GID tells in which plane the peer's device is, and a
 * queue pair of mrc0 that is connected to one keeps to its plane, too. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

enum { MARK = 8, PLANE = 10 }; /* where an address of an interface differs from the NIC's: two bytes each */

static struct ibv_device devices[1 + MAX_PLANES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void name_devices(void) {
    for (unsigned int i = 0; i <= MAX_PLANES; i++) {
        struct ibv_device *device = &devices[i];
        device->node_type = IBV_NODE_CA;
        device->transport_type = IBV_TRANSPORT_IB;
        if (i)
            snprintf(device->name, sizeof device->name, "mrc0_p%u", i - 1);
        else
            strcpy(device->name, "mrc0");
        snprintf(device->dev_name, sizeof device->dev_name, "uverbs%u", i);
        snprintf(device->dev_path, sizeof device->dev_path, "/sys/class/infiniband_verbs/uverbs%u", i);
        snprintf(device->ibdev_path, sizeof device->ibdev_path, "/sys/class/infiniband/%.15s", device->name);
    }
}

uint32_t mrc_read_port_states(const char *answer, uint32_t *up) {
    uint32_t count = 0;
    *up = 0;
    for (const char *at = answer; (at = json_next(at, "port"));) {
        unsigned long port = strtoul(at, NULL, 10);
        if (port >= MAX_PLANES)
            continue;
        count = port + 1 > count ? port + 1 : count;
        if (json_true(at, "up"))
            *up |= 1u << port;
    }
    return count;
}

static void ignore_loss(void *owner) {
    (void)owner;
}

/* How many planes the NIC has; 0 if its agent does not say, which whoever opens the device learns. */
static uint32_t count_planes(const char *path) {
    struct agent *agent = calloc(1, sizeof *agent);
    uint32_t count = 0, up;
    if (!agent)
        return 0;
    agent->on_lost = ignore_loss;
    if (!agent_connect(agent, path)) {
        if (!agent_request(agent, -1, "{\"op\":\"port_states\"}"))
            count = mrc_read_port_states(agent->answer, &up);
        agent_close(agent);
    }
    free(agent);
    return count;
}

struct ibv_device *mrc_devices(const char *path, int *count) {
    const char *wanted = getenv("MRC_PLANE_DEVICES");
    pthread_once(&once, name_devices);
    *count = 1 + (wanted && !strcmp(wanted, "1") ? (int)count_planes(path) : 0);
    return devices;
}

uint32_t mrc_device_number(const struct ibv_device *device) {
    return (uint32_t)(device - devices);
}

uint32_t mrc_planes_of_device(const struct ibv_device *device) {
    uint32_t number = mrc_device_number(device);
    return number ? 1u << (number - 1) : ALL_PLANES;
}

/* Whether it is an address as NICs of our fabrics have them, which leaves room for a plane. */
static int is_of_nic(const union ibv_gid *gid) {
    return !gid->raw[MARK] && !gid->raw[MARK + 1] && !gid->raw[PLANE] && !gid->raw[PLANE + 1];
}

int mrc_set_gid(struct mrc_context *context, const union ibv_gid *address) {
    uint32_t number = mrc_device_number(context->verbs.context.device);
    context->gid = *address;
    if (!number)
        return 0;
    if (number > context->plane_count)
        return ENODEV;
    if (!is_of_nic(address))
        return EADDRNOTAVAIL;
    context->gid.raw[MARK + 1] = 1;
    context->gid.raw[PLANE + 1] = (uint8_t)(number - 1);
    return 0;
}

int mrc_find_peer(const struct mrc_context *context, union ibv_gid *gid, uint32_t *planes) {
    uint32_t plane = (uint32_t)gid->raw[PLANE] << 8 | gid->raw[PLANE + 1];
    *planes = context->own_planes;
    if (gid->raw[MARK] || gid->raw[MARK + 1] != 1 || (*planes == ALL_PLANES && !is_of_nic(&context->gid)))
        return 0;
    memset(gid->raw + MARK, 0, PLANE + 2 - MARK);
    *planes &= plane < MAX_PLANES ? 1u << plane : 0;
    if (*planes)
        return 0;
    fprintf(stderr, "libibverbs (MRC): the peer's device is in plane %u, and %s is not: use the same plane on both ends.\n",
            plane, context->verbs.context.device->name);
    return ENETUNREACH;
}
