/* mlp_layout.c - decides that no MLP activation outlives its tile, unless its layer is kept. */
#include "model/mlp_layout.h"

#define M PLIM_MEM_MLP

plim_tensor plim_mlp_gate_up_layout(plim_arena *a, const plim_shape *sh, plim_component m, int64_t rows)
{
    const plim_linear *l = &sh->linears[PLIM_LAYER_ATTENTION].gate_up; /* the same in every layer */
    return plim_arena_push_padded(a, m, "mlp.gate_up", sh->act, rows, l->out, 0, l->pad);
}

static void common(plim_arena *a, const plim_shape *sh, bool own_gate_up, plim_mlp_work *w)
{
    const plim_layer_linears *l = &sh->linears[PLIM_LAYER_ATTENTION];
    *w = (plim_mlp_work){0};
    w->h = plim_arena_push_padded(a, M, "mlp.h", sh->act, sh->tile, sh->D, 0, l->gate_up.pad);
    w->p = plim_arena_push_padded(a, M, "mlp.p", sh->act, sh->tile, sh->spec->mlp, 0, l->down.pad);
    if (own_gate_up) w->gate_up = plim_mlp_gate_up_layout(a, sh, M, sh->tile);
}

void plim_mlp_fwd_layout(plim_arena *a, const plim_shape *sh, bool saving, plim_mlp_work *out)
{
    common(a, sh, !saving, out);
}

void plim_mlp_bwd_layout(plim_arena *a, const plim_shape *sh, bool saved, plim_mlp_work *out)
{
    common(a, sh, !saved, out);
    out->dp = plim_arena_push(a, M, "mlp.dp", sh->act, sh->tile, sh->spec->mlp);
    out->dh = plim_arena_push(a, M, "mlp.dh", sh->act, sh->tile, sh->D);
}
