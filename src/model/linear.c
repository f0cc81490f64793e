/* linear.c - decides which projections run as one product. */
#include "model/linear.h"

#include "base/context.h"

#include <string.h>

static const char *const target_names[PLIM_TARGET_COUNT] = {
#define ROW(name, text) text,
    PLIM_TARGET_MAP(ROW)
#undef ROW
};

const char *plim_target_name(plim_target t)
{
    return (unsigned)t < PLIM_TARGET_COUNT ? target_names[t] : "?";
}

static bool target_find(const char *name, size_t length, uint32_t *bits)
{
    for (unsigned t = 0; t < PLIM_TARGET_COUNT; t++) {
        if (strlen(target_names[t]) == length && !memcmp(target_names[t], name, length)) {
            *bits |= PLIM_TARGET_BIT(t);
            return true;
        }
    }
    return false;
}

plim_status plim_targets_parse(plim_ctx *c, const char *text, uint32_t *out)
{
    uint32_t bits = 0;
    if (!strcmp(text, "all")) {
        *out = PLIM_TARGETS_DEFAULT;
        return PLIM_OK;
    }
    for (const char *p = text;; p++) {
        size_t length = strcspn(p, ",");
        if (!target_find(p, length, &bits))
            return plim_fail(
                c, PLIM_E_USAGE,
                "'%.*s' is no projection an adapter can sit on; known: all (the first ten), q_proj, "
                "k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, in_proj_qkv, in_proj_z, "
                "out_proj, in_proj_b, in_proj_a",
                (int)length, p);
        p += length;
        if (!*p) break;
    }
    *out = bits;
    return PLIM_OK;
}

int64_t plim_padded_rank(int64_t rank)
{
    return (rank + PLIM_RANK_MULTIPLE - 1) / PLIM_RANK_MULTIPLE * PLIM_RANK_MULTIPLE;
}

typedef struct part_def {
    plim_target target;
    int64_t out;
} part_def;

static plim_linear fuse(int64_t in, bool bias, int64_t rank, uint32_t targets, const part_def *defs,
                        int count)
{
    plim_linear l = {.in = in, .bias = bias, .parts = count};
    for (int i = 0; i < count; i++) {
        bool adapted = rank > 0 && (targets & PLIM_TARGET_BIT(defs[i].target));
        l.part[i] = (plim_linear_part){defs[i].target, l.out, defs[i].out, adapted ? l.adapted_parts : -1};
        l.out += defs[i].out;
        l.adapted_parts += adapted;
    }
    l.pad = l.adapted_parts * plim_padded_rank(rank);
    return l;
}

#define FUSE(in, bias, ...)                                                                                  \
    fuse((in), (bias), rank, targets, (const part_def[]){__VA_ARGS__},                                       \
         (int)(sizeof((const part_def[]){__VA_ARGS__}) / sizeof(part_def)))

plim_layer_linears plim_layer_linears_of(const plim_spec *s, plim_layer_type type, int64_t rank,
                                         uint32_t targets)
{
    plim_layer_linears l = {0};
    if (type == PLIM_LAYER_ATTENTION) {
        int64_t q = s->heads * s->head_dim * (s->attention_gate ? 2 : 1), kv = s->kv_heads * s->head_dim;
        l.in = FUSE(s->hidden, s->qkv_bias, {PLIM_TARGET_Q, q}, {PLIM_TARGET_K, kv}, {PLIM_TARGET_V, kv});
        l.out = FUSE(s->heads * s->head_dim, s->o_bias, {PLIM_TARGET_O, s->hidden});
    } else {
        int64_t keys = s->key_heads * s->key_dim, values = s->value_heads * s->value_dim;
        l.in = FUSE(s->hidden, false, {PLIM_TARGET_IN_QKV, 2 * keys + values}, {PLIM_TARGET_IN_Z, values});
        l.ba = FUSE(s->hidden, false, {PLIM_TARGET_IN_B, s->value_heads}, {PLIM_TARGET_IN_A, s->value_heads});
        l.out = FUSE(values, false, {PLIM_TARGET_OUT, s->hidden});
    }
    l.gate_up = FUSE(s->hidden, s->mlp_bias, {PLIM_TARGET_GATE, s->mlp}, {PLIM_TARGET_UP, s->mlp});
    l.down = FUSE(s->mlp, s->mlp_bias, {PLIM_TARGET_DOWN, s->hidden});
    return l;
}

void plim_layer_parts(const plim_layer_linears *l, plim_part_visit visit, void *user)
{
    const plim_linear *const all[] = {&l->in, &l->ba, &l->out, &l->gate_up, &l->down};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int p = 0; p < all[i]->parts; p++) visit(user, all[i], &all[i]->part[p]);
}
