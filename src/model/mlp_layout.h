/* mlp_layout.h - memory of the SwiGLU MLP: all of it in tiles. */
#ifndef PLIM_MODEL_MLP_LAYOUT_H
#define PLIM_MODEL_MLP_LAYOUT_H

#include "model/shape.h"

/* h: ACT [tile, D]; gate_up: ACT [tile, 2 F], overwritten by its gradient in the backward pass; p: ACT [tile,
 * F]. */
typedef struct plim_mlp_work {
    plim_tensor h, gate_up, p;
    plim_tensor dp, dh; /* bwd */
} plim_mlp_work;

/* gate_up over rows rows: a tile, or the whole sequence of a kept layer. */
plim_tensor plim_mlp_gate_up_layout(plim_arena *a, const plim_shape *sh, plim_component m, int64_t rows);
void plim_mlp_fwd_layout(plim_arena *a, const plim_shape *sh, bool saving, plim_mlp_work *out);
/* saved: gate_up of a kept layer is read in place, no tile is needed. */
void plim_mlp_bwd_layout(plim_arena *a, const plim_shape *sh, bool saved, plim_mlp_work *out);

#endif
