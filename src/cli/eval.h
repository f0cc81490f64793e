/* eval.h - what `plimsoll eval` was asked. */
#ifndef PLIM_CLI_EVAL_H
#define PLIM_CLI_EVAL_H

#include "cli/run_options.h"

typedef struct plim_eval_ask {
    plim_run_ask run;
    const char *logits;
    int64_t logits_rows; /* 0: all of the first sequence */
} plim_eval_ask;

/* eval_arguments.c.  As plim_plan_arguments. */
plim_status plim_eval_arguments(plim_cli *cli, int argc, char **argv, plim_eval_ask *ask, int *code);

extern const plim_cli_option plim_eval_options[];

#endif
