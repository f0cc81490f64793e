/* footprint.h - the dry walk behind plim_footprint_of, for callers that make many. */
#ifndef PLIM_PLAN_FOOTPRINT_H
#define PLIM_PLAN_FOOTPRINT_H

#include "model/step.h"

/* Room for a dry walk of any options of one model, made once. */
typedef struct plim_dry {
    plim_ctx *ctx;
    const plim_spec *spec;
    plim_step step;
} plim_dry;

plim_status plim_dry_open(plim_ctx *c, const plim_spec *s, plim_dry *out);
void plim_dry_close(plim_dry *d);

/* As plim_footprint_of, without allocating. */
plim_status plim_dry_walk(plim_dry *d, const plim_options *o, int cards, plim_footprint *out,
                          plim_phase_usage *timeline, size_t *timeline_count);

#endif
