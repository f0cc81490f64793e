/* data_rows.c - `plimsoll data --model DIR`: rows of chats and texts to samples. */
#include "cli/data.h"

#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "cli/data_rows.h"
#include "cli/run_options.h"
#include "formats/memtest_result.h"

#define SHOWN_LEFT_OUT 20

/* ---- what was asked ----------------------------------------------------------------------------------- */

/* A number, or the limit a memory test found. */
static plim_status read_max_tokens(plim_ctx *c, const char *value, int64_t *out)
{
    plim_memtest_result *r = NULL;
    if (!plim_path_is_file(value)) return plim_data_max_tokens(c, value, out);
    TRY(plim_alloc(c, 1, sizeof *r, "a memory test's result", &r));
    plim_status st = plim_memtest_result_read(c, value, r);
    if (!st && r->limit_tokens < 2)
        st = plim_fail(c, PLIM_E_FORMAT, "%s: no length fitted in this memory test, so it gives no limit",
                       value);
    if (!st) *out = r->limit_tokens;
    plim_release(c, r);
    return st;
}

static plim_status read_ask(plim_ctx *c, plim_data_ask *a, plim_build_config *g)
{
    static const char *const turns[] = {"all", "last", "whole"}, *const overs[] = {"drop", "truncate",
                                                                                   "error"};
    static const plim_label_scope scopes[] = {PLIM_LABEL_ASSISTANT, PLIM_LABEL_LAST, PLIM_LABEL_WHOLE};
    static const plim_long longs[] = {PLIM_LONG_DROP, PLIM_LONG_TRUNCATE, PLIM_LONG_ERROR};
    int turn = 0, over = 0;
    int64_t threads = 0;
    if (a->documents) return plim_fail(c, PLIM_E_USAGE, "--documents is for texts, with --tokenizer bytes");
    if (a->turns) TRY(plim_data_key(c, "--turns", a->turns, turns, 3, &turn));
    if (a->over) TRY(plim_data_key(c, "--over", a->over, overs, 3, &over));
    if (a->max_tokens) TRY(read_max_tokens(c, a->max_tokens, &g->max_tokens));
    if (a->max_bad) TRY(plim_parse_int(c, "--max-bad", a->max_bad, 0, INT64_MAX, &g->max_bad));
    if (a->threads) TRY(plim_parse_int(c, "--threads", a->threads, 1, 1024, &threads));
    TRY(plim_data_validation(c, a));
    g->inputs = a->inputs;
    g->input_count = a->input_count;
    g->val_input_count = a->val_file_count;
    g->out = a->out;
    g->val_out = a->val_out;
    g->left_out = a->left_out;
    g->model = a->model;
    g->tokenizer = a->tokenizer;
    g->chat_template = a->chat_template;
    g->chat = (plim_chat_options){.scope = scopes[turn], .no_end = a->no_end};
    g->over = longs[over];
    g->val_share = a->share;
    g->seed = a->seed_value;
    g->threads = (int)threads;
    return PLIM_OK;
}

/* ---- while it runs ------------------------------------------------------------------------------------ */

typedef struct running {
    plim_cli *cli;
    plim_data_shown shown;
    int64_t left_out;
} running;

static void show(void *user, const char *writing, uint64_t done_bytes, uint64_t total_bytes)
{
    running *r = user;
    plim_data_show(&r->shown, writing, done_bytes, total_bytes);
}

static void show_left_out(void *user, const plim_left_out *l)
{
    running *r = user;
    if (++r->left_out > SHOWN_LEFT_OUT) return;
    plim_log_write(&r->cli->log, l->kind == PLIM_LEFT_OUT_BAD ? PLIM_LOG_WARN : PLIM_LOG_INFO,
                   "%s:%" PRIu64 ": byte %" PRIu64 " of the line: %s: %s", l->file, l->line, l->byte,
                   l->kind == PLIM_LEFT_OUT_CUT ? "truncated" : "left out", l->reason);
}

static void tell_more(const running *r, const plim_data_ask *a)
{
    char text[PLIM_NUMBER_BYTES];
    if (r->left_out > SHOWN_LEFT_OUT)
        plim_log_write(&r->cli->log, PLIM_LOG_INFO, "and %s more%s%s",
                       plim_format_thousands(text, r->left_out - SHOWN_LEFT_OUT),
                       a->left_out ? ": all are in " : "; --left-out FILE lists all",
                       a->left_out ? a->left_out : "");
}

/* ---- what came of it ---------------------------------------------------------------------------------- */

static void tell_typed(plim_cli *cli, const plim_data_ask *a, const plim_build_result *r)
{
    if (!r->typed_rows) return;
    plim_log_write(&cli->log, PLIM_LOG_WARN,
                   "%" PRId64 " special tokens of the model stand inside texts, in %" PRId64
                   " rows; they become tokens like the template's own",
                   r->typed_tokens, r->typed_rows);
    for (int64_t i = 0; i < r->typed_count; i++)
        plim_log_write(&cli->log, PLIM_LOG_INFO, "%s:%" PRIu64 ": %s", a->inputs[r->typed[i].file],
                       r->typed[i].line, r->typed[i].where);
}

static void tell_all(plim_cli *cli, const plim_data_ask *a, const plim_build_result *r)
{
    const int64_t *n = r->left_out;
    char text[PLIM_NUMBER_BYTES];
    plim_data_tell(cli, n[PLIM_LEFT_OUT_BAD], "row was bad and was left out",
                   "rows were bad and were left out");
    plim_data_tell(cli, n[PLIM_LEFT_OUT_LONG], "row was longer and was left out",
                   "rows were longer and were left out");
    plim_data_tell(cli, n[PLIM_LEFT_OUT_CUT], "row was longer and lost its end",
                   "rows were longer and lost their ends");
    plim_data_tell(cli, n[PLIM_LEFT_OUT_WEIGHT], "row of weight 0 was left out",
                   "rows of weight 0 were left out");
    if (r->ended_rows)
        plim_log_write(&cli->log, PLIM_LOG_INFO,
                       "%s %s without a template %s with %s (--no-end leaves it out)",
                       plim_format_thousands(text, r->ended_rows), r->ended_rows == 1 ? "row" : "rows",
                       r->ended_rows == 1 ? "ends" : "end", r->end);
    if (r->unended_rows)
        plim_log_write(&cli->log, PLIM_LOG_WARN,
                       "in %" PRId64
                       " rows a turn ends without a special token; a model may not learn to stop",
                       r->unended_rows);
    tell_typed(cli, a, r);
}

static plim_status report(plim_cli *cli, const plim_data_ask *a, const plim_build_result *r)
{
    json_t *statistics = NULL;
    tell_all(cli, a, r);
    if (a->statistics) {
        TRY(plim_samples_statistics_json(cli->ctx, &r->train, &statistics));
        TRY(plim_data_put_json(cli->ctx, statistics, a->statistics));
    }
    return a->json ? plim_data_rows_json(cli->ctx, a, r) : plim_data_rows_print(cli, a, r);
}

plim_status plim_data_rows(plim_cli *cli, plim_data_ask *a, int *code)
{
    plim_build_config g = {0};
    plim_build_result r = {0};
    running now = {.cli = cli, .shown = {.log = &cli->log}};
    TRY(plim_run_ranged(cli, read_ask(cli->ctx, a, &g), code));
    if (*code) return PLIM_OK;
    plim_progress_open(&now.shown.progress, &cli->log, plim_clock_monotonic(), "reading rows", "MiB", 0, 0);
    g.progress = show;
    g.left = show_left_out;
    g.user = &now;
    plim_status st = plim_build(cli->ctx, &g, &r);
    plim_progress_close(&now.shown.progress);
    tell_more(&now, a);
    if (!st) st = report(cli, a, &r);
    plim_build_result_close(&r);
    return st;
}
