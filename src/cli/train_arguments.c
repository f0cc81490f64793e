/* train_arguments.c - decides what `plimsoll train` was asked. */
#include "cli/train.h"

#include <string.h>

#include "base/units.h"

#define MOST_STEPS ((int64_t)1 << 40)

/* Name, value, help, in the order of --help; OPTION_... numbers follow from it. */
#define TRAIN_OPTIONS(X)                                                                                     \
    X(OUT, "out", "DIR", "folder of the run, absent or empty (needed)")                                      \
    PLIM_RUN_OPTIONS(X)                                                                                      \
    PLIM_DOCUMENTS_OPTION(X)                                                                                 \
    X(STEPS, "steps", "N", "optimiser steps")                                                                \
    X(EPOCHS, "epochs", "N", "passes over the data instead (1)")                                             \
    X(ACCUMULATE, "accumulate", "N", "sequences a step (1)")                                                 \
    X(LR, "lr", "RATE", "learning rate (0.0001)")                                                            \
    X(SCHEDULE, "schedule", "NAME", "of the learning rate: constant (default), linear or cosine, down to 0") \
    X(WARMUP, "warmup", "N", "first steps, over which the rate rises (0)")                                   \
    X(DECAY, "weight-decay", "W", "decoupled weight decay (0)")                                              \
    X(CLIP, "clip", "NORM", "gradients are scaled down to this norm; 0: not (1)")                            \
    X(BETA1, "beta1", "B", "Adam's first moment (0.9)")                                                      \
    X(BETA2, "beta2", "B", "Adam's second moment (0.999)")                                                   \
    X(EPS, "eps", "E", "Adam's epsilon (0.00000001)")                                                        \
    PLIM_LORA_OPTIONS(X)                                                                                     \
    X(ALPHA, "alpha", "A", "LoRA alpha; default: twice the rank")                                            \
    X(RSLORA, "rslora", NULL, "scale by alpha / sqrt(rank) instead of alpha / rank")                         \
    PLIM_LAYOUT_OPTIONS(X)                                                                                   \
    X(SAVE, "save-every", "N", "steps between checkpoints; default: none but on Ctrl-C")                     \
    X(KEEP, "keep", "N", "how many of the latest checkpoints stay (2)")                                      \
    X(VAL, "val", "FILE", "samples to measure the loss on, at the end and every --val-every steps")          \
    X(VAL_EVERY, "val-every", "N", "steps between validations")

enum {
#define ENUM(id, name, value, help) OPTION_##id,
    TRAIN_OPTIONS(ENUM)
#undef ENUM
};

const plim_cli_option plim_train_options[] = {
#define ROW(id, name, value, help) {name, value, help},
    TRAIN_OPTIONS(ROW)
#undef ROW
        {NULL, NULL, NULL},
};

/* A number above 0. */
static plim_status read_positive(plim_ctx *c, const char *option, const char *value, double most,
                                 const char *would_work, double *out)
{
    char what[40];
    snprintf(what, sizeof what, "--%s", option);
    TRY(plim_parse_double(c, what, value, 0, most, out));
    return *out > 0 ? PLIM_OK : plim_cli_misread(c, option, value, would_work);
}

static plim_status read_schedule(plim_ctx *c, const char *value, plim_hyper *h)
{
    static const char *const names[] = {"constant", "linear", "cosine"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(value, names[i])) {
            h->schedule = (plim_schedule)i;
            return PLIM_OK;
        }
    return plim_cli_misread(c, "schedule", value, "constant, linear or cosine");
}

static plim_status read_steps(plim_ctx *c, const char *what, const char *value, int64_t least, int64_t *out)
{
    int64_t n;
    TRY(plim_parse_count(c, what, value, &n));
    if (n < least || n > MOST_STEPS)
        return plim_fail(c, PLIM_E_USAGE, "%s %s is out of range; %lld to %lld would work", what, value,
                         (long long)least, (long long)MOST_STEPS);
    *out = n;
    return PLIM_OK;
}

static plim_status read_hyper(plim_ctx *c, int option, const char *value, plim_hyper *h)
{
    switch (option) {
    case OPTION_LR: return read_positive(c, "lr", value, 1000, "0.0001", &h->learning_rate);
    case OPTION_SCHEDULE: return read_schedule(c, value, h);
    case OPTION_WARMUP: return read_steps(c, "--warmup", value, 0, &h->warmup_steps);
    case OPTION_DECAY: return plim_parse_double(c, "--weight-decay", value, 0, 1000, &h->weight_decay);
    case OPTION_CLIP: return plim_parse_double(c, "--clip", value, 0, 1e15, &h->clip_norm);
    case OPTION_BETA1: return plim_parse_double(c, "--beta1", value, 0, 0.999999999, &h->beta1);
    case OPTION_BETA2: return plim_parse_double(c, "--beta2", value, 0, 0.999999999, &h->beta2);
    default: return read_positive(c, "eps", value, 1, "0.00000001", &h->eps);
    }
}

static plim_status read_option(plim_ctx *c, int option, const char *value, plim_train_ask *a)
{
    bool taken;
    switch (option) {
    case OPTION_OUT: a->out = value; return PLIM_OK;
    case OPTION_STEPS: return read_steps(c, "--steps", value, 1, &a->steps);
    case OPTION_EPOCHS: return plim_parse_int(c, "--epochs", value, 1, 1000000, &a->epochs);
    case OPTION_ACCUMULATE: return plim_cli_read_count(c, "--accumulate", value, &a->accumulate);
    case OPTION_LR:
    case OPTION_SCHEDULE:
    case OPTION_WARMUP:
    case OPTION_DECAY:
    case OPTION_CLIP:
    case OPTION_BETA1:
    case OPTION_BETA2:
    case OPTION_EPS: return read_hyper(c, option, value, &a->hyper);
    case OPTION_ALPHA: return read_positive(c, "alpha", value, 1e6, "32", &a->alpha);
    case OPTION_RSLORA: a->rslora = true; return PLIM_OK;
    case OPTION_SAVE: return read_steps(c, "--save-every", value, 1, &a->save_every);
    case OPTION_KEEP: return plim_parse_int(c, "--keep", value, 1, 1000000, &a->keep);
    case OPTION_VAL: a->validation = value; return PLIM_OK;
    case OPTION_VAL_EVERY: return read_steps(c, "--val-every", value, 1, &a->validate_every);
    default: return plim_run_option_read(c, plim_train_options[option].name, value, &a->run, &taken);
    }
}

static plim_status settle(plim_ctx *c, plim_train_ask *a)
{
    if (!a->out && a->run.model)
        return plim_fail(c, PLIM_E_USAGE, "plimsoll train wants --out DIR, a folder for what it makes");
    TRY(plim_run_ask_settle(c, "train", &a->run));
    if (a->run.adapter && (a->alpha > 0 || a->rslora))
        return plim_fail(c, PLIM_E_USAGE, "--adapter brings its own alpha and scale; leave out --%s",
                         a->rslora ? "rslora" : "alpha");
    if (a->steps && a->epochs)
        return plim_fail(c, PLIM_E_USAGE,
                         "--steps and --epochs contradict each other; one of them is enough");
    if (a->validate_every && !a->validation)
        return plim_fail(c, PLIM_E_USAGE, "--val-every wants --val FILE, the samples to measure on");
    if (a->hyper.warmup_steps && a->steps && a->hyper.warmup_steps > a->steps)
        return plim_fail(c, PLIM_E_USAGE, "--warmup %lld is longer than the run of %lld steps",
                         (long long)a->hyper.warmup_steps, (long long)a->steps);
    return PLIM_OK;
}

plim_status plim_train_arguments(plim_cli *cli, int argc, char **argv, plim_train_ask *a, int *code)
{
    plim_ctx *c = cli->ctx;
    plim_cli_walk walk = {.command = &plim_command_train, .cli = cli, .argc = argc, .argv = argv};
    const char *value = NULL;
    *a = (plim_train_ask){
        .run = plim_run_ask_defaults(), .accumulate = 1, .keep = 2, .hyper = plim_hyper_defaults()};
    *code = -1;
    for (int option; (option = plim_cli_next(&walk, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP || option == PLIM_ARG_WRONG) {
            *code = option == PLIM_ARG_HELP ? PLIM_EXIT_DONE : PLIM_EXIT_USAGE;
            return PLIM_OK;
        }
        if (option == PLIM_ARG_OPERAND) TRY(plim_run_operand(c, value, &a->run));
        else TRY(plim_run_ranged(cli, read_option(c, option, value, a), code));
        if (*code >= 0) return PLIM_OK;
    }
    return settle(c, a);
}
