/* tensor_map.c - decides which checkpoint tensor is which member of the weights. */
#include "model/tensor_map.h"

#include <assert.h>
#include <string.h>

#include "base/context.h"

static const char *const target_modules[PLIM_TARGET_COUNT] = {
    [PLIM_TARGET_Q] = "self_attn.q_proj",         [PLIM_TARGET_K] = "self_attn.k_proj",
    [PLIM_TARGET_V] = "self_attn.v_proj",         [PLIM_TARGET_O] = "self_attn.o_proj",
    [PLIM_TARGET_GATE] = "mlp.gate_proj",         [PLIM_TARGET_UP] = "mlp.up_proj",
    [PLIM_TARGET_DOWN] = "mlp.down_proj",         [PLIM_TARGET_IN_QKV] = "linear_attn.in_proj_qkv",
    [PLIM_TARGET_IN_Z] = "linear_attn.in_proj_z", [PLIM_TARGET_OUT] = "linear_attn.out_proj",
    [PLIM_TARGET_IN_B] = "linear_attn.in_proj_b", [PLIM_TARGET_IN_A] = "linear_attn.in_proj_a",
};

const char *plim_target_module(plim_target t)
{
    return (unsigned)t < PLIM_TARGET_COUNT ? target_modules[t] : "?";
}

/* Everything but projections: how the name ends, what it is, which member holds it.  The first row that fits
 * counts. */
#define IN_LAYER(member) offsetof(plim_layer_weights, member), true
#define IN_MODEL(member) offsetof(plim_model_weights, member), false
static const struct {
    const char *ending;
    plim_tensor_role role;
    size_t offset;
    bool in_layer;
} single[] = {
    {".embed_tokens.weight", PLIM_ROLE_EMBEDDING, IN_MODEL(embedding)},
    {"lm_head.weight", PLIM_ROLE_HEAD, IN_MODEL(head)},
    {".input_layernorm.weight", PLIM_ROLE_NORM, IN_LAYER(input_norm)},
    {".post_attention_layernorm.weight", PLIM_ROLE_NORM, IN_LAYER(post_norm)},
    {".self_attn.q_norm.weight", PLIM_ROLE_NORM, IN_LAYER(q_norm)},
    {".self_attn.k_norm.weight", PLIM_ROLE_NORM, IN_LAYER(k_norm)},
    {".linear_attn.conv1d.weight", PLIM_ROLE_CONV, IN_LAYER(conv)},
    {".linear_attn.A_log", PLIM_ROLE_A_LOG, IN_LAYER(a_log)},
    {".linear_attn.dt_bias", PLIM_ROLE_DT_BIAS, IN_LAYER(dt_bias)},
    {".linear_attn.norm.weight", PLIM_ROLE_GATED_NORM, IN_LAYER(gated_norm)},
    {".norm.weight", PLIM_ROLE_NORM, IN_MODEL(final_norm)},
};
enum { SINGLES = sizeof single / sizeof *single };

static bool ends(const char *text, size_t length, const char *ending)
{
    size_t n = strlen(ending);
    return length >= n && !memcmp(text + length - n, ending, n);
}

/* A projection's weight or bias. */
static bool find_target(const char *name, plim_target *target, bool *bias)
{
    size_t length = strlen(name);
    *bias = ends(name, length, ".bias");
    if (!*bias && !ends(name, length, ".weight")) return false;
    length -= *bias ? strlen(".bias") : strlen(".weight");
    for (unsigned t = 0; t < PLIM_TARGET_COUNT; t++) {
        if (!ends(name, length, target_modules[t])) continue;
        *target = (plim_target)t;
        return true;
    }
    return false;
}

static int find_single(const char *name)
{
    size_t length = strlen(name);
    int at = 0;
    while (at < SINGLES && !ends(name, length, single[at].ending)) at++;
    assert(at < SINGLES); /* plim_spec_tensors names no other */
    return at;
}

plim_tensor_role plim_tensor_role_of(const char *name, plim_target *target)
{
    bool bias;
    if (find_target(name, target, &bias)) return bias ? PLIM_ROLE_BIAS : PLIM_ROLE_WEIGHT;
    return single[find_single(name)].role;
}

/* ---- products ------------------------------------------------------------------------------------------ */

enum { PRODUCTS = 5 };

typedef struct product {
    const plim_linear *linear;
    const plim_linear_weights *lies;
} product;

static void products_of(const plim_layer_linears *l, const plim_layer_weights *w, product out[PRODUCTS])
{
    out[0] = (product){&l->in, w ? &w->in : NULL};
    out[1] = (product){&l->ba, w ? &w->ba : NULL};
    out[2] = (product){&l->out, w ? &w->out : NULL};
    out[3] = (product){&l->gate_up, w ? &w->gate_up : NULL};
    out[4] = (product){&l->down, w ? &w->down : NULL};
}

const plim_linear_part *plim_layer_part_find(const plim_layer_linears *l, const plim_layer_weights *weights,
                                             plim_target t, const plim_linear **linear,
                                             const plim_linear_weights **lies)
{
    product all[PRODUCTS];
    products_of(l, weights, all);
    for (int i = 0; i < PRODUCTS; i++) {
        for (int p = 0; p < all[i].linear->parts; p++) {
            if (all[i].linear->part[p].target != t) continue;
            *linear = all[i].linear;
            *lies = all[i].lies;
            return &all[i].linear->part[p];
        }
    }
    return NULL;
}

static void note_target(void *user, const plim_linear *linear, const plim_linear_part *part)
{
    (void)linear;
    *(uint32_t *)user |= PLIM_TARGET_BIT(part->target);
}

uint32_t plim_model_targets(const plim_spec *s, uint32_t targets)
{
    uint32_t found = 0;
    for (int type = 0; type < 2; type++) {
        if (!plim_spec_layers_of(s, (plim_layer_type)type)) continue;
        plim_layer_linears l = plim_layer_linears_of(s, (plim_layer_type)type, 0, 0);
        plim_layer_parts(&l, note_target, &found);
    }
    return found & targets;
}

/* ---- places -------------------------------------------------------------------------------------------- */

typedef struct walk {
    const plim_shape *sh;
    const plim_model_weights *model;
    const plim_layer_weights *layers;
    plim_place_visit visit;
    void *user;
    plim_status st;
} walk;

static plim_tensor projection_view(const walk *w, int64_t layer, plim_target target, bool bias)
{
    const plim_linear *linear;
    const plim_linear_weights *lies;
    const plim_linear_part *part = plim_layer_part_find(
        plim_shape_linears(w->sh, layer), &w->layers[layer - w->sh->first_layer], target, &linear, &lies);
    assert(part); /* both walks follow the spec */
    return bias ? plim_tensor_cols(lies->bias, part->first_row, part->out)
                : plim_tensor_rows(lies->weight, part->first_row, part->out);
}

/* Whether a tensor outside the layers lives on this card. */
static bool model_tensor_here(const plim_shape *sh, plim_tensor_role role)
{
    bool tied = sh->spec->tied;
    if (role == PLIM_ROLE_EMBEDDING) return sh->has_embedding || (tied && sh->has_head);
    if (role == PLIM_ROLE_HEAD) return sh->has_head && !tied;
    return sh->has_head;
}

static bool place_decl(void *user, const plim_tensor_decl *decl)
{
    walk *w = user;
    plim_tensor_place p = {.decl = *decl};
    bool bias;
    if (decl->layer >= 0 && (decl->layer < w->sh->first_layer || decl->layer >= w->sh->last_layer))
        return true;
    if (find_target(decl->name, &p.target, &bias)) {
        p.role = bias ? PLIM_ROLE_BIAS : PLIM_ROLE_WEIGHT;
        p.to = projection_view(w, decl->layer, p.target, bias);
    } else {
        int at = find_single(decl->name);
        p.role = single[at].role;
        const void *base = w->model;
        if (single[at].in_layer) base = &w->layers[decl->layer - w->sh->first_layer];
        else if (!model_tensor_here(w->sh, p.role)) return true;
        memcpy(&p.to, (const char *)base + single[at].offset, sizeof p.to);
    }
    w->st = w->visit(w->user, &p);
    return w->st == PLIM_OK;
}

plim_status plim_tensor_map_walk(const plim_shape *sh, const plim_model_weights *model,
                                 const plim_layer_weights *layers, plim_place_visit visit, void *user)
{
    walk w = {sh, model, layers, visit, user, PLIM_OK};
    plim_spec_tensors(sh->spec, PLIM_GROUP_TEXT, place_decl, &w);
    return w.st;
}

/* ---- padding ------------------------------------------------------------------------------------------- */

/* Columns of t from cols to the pitch; its rows below, over the whole pitch. */
static plim_status visit_padding(plim_tensor t, int64_t pad_rows, plim_view_visit visit, void *user)
{
    if (t.rows == 0 || t.cols == 0) return PLIM_OK;
    if (t.pitch > t.cols) TRY(visit(user, plim_tensor_cols(t, t.cols, t.pitch - t.cols)));
    if (!pad_rows) return PLIM_OK;
    plim_tensor below = plim_tensor_rows(t, t.rows, pad_rows);
    below.cols = t.pitch;
    return visit(user, below);
}

static plim_status layer_padding(const plim_shape *sh, int64_t layer, const plim_layer_weights *w,
                                 plim_view_visit visit, void *user)
{
    product all[PRODUCTS];
    products_of(plim_shape_linears(sh, layer), w, all);
    for (int i = 0; i < PRODUCTS; i++) {
        TRY(visit_padding(all[i].lies->weight, all[i].linear->pad, visit, user));
        TRY(visit_padding(all[i].lies->bias, 0, visit, user));
    }
    for (int i = 0; i < SINGLES; i++) {
        plim_tensor t;
        if (!single[i].in_layer) continue;
        memcpy(&t, (const char *)w + single[i].offset, sizeof t);
        TRY(visit_padding(t, 0, visit, user));
    }
    return PLIM_OK;
}

plim_status plim_padding_walk(const plim_shape *sh, const plim_model_weights *model,
                              const plim_layer_weights *layers, plim_view_visit visit, void *user)
{
    for (int64_t i = sh->first_layer; i < sh->last_layer; i++)
        TRY(layer_padding(sh, i, &layers[i - sh->first_layer], visit, user));
    TRY(visit_padding(model->embedding, 0, visit, user));
    TRY(visit_padding(model->final_norm, 0, visit, user));
    return sh->spec->tied ? PLIM_OK : visit_padding(model->head, 0, visit, user);
}
