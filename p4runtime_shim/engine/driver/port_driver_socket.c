/* Frames in and out of AF_PACKET sockets, in batches. Fast ports receive otherwise (port_driver_shared.c).
 *
 * The socket sees frames as the kernel delivers them, after it has moved an outer VLAN tag from the frame to metadata: the
 * tag is put back from PACKET_AUXDATA, so that a program sees the frame as it was on the wire. Outgoing frames are not seen
 * (PACKET_IGNORE_OUTGOING) and go past the queueing discipline (PACKET_QDISC_BYPASS) unless it is wanted: queues are the
 * switch's own. */
#include "driver/port_driver_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

#define CONTROL_SPACE (CMSG_SPACE(sizeof(struct tpacket_auxdata)) + CMSG_SPACE(sizeof(struct timespec)))

static int socket_set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) ? -errno : 0;
}

/* What a slow queueing discipline holds counts against the send buffer: when that is full, frames wait in the queues of the
 * switch, where the program sees them. */
static void socket_buffers(int fd, const struct drv_options *options)
{
    int size = (int)options->socket_buffer;
    if (socket_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, size))
        socket_set(fd, SOL_SOCKET, SO_RCVBUF, size);
    if (options->bmv2_send_buffer)
        return;
    if (socket_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, size))
        socket_set(fd, SOL_SOCKET, SO_SNDBUF, size);
}

/* Everything is set before bind(): from then on frames arrive. */
static int socket_setup(const struct drv *drv, struct drv_port *port, int fd, int ifindex)
{
    const struct drv_options *options = &drv->options;
    int error = socket_set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1); /* Linux 4.20 */
    if (!error)
        error = socket_set(fd, SOL_PACKET, PACKET_AUXDATA, 1);
    if (error)
        return error;
    if (!options->use_qdisc)
        socket_set(fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
    socket_buffers(fd, options);
    struct packet_mreq promiscuous = {.mr_ifindex = ifindex, .mr_type = PACKET_MR_PROMISC};
    if (!port->wire && setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous))
        return -errno;
    shared_open(drv, port, fd);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = ifindex};
    return bind(fd, (struct sockaddr *)&address, sizeof address) ? -errno : 0;
}

int port_open(struct drv *drv, struct drv_port *port)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct ifreq request = {0};
    memcpy(request.ifr_name, port->name, IFNAMSIZ);
    int error = ioctl(fd, SIOCGIFINDEX, &request) ? -errno : 0;
    if (!error)
        error = socket_setup(drv, port, fd, request.ifr_ifindex);
    if (!error)
        error = drv_watch(drv, fd, EPOLLIN, &port->watch);
    if (error) {
        packet_ring_unmap(&port->shared);
        close(fd);
        return error;
    }
    pthread_mutex_lock(&drv->fd_lock);
    port->fd = fd;
    if (drv_measuring(drv))
        delay_stamps(port, 1);
    pthread_mutex_unlock(&drv->fd_lock);
    port->ifindex = request.ifr_ifindex;
    __atomic_store_n(&port->stats.ifindex, (uint64_t)port->ifindex, __ATOMIC_RELAXED);
    return 0;
}

/* Reading them sets them to zero (packet(7)), so they are summed here. */
void port_count_drops(struct drv_port *port)
{
    struct tpacket_stats kernel;
    socklen_t size = sizeof kernel;
    if (port->fd >= 0 && !getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &kernel, &size))
        bump(&port->stats.rx_dropped, kernel.tp_drops);
}

static void stash_free(struct drv_port *port)
{
    bump(&port->stats.tx_lost, port->stash_count - port->stash_next);
    free(port->stash);
    free(port->stash_lengths);
    free(port->stash_due);
    port->stash = NULL;
    port->stash_lengths = NULL;
    port->stash_due = NULL;
    port->stash_count = port->stash_next = 0;
    port->stash_offset = 0;
    port->blocked = port->for_ring = false;
}

static int watch_room(const struct drv *drv, struct drv_port *port, bool on)
{
    struct epoll_event event = {.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = &port->watch};
    return epoll_ctl(drv->epoll_fd, EPOLL_CTL_MOD, port->fd, &event);
}

void stash_drop(struct drv *drv, struct drv_port *port)
{
    if (port->blocked && !port->for_ring && port->fd >= 0)
        watch_room(drv, port, false);
    stash_free(port);
}

void port_close(struct drv *drv, struct drv_port *port)
{
    int fd = port->fd;
    pthread_mutex_lock(&drv->fd_lock);
    port_count_drops(port);
    port->fd = -1;
    pthread_mutex_unlock(&drv->fd_lock);
    if (fd >= 0) {
        epoll_ctl(drv->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        packet_ring_unmap(&port->shared);
        close(fd);
    }
    stash_free(port);
    port->ifindex = 0;
    port->carrier = false;
    wire_set_aside(port, true);
    __atomic_store_n(&port->stats.ifindex, 0, __ATOMIC_RELAXED);
}

/* --- receiving --- */

int rx_prepare(struct drv *drv)
{
    size_t stride = (RX_HEADROOM + drv->options.max_frame + 1 + 63) & ~(size_t)63;
    drv->rx_memory = malloc(stride * RX_BATCH + 64);
    drv->rx_control = malloc(CONTROL_SPACE * RX_BATCH);
    if (!drv->rx_memory || !drv->rx_control)
        return -ENOMEM;
    for (unsigned i = 0; i < RX_BATCH; i++) {
        /* One byte more than the longest frame, so that a longer one is seen to be longer. */
        drv->rx_vectors[i].iov_base = drv->rx_memory + i * stride + RX_HEADROOM;
        drv->rx_vectors[i].iov_len = drv->options.max_frame + 1;
        drv->rx_messages[i].msg_hdr.msg_iov = &drv->rx_vectors[i];
        drv->rx_messages[i].msg_hdr.msg_iovlen = 1;
        drv->rx_messages[i].msg_hdr.msg_control = drv->rx_control + i * CONTROL_SPACE;
    }
    return 0;
}

static const struct tpacket_auxdata *auxiliary(struct msghdr *header)
{
    for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control; control = CMSG_NXTHDR(header, control))
        if (control->cmsg_level == SOL_PACKET && control->cmsg_type == PACKET_AUXDATA &&
            control->cmsg_len >= CMSG_LEN(sizeof(struct tpacket_auxdata)))
            return (const struct tpacket_auxdata *)(const void *)CMSG_DATA(control);
    return NULL;
}

uint8_t *restore_tag(uint8_t *frame, uint16_t tpid, uint16_t tci)
{
    uint8_t *start = frame - RX_HEADROOM;
    memmove(start, frame, 2 * ETH_ALEN);
    memcpy(start + 2 * ETH_ALEN, &tpid, sizeof tpid);
    memcpy(start + 2 * ETH_ALEN + 2, &tci, sizeof tci);
    return start;
}

static void receive_one(struct drv *drv, struct drv_port *port, struct mmsghdr *message, int64_t now)
{
    uint8_t *frame = message->msg_hdr.msg_iov->iov_base;
    size_t length = message->msg_len;
    const struct tpacket_auxdata *aux = auxiliary(&message->msg_hdr);
    if (aux && (aux->tp_status & TP_STATUS_VLAN_VALID) && length >= 2 * ETH_ALEN) {
        uint16_t tpid = aux->tp_status & TP_STATUS_VLAN_TPID_VALID ? aux->tp_vlan_tpid : ETH_P_8021Q;
        frame = restore_tag(frame, htons(tpid), htons(aux->tp_vlan_tci));
        length += RX_HEADROOM;
    }
    if (aux && (aux->tp_status & TP_STATUS_CSUMNOTREADY))
        bump(&port->stats.rx_no_checksum, 1);
    if (length > drv->options.max_frame)
        bump(&port->stats.rx_too_long, 1);
    bump(&port->stats.rx_packets, 1);
    bump(&port->stats.rx_bytes, length);
    sw_receive(port->owner->sw, port->number, frame, length, now);
}

int port_receive(struct drv *drv, struct drv_port *port, int64_t *now)
{
    if (port->shared.memory)
        return shared_receive(drv, port, now);
    for (unsigned i = 0; i < RX_BATCH; i++)
        drv->rx_messages[i].msg_hdr.msg_controllen = CONTROL_SPACE;
    int count = recvmmsg(port->fd, drv->rx_messages, RX_BATCH, 0, NULL);
    if (count <= 0) {
        int error = count ? errno : 0;
        if (error && error != EAGAIN && error != EINTR)
            bump(&port->stats.rx_errors, 1);
        return -error;
    }
    *now = drv_now();
    if (drv_measuring(drv))
        delay_arrivals(drv, port, (unsigned)count, *now);
    sw_lock(port->owner->sw);
    for (int i = 0; i < count && !drv_stopping(drv); i++)
        receive_one(drv, port, &drv->rx_messages[i], *now);
    return count;
}

/* --- sending --- */

static void tx_count_error(struct drv_port *port, int error)
{
    bump(&port->stats.tx_errors, 1);
    if (error == EMSGSIZE)
        bump(&port->stats.tx_too_long, 1);
}

static bool interface_gone(int error)
{
    return error == ENETDOWN || error == ENXIO || error == ENODEV;
}

unsigned socket_send(const struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count)
{
    struct mmsghdr messages[TX_BATCH];
    struct iovec vectors[TX_BATCH];
    memset(messages, 0, count * sizeof messages[0]);
    for (unsigned i = 0; i < count; i++) {
        vectors[i] = (struct iovec){.iov_base = slots[i].data, .iov_len = slots[i].length};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    unsigned done = 0;
    bool measuring = drv_measuring(drv);
    int64_t began = measuring ? drv_now() : 0;
    while (done < count) {
        int sent = sendmmsg(port->fd, messages + done, count - done, 0);
        if (sent > 0) {
            uint64_t bytes = 0;
            for (unsigned i = done; i < done + (unsigned)sent; i++)
                bytes += slots[i].length;
            bump(&port->stats.tx_bytes, bytes); /* before the packets: who waits for those reads their bytes too */
            bump(&port->stats.tx_packets, (uint64_t)sent);
            if (measuring) {
                int64_t ended = drv_now();
                delay_departures(port, slots + done, (unsigned)sent, began, ended);
                began = ended;
            }
            done += (unsigned)sent;
        } else if (errno == EAGAIN) {
            return done;
        } else if (interface_gone(errno)) {
            bump(&port->stats.tx_lost, count - done);
            return count;
        } else if (errno != EINTR) {
            tx_count_error(port, errno); /* this frame was rejected; the next ones may not be */
            done++;
        }
    }
    return done;
}

static unsigned send_slots(struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count)
{
    port->for_ring = false;
    return port->wire && wire_used(port) ? wire_send(drv, port, slots, count) : socket_send(drv, port, slots, count);
}

/* Keeps frames until there is room where port->for_ring says. */
static void stash_slots(struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += slots[i].length;
    port->stash = malloc(bytes);
    port->stash_lengths = malloc(count * sizeof *port->stash_lengths);
    port->stash_due = malloc(count * sizeof *port->stash_due);
    port->stash_count = count;
    bool memory = port->stash && port->stash_lengths && port->stash_due;
    if (!memory || (!port->for_ring && watch_room(drv, port, true))) {
        stash_free(port);
        return;
    }
    size_t offset = 0;
    for (unsigned i = 0; i < count; i++) {
        memcpy(port->stash + offset, slots[i].data, slots[i].length);
        port->stash_lengths[i] = slots[i].length;
        port->stash_due[i] = slots[i].due;
        offset += slots[i].length;
    }
    port->blocked = true;
    bump(&port->stats.tx_blocked, 1);
}

static void port_send(struct drv *drv, struct drv_port *port, const struct tx_slot *slots, unsigned count)
{
    unsigned done = port->blocked || port->fd < 0 ? 0 : send_slots(drv, port, slots, count);
    if (done == count)
        return;
    if (port->blocked || port->fd < 0)
        bump(&port->stats.tx_lost, count);
    else
        stash_slots(drv, port, slots + done, count - done);
}

void tx_flush(struct drv *drv)
{
    for (unsigned first = 0, last; first < drv->tx_count; first = last) {
        struct drv_port *port = drv->tx_slots[first].port;
        for (last = first + 1; last < drv->tx_count && drv->tx_slots[last].port == port;)
            last++;
        port_send(drv, port, &drv->tx_slots[first], last - first);
    }
    drv->tx_count = 0;
    drv->tx_used = 0;
}

bool port_unblock(struct drv *drv, struct drv_port *port)
{
    struct tx_slot slots[TX_BATCH];
    unsigned count = port->stash_count - port->stash_next; /* one batch at most */
    bool waited_for_ring = port->for_ring;
    size_t offset = port->stash_offset;
    for (unsigned i = 0, next = port->stash_next; i < count; i++, next++) {
        slots[i] = (struct tx_slot){port, port->stash + offset, port->stash_lengths[next], port->stash_due[next]};
        offset += slots[i].length;
    }
    unsigned done = send_slots(drv, port, slots, count);
    for (unsigned i = 0; i < done; i++)
        port->stash_offset += slots[i].length;
    port->stash_next += done;
    bool waits_for_ring = done < count && port->for_ring;
    if (waits_for_ring != waited_for_ring || (done == count && !waited_for_ring))
        watch_room(drv, port, done < count && !waits_for_ring);
    if (done < count)
        return false;
    stash_free(port);
    return true;
}
