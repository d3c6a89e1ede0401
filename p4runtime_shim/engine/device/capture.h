/* Packet capture: the frames received and sent on each port, to pcap files. See capture.c. */
#ifndef SW_CAPTURE_H
#define SW_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "switch.h"

struct sw_capture;

enum sw_direction { SW_IN, SW_OUT };

struct sw_capture_stats {
    uint64_t frames;  /* written to files */
    uint64_t lost;    /* arrived while the buffer was full, or could not be written */
    uint64_t waiting; /* bytes not written yet */
    int32_t error;    /* errno of the last attempt to write, 0 if it succeeded */
};

/* Starts to record frames in two buffers of `bytes` each; `wall` ns is added to the switch's times. Files come with
 * sw_capture_file(). NULL without memory, or while the switch has a capture already. Takes the switch's lock. */
struct sw_capture *sw_capture_start(struct sw *sw, size_t bytes, int64_t wall, int event);
/* Appends the frames of a port and direction to `fd`, at its end, in the form of pcap records (times in ns). Frames of ports
 * without a file are not recorded. */
int sw_capture_file(struct sw_capture *capture, unsigned port, enum sw_direction direction, int fd);
/* Writes the buffered frames; from one thread only, without the switch's lock. 0, or the errno of a file that could not be written. */
int sw_capture_write(struct sw_capture *capture);
void sw_capture_stats(struct sw_capture *capture, struct sw_capture_stats *out);
/* Frames are no longer recorded; buffered frames can still be written. */
void sw_capture_stop(struct sw_capture *capture);
void sw_capture_free(struct sw_capture *capture);

/* A frame passes a port [locked]. */
void sw_capture_frame(struct sw *sw, unsigned port, enum sw_direction direction, const void *data, size_t len, int64_t now);

#endif
