/* Changes of profiles, which the agent takes as JSON objects: built member by member. */
#ifndef MRC_PROFILE_CHANGE_H
#define MRC_PROFILE_CHANGE_H

#include <stdio.h>

#include "controller.h"

enum { VENDOR_CFG = 1 << 31 }; /* in the mask of any profile: it is ignored */

struct change {
    FILE *stream;
    char *text;
    size_t size;
    int members;
};

/* Begin a change with the states that a profile has and gets; 0 or an errno. */
int begin_change(struct change *change, int with_state, enum mrc_ctl_profile_state state, int with_current,
                 enum mrc_ctl_profile_state current);
/* Begin a member; its value follows on the stream. */
FILE *member(struct change *change, const char *name);
/* Send it as the change of profile `id`, by the verb `op`; 0 or an errno. */
int send_change(struct change *change, struct mrc_context *mrc, const char *op, uint64_t id);
void abandon_change(struct change *change);

#endif
