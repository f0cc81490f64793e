/* memtest.h - what `plimsoll memtest` was asked. */
#ifndef PLIM_CLI_MEMTEST_H
#define PLIM_CLI_MEMTEST_H

#include "cli/run_machine.h"
#include "train/memtest.h"

typedef struct plim_memtest_ask {
    const char *model, *out;
    plim_machine_ask machine;
    plim_dtype act;
    bool act_given;
    int64_t seq_tokens[PLIM_MAX_LENGTHS]; /* ascending */
    int64_t seq_count;
    int64_t steps, seed;
    double usd_per_h, max_usd; /* PLIM_MEMTEST_UNKNOWN: not given */
    bool dry_run, json;
    plim_step_ask step;
} plim_memtest_ask;

/* memtest_arguments.c.  Returns PLIM_OK, or a status whose message is in the context; *code is set to an exit
 * code of its own when the walk already spoke (help, a mistake), else -1. */
plim_status plim_memtest_arguments(plim_cli *cli, int argc, char **argv, plim_memtest_ask *ask, int *code);

/* When it is settled where to run: refuses what does not go with it.  Called by plim_memtest_arguments when
 * that was said. */
plim_status plim_memtest_settle_device(plim_ctx *c, plim_memtest_ask *ask);

/* memtest_print.c: what is going to happen, on standard error; and the result, on standard output. */
void plim_memtest_print_forecast(plim_cli *cli, const plim_memtest_config *g, const plim_memtest_result *r,
                                 int64_t planned);
plim_status plim_memtest_print(plim_cli *cli, const plim_memtest_result *r, FILE *to, bool colour);
/* One length, for standard error while others are still to come. */
void plim_memtest_print_length(plim_cli *cli, const plim_memtest_length *l, double left_s);

extern const plim_cli_option plim_memtest_options[];

#endif
