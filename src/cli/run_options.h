/* run_options.h - what train and eval share: the options that name model, data, machine and memory, and how
 * they become a session. */
#ifndef PLIM_CLI_RUN_OPTIONS_H
#define PLIM_CLI_RUN_OPTIONS_H

#include "cli/run_machine.h"
#include "formats/samples.h"
#include "train/order.h"
#include "train/session.h"

#define PLIM_RUN_OPTIONS(X)                                                                                  \
    X(DATA, "data", "FILE", "samples, as plimsoll data makes them (needed)")                                 \
    PLIM_DEVICE_OPTIONS(X)                                                                                   \
    PLIM_ATTENTION_OPTION(X)                                                                                 \
    X(DTYPE, "dtype", "DTYPE", "weights and activations: f32 (default on the CPU) or bf16")                  \
    X(RANDOM, "random-weights", NULL,                                                                        \
      "weights from the config and --seed alone; MODEL may be a config.json")                                \
    X(ADAPTER, "adapter", "DIR", "PEFT adapter to start from; its rank, targets and dropout hold")           \
    X(SEQ, "seq", "N", "tokens of a sequence; default: the longest document of the data")                    \
    X(SEED, "seed", "N", "of random weights, a new adapter, order and dropout (0)")                          \
    X(THREADS, "threads", "N", "threads; default: all cores.  The result does not depend on it")             \
    X(BUDGET, "budget", "BYTES", "most memory for the step (8GiB); default: what the machine or card has")   \
    X(JSON, "json", NULL, "the result as JSON")

typedef struct plim_run_ask {
    const char *model, *data, *adapter;
    plim_dtype act;
    bool act_given, random_weights, json;
    int64_t seq_tokens; /* 0: not given */
    int64_t seed;
    plim_machine_ask machine;
    plim_step_ask step;
} plim_run_ask;

plim_run_ask plim_run_ask_defaults(void);

/* Reads the option called name if it is one of PLIM_RUN_OPTIONS, or one of a step; else *taken is false. */
plim_status plim_run_option_read(plim_ctx *c, const char *name, const char *value, plim_run_ask *a,
                                 bool *taken);

/* A number out of an option's range is a mistake of the command line, not of a file: reports it and sets
 * *code; any other status passes. */
plim_status plim_run_ranged(plim_cli *cli, plim_status st, int *code);

/* An operand: the one MODEL. */
plim_status plim_run_operand(plim_ctx *c, const char *value, plim_run_ask *a);

/* When all are read.  command: "train", for messages. */
plim_status plim_run_ask_settle(plim_ctx *c, const char *command, plim_run_ask *a);

/* A run between reading and closing.  Zeroed: nothing is open. */
typedef struct plim_setup {
    plim_samples samples;
    plim_spec spec;
    plim_options options;             /* length, rank and targets settled; on a card, everything */
    size_t planned_bytes, peak_bytes; /* of the arenas: dry, and live */
    plim_run_machine device;
    plim_session *session;
} plim_setup;

/* Opens the data and the config, settles the options; takes no memory of a step. */
plim_status plim_setup_prepare(plim_cli *cli, const plim_run_ask *a, plim_setup *r);

/* Opens the machine, works out the memory of a step, says it, and refuses what does not fit.  On a card the
 * options that were not named are chosen as plimsoll plan chooses them.
 * Errors: PLIM_E_NOFIT, those of plim_run_machine_open. */
plim_status plim_setup_plan(plim_cli *cli, const plim_run_ask *a, plim_setup *r);

/* Takes the memory and loads the weights.  g: what is left to say of the session; model, adapter, weights,
 * seed and options are filled in. */
plim_status plim_setup_open(plim_cli *cli, const plim_run_ask *a, plim_session_config g, plim_setup *r);

/* Bytes taken of the whole card now, whoever took them; 0 on the CPU. */
size_t plim_setup_device_bytes(const plim_setup *r);
void plim_setup_close(plim_cli *cli, plim_setup *r);

#endif
