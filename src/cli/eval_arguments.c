/* eval_arguments.c - decides what `plimsoll eval` was asked. */
#include "cli/eval.h"

#include "base/units.h"

/* Name, value, help, in the order of --help; OPTION_... numbers follow from it. */
#define EVAL_OPTIONS(X)                                                                                      \
    PLIM_RUN_OPTIONS(X)                                                                                      \
    PLIM_DOCUMENTS_OPTION(X)                                                                                 \
    PLIM_LAYOUT_OPTIONS(X)                                                                                   \
    X(LOGITS, "logits", "FILE", "also write the logits of the first sequence, F32 [rows, vocabulary]")       \
    X(LOGITS_ROWS, "logits-rows", "N", "only of its first N positions")

enum {
#define ENUM(id, name, value, help) OPTION_##id,
    EVAL_OPTIONS(ENUM)
#undef ENUM
};

const plim_cli_option plim_eval_options[] = {
#define ROW(id, name, value, help) {name, value, help},
    EVAL_OPTIONS(ROW)
#undef ROW
        {NULL, NULL, NULL},
};

static plim_status read_option(plim_ctx *c, int option, const char *value, plim_eval_ask *a)
{
    bool taken;
    switch (option) {
    case OPTION_LOGITS: a->logits = value; return PLIM_OK;
    case OPTION_LOGITS_ROWS: return plim_cli_read_count(c, "--logits-rows", value, &a->logits_rows);
    default: return plim_run_option_read(c, plim_eval_options[option].name, value, &a->run, &taken);
    }
}

plim_status plim_eval_arguments(plim_cli *cli, int argc, char **argv, plim_eval_ask *a, int *code)
{
    plim_ctx *c = cli->ctx;
    plim_cli_walk walk = {.command = &plim_command_eval, .cli = cli, .argc = argc, .argv = argv};
    const char *value = NULL;
    *a = (plim_eval_ask){.run = plim_run_ask_defaults()};
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
    TRY(plim_run_ask_settle(c, "eval", &a->run));
    if (a->logits_rows && !a->logits)
        return plim_fail(c, PLIM_E_USAGE, "--logits-rows wants --logits FILE, where they go");
    /* The base model alone needs an adapter's place, not its size. */
    if (!a->run.adapter) a->run.step.options.lora_rank = 1;
    return PLIM_OK;
}
