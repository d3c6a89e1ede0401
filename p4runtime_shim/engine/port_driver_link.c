/* Carrier, from rtnetlink: a port is up while its interface exists, is up, and has a peer that is up.
 *
 * News comes as RTM_NEWLINK and RTM_DELLINK. When news was lost (ENOBUFS), and for interfaces that do not exist, the
 * interface is looked at directly. */
#include "port_driver_internal.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP (1 << 16) /* <linux/if.h> and <net/if.h> do not go together */
#endif

int link_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    int size = 1 << 20; /* a fabric coming down is hundreds of messages at once */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    if (bind(fd, (struct sockaddr *)&address, sizeof address)) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

void port_refresh(struct drv *drv, struct drv_port *port, int64_t now)
{
    (void)drv;
    bool up = port->fd >= 0 && port->carrier && !__atomic_load_n(&port->held, __ATOMIC_RELAXED);
    if (up == port->up)
        return;
    if (!up && port->up == 1)
        bump(&port->stats.downs, 1);
    port->up = up;
    __atomic_store_n(&port->stats.up, (uint64_t)up, __ATOMIC_RELAXED);
    sw_lock(port->owner->sw);
    sw_port_changed(port->owner->sw, port->number, up, now);
    sw_unlock(port->owner->sw);
}

static void try_open(struct drv *drv, struct drv_port *port)
{
    if (port->fd < 0 && !port_open(drv, port))
        bump(&port->stats.reopens, 1);
}

/* Carrier as the driver of the interface knows it. IFF_RUNNING follows it only when a kernel worker finds the time, so it
 * serves where the interface does not answer. */
static bool has_carrier(int fd, struct ifreq *request)
{
    if (ioctl(fd, SIOCGIFFLAGS, request))
        return false;
    int flags = request->ifr_flags; /* in a union with ifr_data */
    struct ethtool_value link = {.cmd = ETHTOOL_GLINK};
    request->ifr_data = (char *)&link;
    bool running = ioctl(fd, SIOCETHTOOL, request) ? (flags & IFF_RUNNING) != 0 : link.data != 0;
    return (flags & IFF_UP) && running;
}

void link_inspect(struct drv *drv, struct drv_port *port, int64_t now)
{
    struct ifreq request = {0};
    memcpy(request.ifr_name, port->name, IFNAMSIZ);
    /* The same name may be another interface by now. */
    if (port->fd >= 0 && (ioctl(port->fd, SIOCGIFINDEX, &request) || request.ifr_ifindex != port->ifindex))
        port_close(drv, port);
    try_open(drv, port);
    if (port->fd >= 0)
        port->carrier = has_carrier(port->fd, &request);
    port_refresh(drv, port, now);
}

static const char *name_of(struct nlmsghdr *message)
{
    struct ifinfomsg *info = NLMSG_DATA(message);
    int left = (int)IFLA_PAYLOAD(message);
    for (struct rtattr *attribute = IFLA_RTA(info); RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
        if (attribute->rta_type == IFLA_IFNAME)
            return RTA_DATA(attribute);
    return NULL;
}

static void link_changed(struct drv *drv, struct nlmsghdr *message, int64_t now)
{
    const struct ifinfomsg *info = NLMSG_DATA(message);
    bool gone = message->nlmsg_type == RTM_DELLINK;
    const char *name = gone ? NULL : name_of(message);
    for (unsigned i = 0; i < drv->port_count; i++) {
        struct drv_port *port = drv->ports[i];
        if (name && port->fd < 0 && !strncmp(port->name, name, IFNAMSIZ))
            try_open(drv, port);
        if (port->fd < 0 || port->ifindex != info->ifi_index)
            continue;
        if (gone)
            port_close(drv, port);
        else
            port->carrier = (info->ifi_flags & IFF_UP) && (info->ifi_flags & IFF_LOWER_UP);
        port_refresh(drv, port, now);
    }
}

void link_receive(struct drv *drv, int64_t now)
{
    _Alignas(struct nlmsghdr) char buffer[16384];
    for (;;) {
        ssize_t length = recv(drv->link_fd, buffer, sizeof buffer, 0);
        if (length < 0 && errno == ENOBUFS) {
            for (unsigned i = 0; i < drv->port_count; i++)
                link_inspect(drv, drv->ports[i], now);
            continue;
        }
        if (length <= 0)
            return;
        int left = (int)length;
        for (struct nlmsghdr *message = (void *)buffer; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
            const struct ifinfomsg *info = NLMSG_DATA(message);
            bool news = message->nlmsg_type == RTM_NEWLINK || message->nlmsg_type == RTM_DELLINK;
            if (news && message->nlmsg_len >= NLMSG_LENGTH(sizeof *info) && info->ifi_family == AF_UNSPEC)
                link_changed(drv, message, now);
        }
    }
}
