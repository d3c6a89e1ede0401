/* Records for the control plane, in bounded lists that the data plane fills, so that it never calls into their readers: digests,
 * and the log (log.c). */
#include "pipeline/pipeline.h"

#include <stdlib.h>

#define MAX_DIGESTS 4096

struct sw_record *sw_record_add(struct sw_records *records, uint32_t most, int64_t time, uint32_t bytes) {
    struct sw_record *record = records->count < most ? malloc(sizeof *record + bytes) : NULL;
    if (!record) {
        records->lost++;
        return NULL;
    }
    *record = (struct sw_record){.time = time, .bytes = bytes};
    if (records->first)
        records->last->next = record;
    else
        records->first = record;
    records->last = record;
    records->count++;
    sw_signal(records->event);
    return record;
}

struct sw_record *sw_record_take(struct sw_records *records) {
    struct sw_record *record = records->first;
    if (record) {
        records->first = record->next;
        records->count--;
    }
    return record;
}

void sw_records_clear(struct sw_records *records) {
    for (struct sw_record *record; (record = sw_record_take(records)); free(record)) {
    }
}

void sw_send_digest(struct sw *sw, struct sw_packet *p) {
    const struct sw_digest_desc *d = sw->program->digest;
    uint32_t i = 0;
    while (i < sw->program->digests && d[i].id != p->digest_list)
        i++;
    p->digest_list = 0;
    if (i == sw->program->digests)
        return;
    struct sw_record *digest = sw_record_add(&sw->digests, MAX_DIGESTS, sw->now, d[i].words * (uint32_t)sizeof(uint64_t));
    if (digest) {
        digest->list = i;
        sw->program->read_digest(p->phv, i, digest->data);
    }
}
