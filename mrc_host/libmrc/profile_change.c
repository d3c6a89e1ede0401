#include "profile_change.h"

#include <stdlib.h>

int begin_change(struct change *change, int with_state, enum mrc_ctl_profile_state state, int with_current,
                 enum mrc_ctl_profile_state current) {
    *change = (struct change){0};
    if ((with_state && !*profile_state_name(state)) || (with_current && !*profile_state_name(current)))
        return EINVAL;
    change->stream = open_memstream(&change->text, &change->size);
    if (!change->stream)
        return ENOMEM;
    if (with_state)
        fprintf(member(change, "state"), "\"%s\"", profile_state_name(state));
    if (with_current)
        fprintf(member(change, "current"), "\"%s\"", profile_state_name(current));
    return 0;
}

FILE *member(struct change *change, const char *name) {
    fprintf(change->stream, "%s\"%s\":", change->members++ ? "," : "", name);
    return change->stream;
}

int send_change(struct change *change, struct mrc_context *mrc, const char *op, uint64_t id) {
    int error = fclose(change->stream) ? ENOMEM : 0;
    if (!error)
        error = request_control(mrc, NULL, "{\"op\":\"%s\",\"number\":%llu,\"change\":{%s}}", op,
                                (unsigned long long)id, change->text);
    free(change->text);
    return error;
}

void abandon_change(struct change *change) {
    if (change->stream)
        fclose(change->stream);
    free(change->text);
}
