/* linear_run.c - one product with its adapters, forward and backward.
 *
 * The base weight lies extended: B (scaled) in pad columns beside it, A in pad rows below it.  So
 * y = [x | xa] [W | B]^T is one product, and dx = [dy | dt] [W ; A] another, after the thin ones xa = x A^T
 * and dt = dy B.  With dropout the mask acts on the adapter path alone, and the products stay apart. */
#include "base/context.h"
#include "model/engine.h"

static plim_tensor widened(plim_tensor t, int64_t pad)
{
    t.cols += pad;
    return t;
}

/* Columns behind the matrix proper: xa beside x, dt beside dy. */
static plim_tensor beside(plim_tensor t, int64_t cols, int64_t first, int64_t count)
{
    return plim_tensor_cols(t, cols + first, count);
}

static plim_status gemm(plim_engine *e, plim_tensor a, bool ta, plim_tensor b, bool tb, plim_tensor c,
                        double alpha, bool accumulate)
{
    plim_gemm_args g = {a, b, c, ta, tb, accumulate, alpha};
    return e->ops->gemm(e->device, &g);
}

typedef struct views {
    plim_tensor weight;  /* [out, in] */
    plim_tensor b_block; /* [out, pad], block-diagonal, scaled */
    plim_tensor a_block; /* [pad, in] */
    int64_t rank;        /* padded */
} views;

static views views_of(const plim_engine *e, const plim_product *p)
{
    const plim_linear *l = p->linear;
    plim_tensor w = p->weights->weight, all = w;
    all.rows = l->out + l->pad;
    all.cols = l->in + l->pad;
    return (views){w, plim_tensor_cols(plim_tensor_rows(all, 0, l->out), l->in, l->pad),
                   plim_tensor_cols(plim_tensor_rows(all, l->out, l->pad), 0, l->in),
                   plim_padded_rank(e->sh->o.lora_rank)};
}

static bool dropping(const plim_engine *e)
{
    return e->training && e->sh->o.lora_dropout > 0;
}

/* The adapter's input of one part: x, or x masked into the scratch. */
static plim_status adapter_input(plim_engine *e, const plim_product *p, int part, plim_tensor x,
                                 int64_t first_row, plim_tensor *out)
{
    if (!dropping(e)) {
        *out = x;
        return PLIM_OK;
    }
    plim_tensor y = plim_tensor_cols(plim_tensor_rows(e->step->dropped, 0, x.rows), 0, x.cols);
    plim_dropout_args a = {
        x, y, e->dropout_seed, p->adapters->part[part].stream, first_row, e->sh->o.lora_dropout};
    *out = y;
    return e->ops->dropout(e->device, &a);
}

/* xa = x A^T into the columns beside x. */
static plim_status adapter_fwd(plim_engine *e, const plim_product *p, const views *v, plim_tensor x,
                               int64_t first_row)
{
    const plim_linear *l = p->linear;
    if (!dropping(e)) return gemm(e, x, false, v->a_block, true, beside(x, l->in, 0, l->pad), 1, false);
    for (int i = 0; i < l->parts; i++) {
        int64_t at = l->part[i].adapter * v->rank;
        plim_tensor input;
        if (at < 0) continue;
        TRY(adapter_input(e, p, i, x, first_row, &input));
        TRY(gemm(e, input, false, plim_tensor_rows(v->a_block, at, v->rank), true,
                 beside(x, l->in, at, v->rank), 1, false));
    }
    return PLIM_OK;
}

plim_status plim_product_fwd(plim_engine *e, const plim_product *p, plim_tensor x, plim_tensor y,
                             int64_t first_row, bool accumulate)
{
    const plim_linear *l = p->linear;
    views v = views_of(e, p);
    plim_tensor w = v.weight;
    if (l->pad) {
        TRY(adapter_fwd(e, p, &v, x, first_row));
        x = widened(x, l->pad);
        w = widened(w, l->pad);
    }
    TRY(gemm(e, x, false, w, true, y, 1, accumulate));
    return l->bias ? e->ops->add_bias(e->device, p->weights->bias, y) : PLIM_OK;
}

/* Gradients of one part's A and B. */
static plim_status adapter_grads(plim_engine *e, const plim_product *p, const views *v, int i, plim_tensor x,
                                 plim_tensor dy, int64_t first_row)
{
    const plim_linear *l = p->linear;
    const plim_linear_part *part = &l->part[i];
    plim_adapter_part *adapter = &p->adapters->part[i];
    int64_t at = part->adapter * v->rank;
    plim_tensor input, dt = beside(dy, l->out, at, v->rank);
    plim_tensor dy_part = plim_tensor_cols(dy, part->first_row, part->out);
    TRY(adapter_input(e, p, i, x, first_row, &input));
    TRY(gemm(e, dt, true, input, false, adapter->grad_a, 1, true));
    return gemm(e, dy_part, true, beside(x, l->in, at, v->rank), false, adapter->grad_b, e->lora_scale, true);
}

/* dx += mask(dt A) of every part: only with dropout. */
static plim_status masked_input_gradient(plim_engine *e, const plim_product *p, const views *v,
                                         plim_tensor dy, plim_tensor dx, int64_t first_row)
{
    const plim_linear *l = p->linear;
    plim_tensor scratch = plim_tensor_cols(plim_tensor_rows(e->step->dropped, 0, dx.rows), 0, dx.cols);
    for (int i = 0; i < l->parts; i++) {
        int64_t at = l->part[i].adapter * v->rank;
        if (at < 0) continue;
        TRY(gemm(e, beside(dy, l->out, at, v->rank), false, plim_tensor_rows(v->a_block, at, v->rank), false,
                 scratch, 1, false));
        plim_dropout_args a = {
            scratch, scratch, e->dropout_seed, p->adapters->part[i].stream, first_row, e->sh->o.lora_dropout};
        TRY(e->ops->dropout(e->device, &a));
        TRY(e->ops->add(e->device, scratch, dx));
    }
    return PLIM_OK;
}

plim_status plim_product_bwd(plim_engine *e, const plim_product *p, plim_tensor x, plim_tensor dy,
                             plim_tensor dx, int64_t first_row, bool accumulate)
{
    const plim_linear *l = p->linear;
    views v = views_of(e, p);
    if (!l->pad) return gemm(e, dy, false, v.weight, false, dx, 1, accumulate);
    TRY(adapter_fwd(e, p, &v, x, first_row));
    TRY(gemm(e, dy, false, v.b_block, false, beside(dy, l->out, 0, l->pad), 1, false));
    for (int i = 0; i < l->parts; i++)
        if (l->part[i].adapter >= 0) TRY(adapter_grads(e, p, &v, i, x, dy, first_row));
    if (!dropping(e)) {
        plim_tensor extended = v.weight;
        extended.rows += l->pad;
        return gemm(e, widened(dy, l->pad), false, extended, false, dx, 1, accumulate);
    }
    TRY(gemm(e, dy, false, v.weight, false, dx, 1, accumulate));
    return masked_input_gradient(e, p, &v, dy, dx, first_row);
}
