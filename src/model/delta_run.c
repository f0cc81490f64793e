/* delta_run.c - gated delta-net mixer: tile by tile, with a carried state forward and a carried gradient
 * backward. */
#include "base/context.h"
#include "model/engine.h"

#include <math.h>

typedef struct widths {
    int64_t keys, values, channels; /* q and k each; v; all that is convolved */
} widths;

static widths widths_of(const plim_spec *s)
{
    int64_t keys = s->key_heads * s->key_dim, values = s->value_heads * s->value_dim;
    return (widths){keys, values, 2 * keys + values};
}

/* Everything of one tile, as views of its own rows. */
typedef struct tile {
    int64_t index, first, rows;
    plim_tensor x, x1, h, qkvz, ba, o, c, g, beta, y;
} tile;

static tile tile_of(plim_engine *e, const plim_delta_pass *p, int64_t i)
{
    int64_t first = i * e->sh->tile, rows = plim_tile_rows(e, i);
    const plim_delta_work *w = p->work;
    tile t = {.index = i, .first = first, .rows = rows};
    t.x = plim_tensor_rows(p->x, first, rows);
    t.x1 = plim_tensor_rows(p->x1, first, rows);
    t.h = plim_tensor_rows(w->h, 0, rows);
    t.qkvz = p->saved ? plim_tensor_rows(p->saved->qkvz, first, rows) : plim_tensor_rows(w->qkvz, 0, rows);
    t.ba = p->saved ? plim_tensor_rows(p->saved->ba, first, rows) : plim_tensor_rows(w->ba, 0, rows);
    t.o = p->saved ? plim_tensor_rows(p->saved->o, first, rows) : plim_tensor_rows(w->o, 0, rows);
    t.c = plim_tensor_rows(w->c, 0, rows);
    t.g = plim_tensor_rows(w->g, 0, rows);
    t.beta = plim_tensor_rows(w->beta, 0, rows);
    t.y = plim_tensor_rows(w->y, 0, rows);
    return t;
}

static plim_status zero(plim_engine *e, plim_tensor x)
{
    plim_fill_args a = {.x = x, .kind = PLIM_FILL_CONSTANT};
    return e->ops->fill(e->device, &a);
}

/* The state before tile i. */
static plim_tensor state_rows(const plim_engine *e, const plim_delta_pass *p, int64_t i)
{
    int64_t rows = e->sh->spec->value_heads * e->sh->spec->key_dim;
    return plim_tensor_rows(p->saved->states, i * rows, rows);
}

/* The Kw - 1 rows before the tile: of the saved product, or carried in the history. */
static plim_status history_of(plim_engine *e, const plim_delta_pass *p, const tile *t, plim_tensor *out)
{
    int64_t before = e->sh->spec->conv_taps - 1, channels = widths_of(e->sh->spec).channels;
    *out = p->work->history;
    if (!p->saved || t->first == 0) return PLIM_OK;
    int64_t have = t->first < before ? t->first : before;
    plim_tensor rows = plim_tensor_cols(plim_tensor_rows(p->saved->qkvz, t->first - have, have), 0, channels);
    if (have == before) {
        *out = rows;
        return PLIM_OK;
    }
    return e->ops->copy(e->device, rows, plim_tensor_rows(*out, before - have, have));
}

/* Keeps the tile's last rows of the convolution's input for the next tile. */
static plim_status keep_history(plim_engine *e, const plim_delta_pass *p, const tile *t)
{
    int64_t before = e->sh->spec->conv_taps - 1, channels = widths_of(e->sh->spec).channels;
    plim_tensor m = plim_tensor_cols(t->qkvz, 0, channels), history = p->work->history;
    if (p->saved || before == 0) return PLIM_OK;
    if (t->rows >= before)
        return e->ops->copy(e->device, plim_tensor_rows(m, t->rows - before, before), history);
    for (int64_t i = 0; i < before; i++) {
        plim_tensor from = i + t->rows < before ? plim_tensor_rows(history, i + t->rows, 1)
                                                : plim_tensor_rows(m, i + t->rows - before, 1);
        TRY(e->ops->copy(e->device, from, plim_tensor_rows(history, i, 1)));
    }
    return PLIM_OK;
}

static plim_status convolve(plim_engine *e, const plim_delta_pass *p, const tile *t, plim_conv_silu_args *a)
{
    *a = (plim_conv_silu_args){.m = plim_tensor_cols(t->qkvz, 0, widths_of(e->sh->spec).channels),
                               .w = plim_engine_weights(e, p->layer)->conv,
                               .y = t->c,
                               .first_row = t->first,
                               .docs = e->docs};
    TRY(history_of(e, p, t, &a->history));
    return e->ops->conv_silu_fwd(e->device, a);
}

/* The L2 norms of q (scaled) and k inside c: forward in place, or backward from dc over dc. */
static plim_status l2_norms(plim_engine *e, plim_tensor c, plim_tensor dc)
{
    const plim_spec *s = e->sh->spec;
    int64_t keys = widths_of(s).keys;
    for (int i = 0; i < 2; i++) {
        plim_l2norm_args a = {.x = plim_tensor_cols(c, i * keys, keys),
                              .dim = s->key_dim,
                              .scale = i == 0 ? 1 / sqrt((double)s->key_dim) : 1};
        if (dc.rows) {
            a.dy = a.dx = plim_tensor_cols(dc, i * keys, keys);
            TRY(e->ops->l2norm_bwd(e->device, &a));
        } else {
            a.y = a.x;
            TRY(e->ops->l2norm_fwd(e->device, &a));
        }
    }
    return PLIM_OK;
}

static plim_decay_args decay_args(plim_engine *e, const plim_delta_pass *p, const tile *t)
{
    const plim_layer_weights *w = plim_engine_weights(e, p->layer);
    return (plim_decay_args){
        .ba = t->ba, .a_log = w->a_log, .dt_bias = w->dt_bias, .g = t->g, .beta = t->beta};
}

static plim_delta_args delta_args(plim_engine *e, const plim_delta_pass *p, const tile *t)
{
    const plim_spec *s = e->sh->spec;
    widths w = widths_of(s);
    const plim_chunk *chunks = e->step->batch.chunks;
    return (plim_delta_args){
        .q = plim_tensor_cols(t->c, 0, w.keys),
        .k = plim_tensor_cols(t->c, w.keys, w.keys),
        .v = plim_tensor_cols(t->c, 2 * w.keys, w.values),
        .g = t->g,
        .beta = t->beta,
        .o = t->o,
        .key_heads = s->key_heads,
        .value_heads = s->value_heads,
        .key_dim = s->key_dim,
        .value_dim = s->value_dim,
        .chunks = chunks + e->tiles[t->index].first,
        .chunk_count = e->tiles[t->index].count,
        .scratch = p->work->scratch,
        .scratch_bytes = p->work->scratch_bytes,
    };
}

static plim_gated_norm_args gated_norm_args(plim_engine *e, const plim_delta_pass *p, const tile *t)
{
    widths w = widths_of(e->sh->spec);
    return (plim_gated_norm_args){.o = t->o,
                                  .z = plim_tensor_cols(t->qkvz, w.channels, w.values),
                                  .w = plim_engine_weights(e, p->layer)->gated_norm,
                                  .y = t->y,
                                  .eps = e->sh->spec->rms_eps};
}

plim_status plim_delta_block_fwd(plim_engine *e, const plim_delta_pass *p)
{
    plim_product in = PLIM_PRODUCT(e, p->layer, in), ba = PLIM_PRODUCT(e, p->layer, ba);
    plim_product out = PLIM_PRODUCT(e, p->layer, out);
    TRY(zero(e, p->work->state));
    TRY(zero(e, p->work->history));
    for (int64_t i = 0; i < plim_tile_count(e); i++) {
        tile t = tile_of(e, p, i);
        plim_conv_silu_args conv;
        TRY(plim_engine_norm(e, t.x, plim_engine_weights(e, p->layer)->input_norm, t.h));
        TRY(plim_product_fwd(e, &in, t.h, t.qkvz, t.first, false));
        TRY(plim_product_fwd(e, &ba, t.h, t.ba, t.first, false));
        TRY(convolve(e, p, &t, &conv));
        TRY(keep_history(e, p, &t));
        TRY(l2_norms(e, t.c, (plim_tensor){0}));
        plim_decay_args decay = decay_args(e, p, &t);
        TRY(e->ops->decay_fwd(e->device, &decay));
        if (p->saved) TRY(e->ops->copy(e->device, p->work->state, state_rows(e, p, i)));
        plim_delta_args delta = delta_args(e, p, &t);
        delta.state = p->work->state;
        TRY(e->ops->delta_fwd(e->device, &delta));
        plim_gated_norm_args norm = gated_norm_args(e, p, &t);
        TRY(e->ops->gated_norm_fwd(e->device, &norm));
        TRY(e->ops->copy(e->device, t.x, t.x1));
        TRY(plim_product_fwd(e, &out, t.y, t.x1, t.first, true));
    }
    return PLIM_OK;
}

/* Through out_proj and the gated norm: dout, and dz into its columns of dqkvz. */
static plim_status output_bwd(plim_engine *e, const plim_delta_pass *p, const tile *t, plim_tensor dx,
                              plim_tensor dqkvz, plim_tensor dout)
{
    plim_product out = PLIM_PRODUCT(e, p->layer, out);
    widths w = widths_of(e->sh->spec);
    plim_tensor dy = plim_tensor_rows(p->work->dy, 0, t->rows);
    plim_gated_norm_args norm = gated_norm_args(e, p, t);
    TRY(e->ops->gated_norm_fwd(e->device, &norm));
    TRY(plim_product_bwd(e, &out, t->y, dx, dy, t->first, false));
    norm.dy = dy;
    norm.dout = dout;
    norm.dz = plim_tensor_cols(dqkvz, w.channels, w.values);
    return e->ops->gated_norm_bwd(e->device, &norm);
}

/* Through the recurrence, the norms and the convolution: dm into its columns of dqkvz, dba. */
static plim_status recurrence_bwd(plim_engine *e, const plim_delta_pass *p, const tile *t, plim_tensor dout,
                                  plim_tensor dqkvz, plim_tensor dba)
{
    widths w = widths_of(e->sh->spec);
    plim_tensor dc = plim_tensor_rows(p->work->dc, 0, t->rows);
    plim_conv_silu_args conv;
    TRY(convolve(e, p, t, &conv));
    TRY(l2_norms(e, t->c, (plim_tensor){0}));
    plim_decay_args decay = decay_args(e, p, t);
    TRY(e->ops->decay_fwd(e->device, &decay));
    plim_delta_args delta = delta_args(e, p, t);
    delta.state = state_rows(e, p, t->index);
    delta.dstate = p->work->dstate;
    delta.dout = dout;
    delta.dq = plim_tensor_cols(dc, 0, w.keys);
    delta.dk = plim_tensor_cols(dc, w.keys, w.keys);
    delta.dv = plim_tensor_cols(dc, 2 * w.keys, w.values);
    delta.dg = plim_tensor_rows(p->work->dg, 0, t->rows);
    delta.dbl = plim_tensor_rows(p->work->dbl, 0, t->rows);
    TRY(e->ops->delta_bwd(e->device, &delta));
    decay.dg = delta.dg;
    decay.dbl = delta.dbl;
    decay.dba = dba;
    TRY(e->ops->decay_bwd(e->device, &decay));
    TRY(e->ops->conv_silu_fwd(e->device, &conv)); /* c before the norms, again */
    TRY(l2_norms(e, t->c, dc));
    conv.dy = dc;
    conv.dm = plim_tensor_cols(dqkvz, 0, w.channels);
    conv.carry = p->work->carry;
    return e->ops->conv_silu_bwd(e->device, &conv);
}

plim_status plim_delta_block_bwd(plim_engine *e, const plim_delta_pass *p, plim_tensor dx)
{
    plim_product in = PLIM_PRODUCT(e, p->layer, in), ba = PLIM_PRODUCT(e, p->layer, ba);
    plim_tensor input_norm = plim_engine_weights(e, p->layer)->input_norm;
    TRY(zero(e, p->work->dstate));
    TRY(zero(e, p->work->carry));
    TRY(zero(e, p->work->history));
    for (int64_t i = plim_tile_count(e) - 1; i >= 0; i--) {
        tile t = tile_of(e, p, i);
        plim_tensor dy = plim_tensor_rows(dx, t.first, t.rows),
                    dqkvz = plim_tensor_rows(p->work->dqkvz, 0, t.rows);
        plim_tensor dout = plim_tensor_rows(p->work->dout, 0, t.rows),
                    dh = plim_tensor_rows(p->work->dh, 0, t.rows);
        plim_tensor dba = plim_tensor_rows(p->work->dba, 0, t.rows);
        TRY(output_bwd(e, p, &t, dy, dqkvz, dout));
        TRY(recurrence_bwd(e, p, &t, dout, dqkvz, dba));
        TRY(plim_engine_norm(e, t.x, input_norm, t.h));
        TRY(plim_product_bwd(e, &in, t.h, dqkvz, dh, t.first, false));
        TRY(plim_product_bwd(e, &ba, t.h, dba, dh, t.first, true));
        TRY(plim_engine_norm_bwd(e, t.x, input_norm, dh, dy, true));
    }
    return PLIM_OK;
}
