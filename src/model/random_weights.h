/* random_weights.h - the weights a seed gives a model that has no files.
 *
 * Element i (row-major in the checkpoint's shape) of a tensor comes from Philox(seed, stream) at index i, the
 * stream being FNV-1a of the tensor's checkpoint name; so fusion, dtype, shard, card and device change no
 * bit. matrices, embeddings, conv1d   normal, deviation initializer_range norm gains                     0
 * where the gain is 1 + w, else 1; the delta-net's own norm 1 biases                         0 A_log log(16
 * u), u uniform in (0, 1): the middle of one of 2^24 steps dt_bias                        1 Source:
 * transformers' initialisation of Qwen3.5 (A_log there is the logarithm of a uniform number in [0, 16), which
 * may be minus infinity; here it cannot). */
#ifndef PLIM_MODEL_RANDOM_WEIGHTS_H
#define PLIM_MODEL_RANDOM_WEIGHTS_H

#include <stddef.h>

#include "ops/ops.h"

/* out[k] = element first + k of the tensor, k = 0 .. count - 1. */
void plim_random_tensor(const plim_spec *s, uint64_t seed, const plim_tensor_decl *decl, uint64_t first,
                        size_t count, float *out);

/* The whole tensor as a fill with the same elements, so that a device can make it; x is left to the caller.
 * False for A_log, whose logarithm only the host takes. */
bool plim_random_tensor_fill(const plim_spec *s, uint64_t seed, const plim_tensor_decl *decl,
                             plim_fill_args *out);

#endif
