/* working_copy.h - the adapters as the products read them: beside and below the frozen weights. */
#ifndef PLIM_MODEL_WORKING_COPY_H
#define PLIM_MODEL_WORKING_COPY_H

#include "model/weights.h"
#include "ops/machine.h"

/* Writes every adapter of this card into the padding of its product, rounded to ACT.  Adapter i of a product
 * of padded rank p, whose projection has rows first .. first + out - 1, fills
 *     pad rows out_all + i p ..., columns 0 .. in - 1          with lora_A [p, in]
 *     pad columns in + i p ..., rows first .. first + out - 1  with scale * lora_B [out, p]
 * and everything else of the padding stays zero (block-diagonal).  The scale lies on B alone: then
 * y = [x | x A^T] [W | s B]^T = x W^T + s (x A^T) B^T, and dt = dy (s B) is the gradient by x A^T, so the
 * backward product dx = [dy | dt] [W ; A] needs no scale either; only dB = s dy^T (x A^T) does.
 *   m: where master and weights lie; one copy is queued for each tensor
 *   master: STAT [1, elements], laid out as adapters.h says
 *   scale: alpha / r, or alpha / sqrt(r) (dimensionless); s B is a product of floats (F64: of doubles)
 *   layers: one for each layer of the card
 * Errors: those of the operations copy and scaled_copy.
 * Source: Hu et al. 2021, arXiv:2106.09685, eq. 3. */
plim_status plim_working_copy(const plim_machine *m, const plim_shape *sh, plim_tensor master, double scale,
                              const plim_layer_weights *layers);

#endif
