/* data_rows.h - how the result of `plimsoll data` over rows is shown. */
#ifndef PLIM_CLI_DATA_ROWS_H
#define PLIM_CLI_DATA_ROWS_H

#include "cli/data.h"
#include "data/build.h"

/* Tables: what went to which file, lengths, and classes with what each limit would lose. */
plim_status plim_data_rows_print(plim_cli *cli, const plim_data_ask *a, const plim_build_result *r);

/* The same as JSON, which plimsoll plan --tokens reads as well. */
plim_status plim_data_rows_json(plim_ctx *c, const plim_data_ask *a, const plim_build_result *r);

#endif
