/* data.h - what `plimsoll data` was asked for, and what its two forms share: texts a token a byte
 * (data_bytes.c), and rows through a model's tokenizer and template (data_rows.c). */
#ifndef PLIM_CLI_DATA_H
#define PLIM_CLI_DATA_H

#include <jansson.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "formats/samples_statistics.h"

/* The words of the command line; NULL: not given. */
typedef struct plim_data_ask {
    const char **inputs; /* texts or rows, and behind them the files of --val-file */
    int64_t input_count, val_file_count;
    const char *model, *tokenizer, *chat_template, *out, *documents, *max_tokens, *over, *turns, *left_out,
        *max_bad, *val_share, *val_out, *seed, *threads, *statistics;
    bool no_end, json;
    /* read from them */
    double share;
    uint64_t seed_value;
    char val_out_buf[PLIM_PATH_BYTES];
} plim_data_ask;

/* *code, PLIM_EXIT_DONE before: PLIM_EXIT_USAGE when a number is out of its range, which was told. */
plim_status plim_data_bytes(plim_cli *cli, plim_data_ask *a, int *code);
plim_status plim_data_rows(plim_cli *cli, plim_data_ask *a, int *code);

/* One of count keys. */
plim_status plim_data_key(plim_ctx *c, const char *what, const char *value, const char *const *keys,
                          int count, int *out);

/* --max-tokens as a number. */
plim_status plim_data_max_tokens(plim_ctx *c, const char *value, int64_t *out);

/* --val-share, --seed and --val-out into a; a->val_out is NULL when nothing is validated. */
plim_status plim_data_validation(plim_ctx *c, plim_data_ask *a);

/* Writes value as text to path, or to standard output; takes value. */
plim_status plim_data_put_json(plim_ctx *c, json_t *value, const char *path);
json_t *plim_data_path(const char *path); /* as a string; null when it is not UTF-8 */

/* "N one" or "N many" as a message, nothing for 0. */
void plim_data_tell(plim_cli *cli, int64_t count, const char *one, const char *many);

/* A table of what went to which file; validation NULL: none.  unit: "documents", "rows". */
plim_status plim_data_table(plim_cli *cli, const plim_data_ask *a, const char *unit,
                            const plim_samples_statistics *train, const plim_samples_statistics *validation);

/* A progress line over reading, and then over each file written. */
typedef struct plim_data_shown {
    plim_log *log;
    plim_progress progress;
    const char *writing; /* what the progress is of */
} plim_data_shown;
void plim_data_show(plim_data_shown *s, const char *writing, uint64_t done_bytes, uint64_t total_bytes);

#endif
