/* Tests of the controller's half. */
#ifndef CONTROL_CASES_H
#define CONTROL_CASES_H

#include "mrc_ends.h"

void control_device(struct end *a, struct end *b);
void ports(struct end *a, struct end *b);
void plane_ports(struct end *a, struct end *b);
void explicit_profile(struct end *a, struct end *b);
void generated_profile(struct end *a, struct end *b);
void cc_profile(struct end *a, struct end *b);
void probes(struct end *a, struct end *b);
void ev_events(struct end *a, struct end *b);
void control_wrong(struct end *a, struct end *b);
void application(struct end *a, struct end *b);
void control_lost(struct end *a, struct end *b);
void controllers(struct end *a, struct end *b);

#endif
