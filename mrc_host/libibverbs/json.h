/* Looking into the JSON objects that an agent answers with: values by their key, without a tree. */
#ifndef MRC_JSON_H
#define MRC_JSON_H

#include <stddef.h>
#include <stdint.h>

/* The number behind the first such key of a JSON object, or `otherwise` if there is none. */
uint64_t json_number(const char *json, const char *key, uint64_t otherwise);
/* Whether the first such key has the value true. */
int json_true(const char *json, const char *key);
/* The number behind the first such key, which may have a fraction. */
double json_real(const char *json, const char *key, double otherwise);
/* The text behind the first such key of a JSON object, without escapes; "" if there is none or it does not fit. */
const char *json_text(const char *json, const char *key, char *text, size_t size);
/* What follows the next such key, or NULL. */
const char *json_next(const char *json, const char *key);

#endif
