/* laid_weights.h - weights and adapters of a small model, laid out in memory that starts as 0xFF (NaN). */
#ifndef PLIM_TESTS_LAID_WEIGHTS_H
#define PLIM_TESTS_LAID_WEIGHTS_H

#include "support/test.h"

#include <stdlib.h>

#include "base/floats.h"
#include "model/tensor_map.h"
#include "train/load.h"

#define GOLDEN(name) PLIM_TEST_DATA "/models/" name

/* A small multimodal config: one delta-net layer, one attention layer, keys under model.language_model. */
#define CONFIG_MULTIMODAL                                                                                    \
    "{\"model_type\": \"qwen3_5\", \"text_config\": {\"model_type\": \"qwen3_5_text\", "                     \
    "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"intermediate_size\": 160, \"vocab_size\": 512, "       \
    "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-06, \"num_attention_heads\": 4, "                \
    "\"num_key_value_heads\": 2, \"head_dim\": 16, \"rope_theta\": 10000.0, "                                \
    "\"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 16, \"linear_value_head_dim\": 24, "            \
    "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 6, \"full_attention_interval\": 2, "           \
    "\"partial_rotary_factor\": 0.25, \"mtp_num_hidden_layers\": 1, \"attn_output_gate\": true, "            \
    "\"output_gate_type\": \"swish\", \"hidden_act\": \"silu\", \"layer_types\": [\"linear_attention\", "    \
    "\"full_attention\"]}, \"tie_word_embeddings\": false, \"vision_config\": {\"depth\": 1, "               \
    "\"hidden_size\": 16, \"intermediate_size\": 32, \"num_heads\": 2, \"in_channels\": 3, "                 \
    "\"patch_size\": 2, \"temporal_patch_size\": 2, \"spatial_merge_size\": 2, "                             \
    "\"num_position_embeddings\": 4, \"out_hidden_size\": 64, \"deepstack_visual_indexes\": []}}"

typedef struct laid {
    plim_spec spec;
    plim_shape sh;
    plim_model_weights model;
    plim_layer_weights layers[16];
    plim_adapters adapters;
    void *memory, *lora;
    size_t bytes;
} laid;

static inline plim_options laid_options(plim_dtype act, int64_t rank)
{
    plim_options o = plim_options_defaults();
    o.seq_tokens = 64;
    o.act = act;
    o.lora_rank = rank;
    o.attention = PLIM_ATTENTION_CPU;
    return o;
}

static inline void *laid_memory(size_t bytes)
{
    void *p = aligned_alloc(PLIM_ARENA_ALIGN, bytes ? bytes : PLIM_ARENA_ALIGN);
    if (!p) abort();
    memset(p, 0xFF, bytes);
    return p;
}

/* Lays out layers first .. last - 1 of w->spec, which is set. */
static inline void laid_place(plim_ctx *c, laid *w, plim_options o, int64_t first, int64_t last)
{
    plim_arena a;
    CHECK_OK(c, plim_shape_init(c, &w->spec, &o, &w->sh));
    plim_shape_restrict(&w->sh, first, last);
    plim_arena_dry(&a);
    plim_weights_layout(&a, &a, &w->sh, &w->model, w->layers);
    w->bytes = plim_arena_peak(&a).total_bytes;
    w->memory = laid_memory(w->bytes);
    plim_arena_live(&a, w->memory, w->bytes);
    plim_weights_layout(&a, &a, &w->sh, &w->model, w->layers);
    plim_arena_dry(&a);
    plim_adapters_layout(&a, &w->sh.adapters, w->sh.stat, 32, &w->adapters);
    size_t lora_bytes = plim_arena_peak(&a).total_bytes;
    w->lora = laid_memory(lora_bytes);
    plim_arena_live(&a, w->lora, lora_bytes);
    plim_adapters_layout(&a, &w->sh.adapters, w->sh.stat, 32, &w->adapters);
}

static inline void laid_open(plim_ctx *c, laid *w, const char *config, plim_options o)
{
    CHECK_OK(c, plim_spec_load(c, config, &w->spec));
    laid_place(c, w, o, 0, w->spec.layers);
}

static inline void laid_close(laid *w)
{
    free(w->memory);
    free(w->lora);
    memset(w, 0, sizeof *w);
}

static inline plim_load laid_load(const laid *w)
{
    return (plim_load){
        .shape = &w->sh, .model = &w->model, .layers = w->layers, .sink = plim_weight_sink_host()};
}

/* Element [i, j] of any float dtype. */
static inline double laid_at(plim_tensor t, int64_t i, int64_t j)
{
    double x;
    const char *at = plim_tensor_cols(plim_tensor_rows(t, i, 1), j, 1).data;
    plim_floats_convert(t.dtype, at, 1, PLIM_F64, &x);
    return x;
}

#endif
