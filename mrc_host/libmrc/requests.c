/* Requests of the agent, and what its refusals mean as errnos. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

static int errno_of(int error, const char *answer) {
    static const struct {
        const char *name;
        int number;
    } known[] = {{"StateError", EBUSY}, {"RejectedError", EPERM}, {"ResourceExhaustedError", EAGAIN}};
    char name[64];
    json_text(answer, "error", name, sizeof name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name))
            return known[i].number;
    return error;
}

int request_verb_with(struct ibv_context *context, char **answer, const char *format, va_list arguments) {
    char *request, *text = NULL;
    int length = vasprintf(&request, format, arguments);
    if (answer)
        *answer = NULL;
    if (length < 0)
        return ENOMEM;
    int error = verbs()->request(context, request, &text);
    free(request);
    if (error && text)
        error = errno_of(error, text);
    if (!error && answer)
        *answer = text;
    else
        free(text);
    return error;
}

int request_verb(struct ibv_context *context, char **answer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int error = request_verb_with(context, answer, format, arguments);
    va_end(arguments);
    return error;
}
