/* Creation of a switch, loading of a program, and the verbs that take the lock themselves. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control_plane.h"

struct sw *sw_create(const struct sw_config *config) {
    struct sw *sw = calloc(1, sizeof *sw);
    if (!sw)
        return NULL;
    pthread_mutex_init(&sw->lock, NULL);
    sw->queues = config->queues < 1 ? 1 : config->queues > SW_MAX_QUEUES ? SW_MAX_QUEUES : config->queues;
    sw->buffer_packets = config->buffer_packets;
    sw->max_frame = config->max_frame;
    sw->seed = sw->random = config->seed;
    sw->device_id = config->device_id;
    sw->event = sw->digest_event = sw->log_event = -1;
    sw->digests_end = &sw->digests;
    sw->log_records_end = &sw->log_records;
    sw->port_count = config->port_count;
    sw->port_list = calloc(config->port_count + 1, sizeof *sw->port_list);
    sw->ready = calloc(config->port_count + 1, sizeof *sw->ready);
    if (!sw->port_list || !sw->ready) {
        sw_destroy(sw);
        return NULL;
    }
    for (uint32_t i = 0; i < config->port_count; i++) {
        struct sw_port *port = &sw->port_list[i];
        if (config->ports[i] >= SW_DROP_PORT || sw->port[config->ports[i]]) {
            sw_destroy(sw);
            return NULL;
        }
        *port = (struct sw_port){.number = config->ports[i], .up = 1, .event = -1, .stats = {.up = 1}};
        for (uint32_t q = 0; q < SW_MAX_QUEUES; q++) {
            port->queue[q].max_packets = config->queue_packets;
            port->queue[q].max_bytes = config->queue_bytes;
        }
        sw->port[port->number] = port;
    }
    return sw;
}

/* Empties all queues; the packet pool stays. */
static void forget_packets(struct sw *sw) {
    for (uint32_t i = 0; i < sw->port_count; i++) {
        struct sw_port *port = &sw->port_list[i];
        for (uint32_t q = 0; q < SW_MAX_QUEUES; q++) {
            sw->drops[SW_DROP_no_pipeline] += port->queue[q].packets;
            for (struct sw_packet *p = port->queue[q].head; p; p = p->next)
                sw_release(sw, p);
            port->queue[q].head = port->queue[q].tail = NULL;
            port->queue[q].packets = port->queue[q].bytes = 0;
        }
        port->waiting = 0;
        port->depth.bytes = 0;
    }
    sw_pause_reset(sw);
}

static void unload(struct sw *sw) {
    const struct sw_program *program = sw->program;
    forget_packets(sw);
    sw_pool_free(sw);
    sw_clear_digests(sw);
    sw_map_clear(&sw->groups);
    sw_map_clear(&sw->sessions);
    for (uint32_t i = 0; program && sw->tables && i < program->tables; i++)
        sw_table_clear(&sw->tables[i]);
    for (uint32_t i = 0; program && sw->counters && i < program->counters; i++)
        free(sw->counters[i]);
    for (uint32_t i = 0; program && sw->meters && i < program->meters; i++)
        free(sw->meters[i]);
    for (uint32_t i = 0; program && sw->registers && i < program->registers; i++)
        free(sw->registers[i].cells);
    free(sw->tables);
    free(sw->counters);
    free(sw->meters);
    free(sw->registers);
    free(sw->scratch);
    free(sw->texts);
    sw->texts = NULL;
    sw->tables = NULL;
    sw->counters = NULL;
    sw->meters = NULL;
    sw->registers = NULL;
    sw->scratch = NULL;
    sw->program = NULL;
}

/* Pointers and texts in one piece of memory. */
static char **copy_texts(const char *const *texts, uint32_t count) {
    size_t bytes = (count + 1) * sizeof(char *);
    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(texts[i]) + 1;
    char **copy = malloc(bytes), *at = copy ? (char *)(copy + count + 1) : NULL;
    for (uint32_t i = 0; copy && i < count; i++) {
        copy[i] = at;
        at = stpcpy(at, texts[i]) + 1;
    }
    return copy;
}

static int allocate(struct sw *sw, const struct sw_program *program, const char *const *texts) {
    sw->program = program;
    sw->texts = copy_texts(texts, program->texts);
    sw->tables = sw_new_lines((program->tables + 1) * sizeof *sw->tables);
    sw->counters = calloc(program->counters + 1, sizeof *sw->counters);
    sw->meters = calloc(program->meters + 1, sizeof *sw->meters);
    sw->registers = calloc(program->registers + 1, sizeof *sw->registers);
    sw->scratch = calloc(1, (size_t)sw->max_frame + 2 * ((size_t)program->headroom + 64) + program->scratch);
    if (!sw->tables || !sw->counters || !sw->meters || !sw->registers || !sw->scratch || !sw->texts)
        return SW_NO_MEMORY;
    for (uint32_t i = 0; i < program->tables; i++)
        sw->tables[i].desc = &program->table[i];
    for (uint32_t i = 0; i < program->counters; i++)
        if (!(sw->counters[i] = calloc(program->counter[i].size + 1, sizeof **sw->counters)))
            return SW_NO_MEMORY;
    for (uint32_t i = 0; i < program->meters; i++)
        if (!(sw->meters[i] = calloc(program->meter[i].size + 1, sizeof **sw->meters)))
            return SW_NO_MEMORY;
    for (uint32_t i = 0; i < program->registers; i++)
        if (!(sw->registers[i].cells = calloc(program->reg[i].size + 1, program->reg[i].cell_bytes)))
            return SW_NO_MEMORY;
    sw->random = sw->seed;
    sw->loop_logged = 0;
    return sw_pool_make(sw) ? SW_NO_MEMORY : SW_OK;
}

int sw_load(struct sw *sw, const struct sw_program *program, const char *const *texts, uint32_t text_count) {
    if (program && (program->abi != SW_ABI || program->texts != text_count))
        return SW_BAD;
    sw_lock(sw);
    unload(sw);
    int status = program ? allocate(sw, program, texts) : SW_OK;
    if (status)
        unload(sw);
    sw_unlock(sw);
    return status;
}

#define SWAP(field)                                                                                                     \
    do {                                                                                                                \
        __typeof__(sw->field) mine = sw->field;                                                                         \
        sw->field = staged->field;                                                                                      \
        staged->field = mine;                                                                                           \
    } while (0)

/* All that `allocate` and the control plane made for a program, and no more: ports, rates, events, clock and figures stay. */
static void swap_programs(struct sw *sw, struct sw *staged) {
    SWAP(program);
    SWAP(texts);
    SWAP(tables);
    SWAP(counters);
    SWAP(meters);
    SWAP(registers);
    SWAP(scratch);
    SWAP(random);
    SWAP(loop_logged);
    SWAP(pool);
    SWAP(slab);
    SWAP(slab_bytes);
    SWAP(in_use);
    SWAP(headroom);
    SWAP(room);
    SWAP(first_byte);
    SWAP(groups);
    SWAP(sessions);
    sw_groups_swap(sw, staged);
}

void sw_adopt(struct sw *sw, struct sw *staged) {
    sw_lock(sw); /* no other thread knows `staged` */
    forget_packets(sw);
    sw_clear_digests(sw);
    swap_programs(sw, staged);
    sw_unlock(sw);
}

void sw_destroy(struct sw *sw) {
    if (!sw)
        return;
    unload(sw);
    for (uint32_t i = 0; sw->port_list && i < sw->port_count; i++)
        sw_wires_lose(sw, &sw->port_list[i]);
    sw_clear_log(sw);
    free(sw->port_list);
    free(sw->ready);
    pthread_mutex_destroy(&sw->lock);
    free(sw);
}

void sw_lock(struct sw *sw) { pthread_mutex_lock(&sw->lock); }
void sw_unlock(struct sw *sw) { pthread_mutex_unlock(&sw->lock); }

void sw_set_event(struct sw *sw, int fd) { sw->event = fd; }
void sw_set_digest_event(struct sw *sw, int fd) { sw->digest_event = fd; }
void sw_set_port_event(struct sw *sw, unsigned port, int fd) {
    if (port < SW_MAX_PORTS && sw->port[port])
        sw->port[port]->event = fd;
}

/* --- verbs with the lock, which also wake a driver when they made a port ready --- */

static void begin(struct sw *sw) {
    sw_lock(sw);
    sw->outside_ready = 0;
}

static void finish(struct sw *sw) {
    int fd = sw->outside_ready ? sw->event : -1;
    sw_unlock(sw);
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) {
        /* a full eventfd is signalled already */
    }
}

void sw_dev_receive(struct sw *sw, unsigned port, const void *data, size_t len, int64_t now) {
    begin(sw);
    sw_receive(sw, port, data, len, now);
    finish(sw);
}

size_t sw_dev_transmit(struct sw *sw, unsigned port, int64_t now, void *buf, size_t cap) {
    begin(sw);
    size_t n = sw_transmit(sw, port, now, buf, cap);
    finish(sw);
    return n;
}

size_t sw_dev_receive_frame(
    struct sw *sw, unsigned port, const struct sw_frame *frame, int64_t now, uint16_t *ready, size_t cap) {
    begin(sw);
    sw_receive_frame(sw, port, frame, now);
    size_t n = sw_take_ready(sw, ready, cap);
    finish(sw);
    return n;
}

size_t sw_dev_transmit_frame(struct sw *sw, unsigned port, int64_t now, size_t cap, sw_take take, void *context) {
    begin(sw);
    size_t n = sw_transmit_frame(sw, port, now, cap, take, context);
    finish(sw);
    return n;
}

void sw_set_owners(struct sw *sw, sw_release_owner release, sw_copy_rest copy) {
    sw->release = release;
    sw->copy_rest = copy;
}

void sw_dev_set_owners(struct sw *sw, sw_release_owner release, sw_copy_rest copy) {
    sw_lock(sw);
    sw_set_owners(sw, release, copy);
    sw_unlock(sw);
}

int64_t sw_dev_next_wakeup(struct sw *sw) {
    sw_lock(sw);
    int64_t when = sw_next_wakeup(sw);
    sw_unlock(sw);
    return when;
}

void sw_dev_tick(struct sw *sw, int64_t now) {
    begin(sw);
    sw_tick(sw, now);
    finish(sw);
}

void sw_dev_port_changed(struct sw *sw, unsigned port, int up, int64_t now) {
    begin(sw);
    sw_port_changed(sw, port, up, now);
    finish(sw);
}

int sw_dev_set_port_delay(struct sw *sw, unsigned port, int64_t arriving, int64_t leaving, int64_t now) {
    begin(sw);
    int status = sw_set_port_delay(sw, port, arriving, leaving, now);
    finish(sw);
    return status;
}

size_t sw_dev_take_ready(struct sw *sw, uint16_t *ports, size_t cap) {
    sw_lock(sw);
    size_t n = sw_take_ready(sw, ports, cap);
    sw_unlock(sw);
    return n;
}
