/* The trace of tables and actions: the key, the entry that was hit, and the arguments, by their P4 names. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/pipeline.h"

struct text {
    char at[SW_MAX_LOG_RECORD];
    size_t used;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *to, const char *format, ...) {
    size_t room = sizeof to->at - to->used;
    va_list args;
    va_start(args, format);
    int more = vsnprintf(to->at + to->used, room, format, args);
    va_end(args);
    if (more > 0)
        to->used += (size_t)more < room ? (size_t)more : room - 1;
}

/* A number of several words, the least significant first. */
static void add_number(struct text *to, const uint64_t *words, unsigned count) {
    while (count > 1 && !words[count - 1])
        count--;
    add(to, "0x%llx", (unsigned long long)words[count - 1]);
    while (--count)
        add(to, "%016llx", (unsigned long long)words[count - 1]);
}

static int is_full(const uint64_t *mask, const struct sw_field_desc *field) {
    for (uint32_t w = 0, left = field->bits; w < field->words; w++, left -= left < 64 ? left : 64)
        if (mask[w] != (left < 64 ? ((uint64_t)1 << left) - 1 : UINT64_MAX))
            return 0;
    return 1;
}

static int is_zero(const uint64_t *mask, const struct sw_field_desc *field) {
    uint64_t any = 0;
    for (uint32_t w = 0; w < field->words; w++)
        any |= mask[w];
    return !any;
}

static void add_key(struct text *to, const struct sw *sw, const struct sw_table_desc *d, const uint64_t *key) {
    for (uint32_t f = 0; f < d->fields; f++) {
        add(to, "%s%s=", f ? " " : "", sw->texts[d->field[f].name]);
        add_number(to, key + d->field[f].word, d->field[f].words);
    }
}

/* The fields that the entry specifies: value, value&&&mask, or low..high. */
static void add_entry(struct text *to, const struct sw *sw, const struct sw_table_desc *d, const struct sw_entry *e) {
    const uint64_t *mask = e->key + d->words, *high = e->key + 2 * d->words;
    for (uint32_t f = 0; f < d->fields; f++) {
        const struct sw_field_desc *field = &d->field[f];
        uint32_t w = field->word;
        if (!field->range && is_zero(mask + w, field))
            continue;
        add(to, " %s=", sw->texts[field->name]);
        add_number(to, e->key + w, field->words);
        if (field->range) {
            add(to, "..");
            add_number(to, high + w, field->words);
        } else if (!is_full(mask + w, field)) {
            add(to, "&&&");
            add_number(to, mask + w, field->words);
        }
    }
    add(to, " priority %d", e->priority);
}

void sw_trace_table(struct sw *sw, const struct sw_packet *p, const char *name, const struct sw_table *t,
                    const uint64_t *key, const struct sw_entry *e) {
    struct text text = {.used = 0};
    add_key(&text, sw, t->desc, key);
    if (e && t->desc->kind == SW_TERNARY) {
        add(&text, ", entry");
        add_entry(&text, sw, t->desc, e);
    }
    sw_trace(sw, p, "table %s: %s, key %s", name, e ? "hit" : "miss", text.at);
}

void sw_trace_action(struct sw *sw, const struct sw_packet *p, const char *name, const struct sw_param *params,
                     unsigned count, const uint64_t *args) {
    struct text text = {.used = 0};
    for (unsigned i = 0; i < count; i++) {
        unsigned words = (params[i].bits + 63) / 64;
        add(&text, "%s%s=", i ? ", " : "", sw->texts[params[i].name]);
        add_number(&text, args, words);
        args += words;
    }
    sw_trace(sw, p, "action %s(%s)", name, text.used ? text.at : "");
}
