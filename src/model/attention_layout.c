/* attention_layout.c - decides what a full-attention mixer keeps over the whole sequence (it must: every
 * query sees every key) and what it does a tile of rows, or a group of heads, at a time. */
#include "model/attention_layout.h"

#include "ops/attention_scratch.h"

#define M PLIM_MEM_ATTENTION

void plim_attention_qkv_layout(plim_arena *a, const plim_shape *sh, plim_component m,
                               plim_attention_saved *out)
{
    const plim_linear *in = &sh->linears[PLIM_LAYER_ATTENTION].in;
    out->qkv = plim_arena_push_padded(a, m, "attention.qkv", sh->act, sh->T, in->out, 0, in->pad);
}

void plim_attention_o_layout(plim_arena *a, const plim_shape *sh, plim_component m, plim_attention_saved *out)
{
    const plim_spec *s = sh->spec;
    out->o = plim_arena_push(a, m, "attention.o", sh->act, sh->T, s->heads * s->head_dim);
    out->lse = plim_arena_push(a, m, "attention.lse", sh->stat, s->heads, sh->T);
}

static void common(plim_arena *a, const plim_shape *sh, plim_attention_work *w)
{
    const plim_spec *s = sh->spec;
    const plim_layer_linears *l = &sh->linears[PLIM_LAYER_ATTENTION];
    w->h = plim_arena_push_padded(a, M, "attention.h", sh->act, sh->tile, sh->D, 0, l->in.pad);
    w->u =
        plim_arena_push_padded(a, M, "attention.u", sh->act, sh->tile, s->heads * s->head_dim, 0, l->out.pad);
    w->q = plim_arena_push(a, M, "attention.q", sh->act, sh->T, sh->group_heads * s->head_dim);
    w->k = plim_arena_push(a, M, "attention.k", sh->act, sh->T, sh->group_kv_heads * s->head_dim);
}

static void scratch(plim_arena *a, const plim_shape *sh, bool backward, plim_attention_work *w)
{
    plim_attention_scratch_args args = {sh->o.attention,   backward,        sh->T,
                                        sh->o.documents,   sh->group_heads, sh->group_kv_heads,
                                        sh->spec->head_dim};
    w->scratch_bytes = plim_attention_scratch_bytes(&args);
    w->scratch = plim_arena_push_bytes(a, PLIM_MEM_WORKSPACE, "attention.scratch", w->scratch_bytes);
}

void plim_attention_fwd_layout(plim_arena *a, const plim_shape *sh, plim_attention_work *out)
{
    *out = (plim_attention_work){0};
    common(a, sh, out);
    scratch(a, sh, false, out);
}

void plim_attention_bwd_layout(plim_arena *a, const plim_shape *sh, plim_attention_work *out)
{
    const plim_spec *s = sh->spec;
    *out = (plim_attention_work){0};
    common(a, sh, out);
    out->dout = plim_arena_push(a, M, "attention.dout", sh->act, sh->T, s->heads * s->head_dim);
    out->delta = plim_arena_push(a, M, "attention.delta", sh->stat, s->heads, sh->T);
    out->dq = plim_arena_push(a, M, "attention.dq", sh->act, sh->T, sh->group_heads * s->head_dim);
    out->dk = plim_arena_push(a, M, "attention.dk", sh->act, sh->T, sh->group_kv_heads * s->head_dim);
    out->dv = plim_arena_push(a, M, "attention.dv", sh->act, sh->T, sh->group_kv_heads * s->head_dim);
    out->dh = plim_arena_push(a, M, "attention.dh", sh->act, sh->tile, sh->D);
    scratch(a, sh, true, out);
}
