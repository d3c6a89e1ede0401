/* Keys are looked for in the text: no object asked for here has the same key in two meanings. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *json_next(const char *json, const char *key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *found = strstr(json, quoted);
    return found ? found + strlen(quoted) : NULL;
}

uint64_t json_number(const char *json, const char *key, uint64_t otherwise) {
    const char *value = json_next(json, key);
    return value && *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : otherwise;
}

double json_real(const char *json, const char *key, double otherwise) {
    const char *value = json_next(json, key);
    return value && ((*value >= '0' && *value <= '9') || *value == '-') ? strtod(value, NULL) : otherwise;
}

int json_true(const char *json, const char *key) {
    const char *value = json_next(json, key);
    return value && !strncmp(value, "true", 4);
}

const char *json_text(const char *json, const char *key, char *text, size_t size) {
    const char *value = json_next(json, key);
    text[0] = 0;
    if (value && *value == '"') {
        size_t length = strcspn(++value, "\"\\");
        if (length < size) {
            memcpy(text, value, length);
            text[length] = 0;
        }
    }
    return text;
}
