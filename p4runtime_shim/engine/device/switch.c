/* Creation of a switch, and loading of a program. */
#include "device/control_plane.h"

#include <stdlib.h>
#include <string.h>

struct sw *sw_create(const struct sw_config *config) {
    struct sw *sw = calloc(1, sizeof *sw);
    if (!sw)
        return NULL;
    pthread_mutex_init(&sw->lock, NULL);
    sw->queues = config->queues < 1 ? 1 : config->queues > SW_MAX_QUEUES ? SW_MAX_QUEUES : config->queues;
    sw->pool.buffer_packets = config->buffer_packets;
    sw->pool.max_frame = config->max_frame;
    sw->seed = sw->random = config->seed;
    sw->device_id = config->device_id;
    sw->event = sw->digests.event = sw->log.event = -1;
    if (sw_ports_make(&sw->ports, config)) {
        sw_destroy(sw);
        return NULL;
    }
    sw_queues_limit(&sw->ports, config->queue_packets, config->queue_bytes);
    return sw;
}

/* Empties all queues; the packet pool stays. */
static void forget_packets(struct sw *sw) { sw->drops[SW_DROP_no_pipeline] += sw_queues_clear(&sw->ports, &sw->pool, sw->now); }

static void unload(struct sw *sw) {
    const struct sw_program *program = sw->program;
    forget_packets(sw);
    sw_pool_free(&sw->pool);
    sw_records_clear(&sw->digests);
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
    size_t input = (size_t)sw->pool.max_frame + 2 * ((size_t)program->headroom + 64) + program->scratch;
    sw->scratch = sw_new_lines(input > program->phv_size ? input : program->phv_size);
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
    return sw_pool_make(&sw->pool, program->phv_size, program->headroom) ? SW_NO_MEMORY : SW_OK;
}

int sw_load(struct sw *sw, const struct sw_program *program, const char *const *texts, uint32_t text_count) {
    if (program && (program->abi != SW_ABI || program->texts != text_count))
        return SW_BAD;
    sw_begin(sw); /* neighbours that were paused are to go on */
    unload(sw);
    int status = program ? allocate(sw, program, texts) : SW_OK;
    if (status)
        unload(sw);
    sw_finish(sw);
    return status;
}

#define SWAP(field)                                                                                                     \
    do {                                                                                                                \
        __typeof__(sw->field) mine = sw->field;                                                                         \
        sw->field = staged->field;                                                                                      \
        staged->field = mine;                                                                                           \
    } while (0)

/* All that `allocate` and the control plane made for a program, and no more: ports, rates, events, clock and figures stay, and
 * whose the payloads are. */
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
    SWAP(pool.packet_ids);
    SWAP(pool.release);
    SWAP(pool.copy_rest);
    SWAP(groups);
    SWAP(sessions);
    sw_groups_swap(sw, staged);
}

void sw_adopt(struct sw *sw, struct sw *staged) {
    sw_begin(sw); /* no other thread knows `staged` */
    forget_packets(sw);
    sw_records_clear(&sw->digests);
    swap_programs(sw, staged);
    sw_finish(sw);
}

void sw_destroy(struct sw *sw) {
    if (!sw)
        return;
    unload(sw);
    sw_ports_free(&sw->ports);
    sw_records_clear(&sw->log);
    pthread_mutex_destroy(&sw->lock);
    free(sw);
}

void sw_lock(struct sw *sw) { pthread_mutex_lock(&sw->lock); }
void sw_unlock(struct sw *sw) { pthread_mutex_unlock(&sw->lock); }
