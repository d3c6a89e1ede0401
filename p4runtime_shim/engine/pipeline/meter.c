/* Meters: two rates, three colors (RFC 2698, color-blind); 0 is green, 1 yellow, 2 red. */
#include "pipeline/pipeline.h"

/* Tokens are counted from time 0, so that rounding errors do not accumulate. A fast meter exceeds 64 bits after some seconds,
 * so the count is a double, without fractions from 2^52 on. */
static int take(struct sw_meter_rate *r, uint64_t now_us, uint64_t amount) {
    double issued = (double)now_us * r->per_us;
    if (issued < 0x1p63)
        issued = (double)(uint64_t)issued;
    if (issued > r->issued) {
        double fresh = issued - r->issued;
        uint64_t room = r->burst - r->tokens;
        r->tokens += fresh < (double)room ? (uint64_t)fresh : room;
        r->issued = issued;
    }
    if (r->tokens < amount)
        return 0;
    r->tokens -= amount;
    return 1;
}

static uint32_t color(struct sw_meter *m, uint64_t now_us, uint64_t amount) {
    if (!m->configured)
        return 0;
    if (!take(&m->peak, now_us, amount))
        return 2;
    return take(&m->committed, now_us, amount) ? 0 : 1;
}

uint32_t sw_meter_run(struct sw_meter *m, uint64_t now_us, uint64_t amount, uint32_t bytes) {
    uint32_t found = color(m, now_us, amount);
    m->colored[found][0]++;
    m->colored[found][1] += bytes;
    return found;
}
