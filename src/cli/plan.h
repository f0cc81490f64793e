/* plan.h - what `plimsoll plan` was asked, and its printers. */
#ifndef PLIM_CLI_PLAN_H
#define PLIM_CLI_PLAN_H

#include "cli/cli.h"

#define PLIM_CLI_MAX_CARDS 64

typedef struct plim_plan_ask {
    const char *model;
    plim_spec spec;
    plim_cards cards;
    plim_card priced; /* a card with --usd-per-h on it */
    const plim_card *chosen[PLIM_CLI_MAX_CARDS];
    int64_t chosen_count;
    int64_t seq_tokens[PLIM_MAX_LENGTHS];
    int64_t seq_count;
    bool seq_given, cards_given, full_logits, json, layout, load_line;
    const char *html, *card_file;
    plim_trainer trainer;
    plim_options base;
    plim_limits limits;
    plim_workload workload;
} plim_plan_ask;

/* plan_arguments.c.  Returns PLIM_OK, or a status whose message is in the context; *code is set to an exit
 * code of its own when the walk already spoke (help, a mistake), else -1. */
plim_status plim_plan_arguments(plim_cli *cli, int argc, char **argv, plim_plan_ask *ask, int *code);

/* plan_print.c: the answer on standard output, for people. */
void plim_plan_print(const plim_plan_ask *ask, const plim_table *t, FILE *to, bool colour);
/* plan_print_rows.c: the row table that all trainers share. */
void plim_plan_print_rows(const plim_table *t, FILE *to, bool colour);

extern const plim_cli_option plim_plan_options[];

#endif
