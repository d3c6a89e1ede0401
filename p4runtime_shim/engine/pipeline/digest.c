/* Digests: a bounded list that the data plane fills and the control plane drains. */
#include <stdlib.h>

#include "pipeline/pipeline.h"

#define MAX_DIGESTS 4096

void sw_send_digest(struct sw *sw, struct sw_packet *p) {
    const struct sw_digest_desc *d = sw->program->digest;
    uint32_t i = 0;
    while (i < sw->program->digests && d[i].id != p->digest_list)
        i++;
    p->digest_list = 0;
    if (i == sw->program->digests)
        return;
    struct sw_digest *m = sw->digest_count < MAX_DIGESTS ? malloc(sizeof *m + d[i].words * sizeof(uint64_t)) : NULL;
    if (!m) {
        sw->digests_lost++;
        return;
    }
    *m = (struct sw_digest){.time = sw->now, .list = i, .words = d[i].words};
    sw->program->read_digest(p->phv, i, m->values);
    *sw->digests_end = m;
    sw->digests_end = &m->next;
    sw->digest_count++;
    sw_signal(sw->digest_event);
}

void sw_clear_digests(struct sw *sw) {
    for (struct sw_digest *m = sw->digests, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    sw->digests = NULL;
    sw->digests_end = &sw->digests;
    sw->digest_count = 0;
}
