/* adapters.h - where every lora_A and lora_B lies: all masters in one flat block, all gradients and Adam
 * states in blocks of the same shape, so that the optimiser and a reduction between cards visit one range
 * each. */
#ifndef PLIM_MODEL_ADAPTERS_H
#define PLIM_MODEL_ADAPTERS_H

#include "model/linear.h"

#define PLIM_ADAM_BLOCK       256 /* elements that share a scale; also what every tensor's start is aligned to */
#define PLIM_ADAM_SMALL_BELOW 4096 /* tensors of fewer elements, unpadded, keep 32-bit states */

/* One adapter tensor: lora_A [rank, in] or lora_B [out, rank], the rank padded. */
typedef struct plim_adapter_tensor {
    int64_t layer;
    plim_target target;
    bool is_b;
    bool small_states; /* 32-bit Adam states although the rest has 8 bits */
    int64_t rows, cols;
    int64_t offset;       /* elements from the start of the flat blocks */
    int64_t small_offset; /* elements from the start of the 32-bit states; -1 */
} plim_adapter_tensor;

/* Sizes of the flat blocks. */
typedef struct plim_adapter_totals {
    int64_t tensors, parameters;      /* unpadded, as PEFT counts */
    int64_t elements, small_elements; /* of the blocks */
} plim_adapter_totals;

/* Walks the adapters of layers first .. last - 1 in order, calling visit (NULL: count only). */
typedef void (*plim_adapter_visit)(void *user, const plim_adapter_tensor *t);
plim_adapter_totals plim_adapters_walk(const plim_spec *s, int64_t rank, uint32_t targets, int adam_bits,
                                       int64_t first, int64_t last, plim_adapter_visit visit, void *user);

/* The flat blocks.  master, grad: STAT [1, elements]; 8-bit m, v: U8 [1, elements] with m_max, v_max F32
 * [1, elements / 256], and small_m, small_v STAT [1, small_elements]; 32-bit: m, v STAT [1, elements]. */
typedef struct plim_adapters {
    plim_tensor master, grad, m, v, m_max, v_max, small_m, small_v;
} plim_adapters;

void plim_adapters_layout(plim_arena *a, const plim_adapter_totals *t, plim_dtype stat, int adam_bits,
                          plim_adapters *out);

#endif
