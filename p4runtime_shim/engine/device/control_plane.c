/* Control plane operations: thin, each under the switch's lock. */
#include "device/control_plane.h"

#include <stdlib.h>
#include <string.h>

static int set_target(struct sw_entry *e, const struct sw_target *t) {
    struct sw_call *call = NULL;
    if (!t->member && !t->group && !(call = sw_call_new(t->action, t->arg_words, t->args)))
        return SW_NO_MEMORY;
    free(e->call);
    e->call = call;
    e->member = t->member;
    e->group = t->group;
    return SW_OK;
}

/* The only slow part of the control plane: packets wait only while the trees are swapped. */
static void rebuild(struct sw *sw, struct sw_table *t) {
    struct sw_table fresh;
    if (sw_ternary_rebuild(t, &fresh))
        return;
    sw_lock(sw);
    sw_ternary_swap(t, &fresh);
    sw_unlock(sw);
    sw_ternary_drop(&fresh);
}

struct sw_entry *sw_ctl_insert(struct sw *sw, uint32_t table, const uint64_t *key, const uint64_t *mask,
                               const uint64_t *high, int32_t priority, const struct sw_target *target) {
    struct sw_table *t = &sw->tables[table];
    const struct sw_table_desc *d = t->desc;
    struct sw_entry *e = sw_entry_new(d);
    if (!e || set_target(e, target)) {
        sw_entry_free(e);
        return NULL;
    }
    size_t bytes = d->words * sizeof(uint64_t);
    memcpy(e->key, key, bytes);
    if (d->kind == SW_TERNARY) {
        memcpy(sw_entry_mask(d, e), mask, bytes);
        memcpy(sw_entry_high(d, e), high, bytes);
    }
    e->priority = priority;
    sw_lock(sw);
    int status = sw_table_add(t, e);
    sw_unlock(sw);
    if (status) {
        sw_entry_free(e);
        return NULL;
    }
    if (t->due)
        rebuild(sw, t);
    return e;
}

static int add_member(struct sw_table *t, const uint64_t *words) {
    struct sw_entry *e = sw_entry_new(t->desc);
    if (!e)
        return SW_NO_MEMORY;
    memcpy(e->key, words, 3 * t->desc->words * sizeof(uint64_t));
    if (sw_table_add(t, e)) {
        sw_entry_free(e);
        return SW_NO_MEMORY;
    }
    struct sw_table fresh;
    if (t->due && !sw_ternary_rebuild(t, &fresh)) {
        sw_ternary_swap(t, &fresh);
        sw_ternary_drop(&fresh);
    }
    return SW_OK;
}

int sw_ctl_members(struct sw *sw, uint32_t table, uint32_t count, const uint64_t *words) {
    struct sw_table *t = &sw->tables[table], members = {.desc = t->desc};
    for (uint32_t i = 0; i < count; i++)
        if (add_member(&members, words + (size_t)i * 3 * t->desc->words)) {
            sw_table_clear(&members);
            return SW_NO_MEMORY;
        }
    sw_lock(sw);
    struct sw_table old = *t;
    *t = members;
    sw_unlock(sw);
    sw_table_clear(&old);
    return SW_OK;
}

int sw_ctl_modify(struct sw *sw, struct sw_entry *entry, const struct sw_target *target) {
    sw_lock(sw);
    int status = set_target(entry, target);
    sw_unlock(sw);
    return status;
}

void sw_ctl_delete(struct sw *sw, uint32_t table, struct sw_entry *entry) {
    sw_lock(sw);
    sw_table_remove(&sw->tables[table], entry);
    sw_unlock(sw);
}

int sw_ctl_default(struct sw *sw, uint32_t table, uint32_t action, uint32_t arg_words, const uint64_t *args) {
    struct sw_call *call = NULL;
    if (arg_words != UINT32_MAX && !(call = sw_call_new(action, arg_words, args)))
        return SW_NO_MEMORY;
    sw_lock(sw);
    struct sw_call *old = sw->tables[table].default_action;
    sw->tables[table].default_action = call;
    sw_unlock(sw);
    free(old);
    return SW_OK;
}

void sw_ctl_entry_counter(struct sw *sw, struct sw_entry *entry, int write, uint64_t *values) {
    sw_lock(sw);
    if (write) {
        entry->packets = values[0];
        entry->bytes = values[1];
    } else {
        values[0] = entry->packets;
        values[1] = entry->bytes;
    }
    sw_unlock(sw);
}

void sw_ctl_entry_hits(struct sw *sw, struct sw_entry *const *entries, uint32_t count, int64_t *hits) {
    sw_lock(sw);
    for (uint32_t i = 0; i < count; i++)
        hits[i] = entries[i]->hit;
    sw_unlock(sw);
}

static struct sw_meter_rate rate(double per_us, double burst) {
    uint64_t most = burst < 0x1p63 ? (uint64_t)burst : (uint64_t)1 << 63;
    return (struct sw_meter_rate){per_us, most, most, 0};
}

static void configure(struct sw_meter *m, const double *c) {
    m->configured = 0;
    if (!c)
        return;
    m->configured = 1;
    m->committed = rate(c[0], c[1]);
    m->peak = rate(c[2], c[3]);
}

static void colors(struct sw_meter *m, int write, uint64_t *values) {
    memcpy(write ? (void *)m->colored : (void *)values, write ? (void *)values : (void *)m->colored, sizeof m->colored);
}

void sw_ctl_entry_colors(struct sw *sw, struct sw_entry *entry, int write, uint64_t *values) {
    sw_lock(sw);
    colors(entry->meter, write, values);
    sw_unlock(sw);
}

void sw_ctl_entry_meter(struct sw *sw, struct sw_entry *entry, const double *config) {
    sw_lock(sw);
    configure(entry->meter, config);
    sw_unlock(sw);
}

/* --- cells --- */

static void move(void *cells, void *values, size_t bytes, int write) {
    memcpy(write ? cells : values, write ? values : cells, bytes);
}

void sw_ctl_counters(struct sw *sw, uint32_t counter, uint32_t first, uint32_t count, int write, uint64_t *values) {
    sw_lock(sw);
    move(&sw->counters[counter][first], values, count * sizeof(struct sw_counter), write);
    sw_unlock(sw);
}

void sw_ctl_registers(struct sw *sw, uint32_t reg, uint32_t first, uint32_t count, int write, void *cells) {
    sw_lock(sw);
    size_t size = sw->program->reg[reg].cell_bytes;
    move(sw->registers[reg].cells + first * size, cells, count * size, write);
    sw_unlock(sw);
}

void sw_ctl_colors(struct sw *sw, uint32_t meter, uint32_t first, uint32_t count, int write, uint64_t *values) {
    sw_lock(sw);
    for (uint32_t i = 0; i < count; i++)
        colors(&sw->meters[meter][first + i], write, values + 6 * (size_t)i);
    sw_unlock(sw);
}

void sw_ctl_meters(struct sw *sw, uint32_t meter, uint32_t first, uint32_t count, const double *config) {
    sw_lock(sw);
    for (uint32_t i = 0; i < count; i++)
        configure(&sw->meters[meter][first + i], config);
    sw_unlock(sw);
}

/* --- replication, queues, digests, figures --- */

int sw_ctl_replicas(struct sw *sw, int sessions, uint32_t id, uint32_t count, const struct sw_replica *at, uint32_t truncate_to) {
    sw_lock(sw);
    int status = sw_map_set(sessions ? &sw->sessions : &sw->groups, id, at, count, truncate_to);
    sw_unlock(sw);
    return status;
}

int sw_ctl_replicas_delete(struct sw *sw, int sessions, uint32_t id) {
    sw_lock(sw);
    int status = sw_map_delete(sessions ? &sw->sessions : &sw->groups, id);
    sw_unlock(sw);
    return status;
}

void sw_ctl_queue_stats(struct sw *sw, unsigned port, unsigned queue, int reset, struct sw_queue_stats *out) {
    sw_lock(sw);
    struct sw_queue *q = &sw->ports.at[port]->queue[queue];
    *out = (struct sw_queue_stats){q->drops,     q->packets,      q->bytes,     q->max_packets,
                                   q->max_bytes, q->peak_packets, q->peak_bytes};
    if (reset) {
        q->peak_packets = q->packets;
        q->peak_bytes = q->bytes;
    }
    sw_unlock(sw);
}

void sw_ctl_queue_limits(struct sw *sw, unsigned port, unsigned queue, uint32_t packets, uint32_t bytes) {
    sw_lock(sw);
    sw->ports.at[port]->queue[queue].max_packets = packets;
    sw->ports.at[port]->queue[queue].max_bytes = bytes;
    sw_unlock(sw);
}

int sw_ctl_digest(struct sw *sw, uint32_t *list, int64_t *time, uint64_t *values, uint32_t cap) {
    sw_lock(sw);
    int words = -1;
    for (struct sw_record *digest; words < 0 && (digest = sw_record_take(&sw->digests)); free(digest)) {
        *list = digest->list;
        *time = digest->time;
        if (digest->bytes <= cap * sizeof(uint64_t)) {
            memcpy(values, digest->data, digest->bytes);
            words = (int)(digest->bytes / sizeof(uint64_t));
        } else {
            sw->digests.lost++;
        }
    }
    sw_unlock(sw);
    return words;
}

void sw_ctl_logging(struct sw *sw, int messages, int trace, int event) {
    sw_lock(sw);
    sw->logging = messages != 0;
    sw->tracing = trace != 0;
    sw->log.event = event;
    sw_unlock(sw);
}

int sw_ctl_log_record(struct sw *sw, int64_t *time, char *text, uint32_t cap) {
    sw_lock(sw);
    struct sw_record *record = cap ? sw_record_take(&sw->log) : NULL;
    sw_unlock(sw);
    if (!record)
        return -1;
    uint32_t length = record->bytes < cap ? record->bytes : cap - 1;
    memcpy(text, record->data, length);
    text[length] = 0;
    *time = record->time;
    free(record);
    return (int)length;
}

uint64_t sw_ctl_records_lost(struct sw *sw, int log) {
    sw_lock(sw);
    uint64_t lost = log ? sw->log.lost : sw->digests.lost;
    sw_unlock(sw);
    return lost;
}

void sw_ctl_stats(struct sw *sw, uint64_t *drops) {
    sw_lock(sw);
    memcpy(drops, sw->drops, sizeof sw->drops);
    sw_unlock(sw);
}

int sw_ctl_port_stats(struct sw *sw, unsigned number, struct sw_port_stats *out) {
    const struct sw_port *port = sw_port_at(&sw->ports, number);
    if (!port)
        return -1;
    sw_lock(sw);
    sw_port_figures(port, out);
    sw_unlock(sw);
    return 0;
}

void sw_ctl_sample_ports(struct sw *sw, int64_t now, int keep_peaks, struct sw_port_sample *out) {
    sw_lock(sw);
    sw_ports_sample(&sw->ports, now, keep_peaks, out);
    sw_unlock(sw);
}

int sw_ctl_port_rate(struct sw *sw, unsigned number, uint64_t rate, int64_t slack) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    if (!port)
        return -1;
    sw_begin(sw);
    sw_link_set_rate(&sw->ports, port, rate, slack, sw->now);
    sw_finish(sw);
    return 0;
}

int sw_ctl_pause(struct sw *sw, unsigned number, const struct sw_pause_config *config) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    if (!port || (config && config->priorities && !config->rate))
        return -1;
    sw_begin(sw);
    sw_pause_set(&sw->ports, port, config, sw->now);
    sw_finish(sw);
    return 0;
}

void sw_ctl_port_event(struct sw *sw, unsigned number, int fd) {
    struct sw_port *port = sw_port_at(&sw->ports, number);
    sw_lock(sw);
    if (port)
        port->event = fd;
    sw_unlock(sw);
}

void sw_ctl_digest_event(struct sw *sw, int fd) {
    sw_lock(sw);
    sw->digests.event = fd;
    sw_unlock(sw);
}

void sw_ctl_epoch(struct sw *sw, int64_t epoch) {
    sw_lock(sw);
    sw->epoch = epoch;
    sw_unlock(sw);
}
