/* The entries of EV profiles: their values, states and replacements. Errors are errnos. */
#ifndef MRC_EV_PROFILE_H
#define MRC_EV_PROFILE_H

#include "controller.h"

/* The operation of `attr`, in a modification or (`query`) a query. */
int check_ev_op(const struct mrc_ctl_ev_profile_attr *attr, int query);
int do_ev_op(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr);

#endif
