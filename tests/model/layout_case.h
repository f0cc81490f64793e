/* layout_case.h - small random models and options for the tests of the layout: hybrid and dense, odd sizes,
 * every option; the same from every seed. */
#ifndef PLIM_TESTS_LAYOUT_CASE_H
#define PLIM_TESTS_LAYOUT_CASE_H

#include "support/test.h"

#include <stdlib.h>

#include "model/step.h"

typedef struct layout_random {
    uint64_t state;
} layout_random;

/* A whole number low .. high. */
static inline int64_t layout_pick(layout_random *r, int64_t low, int64_t high)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return low + (int64_t)((z ^ (z >> 31)) % (uint64_t)(high - low + 1));
}

static inline bool layout_coin(layout_random *r)
{
    return layout_pick(r, 0, 1) == 1;
}

static inline plim_spec layout_random_spec(layout_random *r)
{
    plim_spec s = {.layers = layout_pick(r, 1, 6),
                   .hidden = layout_pick(r, 3, 70),
                   .mlp = layout_pick(r, 3, 120),
                   .vocab = layout_pick(r, 5, 200),
                   .kv_heads = layout_pick(r, 1, 3),
                   .head_dim = 2 * layout_pick(r, 1, 17),
                   .tied = layout_coin(r),
                   .attention_gate = layout_coin(r),
                   .qk_norm = layout_coin(r),
                   .qkv_bias = layout_coin(r),
                   .o_bias = layout_coin(r),
                   .mlp_bias = layout_coin(r)};
    bool hybrid = layout_coin(r);
    s.heads = s.kv_heads * layout_pick(r, 1, 3);
    s.rope.rotary_dim = 2 * layout_pick(r, 1, s.head_dim / 2);
    if (!hybrid) return s; /* attention in every layer */
    s.key_heads = layout_pick(r, 1, 2);
    s.value_heads = s.key_heads * layout_pick(r, 1, 3);
    s.key_dim = layout_pick(r, 1, 20);
    s.value_dim = layout_pick(r, 1, 20);
    s.conv_taps = layout_pick(r, 2, 4);
    for (int64_t i = 0; i < s.layers; i++)
        s.layer_type[i] = (uint8_t)(layout_coin(r) ? PLIM_LAYER_DELTA : PLIM_LAYER_ATTENTION);
    return s;
}

static inline plim_options layout_random_options(layout_random *r, const plim_spec *s)
{
    static const plim_dtype acts[] = {PLIM_BF16, PLIM_F32, PLIM_F64};
    plim_options o = plim_options_defaults();
    o.seq_tokens = layout_pick(r, 1, 400);
    o.documents = layout_pick(r, 1, o.seq_tokens < 5 ? o.seq_tokens : 5);
    o.act = acts[layout_pick(r, 0, 2)];
    o.host_checkpoints = layout_coin(r) ? layout_pick(r, 0, s->layers) : PLIM_ALL_LAYERS;
    o.keep_attention_output = layout_coin(r);
    o.kept_layers = layout_coin(r) ? layout_pick(r, 0, s->layers) : 0;
    o.tile_tokens = layout_pick(r, 1, 300);
    o.loss_rows = layout_coin(r) ? layout_pick(r, 1, 90) : PLIM_FULL_LOGITS;
    o.lora_rank = layout_pick(r, 1, 20);
    o.lora_targets = (uint32_t)layout_pick(r, 0, (1 << PLIM_TARGET_COUNT) - 1);
    o.lora_dropout = layout_coin(r) ? 0.1 : 0;
    o.adam_bits = layout_coin(r) ? 8 : 32;
    o.embedding_on_host = !s->tied && layout_coin(r);
    o.kv_heads_per_call = layout_coin(r) ? 0 : layout_coin(r) ? 1 : s->kv_heads;
    o.attention = (plim_attention_kernel)layout_pick(r, 0, 2);
    o.gemm_workspace_bytes = (size_t)layout_pick(r, 0, 5000);
    o.staging_bytes = (size_t)layout_pick(r, 0, 5000);
    o.context_bytes = (size_t)layout_pick(r, 0, 5000);
    return o;
}

/* One model, its options and shape, and room for its views. */
typedef struct layout_case {
    plim_spec spec;
    plim_options options;
    plim_shape shape;
    plim_step step;
} layout_case;

/* Seed n of the random cases, restricted to a random range of layers now and then.  Release with
 * layout_close. */
static inline layout_case *layout_open(plim_ctx *c, uint64_t n, bool several_cards)
{
    layout_random r = {n};
    layout_case *k = calloc(1, sizeof *k);
    if (!k) abort();
    k->spec = layout_random_spec(&r);
    k->options = layout_random_options(&r, &k->spec);
    CHECK_OK(c, plim_shape_init(c, &k->spec, &k->options, &k->shape));
    if (several_cards) {
        int64_t first = layout_pick(&r, 0, k->spec.layers - 1);
        plim_shape_restrict(&k->shape, first, layout_pick(&r, first + 1, k->spec.layers));
    }
    k->step.layers = calloc((size_t)k->spec.layers + 1, sizeof *k->step.layers);
    k->step.weights = calloc((size_t)k->spec.layers, sizeof *k->step.weights);
    if (!k->step.layers || !k->step.weights) abort();
    return k;
}

static inline void layout_close(layout_case *k)
{
    free(k->step.layers);
    free(k->step.weights);
    free(k);
}

static inline plim_memory layout_dry(layout_case *k)
{
    plim_memory mem;
    plim_arena_dry(&mem.device);
    plim_arena_dry(&mem.host);
    plim_step_layout(&mem, &k->shape, &k->step, NULL, NULL);
    return mem;
}

static inline char *layout_block(size_t bytes)
{
    char *p = aligned_alloc(PLIM_ARENA_ALIGN, bytes ? bytes : PLIM_ARENA_ALIGN);
    if (!p) abort();
    return p;
}

#endif
