/* The log for users: log_msg() of the program, failed assertions, and the trace of packets. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/pipeline.h"

#define MAX_LOG_RECORDS 16384

static void add_log_record(struct sw *sw, const char *text, size_t length) {
    struct sw_record *record = sw_record_add(&sw->log, MAX_LOG_RECORDS, sw->now, (uint32_t)length);
    if (record)
        memcpy(record->data, text, length);
}

void sw_trace(struct sw *sw, const struct sw_packet *p, const char *format, ...) {
    char text[SW_MAX_LOG_RECORD];
    int used = snprintf(text, sizeof text, "packet %llu: ", (unsigned long long)p->id);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    size_t length = (size_t)used + (more > 0 ? (size_t)more : 0);
    add_log_record(sw, text, length < sizeof text ? length : sizeof text - 1);
}

static size_t print_number(char *out, size_t cap, i128 value) {
    char digits[48];
    size_t n = 0, used = 0;
    u128 v = value < 0 ? -(u128)value : (u128)value;
    do {
        digits[n++] = (char)('0' + (int)(v % 10));
        v /= 10;
    } while (v);
    if (value < 0)
        digits[n++] = '-';
    while (n && used < cap)
        out[used++] = digits[--n];
    return used;
}

/* Each {} of the format is replaced by the next value; \{ and \} are literal braces. */
void sw_log_msg(struct sw *sw, const char *format, unsigned count, const i128 *values) {
    char text[512];
    size_t used = 0;
    unsigned next = 0;
    if (!sw->logging)
        return;
    for (const char *f = format; *f && used < sizeof text - 1; f++) {
        const char *end = *f == '{' ? strchr(f, '}') : NULL;
        if (*f == '\\' && (f[1] == '{' || f[1] == '}')) {
            text[used++] = *++f;
        } else if (end && next < count) {
            used += print_number(text + used, sizeof text - 1 - used, values[next++]);
            f = end;
        } else {
            text[used++] = *f;
        }
    }
    add_log_record(sw, text, used);
}

void sw_log_loop_limit(struct sw *sw, const struct sw_packet *p) {
    if (!sw->logging || sw->loop_logged)
        return;
    sw->loop_logged = 1;
    char text[200];
    int length = snprintf(text, sizeof text, "packet %llu is dropped: it loops in the program, or passes through it too often;"
                          " further ones are only counted (loop_limit)", p ? (unsigned long long)p->id : 0ull);
    add_log_record(sw, text, (size_t)length);
}

void sw_assertion_failed(struct sw *sw, struct sw_packet *p, const char *what) {
    p->failed = 1;
    if (sw->logging || sw->tracing)
        add_log_record(sw, what, strlen(what));
}
