/* weights.c - decides the order of the frozen tensors: layers first, head last, so that a shard can be read
 * while the next is placed. */
#include "model/weights.h"

static plim_linear_weights linear_layout(plim_arena *a, const plim_shape *sh, const plim_linear *l,
                                         const char *name)
{
    plim_linear_weights w;
    w.weight = plim_arena_push_padded(a, PLIM_MEM_WEIGHTS, name, sh->act, l->out, l->in, l->pad, l->pad);
    w.bias = plim_arena_push(a, PLIM_MEM_WEIGHTS, "bias", sh->stat, l->bias ? 1 : 0, l->out);
    return w;
}

static plim_tensor gain(plim_arena *a, const plim_shape *sh, const char *name, int64_t n)
{
    return plim_arena_push(a, PLIM_MEM_WEIGHTS, name, sh->stat, 1, n);
}

static void layer_layout(plim_arena *a, const plim_shape *sh, int64_t layer, plim_layer_weights *w)
{
    const plim_spec *s = sh->spec;
    const plim_layer_linears *l = plim_shape_linears(sh, layer);
    *w = (plim_layer_weights){0};
    w->input_norm = gain(a, sh, "input_norm", s->hidden);
    w->in = linear_layout(a, sh, &l->in, "in_proj");
    if (s->layer_type[layer] == PLIM_LAYER_ATTENTION) {
        w->q_norm = gain(a, sh, "q_norm", s->qk_norm ? s->head_dim : 0);
        w->k_norm = gain(a, sh, "k_norm", s->qk_norm ? s->head_dim : 0);
    } else {
        int64_t channels = 2 * s->key_heads * s->key_dim + s->value_heads * s->value_dim;
        w->ba = linear_layout(a, sh, &l->ba, "in_proj_ba");
        w->conv = plim_arena_push(a, PLIM_MEM_WEIGHTS, "conv", sh->stat, channels, s->conv_taps);
        w->a_log = gain(a, sh, "a_log", s->value_heads);
        w->dt_bias = gain(a, sh, "dt_bias", s->value_heads);
        w->gated_norm = gain(a, sh, "gated_norm", s->value_dim);
    }
    w->out = linear_layout(a, sh, &l->out, "out_proj");
    w->post_norm = gain(a, sh, "post_norm", s->hidden);
    w->gate_up = linear_layout(a, sh, &l->gate_up, "gate_up");
    w->down = linear_layout(a, sh, &l->down, "down");
}

void plim_weights_layout(plim_arena *device, plim_arena *host, const plim_shape *sh,
                         plim_model_weights *model, plim_layer_weights *layers)
{
    const plim_spec *s = sh->spec;
    plim_model_weights m = {0};
    plim_layer_weights scratch;
    for (int64_t i = sh->first_layer; i < sh->last_layer; i++)
        layer_layout(device, sh, i, layers ? &layers[i - sh->first_layer] : &scratch);
    bool embedding_here = sh->has_embedding || (s->tied && sh->has_head);
    if (embedding_here)
        m.embedding = plim_arena_push(sh->o.embedding_on_host ? host : device, PLIM_MEM_WEIGHTS, "embedding",
                                      sh->act, s->vocab, s->hidden);
    if (sh->has_head) {
        m.final_norm = gain(device, sh, "final_norm", s->hidden);
        m.head = s->tied ? m.embedding
                         : plim_arena_push(device, PLIM_MEM_WEIGHTS, "lm_head", sh->act, s->vocab, s->hidden);
    }
    *model = m;
}
