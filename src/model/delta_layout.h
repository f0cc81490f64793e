/* delta_layout.h - memory of a gated delta-net mixer: what it keeps, and what it works in. */
#ifndef PLIM_MODEL_DELTA_LAYOUT_H
#define PLIM_MODEL_DELTA_LAYOUT_H

#include "model/shape.h"

/* What the backward pass reads.  qkvz: ACT [T, ch + Vw], before the convolution; ba: STAT [T, 2 Hv]; o: ACT
 * [T, Vw], before the gated norm; states: STAT [tiles * Hv * Dk, Dv], the state before each tile. */
typedef struct plim_delta_saved {
    plim_tensor qkvz, ba, o, states;
} plim_delta_saved;

/* Rows of one tile.  c: q, k, v after convolution and norms; y: after the gated norm. */
typedef struct plim_delta_work {
    plim_tensor h, c, g, beta, y, state, history;
    plim_tensor qkvz, ba, o; /* forward without saving: as in plim_delta_saved, one tile */
    plim_tensor dy, dout, dc, dqkvz, dg, dbl, dba, carry, dstate, dh; /* bwd */
    void *scratch;
    size_t scratch_bytes;
} plim_delta_work;

void plim_delta_saved_layout(plim_arena *a, const plim_shape *sh, plim_component m, plim_delta_saved *out);
/* saving: qkvz, ba and o go to a plim_delta_saved instead of a tile. */
void plim_delta_fwd_layout(plim_arena *a, const plim_shape *sh, bool saving, plim_delta_work *out);
void plim_delta_bwd_layout(plim_arena *a, const plim_shape *sh, plim_delta_work *out);

#endif
