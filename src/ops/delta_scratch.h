/* delta_scratch.h - where each kept quantity of the delta rule lies in its scratch.  One layout for every
 * column; plim_delta_scratch_bytes (ops.h) is its size, so the plan counts what the columns use.
 * docs/maths.md 4.6. */
#ifndef PLIM_OPS_DELTA_SCRATCH_H
#define PLIM_OPS_DELTA_SCRATCH_H

#include "ops/ops.h"

#define PLIM_DELTA_WIDTH_MAX 256 /* Dk and Dv that a column has to take */

/* Regions, each starting on PLIM_ARENA_ALIGN bytes, each [chunk_count, Hv, rows, cols] of ACT without
 * padding.  With C = PLIM_CHUNK_TOKENS: state   Dk x Dv   S before the chunk forward (F2 to F3), backward t
 * C x C     (I + A)^-1, which the scan multiplies by         forward (F1 to F2), backward d       C x Dv what
 * the chunk writes to the state               forward (F2 to F3), backward dstate  Dk x Dv   gradient of S
 * after the chunk                    backward (B2 to B3) dr      C x Dv    adjoint of the solve; dV is beta
 * times it        backward (B2 to B3) pdo     C x Dv    P^T dO, made outside the scan backward (B1 to B2) A
 * column may leave a region unused (the CPU solves instead of forming t, and makes pdo in the scan), and may
 * order the elements of a block as it likes (the card: transposed, in pieces of 8 x 8, ops/cuda/delta.h). The
 * gradients dq and dk of a key head are summed over its value heads by whoever makes them (B3 runs over
 * chunks and key heads), so they need no room of their own. */
typedef struct plim_delta_layout {
    size_t state, t, d, dstate, dr, pdo; /* byte offsets; of backward 0 where forward only */
    size_t bytes;                        /* all; SIZE_MAX when a size passed 2^63 */
} plim_delta_layout;

plim_delta_layout plim_delta_layout_of(plim_dtype act, int64_t value_heads, int64_t key_dim,
                                       int64_t value_dim, int64_t chunk_count, bool backward);

#endif
