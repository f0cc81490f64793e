/* attention_scratch.c - decides how much scratch one attention call may use.
 * Ours need none beside the row sums that the layout already holds. */
#include "ops/attention_scratch.h"

/* Workspace beside the terms below, and where packed documents start. */
#define CUDNN_FIXED_BYTES ((size_t)128 << 10)
#define CUDNN_BUCKET      1024 /* rows are counted in steps of this: cuDNN rounds tiles up */

size_t plim_attention_scratch_bytes(const plim_attention_scratch_args *a)
{
    if (a->kernel != PLIM_ATTENTION_CUDNN) return 0;
    size_t rows = ((size_t)a->tokens + CUDNN_BUCKET - 1) / CUDNN_BUCKET * CUDNN_BUCKET;
    size_t heads = (size_t)a->heads, dim = (size_t)a->head_dim;
    size_t lse = 4 * rows * heads; /* in the order cuDNN wants */
    if (!a->backward) return lse + CUDNN_FIXED_BYTES;
    size_t accumulator = 4 * rows * heads * dim + 4 * rows * heads; /* fp32 dQ and its row sums */
    size_t per_head =
        heads == (size_t)a->kv_heads ? 0 : 4 * rows * heads * dim; /* bf16 dK and dV before the group sum */
    return lse + accumulator + per_head + CUDNN_FIXED_BYTES;
}
