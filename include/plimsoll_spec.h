/* plimsoll_spec.h - what a model is: every dimension and convention, read from its config.json.
 * Part of plimsoll.h. */
#ifndef PLIMSOLL_H
#include "plimsoll.h"
#endif

#ifndef PLIMSOLL_SPEC_H
#define PLIMSOLL_SPEC_H

#define PLIM_MAX_LAYERS 1024

/* Families plimsoll trains, by the model_type of their text config. */
typedef enum plim_family {
    PLIM_FAMILY_QWEN3_5, /* hybrid: gated delta-net and gated full attention */
    PLIM_FAMILY_QWEN3,
    PLIM_FAMILY_QWEN2,
    PLIM_FAMILY_LLAMA,
    PLIM_FAMILY_MISTRAL,
} plim_family;

typedef enum plim_layer_type {
    PLIM_LAYER_ATTENTION, /* "full_attention" */
    PLIM_LAYER_DELTA,     /* "linear_attention" */
} plim_layer_type;

typedef enum plim_rope_type {
    PLIM_ROPE_DEFAULT,
    PLIM_ROPE_LLAMA3, /* frequencies scaled by wave length: Llama 3.1's rule */
} plim_rope_type;

/* Rotary embedding.  The last four fields are read for PLIM_ROPE_LLAMA3 only. */
typedef struct plim_rope {
    plim_rope_type type;
    double theta;
    int64_t rotary_dim; /* columns of a head that rotate; even, <= head_dim */
    double factor, low_freq_factor, high_freq_factor;
    int64_t original_max_position;
} plim_rope;

/* Vision tower beside the text model: in the files, never loaded.  present false: all zero. */
typedef struct plim_vision {
    bool present;
    int64_t depth, hidden, mlp, heads, in_channels, patch, temporal_patch, spatial_merge, positions,
        out_hidden;
} plim_vision;

/* Letters as in the field: D hidden, F mlp, V vocab, L layers; H, Hkv, Dh; Hk, Hv, Dk, Dv. */
typedef struct plim_spec {
    plim_family family;
    char model_type[64]; /* as the text config spells it, "qwen3_5_text" */
    char dtype_name[16]; /* stored dtype the config names, "bfloat16"; "" if absent */
    bool multimodal;     /* keys carry "model.language_model." instead of "model." */
    int64_t layers, hidden, mlp, vocab;
    int64_t heads, kv_heads, head_dim;
    int64_t key_heads, value_heads, key_dim, value_dim, conv_taps; /* delta-net; 0 without delta layers */
    double rms_eps, initializer_range;
    int64_t max_position;
    plim_rope rope;
    bool tied;             /* lm_head is the embedding */
    bool unit_offset_norm; /* RMSNorm gain is 1 + w (qwen3_5) */
    bool attention_gate;   /* q_proj carries a sigmoid gate, interleaved per head */
    bool qk_norm;          /* RMSNorm over every query and key head */
    bool qkv_bias, o_bias, mlp_bias;
    int64_t mtp_layers; /* multi-token-prediction layers in the files, never loaded */
    plim_vision vision;
    uint8_t layer_type[PLIM_MAX_LAYERS]; /* plim_layer_type of layers 0 .. layers-1 */
} plim_spec;

/* Reads MODEL: a config.json of any name, or a folder that holds one.  Nothing is guessed: a field that is
 * missing, absurd, contradicted elsewhere, or asks for what plimsoll does not compute is refused by name,
 * with line and column.  Only what every reader of a family takes for granted may be absent: biases and the
 * tie flag (false; qwen2 has q, k and v biases), hidden_act (silu), initializer_range (0.02),
 * num_key_value_heads of llama (num_attention_heads), head_dim of llama, qwen2 and mistral (hidden_size /
 * num_attention_heads). Errors: PLIM_E_IO, PLIM_E_FORMAT (not JSON, wrong type, missing), PLIM_E_RANGE,
 * PLIM_E_SHAPE (sizes that do not divide), PLIM_E_UNSUPPORTED, PLIM_E_OOM_HOST. */
PLIM_API
plim_status plim_spec_load(plim_ctx *c, const char *path, plim_spec *out);

/* The same from memory; name is used in messages. */
PLIM_API
plim_status plim_spec_parse(plim_ctx *c, const char *name, const char *text, size_t bytes, plim_spec *out);

/* Layers of one type. */
PLIM_API
int64_t plim_spec_layers_of(const plim_spec *s, plim_layer_type type);

/* ---- tensors of a checkpoint --------------------------------------------------------------------------- */

typedef enum plim_tensor_group {
    PLIM_GROUP_TEXT,   /* loaded */
    PLIM_GROUP_VISION, /* model.visual.*: in the files, not loaded */
    PLIM_GROUP_MTP,    /* mtp.*: in the files, not loaded */
} plim_tensor_group;

/* One tensor the spec promises, as the checkpoint names and shapes it. */
typedef struct plim_tensor_decl {
    char name[160];
    int64_t shape[5];
    int32_t dims;
    int32_t layer; /* -1: not in a layer */
    plim_tensor_group group;
    bool optional; /* may be absent (a tied lm_head.weight) */
} plim_tensor_decl;

/* Calls visit for every tensor of one group in checkpoint order; stops early when visit returns false. */
typedef bool (*plim_tensor_visit)(void *user, const plim_tensor_decl *decl);
PLIM_API
void plim_spec_tensors(const plim_spec *s, plim_tensor_group group, plim_tensor_visit visit, void *user);

typedef struct plim_counts {
    int64_t tensors, parameters; /* the text model; a tied head counts once */
    int64_t vision_tensors, vision_parameters;
    int64_t mtp_tensors, mtp_parameters;
} plim_counts;

PLIM_API
plim_counts plim_spec_counts(const plim_spec *s);

#endif
