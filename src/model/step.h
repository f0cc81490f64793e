/* step.h - the memory of one training step, in the order it is used.
 *
 * plim_step_layout is walked dry by plan and live by memtest and train.  The arena is a stack and the
 * backward pass visits layers in the reverse order of the forward pass, so what a layer leaves behind in its
 * forward pass lies just where its backward pass takes it off again.  Derived line by line in
 * docs/memory-model.md. */
#ifndef PLIM_MODEL_STEP_H
#define PLIM_MODEL_STEP_H

#include "model/attention_layout.h"
#include "model/delta_layout.h"
#include "model/head_layout.h"
#include "model/mlp_layout.h"
#include "model/weights.h"

/* One layer.  input and output are views of the residual stream [T, D]; input_host, o_host, lse_host are
 * pinned copies, present when the layer is offloaded.  x1 [T, D]: the stream between mixer and MLP, for the
 * backward pass. */
typedef struct plim_layer_step {
    plim_tensor input, output, input_host;
    plim_attention_saved attention_made; /* by the forward pass: scratch unless kept */
    plim_attention_saved attention;      /* as the backward pass reads it */
    plim_tensor o_host, lse_host;
    plim_delta_saved delta;
    plim_tensor x1, gate_up; /* gate_up [T, 2 F]: kept layers only */
    plim_attention_work attention_fwd, attention_again, attention_bwd; /* again: the recomputation's */
    plim_delta_work delta_fwd, delta_again, delta_bwd;
    plim_mlp_work mlp_fwd, mlp_bwd;
    plim_mark before_input, before_saved, before_x1;
} plim_layer_step;

/* Tokens and tables of the sequence.  ids, labels, index: I32 [1, T]; weights: F32 [1, T]; start: I64
 * [1, documents + 1]; cos, sin: STAT [T, rotary / 2]; scalars: F64 [1, 8], sums read back after a step;
 * chunks: plim_chunk of every tile.  labels, weights and index have one entry for each labelled row, in
 * order. */
typedef struct plim_batch_tables {
    plim_tensor ids, labels, weights, index, start, cos, sin, scalars;
    void *chunks;
} plim_batch_tables;

typedef struct plim_step {
    plim_model_weights model;
    plim_layer_weights *weights; /* one for each layer of the card; NULL: not wanted */
    plim_layer_step *layers;     /* one for each layer of the card, and one more for the last output */
    plim_adapters adapters;
    plim_batch_tables batch;
    plim_tensor dropped;    /* ACT [tile, widest input]: masked adapter input; absent without dropout */
    plim_tensor ring[2];    /* ACT [T, D]: layer inputs in flight; absent when none is offloaded */
    plim_tensor dx;         /* ACT [T, D]: gradient of the residual stream, whole backward pass */
    plim_tensor staging[2]; /* U8, pinned: while weights load */
    plim_tensor save;       /* STAT [1, elements], pinned: the masters while an adapter is read or written */
    plim_head_work head, head_eval;
    plim_layer_step eval; /* forward without leaving anything behind; ring in input and output */
    void *gemm_workspace;
} plim_step;

typedef struct plim_memory {
    plim_arena device, host; /* host: pinned on a card */
} plim_memory;

/* Called at the end of each phase with its usage. */
typedef void (*plim_phase_visit)(void *user, plim_phase phase, int64_t layer, const plim_usage *device,
                                 const plim_usage *host);

/* Places everything.  step->layers must hold last_layer - first_layer + 1 entries.  visit may be NULL.  The
 * walk cannot fail; the arenas' flags say whether it fitted. */
void plim_step_layout(plim_memory *mem, const plim_shape *sh, plim_step *step, plim_phase_visit visit,
                      void *user);

#endif
