/* engine.h - a laid-out training step and the device it runs on: what every block's forward and backward pass
 * reads. It knows operations, not devices. */
#ifndef PLIM_MODEL_ENGINE_H
#define PLIM_MODEL_ENGINE_H

#include "model/adapter_views.h"
#include "model/step.h"
#include "ops/machine.h"

/* Chunks of one tile of the delta rule: count entries from first. */
typedef struct plim_tile_chunks {
    int64_t first, count;
} plim_tile_chunks;

/* Slots of plim_step.batch.scalars, f64. */
enum { PLIM_SCALAR_LOSS, PLIM_SCALAR_GRADIENT, PLIM_SCALARS };

typedef struct plim_engine {
    plim_ctx *ctx;
    const plim_machine *machine;
    const plim_ops *ops;
    plim_device *device;
    plim_spec spec;
    plim_shape shape, *sh;  /* sh = &shape */
    plim_step steps, *step; /* step = &steps */
    plim_memory memory;
    size_t planned_device_bytes, planned_host_bytes; /* the dry walk's peaks: what was allocated */
    plim_layer_adapters *adapters;                   /* one for each layer of the card */
    double lora_scale;                               /* alpha / r, or alpha / sqrt(r) */
    uint64_t dropout_seed;                           /* changes with every sequence */
    bool training;                                   /* dropout applies */
    /* The sequence at work. */
    plim_docs docs;
    int64_t T;               /* its rows, at most sh->T */
    plim_tile_chunks *tiles; /* sh->tiles entries */
    int64_t labelled_rows;   /* entries of batch.index */
    double loss_scale;       /* 1 / the step's labelled weight */
    void *tables;            /* host memory the tables of a sequence are made in */
} plim_engine;

/* Lays out a step for the whole model on one machine and allocates just what the dry walk counted.  Weights
 * and adapters are left unset.  *out stays where it is until close. Errors: those of plim_shape_init,
 * PLIM_E_OOM_HOST, PLIM_E_OOM_DEVICE; plim_engine_close accepts NULL. */
plim_status plim_engine_open(plim_ctx *c, const plim_machine *m, const plim_spec *s, const plim_options *o,
                             plim_engine **out);
void plim_engine_close(plim_engine *e);

/* One sequence of packed documents.  ids [start[documents]]: token ids; weights: of the token itself, 0 = not
 * trained on (the first token of a document never is); start [documents + 1]: first row of each document,
 * then the end. */
typedef struct plim_sequence {
    const int32_t *ids;
    const float *weights;
    const int64_t *start;
    int64_t documents;
} plim_sequence;

/* Rows that predict a trained token, and the sum of their weights.  1.8. */
int64_t plim_sequence_labels(const plim_sequence *q, double *weight_sum);

/* Makes a sequence the one at work: its tables on the device.  weight_sum: of the whole optimiser step.
 * Errors: PLIM_E_RANGE (longer than laid out, more documents, a token outside the vocabulary). */
plim_status plim_engine_sequence(plim_engine *e, const plim_sequence *q, double weight_sum);

/* Zeroes what a step adds to: adapter gradients and scalars. */
plim_status plim_engine_zero(plim_engine *e);

/* ---- products (linear_run.c) --------------------------------------------------------------------------- */

/* One product of a layer with everything that belongs to it. */
typedef struct plim_product {
    const plim_linear *linear;
    const plim_linear_weights *weights;
    plim_adapter_product *adapters;
} plim_product;

/* y = x W^T + s (x A^T) B^T + bias, + y when accumulate.  x [rows, in] has room for linear->pad more columns,
 * where x A^T is left; first_row: of these rows in the sequence.  y: ACT or STAT. */
plim_status plim_product_fwd(plim_engine *e, const plim_product *p, plim_tensor x, plim_tensor y,
                             int64_t first_row, bool accumulate);

/* From dy [rows, out] with room for pad more columns: adds to the adapters' gradients; dx = (or, accumulate,
 * +=) the input gradient.  x as in the forward pass, its pad columns are computed again. */
plim_status plim_product_bwd(plim_engine *e, const plim_product *p, plim_tensor x, plim_tensor dy,
                             plim_tensor dx, int64_t first_row, bool accumulate);

/* ---- blocks
 * ------------------------------------------------------------------------------------------------------------
 */

/* Mixer: x1 = x + mixer(norm(x)) over the whole sequence.  Which memory it works in differs between the
 * forward pass, the recomputation and a kept layer. */
typedef struct plim_attention_pass {
    int64_t layer;
    plim_tensor x, x1;
    plim_attention_saved saved;
    const plim_attention_work *work;
    bool have_output; /* saved.o and saved.lse are already there, or on their way: */
    int output_event; /* the fetch that brings them; PLIM_NO_EVENT: they are there */
} plim_attention_pass;

#define PLIM_NO_EVENT (-1)

plim_status plim_attention_block_fwd(plim_engine *e, const plim_attention_pass *p);
/* dx: gradient at x1 in, at x out. */
plim_status plim_attention_block_bwd(plim_engine *e, const plim_attention_pass *p, plim_tensor dx);

typedef struct plim_delta_pass {
    int64_t layer;
    plim_tensor x, x1;
    const plim_delta_saved *saved; /* NULL: nothing is kept */
    const plim_delta_work *work;
} plim_delta_pass;

plim_status plim_delta_block_fwd(plim_engine *e, const plim_delta_pass *p);
plim_status plim_delta_block_bwd(plim_engine *e, const plim_delta_pass *p, plim_tensor dx);

typedef struct plim_mlp_pass {
    int64_t layer;
    plim_tensor x1, out; /* out: x1 itself, or another tensor that receives x1 + mlp */
    plim_tensor gate_up; /* [T, 2 F] of a kept layer; absent otherwise */
    const plim_mlp_work *work;
} plim_mlp_pass;

plim_status plim_mlp_block_fwd(plim_engine *e, const plim_mlp_pass *p);
/* dx: gradient at the layer's output in, at x1 out. */
plim_status plim_mlp_block_bwd(plim_engine *e, const plim_mlp_pass *p, plim_tensor dx);

/* Loss over the labelled rows of x [T, D]; adds to the loss scalar.  dx present: zeroed and given the
 * gradient. */
plim_status plim_head_run(plim_engine *e, const plim_head_work *w, plim_tensor x, plim_tensor dx);
/* Final norm and logits of rows first .. first + rows - 1 of x, at most sh->loss_rows, into w->normed and
 * w->logits. */
plim_status plim_head_logits(plim_engine *e, const plim_head_work *w, plim_tensor x, int64_t first,
                             int64_t rows);

/* ---- whole passes (pass.c) ----------------------------------------------------------------------------- */

/* Embedding, layers, loss, and back: leaves gradients added in the adapters' blocks and the loss added in its
 * scalar. */
plim_status plim_pass_train(plim_engine *e);
/* Embedding, layers, loss only.  see: NULL, or called with the residual stream [T, D] before the first layer
 * (layer 0) and after each (layer 1 ..); the last before the final norm. */
typedef plim_status (*plim_pass_see)(void *user, int64_t layer, plim_tensor x);
plim_status plim_pass_evaluate(plim_engine *e, plim_pass_see see, void *user);

/* ---- helpers
 * ---------------------------------------------------------------------------------------------------------------
 */

/* Rows of tile i of the sequence at work. */
static inline int64_t plim_tile_rows(const plim_engine *e, int64_t i)
{
    int64_t left = e->T - i * e->sh->tile;
    return left < e->sh->tile ? left : e->sh->tile;
}

static inline int64_t plim_tile_count(const plim_engine *e)
{
    return (e->T + e->sh->tile - 1) / e->sh->tile;
}

static inline const plim_layer_weights *plim_engine_weights(const plim_engine *e, int64_t layer)
{
    return &e->step->weights[layer - e->sh->first_layer];
}

/* The product of a layer by its member name: in, ba, out, gate_up, down. */
#define PLIM_PRODUCT(e, layer, name)                                                                         \
    ((plim_product){&plim_shape_linears((e)->sh, (layer))->name, &plim_engine_weights((e), (layer))->name,   \
                    &(e)->adapters[(layer) - (e)->sh->first_layer].name})

static inline plim_status plim_engine_norm(plim_engine *e, plim_tensor x, plim_tensor w, plim_tensor y)
{
    plim_rmsnorm_args a = {
        .x = x, .w = w, .y = y, .eps = e->sh->spec->rms_eps, .unit_offset = e->sh->spec->unit_offset_norm};
    return e->ops->rmsnorm_fwd(e->device, &a);
}

/* dx += the gradient through the norm. */
static inline plim_status plim_engine_norm_bwd(plim_engine *e, plim_tensor x, plim_tensor w, plim_tensor dy,
                                               plim_tensor dx, bool accumulate)
{
    plim_rmsnorm_args a = {.x = x,
                           .w = w,
                           .dy = dy,
                           .dx = dx,
                           .eps = e->sh->spec->rms_eps,
                           .unit_offset = e->sh->spec->unit_offset_norm,
                           .accumulate = accumulate};
    return e->ops->rmsnorm_bwd(e->device, &a);
}

#endif
