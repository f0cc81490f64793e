/* attention_scratch.c - decides how much scratch one attention call may use.
 * Ours need none beside the row sums that the layout already holds. */
#include "ops/attention_scratch.h"

#define CUDNN_FWD_BYTES    ((size_t)64 << 10)  /* 256 bytes dense, some KiB packed */
#define CUDNN_PACKED_BYTES ((size_t)128 << 10) /* workspace of a packed plan, any shape */
#define CUDNN_BUCKET       1024                /* plans are kept for lengths rounded up to this */

size_t plim_attention_scratch_bytes(const plim_attention_scratch_args *a)
{
    if (a->kernel != PLIM_ATTENTION_CUDNN) return 0;
    if (!a->backward) return CUDNN_FWD_BYTES;
    size_t rows = ((size_t)a->tokens + CUDNN_BUCKET - 1) / CUDNN_BUCKET * CUDNN_BUCKET;
    size_t heads = (size_t)a->heads, dim = (size_t)a->head_dim;
    size_t accumulator = 4 * rows * heads * dim + 4 * rows * heads; /* fp32 dQ and its row sums */
    size_t per_head =
        heads == (size_t)a->kv_heads ? 0 : 4 * rows * heads * dim; /* bf16 dK and dV before the group sum */
    return accumulator + per_head + (a->documents > 1 ? CUDNN_PACKED_BYTES : 0);
}
