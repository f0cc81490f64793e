/* train.h - what `plimsoll train` was asked. */
#ifndef PLIM_CLI_TRAIN_H
#define PLIM_CLI_TRAIN_H

#include "cli/run_options.h"

typedef struct plim_train_ask {
    plim_run_ask run;
    const char *out, *validation;
    int64_t steps, epochs; /* 0: not given */
    int64_t accumulate, save_every, keep, validate_every;
    double alpha; /* 0: not given */
    bool rslora;
    plim_hyper hyper;
} plim_train_ask;

/* train_arguments.c.  As plim_plan_arguments. */
plim_status plim_train_arguments(plim_cli *cli, int argc, char **argv, plim_train_ask *ask, int *code);

extern const plim_cli_option plim_train_options[];

#endif
