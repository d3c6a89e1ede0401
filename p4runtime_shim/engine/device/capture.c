/* Packet capture: the frames received and sent on each port, to pcap files.
 *
 * The data plane appends each frame, under the switch's lock and already as a pcap record, to a buffer of fixed size; the
 * records of one file form a chain. The writing thread swaps that buffer for an empty one, then writes every chain without a
 * lock, many records per system call. A frame that finds the buffer full is lost and counted: the switch never waits for a
 * disk. When a write fails (a full disk), the file is truncated to its last complete record, the remaining records of the
 * chain are lost and counted, and the next chain is tried as usual. */
#include "device/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pipeline/pipeline.h"

#define FILES (2 * SW_MAX_PORTS)
#define NONE UINT32_MAX
#define GATHER 256 /* records in one system call */

struct record { /* in a buffer: this, then `length` bytes of frame, then padding to 8 bytes */
    uint32_t next; /* offset of the next record of the same file */
    uint32_t length;
    uint32_t pcap[4]; /* seconds, nanoseconds, bytes kept, bytes seen */
};

struct buffer {
    uint8_t *bytes;
    size_t used;
    uint32_t first[FILES], last[FILES];
};

struct file {
    int fd;
    off_t end; /* of the last complete record */
};

struct sw_capture {
    struct sw *sw;
    struct buffer buffers[2], *filling;
    size_t size;
    int64_t wall;
    int event;
    struct file files[FILES];
    struct sw_capture_stats stats; /* under the switch's lock */
};

static unsigned slot(unsigned port, enum sw_direction direction) { return 2 * port + (direction == SW_OUT); }

static void empty(struct buffer *b) {
    b->used = 0;
    memset(b->first, 0xff, sizeof b->first); /* NONE */
}

struct sw_capture *sw_capture_start(struct sw *sw, size_t bytes, int64_t wall, int event) {
    struct sw_capture *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = (struct sw_capture){.sw = sw, .size = bytes, .wall = wall, .event = event, .filling = c->buffers};
    for (unsigned i = 0; i < FILES; i++)
        c->files[i].fd = -1;
    for (unsigned i = 0; i < 2; i++) {
        c->buffers[i].bytes = malloc(bytes);
        empty(&c->buffers[i]);
    }
    sw_lock(sw);
    int taken = sw->capture != NULL;
    if (!taken && c->buffers[0].bytes && c->buffers[1].bytes)
        sw->capture = c;
    int started = sw->capture == c;
    sw_unlock(sw);
    if (started)
        return c;
    sw_capture_free(c);
    return NULL;
}

int sw_capture_file(struct sw_capture *c, unsigned port, enum sw_direction direction, int fd) {
    off_t end = port < SW_MAX_PORTS ? lseek(fd, 0, SEEK_END) : -1;
    if (end < 0)
        return -1;
    sw_lock(c->sw);
    c->files[slot(port, direction)] = (struct file){fd, end};
    sw_unlock(c->sw);
    return 0;
}

void sw_capture_frame(struct sw *sw, unsigned port, enum sw_direction direction, const void *data, size_t len, int64_t now) {
    struct sw_capture *c = sw->capture;
    struct buffer *b = c->filling;
    unsigned s = slot(port, direction);
    size_t space = (sizeof(struct record) + len + 7) & ~(size_t)7;
    if (c->files[s].fd < 0)
        return;
    if (space > c->size - b->used) {
        c->stats.lost++;
        return;
    }
    uint32_t offset = (uint32_t)b->used;
    struct record *r = (struct record *)(void *)(b->bytes + offset);
    uint64_t when = (uint64_t)(now + c->wall);
    *r = (struct record){NONE, (uint32_t)len, {0, 0, (uint32_t)len, (uint32_t)len}};
    r->pcap[0] = (uint32_t)(when / 1000000000u);
    r->pcap[1] = (uint32_t)(when % 1000000000u);
    if (len)
        memcpy(r + 1, data, len);
    if (b->first[s] == NONE)
        b->first[s] = offset;
    else
        ((struct record *)(void *)(b->bytes + b->last[s]))->next = offset;
    b->last[s] = offset;
    if (!b->used)
        sw_signal(c->event);
    b->used += space;
}

/* --- writing --- */

static struct record *at(const struct buffer *b, uint32_t offset) {
    return (struct record *)(void *)(b->bytes + offset);
}

static size_t on_disk(const struct record *r) { return sizeof r->pcap + r->length; }

/* Writes records of a chain, as many as one system call takes; the bytes that were written, or -1. */
static ssize_t write_some(const struct buffer *b, const struct file *file, uint32_t offset) {
    struct iovec parts[2 * GATHER];
    int n = 0;
    for (; offset != NONE && n < 2 * GATHER; offset = at(b, offset)->next) {
        struct record *r = at(b, offset);
        parts[n++] = (struct iovec){r->pcap, sizeof r->pcap};
        parts[n++] = (struct iovec){r + 1, r->length};
    }
    ssize_t done;
    do
        done = pwritev(file->fd, parts, n, file->end);
    while (done < 0 && errno == EINTR);
    return done;
}

/* Writes one chain; 0 or an errno. After a short write, continues after the last complete record. */
static int write_chain(const struct buffer *b, struct file *file, uint32_t offset, struct sw_capture_stats *sum) {
    while (offset != NONE) {
        ssize_t left = write_some(b, file, offset);
        int error = left < 0 ? errno : 0;
        if (left >= 0 && (size_t)left < on_disk(at(b, offset)))
            error = pwrite(file->fd, "", 1, file->end + left) < 0 ? errno : ENOSPC; /* one more byte shows what is wrong */
        for (; offset != NONE && left >= (ssize_t)on_disk(at(b, offset)); offset = at(b, offset)->next) {
            left -= (ssize_t)on_disk(at(b, offset));
            file->end += (off_t)on_disk(at(b, offset));
            sum->frames++;
        }
        if (!error)
            continue;
        for (; offset != NONE; offset = at(b, offset)->next)
            sum->lost++;
        if (ftruncate(file->fd, file->end)) {
            /* bytes after the last complete record are overwritten by the next chain */
        }
        return error;
    }
    return 0;
}

int sw_capture_write(struct sw_capture *c) {
    sw_lock(c->sw);
    struct buffer *full = c->filling;
    c->filling = full == c->buffers ? c->buffers + 1 : c->buffers;
    sw_unlock(c->sw);
    struct sw_capture_stats sum = {0};
    for (unsigned i = 0; full->used && i < FILES; i++) {
        if (full->first[i] == NONE)
            continue;
        int error = write_chain(full, &c->files[i], full->first[i], &sum);
        if (error)
            sum.error = error;
    }
    int wrote = full->used != 0;
    empty(full);
    sw_lock(c->sw);
    c->stats.frames += sum.frames;
    c->stats.lost += sum.lost;
    if (wrote)
        c->stats.error = sum.error;
    sw_unlock(c->sw);
    return sum.error;
}

void sw_capture_stats(struct sw_capture *c, struct sw_capture_stats *out) {
    sw_lock(c->sw);
    *out = c->stats;
    out->waiting = c->filling->used;
    sw_unlock(c->sw);
}

void sw_capture_stop(struct sw_capture *c) {
    sw_lock(c->sw);
    if (c->sw->capture == c)
        c->sw->capture = NULL;
    sw_unlock(c->sw);
}

void sw_capture_free(struct sw_capture *c) {
    free(c->buffers[0].bytes);
    free(c->buffers[1].bytes);
    free(c);
}
