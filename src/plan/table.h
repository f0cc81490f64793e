/* table.h - the steps of making a table, one file each. */
#ifndef PLIM_PLAN_TABLE_H
#define PLIM_PLAN_TABLE_H

#include "plimsoll_table.h"

/* plan/rows.c: the four fixed rows of every length and their verdicts. */
plim_status plim_table_rows(plim_planner *p, plim_table *t);
/* The options of a fixed row. */
plim_options plim_row_options(const plim_options *base, int64_t seq_tokens, int row);

/* plan/runs.c: hours and dollars. */
plim_status plim_table_runs(plim_ctx *c, plim_table *t);

/* plan/next.c: the step to take now.  Needs rows and best. */
plim_status plim_table_next(plim_ctx *c, plim_planner *p, const plim_cards *fallback, plim_table *t);

#endif
