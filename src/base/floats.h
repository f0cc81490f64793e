/* floats.h - arrays of floating-point numbers from one stored dtype to another. */
#ifndef PLIM_BASE_FLOATS_H
#define PLIM_BASE_FLOATS_H

#include "plimsoll.h"

/* F64, F32, F16 or BF16. */
bool plim_floats_are(plim_dtype d);

/* dst[i] = src[i] for i < n, each dtype one of the four; a narrower one is rounded from float, to nearest and
 * ties to even.  src may have any alignment; dst has its dtype's.  The arrays do not overlap.
 * Returns the first i whose src[i] is not finite or becomes infinite in dst, or -1; all of dst is written in
 * any case. */
int64_t plim_floats_convert(plim_dtype from, const void *src, int64_t n, plim_dtype to, void *dst);

#endif
