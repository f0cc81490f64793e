/* attention_run.c - gated full attention: products tile by tile, softmax over the whole sequence a group of
 * heads at a time. */
#include "base/context.h"
#include "model/engine.h"

#include <math.h>

/* Where the parts of the fused product lie in a row of qkv. */
typedef struct columns {
    int64_t head_stride;  /* from one query head to the next: 2 Dh with a gate beside it */
    int64_t keys, values; /* first column of each */
} columns;

static columns columns_of(const plim_engine *e)
{
    const plim_linear *in = &e->sh->linears[PLIM_LAYER_ATTENTION].in;
    return (columns){e->sh->spec->head_dim * (e->sh->spec->attention_gate ? 2 : 1), in->part[1].first_row,
                     in->part[2].first_row};
}

/* One group of heads that attend in one call. */
typedef struct group {
    int64_t head, kv_head; /* first of each */
    plim_head_rope_args q_rope, k_rope;
    plim_attention_args attention;
} group;

static group group_of(plim_engine *e, const plim_attention_pass *p, int64_t i)
{
    const plim_shape *sh = e->sh;
    const plim_spec *s = sh->spec;
    const plim_layer_weights *w = plim_engine_weights(e, p->layer);
    columns at = columns_of(e);
    int64_t T = e->T, Dh = s->head_dim, heads = sh->group_heads, kv = sh->group_kv_heads;
    plim_tensor qkv = plim_tensor_rows(p->saved.qkv, 0, T);
    plim_tensor cos = plim_tensor_rows(e->step->batch.cos, 0, T),
                sin = plim_tensor_rows(e->step->batch.sin, 0, T);
    group g = {.head = i * heads, .kv_head = i * kv};
    plim_head_rope_args rope = {
        .cos = cos, .sin = sin, .head_dim = Dh, .eps = s->rms_eps, .unit_offset = s->unit_offset_norm};
    g.q_rope = g.k_rope = rope;
    g.q_rope.x = plim_tensor_cols(qkv, g.head * at.head_stride, (heads - 1) * at.head_stride + Dh);
    g.q_rope.y = plim_tensor_rows(p->work->q, 0, T);
    g.q_rope.w = w->q_norm;
    g.q_rope.heads = heads;
    g.q_rope.head_stride = at.head_stride;
    g.k_rope.x = plim_tensor_cols(qkv, at.keys + g.kv_head * Dh, kv * Dh);
    g.k_rope.y = plim_tensor_rows(p->work->k, 0, T);
    g.k_rope.w = w->k_norm;
    g.k_rope.heads = kv;
    g.k_rope.head_stride = Dh;
    g.attention = (plim_attention_args){
        .q = g.q_rope.y,
        .k = g.k_rope.y,
        .v = plim_tensor_cols(qkv, at.values + g.kv_head * Dh, kv * Dh),
        .o = plim_tensor_cols(plim_tensor_rows(p->saved.o, 0, T), g.head * Dh, heads * Dh),
        .lse = plim_tensor_cols(plim_tensor_rows(p->saved.lse, g.head, heads), 0, T),
        .heads = heads,
        .kv_heads = kv,
        .head_dim = Dh,
        .scale = 1 / sqrt((double)Dh),
        .docs = e->docs,
        .scratch = p->work->scratch,
        .scratch_bytes = p->work->scratch_bytes,
    };
    return g;
}

static int64_t group_count(const plim_engine *e)
{
    return e->sh->spec->kv_heads / e->sh->group_kv_heads;
}

/* The gate of rows first .. of qkv, laid out per head; absent without one. */
static plim_tensor gate_rows(const plim_engine *e, const plim_attention_pass *p, int64_t first, int64_t rows)
{
    const plim_spec *s = e->sh->spec;
    if (!s->attention_gate) return (plim_tensor){0};
    return plim_tensor_cols(plim_tensor_rows(p->saved.qkv, first, rows), s->head_dim,
                            (2 * s->heads - 1) * s->head_dim);
}

static plim_attention_gate_args gate_args(const plim_engine *e, const plim_attention_pass *p, int64_t first,
                                          int64_t rows)
{
    const plim_spec *s = e->sh->spec;
    return (plim_attention_gate_args){
        .o = plim_tensor_rows(p->saved.o, first, rows),
        .gate = gate_rows(e, p, first, rows),
        .u = plim_tensor_rows(p->work->u, 0, rows),
        .heads = s->heads,
        .head_dim = s->head_dim,
        .gate_stride = 2 * s->head_dim,
    };
}

static plim_status norm_tile(plim_engine *e, const plim_attention_pass *p, int64_t first, int64_t rows,
                             plim_tensor *h)
{
    *h = plim_tensor_rows(p->work->h, 0, rows);
    return plim_engine_norm(e, plim_tensor_rows(p->x, first, rows),
                            plim_engine_weights(e, p->layer)->input_norm, *h);
}

plim_status plim_attention_block_fwd(plim_engine *e, const plim_attention_pass *p)
{
    plim_product in = PLIM_PRODUCT(e, p->layer, in), out = PLIM_PRODUCT(e, p->layer, out);
    for (int64_t i = 0; i < plim_tile_count(e); i++) {
        int64_t first = i * e->sh->tile, rows = plim_tile_rows(e, i);
        plim_tensor h;
        TRY(norm_tile(e, p, first, rows, &h));
        TRY(plim_product_fwd(e, &in, h, plim_tensor_rows(p->saved.qkv, first, rows), first, false));
    }
    for (int64_t i = 0; i < group_count(e) && !p->have_output; i++) {
        group g = group_of(e, p, i);
        TRY(e->ops->head_rope_fwd(e->device, &g.q_rope));
        TRY(e->ops->head_rope_fwd(e->device, &g.k_rope));
        TRY(e->ops->attention_fwd(e->device, &g.attention));
    }
    if (p->output_event != PLIM_NO_EVENT) TRY(e->ops->wait(e->device, p->output_event));
    for (int64_t i = 0; i < plim_tile_count(e); i++) {
        int64_t first = i * e->sh->tile, rows = plim_tile_rows(e, i);
        plim_attention_gate_args gate = gate_args(e, p, first, rows);
        plim_tensor x1 = plim_tensor_rows(p->x1, first, rows);
        TRY(e->ops->attention_gate_fwd(e->device, &gate));
        TRY(e->ops->copy(e->device, plim_tensor_rows(p->x, first, rows), x1));
        TRY(plim_product_fwd(e, &out, gate.u, x1, first, true));
    }
    return PLIM_OK;
}

/* Through out_proj and the gate: dout and delta of every row, the gate's gradient over the gate. */
static plim_status output_bwd(plim_engine *e, const plim_attention_pass *p, plim_tensor dx)
{
    plim_product out = PLIM_PRODUCT(e, p->layer, out);
    for (int64_t i = 0; i < plim_tile_count(e); i++) {
        int64_t first = i * e->sh->tile, rows = plim_tile_rows(e, i);
        plim_attention_gate_args gate = gate_args(e, p, first, rows);
        plim_tensor du = plim_tensor_rows(p->work->dout, first, rows);
        TRY(e->ops->attention_gate_fwd(e->device, &gate));
        TRY(plim_product_bwd(e, &out, gate.u, plim_tensor_rows(dx, first, rows), du, first, false));
        gate.du = gate.dout = du;
        gate.dgate = gate.gate;
        gate.delta = plim_tensor_cols(p->work->delta, first, rows);
        TRY(e->ops->attention_gate_bwd(e->device, &gate));
    }
    return PLIM_OK;
}

/* Through the softmax, a group at a time: gradients of q, k and v over q, k and v themselves. */
static plim_status softmax_bwd(plim_engine *e, const plim_attention_pass *p)
{
    int64_t T = e->T, Dh = e->sh->spec->head_dim;
    for (int64_t i = 0; i < group_count(e); i++) {
        group g = group_of(e, p, i);
        TRY(e->ops->head_rope_fwd(e->device, &g.q_rope));
        TRY(e->ops->head_rope_fwd(e->device, &g.k_rope));
        g.attention.dout =
            plim_tensor_cols(plim_tensor_rows(p->work->dout, 0, T), g.head * Dh, e->sh->group_heads * Dh);
        g.attention.delta =
            plim_tensor_cols(plim_tensor_rows(p->work->delta, g.head, e->sh->group_heads), 0, T);
        g.attention.dq = plim_tensor_rows(p->work->dq, 0, T);
        g.attention.dk = plim_tensor_rows(p->work->dk, 0, T);
        g.attention.dv = plim_tensor_rows(p->work->dv, 0, T);
        TRY(e->ops->attention_bwd(e->device, &g.attention));
        g.q_rope.dy = g.attention.dq;
        g.k_rope.dy = g.attention.dk;
        g.q_rope.dx = g.q_rope.x;
        g.k_rope.dx = g.k_rope.x;
        TRY(e->ops->head_rope_bwd(e->device, &g.q_rope));
        TRY(e->ops->head_rope_bwd(e->device, &g.k_rope));
        TRY(e->ops->copy(e->device, g.attention.dv, g.attention.v));
    }
    return PLIM_OK;
}

plim_status plim_attention_block_bwd(plim_engine *e, const plim_attention_pass *p, plim_tensor dx)
{
    plim_product in = PLIM_PRODUCT(e, p->layer, in);
    plim_tensor input_norm = plim_engine_weights(e, p->layer)->input_norm;
    TRY(output_bwd(e, p, dx));
    TRY(softmax_bwd(e, p));
    for (int64_t i = 0; i < plim_tile_count(e); i++) {
        int64_t first = i * e->sh->tile, rows = plim_tile_rows(e, i);
        plim_tensor h, dh = plim_tensor_rows(p->work->dh, 0, rows);
        TRY(norm_tile(e, p, first, rows, &h));
        TRY(plim_product_bwd(e, &in, h, plim_tensor_rows(p->saved.qkv, first, rows), dh, first, false));
        TRY(plim_engine_norm_bwd(e, plim_tensor_rows(p->x, first, rows), input_norm, dh,
                                 plim_tensor_rows(dx, first, rows), true));
    }
    return PLIM_OK;
}
