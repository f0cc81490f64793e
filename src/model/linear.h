/* linear.h - the matrix products of a layer: which projections share an input and run as one product, what
 * the adapters add, and how the weight lies in memory. */
#ifndef PLIM_MODEL_LINEAR_H
#define PLIM_MODEL_LINEAR_H

#include "base/arena.h"

#define PLIM_MAX_PARTS     3
#define PLIM_RANK_MULTIPLE 8

/* One checkpoint projection inside a product.  Its rows are first_row .. first_row + out - 1 of the fused
 * weight. */
typedef struct plim_linear_part {
    plim_target target;
    int64_t first_row, out;
    int64_t adapter; /* index among the adapted parts of the product; -1: no adapter */
} plim_linear_part;

/* A product: y [T, out] = x [T, in] W^T, W [out, in], made of projections that share x.
 * Extended by adapters it is y = [x | xa] [W | B]^T with xa [T, pad] = x A^T, and the input gradient is
 * dx = [dy | dt] [W ; A]: pad columns hold the block-diagonal B, pad rows hold A.  pad = adapted parts x
 * padded rank. */
typedef struct plim_linear {
    int64_t in, out, pad;
    int parts, adapted_parts;
    bool bias;
    plim_linear_part part[PLIM_MAX_PARTS];
} plim_linear;

/* The products of one layer.  attention: in = q, k, v; delta: in = qkv, z and ba = b, a. */
typedef struct plim_layer_linears {
    plim_linear in, ba, out, gate_up, down;
} plim_layer_linears;

/* Rank rounded up to PLIM_RANK_MULTIPLE, as it lies in memory. */
int64_t plim_padded_rank(int64_t rank);

plim_layer_linears plim_layer_linears_of(const plim_spec *s, plim_layer_type type, int64_t rank,
                                         uint32_t targets);

/* Calls visit for every projection of a layer in checkpoint order: what an adapter file lists. */
typedef void (*plim_part_visit)(void *user, const plim_linear *linear, const plim_linear_part *part);
void plim_layer_parts(const plim_layer_linears *l, plim_part_visit visit, void *user);

#endif
