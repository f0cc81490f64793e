/* delta_chunk.h - the chunked delta rule on one head, in float and in double; delta_fwd.c and delta_bwd.c
 * spread the heads over the threads.
 *
 * Phases of docs/maths.md 4.6.  scan_fwd is F1 to F3 in one walk (and B0, which keeps S and D instead of
 * making O); scan_bwd is B1 and B2; gradients is B3.  The residual form solves (I + A) D = R by substitution,
 * so nothing larger than the solution appears.  With BF16 activations the operands of products are rounded
 * as 4.7 recommends, and what is carried or summed stays in float. */
#ifndef PLIM_OPS_CPU_DELTA_CHUNK_H
#define PLIM_OPS_CPU_DELTA_CHUNK_H

#include "ops/delta_scratch.h"
#include "ops/cpu/device.h"

typedef struct plim_delta_kernels {
    /* Walks the chunks of value head h upwards.  keep false: writes o and state; true: writes regions state
     * and d of the scratch, and leaves the arguments alone. */
    void (*scan_fwd)(const plim_delta_args *a, const plim_delta_layout *l, void *work, int64_t h, bool keep);
    /* Walks them downwards: regions dstate and dr, dv, and dstate of the arguments. */
    void (*scan_bwd)(const plim_delta_args *a, const plim_delta_layout *l, void *work, int64_t h);
    /* dq, dk of key head hk and dg, dbl of its value heads on one chunk, from the four regions. */
    void (*gradients)(const plim_delta_args *a, const plim_delta_layout *l, void *work, int64_t chunk,
                      int64_t hk);
} plim_delta_kernels;

/* work: PLIM_CPU_SCRATCH_BYTES of the calling thread. */
extern const plim_delta_kernels plim_delta_kernels_f32, plim_delta_kernels_f64;

/* Checks dtypes, shapes, chunks and scratch of a call; *l is its layout. */
plim_status plim_delta_check(const plim_device *d, const char *op, const plim_delta_args *a, bool backward,
                             plim_delta_layout *l);

#endif
