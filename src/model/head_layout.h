/* head_layout.h - memory of the loss: rows of hidden states and their logits, a slab at a time. */
#ifndef PLIM_MODEL_HEAD_LAYOUT_H
#define PLIM_MODEL_HEAD_LAYOUT_H

#include "model/shape.h"

/* M = loss rows.  hidden: ACT [M, D] gathered; normed: ACT [M, D]; logits: STAT [M, V], overwritten by their
 * gradient; dnormed, dhidden: ACT [M, D], absent in evaluation. */
typedef struct plim_head_work {
    plim_tensor hidden, normed, logits, dnormed, dhidden;
} plim_head_work;

void plim_head_layout(plim_arena *a, const plim_shape *sh, bool backward, plim_head_work *out);

#endif
