/* random.h - random arrays on the host; the numbers themselves are defined in random_core.h. */
#ifndef PLIM_BASE_RANDOM_H
#define PLIM_BASE_RANDOM_H

#include <stddef.h>

#include "base/random_core.h"

/* The table of the normal transform, for callers of plim_normal_q21 and plim_random_normal on the host. */
const plim_normal_segment *plim_normal_segments(void);

/* out[k] = plim_random_normal(r, first + k, sigma, ...) for k = 0 .. count - 1, four to a Philox block.  The
 * same bits whatever range a call covers, so several may fill one array. */
void plim_random_fill_normal(plim_random r, uint64_t first, size_t count, float sigma, float *out);

/* Puts 0 .. n - 1 into order[], every order equally likely up to a relative bias of 2^-33 a step (Fisher and
 * Yates; step k draws 64-bit word k).  n up to 2^31. */
void plim_random_order(plim_random r, uint32_t n, uint32_t *order);

#endif
