/* The device's ports. Port 1 of mrc0 stands for all planes, since each queue pair sprays over all of them: it is down when
 * none has a link. With MRC_PLANE_PORTS=1 in the environment the planes are ports, too, from port 2 on, so that programs see the
 * state of each and get its events; queue pairs belong to port 1 all the same. Without it programs that open every port
 * of a device do not take one NIC for several. */
#include <string.h>

#include "context.h"

#undef ibv_query_port

uint8_t mrc_port_count(const struct mrc_context *context) {
    return context->plane_ports ? 1 + context->plane_count : 1;
}

uint32_t mrc_planes_of_port(const struct mrc_context *context, uint32_t port) {
    if (port == 1)
        return context->own_planes;
    return port && port <= mrc_port_count(context) ? 1u << (port - 2) : 0;
}

static enum ibv_mtu mtu_of(int bytes) {
    enum ibv_mtu mtu = IBV_MTU_256;
    while (mtu < IBV_MTU_4096 && 256 << mtu <= bytes)
        mtu++;
    return mtu;
}

int mrc_query_port(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr, size_t size) {
    struct mrc_context *context = context_of(ibv);
    uint32_t planes = mrc_planes_of_port(context, port);
    if (!planes)
        return EINVAL;
    pthread_mutex_lock(&context->lock);
    agent_receive(&context->agent);
    uint32_t up = context->planes & planes;
    struct ibv_port_attr known = {
        .state = up && !context->agent.lost ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
        .max_mtu = mtu_of(context->mtu),
        .active_mtu = mtu_of(context->mtu),
        .gid_tbl_len = GIDS,
        .max_msg_sz = 1u << 31,
        .pkey_tbl_len = 1,
        .active_width = 1, /* 1X and 2.5 Gb/s: the lowest that verbs can say; links here have any rate */
        .active_speed = 1,
        .phys_state = up ? 5 : 3, /* LinkUp, Disabled */
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };
    pthread_mutex_unlock(&context->lock);
    memcpy(attr, &known, size < sizeof known ? size : sizeof known);
    return 0;
}

int ibv_query_port(struct ibv_context *ibv, uint8_t port, struct _compat_ibv_port_attr *attr) {
    return mrc_query_port(ibv, port, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}
