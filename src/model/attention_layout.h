/* attention_layout.h - memory of a full-attention mixer: what it keeps, and what it works in. */
#ifndef PLIM_MODEL_ATTENTION_LAYOUT_H
#define PLIM_MODEL_ATTENTION_LAYOUT_H

#include "model/shape.h"

/* What the backward pass reads.  qkv: ACT [T, q (with gate) + k + v], before norm and rotary, overwritten in
 * place by its gradient; o: ACT [T, H * Dh], before the gate; lse: STAT [H, T]. */
typedef struct plim_attention_saved {
    plim_tensor qkv, o, lse;
} plim_attention_saved;

/* h: ACT [tile, D] normed input; q, k: ACT [T, group heads * Dh] normed and rotated; u: ACT [tile, H * Dh]
 * gated. */
typedef struct plim_attention_work {
    plim_tensor h, u, q, k;
    plim_tensor dout, delta, dq, dk, dv,
        dh; /* bwd: ACT [T, H * Dh], STAT [H, T], groups as q, k, and [tile, D] */
    void *scratch;
    size_t scratch_bytes;
} plim_attention_work;

void plim_attention_qkv_layout(plim_arena *a, const plim_shape *sh, plim_component m,
                               plim_attention_saved *out);
void plim_attention_o_layout(plim_arena *a, const plim_shape *sh, plim_component m,
                             plim_attention_saved *out);
void plim_attention_fwd_layout(plim_arena *a, const plim_shape *sh, plim_attention_work *out);
void plim_attention_bwd_layout(plim_arena *a, const plim_shape *sh, plim_attention_work *out);

#endif
