/* rope_tables.h - the angles of rotary embedding, for rows of packed documents. */
#ifndef PLIM_OPS_ROPE_TABLES_H
#define PLIM_OPS_ROPE_TABLES_H

#include "ops/ops.h"

/* Angle a row turns pair m by: position * plim_rope_frequency(rope, m), in radians a token.  Llama 3's rule
 * divides the frequencies of waves longer than original_max_position / low_freq_factor by factor, leaves
 * those shorter than original_max_position / high_freq_factor, and goes linearly in between (in turns over
 * the original length). Source: maths 1.5 step 4; the rope_type "llama3" of Llama 3.1's configuration. */
double plim_rope_frequency(const plim_rope *rope, int64_t pair);

/* cos and sin of rows first_row .. first_row + cos.rows - 1 of the sequence, made in double and rounded once:
 * [rows, rotary_dim / 2], F32 or F64 both, on the host.  Positions start at 0 in every document.
 * Errors: PLIM_E_SHAPE, PLIM_E_UNSUPPORTED (a rope type without a rule). */
plim_status plim_rope_tables(plim_ctx *c, const plim_rope *rope, const plim_docs *docs, int64_t first_row,
                             plim_tensor cos, plim_tensor sin);

#endif
