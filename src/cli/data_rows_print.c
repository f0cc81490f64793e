/* data_rows_print.c - decides what `plimsoll data` over rows prints. */
#include "cli/data_rows.h"

#include <math.h>
#include <string.h>

#include "base/units.h"

#define BAR_WIDTH 40

static void number(plim_grid *g, int64_t n)
{
    char text[PLIM_NUMBER_BYTES];
    plim_grid_cell(g, PLIM_SHADE_NONE, "%s", plim_format_thousands(text, n));
}

/* Ends a table: prints it unless something failed. */
static plim_status put(plim_grid *g, bool colour)
{
    plim_status st = g->status;
    if (!st) plim_grid_print(g, stdout, colour);
    plim_grid_close(g);
    return st;
}

/* ---- lengths ------------------------------------------------------------------------------------------ */

/* The first length of a bucket: two an octave, as samples_statistics.c counts. */
static int64_t bucket_begin(int bucket)
{
    return bucket % 2 ? (int64_t)ceil(ldexp(sqrt(2.0), bucket / 2)) : INT64_C(1) << bucket / 2;
}

static plim_status print_lengths(plim_cli *cli, const plim_samples_statistics *s, bool colour)
{
    static const char *const heads[] = {"tokens from", "to", "rows", ""};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    char bar[BAR_WIDTH + 1];
    int64_t most = 1;
    plim_grid g;
    plim_grid_open(&g, cli->ctx, COLUMNS);
    g.left[COLUMNS - 1] = true;
    for (int i = 0; i < COLUMNS; i++) plim_grid_cell(&g, PLIM_SHADE_DIM, "%s", heads[i]);
    for (int b = 0; b < PLIM_SAMPLES_BUCKETS; b++)
        if (s->bucket_rows[b] > most) most = s->bucket_rows[b];
    for (int b = 0; b < PLIM_SAMPLES_BUCKETS; b++) {
        if (!s->bucket_rows[b]) continue;
        int width = (int)ceil((double)s->bucket_rows[b] / (double)most * BAR_WIDTH);
        memset(bar, '#', (size_t)width);
        bar[width] = 0;
        number(&g, bucket_begin(b));
        number(&g, bucket_begin(b + 1) - 1);
        number(&g, s->bucket_rows[b]);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", bar);
    }
    return put(&g, colour);
}

/* ---- classes ------------------------------------------------------------------------------------------ */

static plim_status print_classes(plim_cli *cli, const plim_build_result *r, bool colour)
{
    static const char *const heads[] = {"class", "rows", "tokens", "trained on"};
    enum { HEADS = sizeof heads / sizeof *heads, COLUMNS = HEADS + 2 * PLIM_BUILD_LIMITS };
    plim_grid g;
    plim_grid_open(&g, cli->ctx, COLUMNS);
    g.left[0] = true;
    for (int i = 0; i < HEADS; i++) plim_grid_cell(&g, PLIM_SHADE_DIM, "%s", heads[i]);
    for (int i = 0; i < PLIM_BUILD_LIMITS; i++) {
        char limit[PLIM_NUMBER_BYTES];
        plim_grid_cell(&g, PLIM_SHADE_DIM, "above %s", plim_format_count(limit, plim_build_limits[i]));
        plim_grid_cell(&g, PLIM_SHADE_DIM, "trained on");
    }
    for (int64_t i = 0; i < r->class_count; i++) {
        const plim_build_class *k = &r->classes[i];
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.60s", k->name);
        number(&g, k->rows);
        number(&g, k->tokens);
        number(&g, k->labelled_tokens);
        for (int n = 0; n < PLIM_BUILD_LIMITS; n++) {
            number(&g, k->lost_rows[n]);
            number(&g, k->lost_labelled_tokens[n]);
        }
    }
    return put(&g, colour);
}

plim_status plim_data_rows_print(plim_cli *cli, const plim_data_ask *a, const plim_build_result *r)
{
    plim_log out;
    plim_log_open(&out, stdout, PLIM_LOG_INFO); /* for its verdict on colour */
    TRY(plim_data_table(cli, a, "rows", &r->train, a->val_out ? &r->validation : NULL));
    printf("\n%.1f %% of the training tokens are trained on\n\n",
           100.0 * (double)r->train.labelled_tokens / (double)r->train.tokens);
    TRY(print_lengths(cli, &r->train, out.colour));
    printf("\nAll rows, and what a limit would lose:\n");
    return print_classes(cli, r, out.colour);
}

/* ---- JSON --------------------------------------------------------------------------------------------- */

static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool set_number(json_t *object, const char *key, int64_t value)
{
    return set(object, key, json_integer((json_int_t)value));
}

static json_t *class_json(const plim_build_class *k)
{
    json_t *lost = json_array();
    json_t *one = json_pack("{s:s, s:I, s:I, s:I}", "name", k->name, "rows", (json_int_t)k->rows, "tokens",
                            (json_int_t)k->tokens, "labelled_tokens", (json_int_t)k->labelled_tokens);
    bool good = one && lost;
    for (int i = 0; good && i < PLIM_BUILD_LIMITS; i++)
        good = json_array_append_new(lost, json_pack("{s:I, s:I, s:I}", "max_tokens",
                                                     (json_int_t)plim_build_limits[i], "rows",
                                                     (json_int_t)k->lost_rows[i], "labelled_tokens",
                                                     (json_int_t)k->lost_labelled_tokens[i])) == 0;
    if (good && json_object_set(one, "lost", lost) == 0) {
        json_decref(lost);
        return one;
    }
    json_decref(lost);
    json_decref(one);
    return NULL;
}

static bool set_classes(json_t *all, const plim_build_result *r)
{
    json_t *classes = json_array();
    if (!set(all, "classes", classes)) return false;
    for (int64_t i = 0; i < r->class_count; i++)
        if (json_array_append_new(classes, class_json(&r->classes[i]))) return false;
    return true;
}

static bool set_typed(json_t *all, const plim_data_ask *a, const plim_build_result *r)
{
    json_t *first = json_array();
    if (!set(all, "typed_special_first", first)) return false;
    for (int64_t i = 0; i < r->typed_count; i++)
        if (json_array_append_new(first, json_pack("{s:o, s:I, s:s}", "file",
                                                   plim_data_path(a->inputs[r->typed[i].file]), "line",
                                                   (json_int_t)r->typed[i].line, "where", r->typed[i].where)))
            return false;
    return set_number(all, "typed_special_tokens", r->typed_tokens) &&
           set_number(all, "typed_special_rows", r->typed_rows);
}

plim_status plim_data_rows_json(plim_ctx *c, const plim_data_ask *a, const plim_build_result *r)
{
    json_t *all = NULL, *validation = NULL;
    const int64_t *n = r->left_out;
    TRY(plim_samples_statistics_json(c, &r->train, &all));
    plim_status st = a->val_out ? plim_samples_statistics_json(c, &r->validation, &validation) : PLIM_OK;
    bool good =
        !st && set(all, "file", plim_data_path(a->out)) && set_number(all, "rows_read", r->rows) &&
        set_number(all, "rows_bad", n[PLIM_LEFT_OUT_BAD]) &&
        set_number(all, "rows_long", n[PLIM_LEFT_OUT_LONG]) &&
        set_number(all, "rows_cut", n[PLIM_LEFT_OUT_CUT]) &&
        set_number(all, "rows_of_weight_0", n[PLIM_LEFT_OUT_WEIGHT]) &&
        set_number(all, "rows_unended", r->unended_rows) && set_number(all, "blank_lines", r->blank_lines) &&
        set_number(all, "input_bytes", (int64_t)r->input_bytes) &&
        set(all, "labelled_share", json_real((double)r->train.labelled_tokens / (double)r->train.tokens)) &&
        set(all, "end_token", r->end[0] ? json_string(r->end) : json_null()) &&
        set(all, "tokenizer", json_string(r->tokenizer)) &&
        set(all, "template", json_string(r->chat_template)) && set_classes(all, r) && set_typed(all, a, r);
    if (good && validation)
        good = set(validation, "file", plim_data_path(a->val_out)) &&
               set(all, "validation", json_incref(validation));
    json_decref(validation);
    if (good) return plim_data_put_json(c, all, NULL);
    json_decref(all);
    return st ? st : plim_fail_alloc(c, 1, "statistics");
}
