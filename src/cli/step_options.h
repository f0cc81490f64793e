/* step_options.h - the options of a training step as plan, memtest, train and eval spell them alike. */
#ifndef PLIM_CLI_STEP_OPTIONS_H
#define PLIM_CLI_STEP_OPTIONS_H

#include "cli/cli.h"

/* Name, value, help, for the option lists of commands.  A command lists those it has; all of them are read
 * by plim_step_option_read, by name. */
#define PLIM_LAYOUT_OPTIONS(X)                                                                               \
    X(CHECKPOINTS, "checkpoints", "WHERE", "layer inputs: host, device, or K (the first K on the host)")     \
    X(KEEP_LAYERS, "keep-layers", "N", "layers whose activations are kept and not recomputed")               \
    X(KEEP_OUTPUT, "keep-attention", "yes|no", "keep attention output with the layer inputs")                \
    X(TILE, "tile", "N", "tokens a tile of the recomputation works on")                                      \
    X(LOSS, "loss", "HOW", "chunked (default) or full: all logits at once")                                  \
    X(LOSS_ROWS, "loss-rows", "N", "rows of logits alive at once with --loss chunked")                       \
    X(EMBEDDING, "embedding", "WHERE", "device or host: where the embedding table lives")
#define PLIM_LABELLED_OPTION(X)                                                                              \
    X(LABELLED, "labelled-share", "SHARE", "share of positions that are trained on (0.32)")
#define PLIM_DOCUMENTS_OPTION(X) X(DOCUMENTS, "documents", "N", "most documents packed into one sequence (1)")
#define PLIM_LORA_OPTIONS(X)                                                                                 \
    X(RANK, "rank", "R", "LoRA rank (16)")                                                                   \
    X(TARGETS, "targets", "LIST", "projections with an adapter: all, or q_proj,v_proj,...")                  \
    X(DROPOUT, "lora-dropout", "P", "LoRA dropout (0)")                                                      \
    X(ADAM, "adam", "BITS", "8 (default) or 32 bits for the optimiser's states")
#define PLIM_ATTENTION_OPTION(X)                                                                             \
    X(ATTENTION, "attention", "KERNEL", "cudnn or own; default: what the card would run")

/* What was said of a step. */
typedef struct plim_step_ask {
    plim_options options;
    uint32_t pinned;             /* PLIM_PIN_... of what was named */
    bool full_logits;            /* --loss full */
    bool loss_rows;              /* --loss-rows was given */
    bool rank, targets, dropout; /* were given */
} plim_step_ask;

/* plim_options_defaults, nothing named. */
plim_step_ask plim_step_ask_defaults(void);

/* Reads the option called name ("tile") if it is one of the above; else *taken is false.
 * Errors: PLIM_E_USAGE, PLIM_E_RANGE. */
plim_status plim_step_option_read(plim_ctx *c, const char *name, const char *value, plim_step_ask *a,
                                  bool *taken);

/* When all options are read: refuses those that contradict each other, settles the loss. */
plim_status plim_step_ask_settle(plim_ctx *c, plim_step_ask *a);

/* When the model is read: PLIM_E_USAGE for more layers on the host, or kept, than it has, when they were named. */
plim_status plim_step_check(plim_ctx *c, const plim_options *o, uint32_t pinned, const plim_spec *spec);

/* What running on the CPU settles: no link to copy over, no libraries' workspaces; layer inputs stay where
 * they are unless --checkpoints says otherwise. */
void plim_step_on_cpu(plim_step_ask *a, plim_dtype act);

/* PLIM_E_USAGE: "--option value is not understood; ... would work". */
plim_status plim_cli_misread(plim_ctx *c, const char *option, const char *value, const char *would_work);

/* A number of tokens, rows or documents, 1 to PLIM_MAX_SEQ_TOKENS; option with its dashes, for messages. */
plim_status plim_cli_read_count(plim_ctx *c, const char *option, const char *value, int64_t *out);

/* One of two words. */
plim_status plim_cli_read_word(plim_ctx *c, const char *option, const char *value, const char *yes,
                               const char *no, bool *out);

#endif
