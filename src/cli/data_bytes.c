/* data_bytes.c - `plimsoll data --tokenizer bytes`: texts to samples, a token a byte. */
#include "cli/data.h"

#include "base/units.h"
#include "cli/run_options.h"
#include "data/bytes.h"

#define KEY(name, key) key,
static const char *const documents_keys[] = {PLIM_DOCUMENTS_MAP(KEY)};
static const char *const over_keys[] = {PLIM_OVER_MAP(KEY)};
#undef KEY

static plim_status read_ask(plim_ctx *c, plim_data_ask *a, plim_bytes_config *g)
{
    const struct {
        const char *given, *name;
    } others[] = {
        {a->model, "model"},       {a->chat_template, "template"}, {a->turns, "turns"},
        {a->left_out, "left-out"}, {a->max_bad, "max-bad"},        {a->threads, "threads"},
    };
    int key = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return plim_fail(c, PLIM_E_USAGE, "--%s is for rows; it does nothing with --tokenizer bytes",
                             others[i].name);
    if (a->val_file_count)
        return plim_fail(c, PLIM_E_USAGE,
                         "--val-file is for rows; --val-share would work with --tokenizer bytes");
    if (a->documents)
        TRY(plim_data_key(c, "--documents", a->documents, documents_keys, PLIM_DOCUMENTS_COUNT, &key));
    g->documents = (plim_documents)key;
    key = 0;
    if (a->over) TRY(plim_data_key(c, "--over", a->over, over_keys, PLIM_OVER_COUNT, &key));
    g->over = (plim_over)key;
    if (a->max_tokens) TRY(plim_data_max_tokens(c, a->max_tokens, &g->max_tokens));
    TRY(plim_data_validation(c, a));
    g->inputs = a->inputs;
    g->input_count = a->input_count;
    g->out = a->out;
    g->val_out = a->val_out;
    g->val_share = a->share;
    g->seed = a->seed_value;
    g->no_end = a->no_end;
    return PLIM_OK;
}

static void tell_all(plim_cli *cli, const plim_bytes_config *g, const plim_bytes_result *r)
{
    if (g->over == PLIM_OVER_SPLIT)
        plim_data_tell(cli, r->cut, "document was longer and was split",
                       "documents were longer and were split");
    else
        plim_data_tell(cli, r->cut, "document was longer and lost its end",
                       "documents were longer and lost their ends");
    plim_data_tell(cli, r->dropped, "document was longer and was dropped",
                   "documents were longer and were dropped");
    plim_data_tell(cli, r->alone,
                   "document of a single token was left out: there is nothing to predict in it",
                   "documents of a single token were left out: there is nothing to predict in them");
}

static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static plim_status print_json(plim_ctx *c, const plim_data_ask *a, const plim_bytes_result *r)
{
    json_t *all = NULL, *validation = NULL;
    TRY(plim_samples_statistics_json(c, &r->train, &all));
    plim_status st = a->val_out ? plim_samples_statistics_json(c, &r->validation, &validation) : PLIM_OK;
    bool good = !st && set(all, "file", plim_data_path(a->out)) &&
                set(all, "documents_read", json_integer((json_int_t)r->documents)) &&
                set(all, "documents_cut", json_integer((json_int_t)r->cut)) &&
                set(all, "documents_dropped", json_integer((json_int_t)r->dropped)) &&
                set(all, "documents_of_one_token", json_integer((json_int_t)r->alone)) &&
                set(all, "text_bytes", json_integer((json_int_t)r->text_bytes));
    if (good && validation) {
        good = set(validation, "file", plim_data_path(a->val_out)) &&
               set(all, "validation", json_incref(validation));
    }
    json_decref(validation);
    if (good) return plim_data_put_json(c, all, NULL);
    json_decref(all);
    return st ? st : plim_fail_alloc(c, 1, "statistics");
}

static void show(void *user, const char *writing, uint64_t done_bytes, uint64_t total_bytes)
{
    plim_data_show(user, writing, done_bytes, total_bytes);
}

static plim_status report(plim_cli *cli, const plim_data_ask *a, const plim_bytes_config *g,
                          const plim_bytes_result *r)
{
    plim_ctx *c = cli->ctx;
    json_t *statistics = NULL;
    tell_all(cli, g, r);
    if (a->statistics) {
        TRY(plim_samples_statistics_json(c, &r->train, &statistics));
        TRY(plim_data_put_json(c, statistics, a->statistics));
    }
    if (a->json) return print_json(c, a, r);
    return plim_data_table(cli, a, "documents", &r->train, a->val_out ? &r->validation : NULL);
}

plim_status plim_data_bytes(plim_cli *cli, plim_data_ask *a, int *code)
{
    plim_bytes_config g = {0};
    plim_bytes_result r = {0};
    plim_data_shown s = {.log = &cli->log};
    TRY(plim_run_ranged(cli, read_ask(cli->ctx, a, &g), code));
    if (*code) return PLIM_OK;
    plim_progress_open(&s.progress, s.log, plim_clock_monotonic(), "reading texts", "MiB", 0, 0);
    g.progress = show;
    g.progress_user = &s;
    plim_status st = plim_bytes_write(cli->ctx, &g, &r);
    plim_progress_close(&s.progress);
    return st ? st : report(cli, a, &g, &r);
}
