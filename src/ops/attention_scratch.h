/* attention_scratch.h - bytes an attention kernel wants beside its arguments: one formula for the plan and
 * for every column. */
#ifndef PLIM_OPS_ATTENTION_SCRATCH_H
#define PLIM_OPS_ATTENTION_SCRATCH_H

#include "plimsoll.h"

typedef struct plim_attention_scratch_args {
    plim_attention_kernel kernel;
    bool backward;
    int64_t tokens, documents;
    int64_t heads, kv_heads, head_dim; /* of one call */
} plim_attention_scratch_args;

/* Source of the cuDNN terms: measured on one H200 with cuDNN 9.19, docs/memory-model.md. */
size_t plim_attention_scratch_bytes(const plim_attention_scratch_args *a);

#endif
