/* tensors.c - decides which tensors a checkpoint of a spec holds: names, shapes, order.
 * Counts are taken by the same walk, so they cannot differ from what is loaded. */
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct walk {
    const plim_spec *s;
    plim_tensor_visit visit;
    void *user;
    plim_tensor_group group;
    int32_t layer;
    char prefix[64]; /* of every name: "model.layers.3." */
    bool stopped;
} walk;

typedef struct shape {
    int32_t dims;
    int64_t size[5];
} shape;

#define D1(a)             ((shape){1, {a}})
#define D2(a, b)          ((shape){2, {a, b}})
#define D3(a, b, c)       ((shape){3, {a, b, c}})
#define D5(a, b, c, d, e) ((shape){5, {a, b, c, d, e}})

static void emit(walk *w, const char *name, shape sh, bool optional)
{
    if (w->stopped) return;
    plim_tensor_decl d = {.dims = sh.dims, .layer = w->layer, .group = w->group, .optional = optional};
    snprintf(d.name, sizeof d.name, "%s%s", w->prefix, name);
    memcpy(d.shape, sh.size, sizeof d.shape);
    w->stopped = !w->visit(w->user, &d);
}

PLIM_PRINTF(2, 3) static void enter(walk *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->prefix, sizeof w->prefix, fmt, ap);
    va_end(ap);
}

/* A projection to out from in columns, and its bias. */
static void linear(walk *w, const char *name, int64_t out, int64_t in, bool bias)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    emit(w, full, D2(out, in), false);
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias) emit(w, full, D1(out), false);
}

static void attention(walk *w)
{
    const plim_spec *s = w->s;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    linear(w, "self_attn.q_proj", s->attention_gate ? 2 * q : q, s->hidden, s->qkv_bias);
    linear(w, "self_attn.k_proj", kv, s->hidden, s->qkv_bias);
    linear(w, "self_attn.v_proj", kv, s->hidden, s->qkv_bias);
    linear(w, "self_attn.o_proj", s->hidden, q, s->o_bias);
    if (!s->qk_norm) return;
    emit(w, "self_attn.q_norm.weight", D1(s->head_dim), false);
    emit(w, "self_attn.k_norm.weight", D1(s->head_dim), false);
}

static void delta(walk *w)
{
    const plim_spec *s = w->s;
    int64_t value = s->value_heads * s->value_dim, channels = 2 * s->key_heads * s->key_dim + value;
    linear(w, "linear_attn.in_proj_qkv", channels, s->hidden, false);
    linear(w, "linear_attn.in_proj_z", value, s->hidden, false);
    linear(w, "linear_attn.in_proj_b", s->value_heads, s->hidden, false);
    linear(w, "linear_attn.in_proj_a", s->value_heads, s->hidden, false);
    emit(w, "linear_attn.conv1d.weight", D3(channels, 1, s->conv_taps), false);
    emit(w, "linear_attn.A_log", D1(s->value_heads), false);
    emit(w, "linear_attn.dt_bias", D1(s->value_heads), false);
    emit(w, "linear_attn.norm.weight", D1(s->value_dim), false);
    linear(w, "linear_attn.out_proj", s->hidden, value, false);
}

static void layer(walk *w, plim_layer_type type)
{
    const plim_spec *s = w->s;
    emit(w, "input_layernorm.weight", D1(s->hidden), false);
    if (type == PLIM_LAYER_DELTA) delta(w);
    else attention(w);
    emit(w, "post_attention_layernorm.weight", D1(s->hidden), false);
    linear(w, "mlp.gate_proj", s->mlp, s->hidden, s->mlp_bias);
    linear(w, "mlp.up_proj", s->mlp, s->hidden, s->mlp_bias);
    linear(w, "mlp.down_proj", s->hidden, s->mlp, s->mlp_bias);
}

static void text(walk *w)
{
    const plim_spec *s = w->s;
    const char *model = s->multimodal ? "model.language_model." : "model.";
    enter(w, "%s", model);
    emit(w, "embed_tokens.weight", D2(s->vocab, s->hidden), false);
    for (int64_t i = 0; i < s->layers && !w->stopped; i++) {
        w->layer = (int32_t)i;
        enter(w, "%slayers.%d.", model, (int)i);
        layer(w, (plim_layer_type)s->layer_type[i]);
    }
    w->layer = -1;
    enter(w, "%s", model);
    emit(w, "norm.weight", D1(s->hidden), false);
    enter(w, "%s", "");
    emit(w, "lm_head.weight", D2(s->vocab, s->hidden), s->tied);
}

/* LayerNorm with its bias. */
static void layer_norm(walk *w, const char *name, int64_t width)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    emit(w, full, D1(width), false);
    snprintf(full, sizeof full, "%s.bias", name);
    emit(w, full, D1(width), false);
}

static void vision(walk *w)
{
    const plim_vision *v = &w->s->vision;
    int64_t merged = v->hidden * v->spatial_merge * v->spatial_merge;
    if (!v->present) return;
    enter(w, "%s", "model.visual.");
    emit(w, "patch_embed.proj.weight", D5(v->hidden, v->in_channels, v->temporal_patch, v->patch, v->patch),
         false);
    emit(w, "patch_embed.proj.bias", D1(v->hidden), false);
    emit(w, "pos_embed.weight", D2(v->positions, v->hidden), false);
    for (int64_t i = 0; i < v->depth && !w->stopped; i++) {
        w->layer = (int32_t)i;
        enter(w, "model.visual.blocks.%d.", (int)i);
        layer_norm(w, "norm1", v->hidden);
        layer_norm(w, "norm2", v->hidden);
        linear(w, "attn.qkv", 3 * v->hidden, v->hidden, true);
        linear(w, "attn.proj", v->hidden, v->hidden, true);
        linear(w, "mlp.linear_fc1", v->mlp, v->hidden, true);
        linear(w, "mlp.linear_fc2", v->hidden, v->mlp, true);
    }
    w->layer = -1;
    enter(w, "%s", "model.visual.merger.");
    layer_norm(w, "norm", v->hidden);
    linear(w, "linear_fc1", merged, merged, true);
    linear(w, "linear_fc2", v->out_hidden, merged, true);
}

static void mtp(walk *w)
{
    const plim_spec *s = w->s;
    if (!s->mtp_layers) return;
    enter(w, "%s", "mtp.");
    linear(w, "fc", s->hidden, 2 * s->hidden, false);
    emit(w, "norm.weight", D1(s->hidden), false);
    emit(w, "pre_fc_norm_embedding.weight", D1(s->hidden), false);
    emit(w, "pre_fc_norm_hidden.weight", D1(s->hidden), false);
    for (int64_t i = 0; i < s->mtp_layers && !w->stopped; i++) {
        w->layer = (int32_t)i;
        enter(w, "mtp.layers.%d.", (int)i);
        layer(w, PLIM_LAYER_ATTENTION);
    }
}

void plim_spec_tensors(const plim_spec *s, plim_tensor_group group, plim_tensor_visit visit, void *user)
{
    walk w = {.s = s, .visit = visit, .user = user, .group = group, .layer = -1};
    if (group == PLIM_GROUP_TEXT) text(&w);
    if (group == PLIM_GROUP_VISION) vision(&w);
    if (group == PLIM_GROUP_MTP) mtp(&w);
}

typedef struct tally {
    int64_t tensors, parameters;
} tally;

static bool count(void *user, const plim_tensor_decl *d)
{
    tally *t = user;
    int64_t n = 1;
    if (d->optional) return true; /* a tied head is the embedding, counted already */
    for (int32_t i = 0; i < d->dims; i++) n *= d->shape[i];
    t->tensors++;
    t->parameters += n;
    return true;
}

plim_counts plim_spec_counts(const plim_spec *s)
{
    tally t[3] = {{0, 0}, {0, 0}, {0, 0}};
    for (int g = 0; g < 3; g++) plim_spec_tensors(s, (plim_tensor_group)g, count, &t[g]);
    return (plim_counts){t[0].tensors,    t[0].parameters, t[1].tensors,
                         t[1].parameters, t[2].tensors,    t[2].parameters};
}
