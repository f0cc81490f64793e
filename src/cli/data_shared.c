/* data_shared.c - decides what options of both forms of `plimsoll data` mean, and how results are shown. */
#include "cli/data.h"

#include <string.h>

#include "base/json_text.h"
#include "base/units.h"

/* ---- what was asked ----------------------------------------------------------------------------------- */

plim_status plim_data_key(plim_ctx *c, const char *what, const char *value, const char *const *keys,
                          int count, int *out)
{
    char list[64] = "";
    for (int i = 0; i < count; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i == 0 ? "" : i == count - 1 ? " or " : ", ", keys[i]);
        if (strcmp(value, keys[i]) != 0) continue;
        *out = i;
        return PLIM_OK;
    }
    return plim_fail(c, PLIM_E_USAGE, "%s %.80s is not understood; %s would work", what, value, list);
}

plim_status plim_data_max_tokens(plim_ctx *c, const char *value, int64_t *out)
{
    TRY(plim_parse_count(c, "--max-tokens", value, out));
    if (*out < 2 || *out > PLIM_SAMPLES_LONGEST_TOKENS)
        return plim_fail(c, PLIM_E_USAGE, "--max-tokens %.40s is out of range; 2 to 1G is accepted", value);
    return PLIM_OK;
}

/* "x.safetensors" gives "x.val.safetensors", any other x gives "x.val.safetensors" as well. */
static plim_status name_validation(plim_ctx *c, plim_data_ask *a)
{
    static const char ending[] = ".safetensors";
    size_t n = strlen(a->out), tail = sizeof ending - 1;
    if (a->val_out) return PLIM_OK;
    if (n > tail && !strcmp(a->out + n - tail, ending)) n -= tail;
    if (n + sizeof ".val.safetensors" > sizeof a->val_out_buf)
        return plim_fail(c, PLIM_E_RANGE, "--out is a path of %zu bytes; name a shorter one", n);
    snprintf(a->val_out_buf, sizeof a->val_out_buf, "%.*s.val%s", (int)n, a->out, ending);
    a->val_out = a->val_out_buf;
    return PLIM_OK;
}

/* --statistics must not take the place of another file. */
static plim_status check_statistics(plim_ctx *c, const plim_data_ask *a)
{
    const char *taken[] = {a->out, a->val_out, a->left_out};
    for (size_t i = 0; a->statistics && i < sizeof taken / sizeof *taken; i++)
        if (taken[i] && !strcmp(a->statistics, taken[i]))
            return plim_fail(c, PLIM_E_USAGE, "--statistics and the samples cannot share the file %s",
                             a->statistics);
    for (int64_t i = 0; a->statistics && i < a->input_count + a->val_file_count; i++)
        if (!strcmp(a->statistics, a->inputs[i]))
            return plim_fail(c, PLIM_E_USAGE, "--statistics would replace the input %s", a->statistics);
    return PLIM_OK;
}

plim_status plim_data_validation(plim_ctx *c, plim_data_ask *a)
{
    int64_t seed = 0;
    if (!a->val_share && !a->val_file_count && a->val_out)
        return plim_fail(c, PLIM_E_USAGE, "--val-out does nothing without --val-share%s",
                         a->model ? " or --val-file" : "");
    if (!a->val_share && a->seed)
        return plim_fail(c, PLIM_E_USAGE, "--seed does nothing without --val-share");
    if (a->val_share) {
        TRY(plim_parse_double(c, "--val-share", a->val_share, 0, 1, &a->share));
        if (a->share <= 0 || a->share >= 1)
            return plim_fail(c, PLIM_E_USAGE, "--val-share %.40s leaves one file empty; 0.1 would work",
                             a->val_share);
    }
    if (a->seed) TRY(plim_parse_int(c, "--seed", a->seed, 0, INT64_MAX, &seed));
    a->seed_value = (uint64_t)seed;
    if (a->val_share || a->val_file_count) TRY(name_validation(c, a));
    return check_statistics(c, a);
}

/* ---- what came of it ---------------------------------------------------------------------------------- */

static void add_row(plim_grid *g, const char *what, const plim_samples_statistics *s, const char *path)
{
    const int64_t numbers[] = {s->rows, s->tokens, s->labelled_tokens, s->longest_tokens};
    char text[PLIM_NUMBER_BYTES];
    plim_grid_cell(g, PLIM_SHADE_NONE, "%s", what);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        plim_grid_cell(g, PLIM_SHADE_NONE, "%s", plim_format_thousands(text, numbers[i]));
    plim_grid_cell(g, PLIM_SHADE_NONE, "%s", path);
}

plim_status plim_data_table(plim_cli *cli, const plim_data_ask *a, const char *unit,
                            const plim_samples_statistics *train, const plim_samples_statistics *validation)
{
    const char *const heads[] = {"", unit, "tokens", "trained on", "longest", "file"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    plim_grid g;
    plim_log out;
    plim_log_open(&out, stdout, PLIM_LOG_INFO); /* for its verdict on colour */
    plim_grid_open(&g, cli->ctx, COLUMNS);
    g.left[0] = g.left[COLUMNS - 1] = true;
    for (int i = 0; i < COLUMNS; i++) plim_grid_cell(&g, PLIM_SHADE_DIM, "%s", heads[i]);
    add_row(&g, "training", train, a->out);
    if (validation) add_row(&g, "validation", validation, a->val_out);
    plim_status st = g.status;
    if (!st) plim_grid_print(&g, stdout, out.colour);
    plim_grid_close(&g);
    return st;
}

void plim_data_tell(plim_cli *cli, int64_t count, const char *one, const char *many)
{
    char text[PLIM_NUMBER_BYTES];
    if (count)
        plim_log_write(&cli->log, PLIM_LOG_INFO, "%s %s", plim_format_thousands(text, count),
                       count == 1 ? one : many);
}

plim_status plim_data_put_json(plim_ctx *c, json_t *value, const char *path)
{
    char *text = NULL;
    plim_status st = plim_json_text(c, value, JSON_INDENT(2), &text);
    json_decref(value);
    if (st) return st;
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the closing zero */
    if (path) st = plim_file_write(c, path, text, n + 1);
    else fwrite(text, 1, n + 1, stdout);
    plim_release(c, text);
    return st;
}

json_t *plim_data_path(const char *path)
{
    json_t *text = json_string(path);
    return text ? text : json_null(); /* not UTF-8 */
}

void plim_data_show(plim_data_shown *s, const char *writing, uint64_t done_bytes, uint64_t total_bytes)
{
    if (writing != s->writing) {
        plim_progress_close(&s->progress);
        plim_progress_open(&s->progress, s->log, plim_clock_monotonic(), "writing samples", "MiB", 0, 0);
        s->writing = writing;
    }
    s->progress.total = (int64_t)(total_bytes >> 20);
    plim_progress_update(&s->progress, (int64_t)(done_bytes >> 20));
}
