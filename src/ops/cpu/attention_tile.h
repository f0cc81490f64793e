/* attention_tile.h - what happens to one tile of scores between the products: online softmax and its
 * gradient.
 *
 * A tile is rows x cols of real (F32 or F64), packed; row i may see its first plim_tile_visible(...)
 * columns. */
#ifndef PLIM_OPS_CPU_ATTENTION_TILE_H
#define PLIM_OPS_CPU_ATTENTION_TILE_H

#include "plimsoll.h"

typedef struct plim_cpu_tile {
    plim_dtype real;
    void *scores; /* <q_i, k_j>; fwd leaves exp(scale score - max_i), bwd leaves P */
    int64_t rows, cols;
    int64_t diagonal; /* row i sees columns 0 .. i + diagonal; >= 0 */
    double scale;
} plim_cpu_tile;

/* Adds a tile to the running softmax of its rows: max [rows] (-inf before the first tile) and sum [rows] of
 * exp(z - max); rows of out [rows, dim], real, shrink by the change of the maximum. */
void plim_cpu_tile_softmax(const plim_cpu_tile *t, double *max, double *sum, void *out, int64_t dim);

/* out_row = acc_row / sum, from real to act. */
void plim_cpu_tile_divide(plim_dtype real, plim_dtype act, int64_t dim, const void *acc, double sum,
                          void *out);

/* scores become P = exp(scale score - lse_i); dp, <dout_i, v_j> on entry, becomes P (dp - delta_i).  lse and
 * delta: stat, one a row. */
void plim_cpu_tile_gradient(const plim_cpu_tile *t, void *dp, const void *lse, const void *delta);

#endif
