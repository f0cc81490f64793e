/* memtest_arguments.c - decides what `plimsoll memtest` was asked. */
#include "cli/memtest.h"

#include <string.h>

#include "base/units.h"

#define OWN_OPTIONS(X)                                                                                       \
    X(SWEEP, "sweep", "LIST", "lengths in tokens, tried in ascending order: 16k,48k (needed)")               \
    X(DEVICE, "device", "NAME",                                                                              \
      "cpu, cuda or cuda:N; default: cuda with --card or where a\nGPU is found, else cpu")                   \
    X(DETERMINISTIC, "deterministic", NULL, "on a GPU: the same bits every run (plimsoll's own attention)")  \
    X(BUDGET, "budget", "BYTES",                                                                             \
      "memory that may be used (2GiB); default: 92 % of what the\nmachine and its cgroups leave, or the "    \
      "card's memory")                                                                                       \
    X(CARD, "card", "NAME",                                                                                  \
      "a card: its memory is the budget, its price the price;\nit may be smaller than the one there is")     \
    X(STEPS, "steps", "N", "optimiser steps a length (3)")                                                   \
    X(OUT, "out", "DIR|FILE",                                                                                \
      "where the result goes; default: here, as\nmemtest_<model>_<card>_<UTC time>.json")                    \
    X(DRY_RUN, "dry-run", NULL, "say what would be done, how long it takes and what it costs")               \
    X(MAX_USD, "max-usd", "USD", "refuse, or stop, when it would cost more")                                 \
    X(USD, "usd-per-h", "USD", "price of the machine; default: the card's")                                  \
    X(DTYPE, "dtype", "DTYPE", "weights and activations: bf16 (default) or f32")                             \
    X(SEED, "seed", "N", "of random weights and tokens (0)")                                                 \
    X(THREADS, "threads", "N", "threads of the CPU; default: all cores")                                     \
    X(JSON, "json", NULL, "the result as JSON (docs/memtest-json.md)")

#define MEMTEST_OPTIONS(X)                                                                                   \
    OWN_OPTIONS(X)                                                                                           \
    PLIM_LABELLED_OPTION(X)                                                                                  \
    PLIM_LAYOUT_OPTIONS(X) PLIM_DOCUMENTS_OPTION(X) PLIM_LORA_OPTIONS(X) PLIM_ATTENTION_OPTION(X)

enum {
#define ENUM(id, name, value, help) OPTION_##id,
    MEMTEST_OPTIONS(ENUM)
#undef ENUM
};

const plim_cli_option plim_memtest_options[] = {
#define ROW(id, name, value, help) {name, value, help},
    MEMTEST_OPTIONS(ROW)
#undef ROW
        {NULL, NULL, NULL},
};

#define MAX_THREADS 128

typedef struct given {
    const char *sweep;
} given;

/* Ascending, each once. */
static plim_status read_sweep(plim_ctx *c, const char *list, plim_memtest_ask *a)
{
    char item[64];
    for (const char *at = list; at;) {
        int64_t tokens, i = 0;
        TRY(plim_next_item(c, "--sweep", &at, item, sizeof item));
        TRY(plim_cli_read_count(c, "--sweep", item, &tokens));
        while (i < a->seq_count && a->seq_tokens[i] < tokens) i++;
        if (i < a->seq_count && a->seq_tokens[i] == tokens) continue;
        if (a->seq_count == PLIM_MAX_LENGTHS)
            return plim_fail(c, PLIM_E_USAGE, "--sweep names too many lengths; at most %d", PLIM_MAX_LENGTHS);
        memmove(&a->seq_tokens[i + 1], &a->seq_tokens[i], (size_t)(a->seq_count - i) * sizeof *a->seq_tokens);
        a->seq_tokens[i] = tokens;
        a->seq_count++;
    }
    return PLIM_OK;
}

static plim_status read_budget(plim_ctx *c, const char *value, plim_memtest_ask *a)
{
    TRY(plim_parse_bytes(c, "--budget", value, &a->machine.budget_bytes));
    return a->machine.budget_bytes ? PLIM_OK : plim_cli_misread(c, "budget", value, "2GiB");
}

static plim_status read_dtype(plim_ctx *c, const char *value, plim_memtest_ask *a)
{
    bool half;
    TRY(plim_cli_read_word(c, "dtype", value, "bf16", "f32", &half));
    a->act = half ? PLIM_BF16 : PLIM_F32;
    a->act_given = true;
    return PLIM_OK;
}

static plim_status read_option(plim_ctx *c, int option, const char *value, plim_memtest_ask *a, given *g)
{
    bool taken;
    switch (option) {
    case OPTION_SWEEP: g->sweep = value; return PLIM_OK;
    case OPTION_DEVICE: return plim_machine_read_device(c, value, &a->machine);
    case OPTION_DETERMINISTIC: a->machine.deterministic = true; return PLIM_OK;
    case OPTION_BUDGET: return read_budget(c, value, a);
    case OPTION_CARD: a->machine.card = value; return PLIM_OK;
    case OPTION_STEPS: return plim_parse_int(c, "--steps", value, 1, PLIM_MEMTEST_MAX_STEPS, &a->steps);
    case OPTION_OUT: a->out = value; return PLIM_OK;
    case OPTION_DRY_RUN: a->dry_run = true; return PLIM_OK;
    case OPTION_MAX_USD: return plim_parse_double(c, "--max-usd", value, 0, 1000000, &a->max_usd);
    case OPTION_USD: return plim_parse_double(c, "--usd-per-h", value, 0, 100000, &a->usd_per_h);
    case OPTION_DTYPE: return read_dtype(c, value, a);
    case OPTION_SEED: return plim_parse_int(c, "--seed", value, 0, INT64_MAX, &a->seed);
    case OPTION_THREADS: return plim_parse_int(c, "--threads", value, 1, MAX_THREADS, &a->machine.threads);
    case OPTION_JSON: a->json = true; return PLIM_OK;
    default: return plim_step_option_read(c, plim_memtest_options[option].name, value, &a->step, &taken);
    }
}

static plim_status settle(plim_ctx *c, const given *g, plim_memtest_ask *a)
{
    if (!a->model)
        return plim_fail(c, PLIM_E_USAGE,
                         "plimsoll memtest wants a MODEL: a config.json, or a folder that holds one");
    if (!g->sweep)
        return plim_fail(c, PLIM_E_USAGE, "plimsoll memtest wants --sweep LIST, such as --sweep 16k,48k");
    TRY(read_sweep(c, g->sweep, a));
    if (a->machine.card && a->machine.budget_bytes)
        return plim_fail(c, PLIM_E_USAGE, "--budget and --card both name the memory; one of them would work");
    if (!a->machine.named) a->machine.cuda = a->machine.card != NULL;
    TRY(plim_step_ask_settle(c, &a->step));
    return a->machine.named || a->machine.card ? plim_memtest_settle_device(c, a) : PLIM_OK;
}

plim_status plim_memtest_settle_device(plim_ctx *c, plim_memtest_ask *a)
{
    if (a->machine.cuda && a->act != PLIM_BF16)
        return plim_cli_misread(c, "dtype", "f32", "bf16, or --device cpu,");
    if (!a->machine.cuda && a->step.pinned & PLIM_PIN_ATTENTION_KERNEL)
        return plim_fail(c, PLIM_E_USAGE, "--attention is for cards; the CPU has one kernel");
    if (!a->machine.cuda) plim_step_on_cpu(&a->step, a->act);
    return PLIM_OK;
}

plim_status plim_memtest_arguments(plim_cli *cli, int argc, char **argv, plim_memtest_ask *a, int *code)
{
    plim_ctx *c = cli->ctx;
    plim_cli_walk walk = {.command = &plim_command_memtest, .cli = cli, .argc = argc, .argv = argv};
    given g = {0};
    const char *value = NULL;
    *a = (plim_memtest_ask){.act = PLIM_BF16,
                            .steps = 3,
                            .usd_per_h = PLIM_MEMTEST_UNKNOWN,
                            .max_usd = PLIM_MEMTEST_UNKNOWN,
                            .step = plim_step_ask_defaults()};
    *code = -1;
    for (int option; (option = plim_cli_next(&walk, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP || option == PLIM_ARG_WRONG) {
            *code = option == PLIM_ARG_HELP ? PLIM_EXIT_DONE : PLIM_EXIT_USAGE;
            return PLIM_OK;
        }
        if (option == PLIM_ARG_OPERAND) {
            if (a->model)
                return plim_fail(c, PLIM_E_USAGE, "one MODEL at a time: '%s' is one too many after '%s'",
                                 value, a->model);
            a->model = value;
            continue;
        }
        TRY(read_option(c, option, value, a, &g));
    }
    return settle(c, &g, a);
}
