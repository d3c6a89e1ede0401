/* Carrier, from rtnetlink: a port is up while its interface exists, is up, and has a peer that is up.
 *
 * News comes as RTM_NEWLINK and RTM_DELLINK. When news was lost (ENOBUFS), and for interfaces that do not exist, the
 * interface is looked at directly. */
#include "driver/port_driver_internal.h"

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

void link_watch_disciplines(struct drv *drv)
{
    int group = RTNLGRP_TC;
    setsockopt(drv->link_fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group);
}

/* Asks for what is known of an interface; the answer comes as news does. */
static void link_query(const struct drv *drv, int ifindex)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg info;
    } request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
                 .info = {.ifi_index = ifindex}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    sendto(drv->link_fd, &request, sizeof request, 0, (struct sockaddr *)&kernel, sizeof kernel);
}

void port_refresh(struct drv *drv, struct drv_port *port, int64_t now)
{
    bool up = port->fd >= 0 && port->carrier && !__atomic_load_n(&port->held, __ATOMIC_RELAXED);
    if (up == port->up)
        return;
    if (!up && port->up == 1)
        bump(&port->stats.downs, 1);
    if (!up && port->for_ring)
        stash_drop(drv, port); /* lost with the link, as the kernel would say of an interface */
    port->up = up;
    __atomic_store_n(&port->stats.up, (uint64_t)up, __ATOMIC_RELAXED);
    sw_lock(port->owner->sw);
    sw_port_changed(port->owner->sw, port->number, up, now);
    sw_unlock(port->owner->sw);
    port->owner->unfinished = true; /* what waited there may have made other ports ready: to resume a neighbour, say */
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
    if (port->fd >= 0 && port->wire)
        link_query(drv, port->ifindex);
    port_refresh(drv, port, now);
}

/* An attribute of a link, NULL if it is not there. */
static const void *attribute_of(struct nlmsghdr *message, unsigned short type, size_t size)
{
    struct ifinfomsg *info = NLMSG_DATA(message);
    int left = (int)IFLA_PAYLOAD(message);
    for (struct rtattr *attribute = IFLA_RTA(info); RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
        if (attribute->rta_type == type && RTA_PAYLOAD(attribute) >= size)
            return RTA_DATA(attribute);
    return NULL;
}

/* Frames must pass through an interface at which somebody captures (which makes it promiscuous; a port with a wire does not do
 * that itself), or that has a queueing discipline. */
static void wire_changed(struct drv_port *port, struct nlmsghdr *message)
{
    const uint32_t *watchers = attribute_of(message, IFLA_PROMISCUITY, sizeof *watchers);
    const char *discipline = attribute_of(message, IFLA_QDISC, 1);
    if (watchers && discipline)
        wire_set_aside(port, *watchers || (strcmp(discipline, "noqueue") && strcmp(discipline, "noop")));
}

static void link_changed(struct drv *drv, struct nlmsghdr *message, int64_t now)
{
    const struct ifinfomsg *info = NLMSG_DATA(message);
    bool gone = message->nlmsg_type == RTM_DELLINK;
    const char *name = gone ? NULL : attribute_of(message, IFLA_IFNAME, 1);
    const uint32_t *mtu = gone ? NULL : attribute_of(message, IFLA_MTU, sizeof *mtu);
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
        if (mtu)
            port->mtu = *mtu;
        if (!gone && port->wire)
            wire_changed(port, message);
        port_refresh(drv, port, now);
    }
}

static void discipline_changed(const struct drv *drv, struct nlmsghdr *message)
{
    const struct tcmsg *info = NLMSG_DATA(message);
    for (unsigned i = 0; i < drv->port_count && message->nlmsg_len >= NLMSG_LENGTH(sizeof *info); i++)
        if (drv->ports[i]->wire && drv->ports[i]->fd >= 0 && drv->ports[i]->ifindex == info->tcm_ifindex)
            link_query(drv, info->tcm_ifindex);
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
            if (message->nlmsg_type == RTM_NEWQDISC || message->nlmsg_type == RTM_DELQDISC)
                discipline_changed(drv, message);
        }
    }
}
