/* The traffic side of the switch benchmarks, and the bare loop they are compared with.
 *
 *   packets send IF LENGTH RATE SECONDS HEX   sends frames that begin with HEX; RATE 0 = as fast as it goes; prints how many
 *   packets count IF SECONDS BYTE             prints how many frames came in, and how many with another byte 14 than BYTE
 *   packets forward IF IF SECONDS             recvmmsg from the one, sendmmsg to the other, and nothing else
 *
 * Instead of an interface, send and count take an end of rings (mrc_common/frame_rings.py), as in ring:5,6,7,1.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "frame_ring.h"

#define BATCH 64
#define LONGEST 9600
#define BURST 32

static struct mmsghdr messages[BATCH];
static struct iovec vectors[BATCH];
static unsigned char frames[BATCH][LONGEST];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct frame_ring ring; /* data: NULL without */
static int bell, other_bell;

static int attach_ring(const char *numbers, int receive) {
    int memory;
    unsigned receiving;
    struct stat status;
    if (sscanf(numbers, "%d,%d,%d,%u", &memory, &bell, &other_bell, &receiving) != 4 || fstat(memory, &status))
        exit(1);
    void *place = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (place == MAP_FAILED || !frame_ring_place(&ring, place, (size_t)status.st_size, receive ? receiving : 1 - receiving))
        exit(1);
    if (receive)
        frame_ring_attach_consumer(&ring);
    else
        frame_ring_attach_producer(&ring);
    return -1;
}

static void ring_flush(void) {
    if (frame_ring_publish(&ring))
        frame_ring_ring(other_bell);
}

static void ring_sleep(void) {
    struct pollfd wait = {bell, POLLIN, 0};
    if (poll(&wait, 1, 50) > 0)
        frame_ring_hear(bell);
}

/* As a NIC: what finds no room waits. Returns how many were sent, fewer when nobody takes them for a while. */
static int ring_put(size_t length, int count) {
    for (int i = 0; i < count; i++) {
        for (int waited = 0; !frame_ring_put(&ring, frames[i], length, 0); waited++) {
            ring_flush();
            if (waited > 2)
                return i;
            if (frame_ring_await_room(&ring, length))
                ring_sleep();
        }
    }
    ring_flush();
    return count;
}

static int ring_take(void) {
    int64_t sent;
    int count = 0;
    for (size_t n; count < BATCH && (n = frame_ring_take(&ring, frames[count], LONGEST, &sent)); count++)
        messages[count].msg_len = (unsigned)n;
    if (frame_ring_release(&ring))
        frame_ring_ring(other_bell);
    return count;
}

static int ring_wait(void) {
    if (frame_ring_arm(&ring))
        ring_sleep();
    frame_ring_disarm(&ring);
    return ring_take();
}

static int attach(const char *name, int receive) {
    if (!strncmp(name, "ring:", 5))
        return attach_ring(name + 5, receive);
    int one = 1, size = 8 << 20, fd = socket(AF_PACKET, SOCK_RAW, 0);
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = receive ? htons(ETH_P_ALL) : 0,
                                  .sll_ifindex = (int)if_nametoindex(name)};
    setsockopt(fd, SOL_PACKET, 23 /* PACKET_IGNORE_OUTGOING */, &one, sizeof one);
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address)) {
        perror(name);
        exit(1);
    }
    return fd;
}

static void lengths(size_t length) {
    for (int i = 0; i < BATCH; i++) {
        vectors[i] = (struct iovec){frames[i], length};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
}

static void send_frames(const char *name, size_t length, double rate, double seconds, const char *hex) {
    int fd = attach(name, 0);
    for (size_t k = 0; 2 * k + 1 < strlen(hex); k++) {
        unsigned byte;
        sscanf(hex + 2 * k, "%2x", &byte);
        for (int i = 0; i < BATCH; i++)
            frames[i][k] = (unsigned char)byte;
    }
    lengths(length);
    prctl(PR_SET_TIMERSLACK, 1UL);
    double start = now();
    long sent = 0;
    for (double t = start; t < start + seconds; t = now()) {
        double early = rate > 0 ? (double)sent / rate - (t - start) : 0;
        if (early > 80e-6) { /* a core for those who have something to do */
            struct timespec rest = {0, (long)((early < 0.05 ? early : 0.05) * 1e9) - 60000};
            nanosleep(&rest, NULL);
        }
        if (early > 0)
            continue;
        int burst = rate > 0 && rate < 20000 ? 1 : BURST;
        int n = ring.data ? ring_put(length, burst) : sendmmsg(fd, messages, (unsigned)burst, 0);
        sent += n > 0 ? n : 0;
    }
    printf("%ld\n", sent);
}

static int next_batch(int fd, double until) {
    while (now() < until) {
        struct pollfd wait = {fd, POLLIN, 0};
        lengths(LONGEST);
        int n = ring.data ? ring_take() : 0;
        if (ring.data && !n)
            n = ring_wait();
        else if (!ring.data)
            n = poll(&wait, 1, 50) > 0 ? recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL) : 0;
        if (n > 0)
            return n;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 7 && !strcmp(argv[1], "send")) {
        send_frames(argv[2], (size_t)atol(argv[3]), atof(argv[4]), atof(argv[5]), argv[6]);
    } else if (argc == 5 && !strcmp(argv[1], "count")) {
        int fd = attach(argv[2], 1);
        unsigned char usual = (unsigned char)strtoul(argv[4], NULL, 16);
        long count = 0, others = 0;
        puts("counting");
        fflush(stdout);
        for (double until = now() + atof(argv[3]); now() < until;) {
            int n = next_batch(fd, until);
            count += n;
            for (int i = 0; i < n; i++)
                others += messages[i].msg_len > 14 && frames[i][14] != usual;
        }
        printf("%ld %ld\n", count, others);
    } else if (argc == 5 && !strcmp(argv[1], "forward")) {
        int from = attach(argv[2], 1), to = attach(argv[3], 0);
        double until = now() + atof(argv[4]);
        puts("forwarding");
        fflush(stdout);
        for (int n; (n = next_batch(from, until)) > 0;) {
            for (int i = 0; i < n; i++)
                vectors[i].iov_len = messages[i].msg_len;
            for (int done = 0, k; done < n && (k = sendmmsg(to, messages + done, (unsigned)(n - done), 0)) > 0;)
                done += k;
        }
    } else {
        fputs("usage: see the source\n", stderr);
        return 2;
    }
    return 0;
}
