/* delta_layout.c - decides that a delta-net mixer runs in tiles with a carried state: only its products'
 * outputs live over the whole sequence, and only while its layer is in its backward pass. */
#include "model/delta_layout.h"

#include "ops/ops.h"

#define M PLIM_MEM_DELTA

typedef struct widths {
    int64_t channels, values, heads;
} widths;

static widths widths_of(const plim_spec *s)
{
    int64_t values = s->value_heads * s->value_dim;
    return (widths){2 * s->key_heads * s->key_dim + values, values, s->value_heads};
}

void plim_delta_saved_layout(plim_arena *a, const plim_shape *sh, plim_component m, plim_delta_saved *out)
{
    const plim_spec *s = sh->spec;
    widths w = widths_of(s);
    out->qkvz = plim_arena_push(a, m, "delta.qkvz", sh->act, sh->T, w.channels + w.values);
    out->ba = plim_arena_push(a, m, "delta.ba", sh->stat, sh->T, 2 * w.heads);
    out->o = plim_arena_push(a, m, "delta.o", sh->act, sh->T, w.values);
    out->states =
        plim_arena_push(a, m, "delta.states", sh->stat, sh->tiles * w.heads * s->key_dim, s->value_dim);
}

static void common(plim_arena *a, const plim_shape *sh, bool backward, plim_delta_work *d)
{
    const plim_spec *s = sh->spec;
    const plim_layer_linears *l = &sh->linears[PLIM_LAYER_DELTA];
    widths w = widths_of(s);
    *d = (plim_delta_work){0};
    d->h = plim_arena_push_padded(a, M, "delta.h", sh->act, sh->tile, sh->D, 0, l->in.pad + l->ba.pad);
    d->c = plim_arena_push(a, M, "delta.c", sh->act, sh->tile, w.channels);
    d->g = plim_arena_push(a, M, "delta.g", sh->stat, sh->tile, w.heads);
    d->beta = plim_arena_push(a, M, "delta.beta", sh->stat, sh->tile, w.heads);
    d->y = plim_arena_push_padded(a, M, "delta.y", sh->act, sh->tile, w.values, 0, l->out.pad);
    d->state = plim_arena_push(a, M, "delta.state", sh->stat, w.heads * s->key_dim, s->value_dim);
    d->history = plim_arena_push(a, M, "delta.history", sh->act, s->conv_taps - 1, w.channels);
    d->scratch_bytes = plim_delta_scratch_bytes(sh->act, sh->stat, s->value_heads, s->key_heads, s->key_dim,
                                                s->value_dim, sh->chunks, backward);
    d->scratch = plim_arena_push_bytes(a, M, "delta.scratch", d->scratch_bytes);
}

void plim_delta_fwd_layout(plim_arena *a, const plim_shape *sh, bool saving, plim_delta_work *out)
{
    widths w = widths_of(sh->spec);
    common(a, sh, false, out);
    if (saving) return;
    out->qkvz = plim_arena_push(a, M, "delta.qkvz", sh->act, sh->tile, w.channels + w.values);
    out->ba = plim_arena_push(a, M, "delta.ba", sh->stat, sh->tile, 2 * w.heads);
    out->o = plim_arena_push(a, M, "delta.o", sh->act, sh->tile, w.values);
}

void plim_delta_bwd_layout(plim_arena *a, const plim_shape *sh, plim_delta_work *out)
{
    const plim_spec *s = sh->spec;
    const plim_layer_linears *l = &sh->linears[PLIM_LAYER_DELTA];
    widths w = widths_of(s);
    common(a, sh, true, out);
    out->dy = plim_arena_push(a, M, "delta.dy", sh->act, sh->tile, w.values);
    out->dout = plim_arena_push(a, M, "delta.dout", sh->act, sh->tile, w.values);
    out->dc = plim_arena_push(a, M, "delta.dc", sh->act, sh->tile, w.channels);
    out->dqkvz =
        plim_arena_push_padded(a, M, "delta.dqkvz", sh->act, sh->tile, w.channels + w.values, 0, l->in.pad);
    out->dg = plim_arena_push(a, M, "delta.dg", sh->stat, sh->tile, w.heads);
    out->dbl = plim_arena_push(a, M, "delta.dbl", sh->stat, sh->tile, w.heads);
    out->dba = plim_arena_push_padded(a, M, "delta.dba", sh->act, sh->tile, 2 * w.heads, 0, l->ba.pad);
    out->carry = plim_arena_push(a, M, "delta.carry", sh->stat, s->conv_taps - 1, w.channels);
    out->dstate = plim_arena_push(a, M, "delta.dstate", sh->stat, w.heads * s->key_dim, s->value_dim);
    out->dh = plim_arena_push(a, M, "delta.dh", sh->act, sh->tile, sh->D);
}
