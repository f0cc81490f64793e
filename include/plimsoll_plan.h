/* plimsoll_plan.h - the options of a training step, the memory it takes, and the search for the best options.
 * Part of plimsoll.h.  Everything here is arithmetic: no device, no clock, no file but the ones named. */
#ifndef PLIMSOLL_H
#include "plimsoll.h"
#endif

#ifndef PLIMSOLL_PLAN_H
#define PLIMSOLL_PLAN_H

/* ---- what a byte is for -------------------------------------------------------------------------------- */

/* What a byte is for.  Key for machines, label for people. */
#define PLIM_COMPONENT_MAP(X)                                                                                \
    X(WEIGHTS, "weights", "weights")                                                                         \
    X(LORA, "lora", "LoRA weights and gradients")                                                            \
    X(OPTIMISER, "optimiser", "Adam states")                                                                 \
    X(BATCH, "batch", "tokens, labels, tables")                                                              \
    X(CHECKPOINTS, "checkpoints", "layer inputs")                                                            \
    X(ATTENTION_OUTPUT, "attention_output", "kept attention output")                                         \
    X(KEPT, "kept_layers", "layers kept, not recomputed")                                                    \
    X(RESIDUAL, "residual", "residual stream and its gradient")                                              \
    X(ATTENTION, "attention", "attention layer at work")                                                     \
    X(DELTA, "delta", "delta-net layer at work")                                                             \
    X(MLP, "mlp", "MLP at work")                                                                             \
    X(LOSS, "loss", "loss head at work")                                                                     \
    X(WORKSPACE, "workspace", "library workspaces")                                                          \
    X(STAGING, "staging", "staging buffers")                                                                 \
    X(CONTEXT, "context", "CUDA context and libraries")

typedef enum plim_component {
#define PLIM_COMPONENT_ENUM(name, key, label) PLIM_MEM_##name,
    PLIM_COMPONENT_MAP(PLIM_COMPONENT_ENUM)
#undef PLIM_COMPONENT_ENUM
        PLIM_COMPONENT_COUNT
} plim_component;

PLIM_API
const char *plim_component_key(plim_component m);
PLIM_API
const char *plim_component_label(plim_component m);

typedef struct plim_usage {
    size_t total_bytes;
    size_t component_bytes[PLIM_COMPONENT_COUNT];
} plim_usage;

/* ---- options of a step --------------------------------------------------------------------------------- */

/* Linear projections an adapter may sit on, by their checkpoint names. */
#define PLIM_TARGET_MAP(X)                                                                                   \
    X(Q, "q_proj")                                                                                           \
    X(K, "k_proj")                                                                                           \
    X(V, "v_proj")                                                                                           \
    X(O, "o_proj")                                                                                           \
    X(GATE, "gate_proj")                                                                                     \
    X(UP, "up_proj")                                                                                         \
    X(DOWN, "down_proj")                                                                                     \
    X(IN_QKV, "in_proj_qkv")                                                                                 \
    X(IN_Z, "in_proj_z")                                                                                     \
    X(OUT, "out_proj")                                                                                       \
    X(IN_B, "in_proj_b")                                                                                     \
    X(IN_A, "in_proj_a")

typedef enum plim_target {
#define PLIM_TARGET_ENUM(name, text) PLIM_TARGET_##name,
    PLIM_TARGET_MAP(PLIM_TARGET_ENUM)
#undef PLIM_TARGET_ENUM
        PLIM_TARGET_COUNT
} plim_target;

#define PLIM_TARGET_BIT(t)   (1u << (t))
#define PLIM_TARGETS_DEFAULT ((1u << PLIM_TARGET_IN_B) - 1) /* all ten but in_proj_b and in_proj_a */
#define PLIM_MAX_RANK        1024
#define PLIM_MAX_SEQ_TOKENS  ((int64_t)1 << 24) /* of a sequence, a tile or a slab of loss rows */
#define PLIM_ALL_LAYERS      INT64_MAX
#define PLIM_FULL_LOGITS     0 /* loss_rows: every position's logits at once */

PLIM_API
const char *plim_target_name(plim_target t);
/* "q_proj,v_proj" or "all" -> bits.  Errors: PLIM_E_USAGE naming the known projections. */
PLIM_API
plim_status plim_targets_parse(plim_ctx *c, const char *text, uint32_t *out);

/* Which attention kernel runs, and with it what scratch it takes. */
typedef enum plim_attention_kernel {
    PLIM_ATTENTION_CPU,
    PLIM_ATTENTION_CUDNN,
    PLIM_ATTENTION_OWN,
} plim_attention_kernel;

typedef struct plim_options {
    int64_t seq_tokens;         /* T: tokens of the sequence, all documents together */
    int64_t documents;          /* most documents packed in it */
    plim_dtype act;             /* BF16 on a card; F32 is the exact CPU run */
    int64_t host_checkpoints;   /* inputs of the first k layers live in pinned host memory */
    bool keep_attention_output; /* attention output and log-sum-exp stay with the layer input */
    int64_t kept_layers;        /* the last n layers keep their activations and are not recomputed */
    int64_t tile_tokens;        /* rows of a tile; rounded up to a multiple of 64 */
    int64_t loss_rows;          /* rows of logits alive at once, or PLIM_FULL_LOGITS */
    double labelled_share;      /* of the positions, 0 .. 1: for time, not for memory */
    int64_t lora_rank;
    uint32_t lora_targets;  /* PLIM_TARGET_BIT of each */
    double lora_dropout;    /* probability, 0 .. below 1; above 0 a tile's masked input is kept */
    int adam_bits;          /* 8 or 32 */
    bool embedding_on_host; /* untied models only: rows are gathered over the link */
    int64_t
        kv_heads_per_call; /* attention in head groups; 0: one key/value head above 16,384 tokens, else all */
    plim_attention_kernel attention;
    size_t gemm_workspace_bytes;
    size_t staging_bytes; /* pinned, while weights load; two halves */
    size_t context_bytes; /* the device's context and libraries */
} plim_options;

/* 16,384 tokens, one document, host checkpoints, tiles of 4,096, 2,048 loss rows, r 16 on the ten
 * projections, 8-bit Adam, bf16 on a CUDA card with cuDNN attention. */
PLIM_API
plim_options plim_options_defaults(void);

/* ---- memory of a step ---------------------------------------------------------------------------------- */

typedef enum plim_phase {
    PLIM_PHASE_LOAD,
    PLIM_PHASE_FORWARD,
    PLIM_PHASE_LOSS,
    PLIM_PHASE_BACKWARD,
    PLIM_PHASE_OPTIMISER,
    PLIM_PHASE_EVALUATE,
    PLIM_PHASE_SAVE,
} plim_phase;

PLIM_API
const char *plim_phase_name(plim_phase p);

typedef struct plim_phase_usage {
    plim_phase phase;
    int64_t layer; /* -1 outside a layer */
    plim_usage device, host;
} plim_phase_usage;

/* What one card and its host hold.  device includes the context; peaks are the highest of all phases. */
typedef struct plim_footprint {
    plim_usage device_peak, host_peak; /* host: pinned */
    plim_usage load_peak;              /* device, while weights load */
    size_t load_host_bytes;
    size_t lora_parameters;
    int64_t first_layer, last_layer; /* the worst card's share; last is exclusive */
} plim_footprint;

/* Walks the layout of a training step dry.  timeline: NULL, or room for 2 * layers + 5 entries, in the order
 * of a step.  cards > 1 splits the layers over that many and reports the worst card; its timeline. Errors:
 * PLIM_E_RANGE, PLIM_E_SHAPE (an option out of range, with what would work), PLIM_E_OOM_HOST. */
PLIM_API
plim_status plim_footprint_of(plim_ctx *c, const plim_spec *s, const plim_options *o, int cards,
                              plim_footprint *out, plim_phase_usage *timeline, size_t *timeline_count);

/* Every tensor of the layout, in the order it is placed. */
typedef void (*plim_layout_visit)(void *user, bool host, const char *name, plim_component m,
                                  size_t offset_bytes, size_t size_bytes, plim_dtype d, int64_t rows,
                                  int64_t cols, int64_t pitch);
PLIM_API
plim_status plim_layout_list(plim_ctx *c, const plim_spec *s, const plim_options *o, plim_layout_visit visit,
                             void *user);

/* Trainable parameters at a rank and a set of targets, unpadded. */
PLIM_API
int64_t plim_lora_parameters(const plim_spec *s, int64_t rank, uint32_t targets);

#include "plimsoll_formula.h"

#endif
