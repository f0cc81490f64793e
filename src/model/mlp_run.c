/* mlp_run.c - SwiGLU MLP, tile by tile. */
#include "base/context.h"
#include "model/engine.h"

typedef struct tile {
    int64_t first, rows;
    plim_tensor h, gate_up, p;
} tile;

static tile tile_of(plim_engine *e, const plim_mlp_pass *p, int64_t i)
{
    int64_t first = i * e->sh->tile, rows = plim_tile_rows(e, i);
    tile t = {first, rows, plim_tensor_rows(p->work->h, 0, rows), {0}, plim_tensor_rows(p->work->p, 0, rows)};
    t.gate_up = p->gate_up.rows ? plim_tensor_rows(p->gate_up, first, rows)
                                : plim_tensor_rows(p->work->gate_up, 0, rows);
    return t;
}

static plim_swiglu_args swiglu_of(const plim_engine *e, const tile *t)
{
    int64_t F = e->sh->spec->mlp;
    return (plim_swiglu_args){
        .gate = plim_tensor_cols(t->gate_up, 0, F), .up = plim_tensor_cols(t->gate_up, F, F), .y = t->p};
}

static plim_status gate_up_fwd(plim_engine *e, const plim_mlp_pass *p, const tile *t)
{
    plim_product gate_up = PLIM_PRODUCT(e, p->layer, gate_up);
    TRY(plim_engine_norm(e, plim_tensor_rows(p->x1, t->first, t->rows),
                         plim_engine_weights(e, p->layer)->post_norm, t->h));
    return plim_product_fwd(e, &gate_up, t->h, t->gate_up, t->first, false);
}

plim_status plim_mlp_block_fwd(plim_engine *e, const plim_mlp_pass *p)
{
    plim_product down = PLIM_PRODUCT(e, p->layer, down);
    for (int64_t i = 0; i < plim_tile_count(e); i++) {
        tile t = tile_of(e, p, i);
        plim_tensor out = plim_tensor_rows(p->out, t.first, t.rows);
        TRY(gate_up_fwd(e, p, &t));
        plim_swiglu_args a = swiglu_of(e, &t);
        TRY(e->ops->swiglu_fwd(e->device, &a));
        if (p->out.data != p->x1.data)
            TRY(e->ops->copy(e->device, plim_tensor_rows(p->x1, t.first, t.rows), out));
        TRY(plim_product_fwd(e, &down, t.p, out, t.first, true));
    }
    return PLIM_OK;
}

plim_status plim_mlp_block_bwd(plim_engine *e, const plim_mlp_pass *p, plim_tensor dx)
{
    plim_product gate_up = PLIM_PRODUCT(e, p->layer, gate_up), down = PLIM_PRODUCT(e, p->layer, down);
    plim_tensor post_norm = plim_engine_weights(e, p->layer)->post_norm;
    for (int64_t i = 0; i < plim_tile_count(e); i++) {
        tile t = tile_of(e, p, i);
        plim_tensor x1 = plim_tensor_rows(p->x1, t.first, t.rows), dy = plim_tensor_rows(dx, t.first, t.rows);
        plim_tensor dp = plim_tensor_rows(p->work->dp, 0, t.rows),
                    dh = plim_tensor_rows(p->work->dh, 0, t.rows);
        if (p->gate_up.rows) TRY(plim_engine_norm(e, x1, post_norm, t.h));
        else TRY(gate_up_fwd(e, p, &t));
        plim_swiglu_args a = swiglu_of(e, &t);
        TRY(e->ops->swiglu_fwd(e->device, &a)); /* the adapter of down reads p */
        TRY(plim_product_bwd(e, &down, t.p, dy, dp, t.first, false));
        a.y = (plim_tensor){0};
        a.dy = dp;
        a.dgate = a.gate;
        a.dup = a.up;
        TRY(e->ops->swiglu_bwd(e->device, &a));
        TRY(plim_product_bwd(e, &gate_up, t.h, t.gate_up, dh, t.first, false));
        TRY(plim_engine_norm_bwd(e, x1, post_norm, dh, dy, true));
    }
    return PLIM_OK;
}
