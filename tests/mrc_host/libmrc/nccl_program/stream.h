/* Messages without end, for faults to be put under them: stream.c. */
#ifndef STREAM_H
#define STREAM_H

#include "nccl_ends.h"

void stream(struct end *end, const char *folder, int sends);

#endif
