/* head_run.c - final norm, head and loss on the labelled rows, a slab at a time; forward and backward in one
 * visit. */
#include "base/context.h"
#include "model/engine.h"

/* The gradient of logits lies over the logits, row by row, in the activations' dtype. */
static plim_tensor gradient_view(plim_tensor logits, plim_dtype act)
{
    plim_tensor d = logits;
    d.dtype = act;
    d.pitch = logits.pitch * (int64_t)(plim_dtype_bytes(logits.dtype) / plim_dtype_bytes(act));
    return d;
}

static plim_status logits_of(plim_engine *e, plim_tensor hidden, plim_tensor normed, plim_tensor logits)
{
    plim_gemm_args g = {.a = normed, .b = e->step->model.head, .c = logits, .transpose_b = true, .alpha = 1};
    TRY(plim_engine_norm(e, hidden, e->step->model.final_norm, normed));
    return e->ops->gemm(e->device, &g);
}

plim_status plim_head_logits(plim_engine *e, const plim_head_work *w, plim_tensor x, int64_t first,
                             int64_t rows)
{
    return logits_of(e, plim_tensor_rows(x, first, rows), plim_tensor_rows(w->normed, 0, rows),
                     plim_tensor_rows(w->logits, 0, rows));
}

static plim_status slab(plim_engine *e, const plim_head_work *w, plim_tensor x, plim_tensor dx, int64_t first,
                        int64_t rows)
{
    const plim_batch_tables *b = &e->step->batch;
    const int32_t *index = (const int32_t *)b->index.data + first;
    plim_tensor hidden = plim_tensor_rows(w->hidden, 0, rows), normed = plim_tensor_rows(w->normed, 0, rows);
    plim_tensor logits = plim_tensor_rows(w->logits, 0, rows);
    plim_rows_args gather = {x, hidden, index};
    bool backward = dx.rows > 0;
    TRY(e->ops->gather_rows(e->device, &gather));
    TRY(logits_of(e, hidden, normed, logits));
    plim_cross_entropy_args loss = {
        .logits = logits,
        .dlogits = gradient_view(logits, e->sh->act),
        .labels = (const int32_t *)b->labels.data + first,
        .weights = (const float *)b->weights.data + first,
        .scale = e->loss_scale,
        .loss_sum = (double *)b->scalars.data + PLIM_SCALAR_LOSS,
        .want_gradient = backward,
    };
    TRY(e->ops->cross_entropy(e->device, &loss));
    if (!backward) return PLIM_OK;
    plim_tensor dnormed = plim_tensor_rows(w->dnormed, 0, rows),
                dhidden = plim_tensor_rows(w->dhidden, 0, rows);
    plim_gemm_args g = {.a = loss.dlogits, .b = e->step->model.head, .c = dnormed, .alpha = 1};
    plim_rows_args scatter = {dhidden, dx, index};
    TRY(e->ops->gemm(e->device, &g));
    TRY(plim_engine_norm_bwd(e, hidden, e->step->model.final_norm, dnormed, dhidden, false));
    return e->ops->scatter_rows(e->device, &scatter);
}

plim_status plim_head_run(plim_engine *e, const plim_head_work *w, plim_tensor x, plim_tensor dx)
{
    if (dx.rows) {
        plim_fill_args zero = {.x = dx, .kind = PLIM_FILL_CONSTANT};
        TRY(e->ops->fill(e->device, &zero));
    }
    for (int64_t first = 0; first < e->labelled_rows; first += e->sh->loss_rows) {
        int64_t left = e->labelled_rows - first;
        TRY(slab(e, w, x, dx, first, left < e->sh->loss_rows ? left : e->sh->loss_rows));
    }
    return PLIM_OK;
}
