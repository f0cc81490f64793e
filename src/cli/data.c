/* data.c - `plimsoll data`: texts to a samples file, and what is in it. */
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/json_text.h"
#include "base/progress.h"
#include "base/units.h"
#include "cli/run_options.h"
#include "cli/terminal.h"
#include "data/bytes.h"

#define OPTIONS(X)                                                                                           \
    X(TOKENIZER, "tokenizer", "NAME", "bytes: one token a byte, ids 0 to 255 (needed)")                      \
    X(OUT, "out", "FILE", "samples file to write; an old one is replaced (needed)")                          \
    X(DOCUMENTS, "documents", "WHAT",                                                                        \
      "files (default), lines or paragraphs: what a document is;\nblank lines and paragraphs are none")      \
    X(NO_END, "no-end", NULL, "leave out token 256, which ends a document")                                  \
    X(MAX_TOKENS, "max-tokens", "N", "longest document in tokens (512, 16k); without it, no limit")          \
    X(OVER, "over", "HOW",                                                                                   \
      "what becomes of a longer one: split (default), drop,\ntruncate or error; the last token of a piece "  \
      "opens the\nnext one, so none is lost to training")                                                    \
    X(VAL_SHARE, "val-share", "SHARE",                                                                       \
      "share of documents, or of pieces, kept for validation (0.1);\nthe bytes of a piece decide, so equal " \
      "ones go together")                                                                                    \
    X(VAL_OUT, "val-out", "FILE", "where they go (OUT.val.safetensors)")                                     \
    X(SEED, "seed", "N", "another choice of them (0)")                                                       \
    X(STATISTICS, "statistics", "FILE", "write what plimsoll plan --tokens FILE reads")                      \
    X(JSON, "json", NULL, "statistics as JSON")

enum {
#define ENUM(id, name, value, help) OPTION_##id,
    OPTIONS(ENUM)
#undef ENUM
};

static const plim_cli_option options[] = {
#define ROW(id, name, value, help) {name, value, help},
    OPTIONS(ROW)
#undef ROW
        {NULL, NULL, NULL},
};

#define KEY(name, key) key,
static const char *const documents_keys[] = {PLIM_DOCUMENTS_MAP(KEY)};
static const char *const over_keys[] = {PLIM_OVER_MAP(KEY)};
#undef KEY

typedef struct ask {
    plim_bytes_config bytes;
    const char **inputs; /* of argc places */
    const char *tokenizer, *statistics, *over, *val_share, *val_out, *seed;
    char val_out_buf[PLIM_PATH_BYTES];
    bool json;
} ask;

/* ---- what was asked ----------------------------------------------------------------------------------- */

static plim_status read_key(plim_ctx *c, const char *what, const char *value, const char *const *keys,
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

static plim_status read_option(plim_ctx *c, int option, const char *value, ask *a)
{
    int key = 0;
    switch (option) {
    case OPTION_TOKENIZER: a->tokenizer = value; return PLIM_OK;
    case OPTION_OUT: a->bytes.out = value; return PLIM_OK;
    case OPTION_DOCUMENTS:
        TRY(read_key(c, "--documents", value, documents_keys, PLIM_DOCUMENTS_COUNT, &key));
        a->bytes.documents = (plim_documents)key;
        return PLIM_OK;
    case OPTION_NO_END: a->bytes.no_end = true; return PLIM_OK;
    case OPTION_MAX_TOKENS:
        TRY(plim_parse_count(c, "--max-tokens", value, &a->bytes.max_tokens));
        if (a->bytes.max_tokens < 2 || a->bytes.max_tokens > PLIM_SAMPLES_LONGEST_TOKENS)
            return plim_fail(c, PLIM_E_USAGE, "--max-tokens %.40s is out of range; 2 to 1G is accepted",
                             value);
        return PLIM_OK;
    case OPTION_OVER:
        TRY(read_key(c, "--over", value, over_keys, PLIM_OVER_COUNT, &key));
        a->bytes.over = (plim_over)key;
        a->over = value;
        return PLIM_OK;
    case OPTION_VAL_SHARE: a->val_share = value; return PLIM_OK;
    case OPTION_VAL_OUT: a->val_out = value; return PLIM_OK;
    case OPTION_SEED: a->seed = value; return PLIM_OK;
    case OPTION_STATISTICS: a->statistics = value; return PLIM_OK;
    default: a->json = true; return PLIM_OK;
    }
}

/* "x.safetensors" gives "x.val.safetensors", any other x gives "x.val.safetensors" as well. */
static plim_status name_validation(plim_ctx *c, ask *a)
{
    static const char ending[] = ".safetensors";
    size_t n = strlen(a->bytes.out), tail = sizeof ending - 1;
    a->bytes.val_out = a->val_out ? a->val_out : a->val_out_buf;
    if (a->val_out) return PLIM_OK;
    if (n > tail && !strcmp(a->bytes.out + n - tail, ending)) n -= tail;
    if (n + sizeof ".val.safetensors" > sizeof a->val_out_buf)
        return plim_fail(c, PLIM_E_RANGE, "--out is a path of %zu bytes; name a shorter one", n);
    snprintf(a->val_out_buf, sizeof a->val_out_buf, "%.*s.val%s", (int)n, a->bytes.out, ending);
    return PLIM_OK;
}

static plim_status read_validation(plim_ctx *c, ask *a)
{
    int64_t seed = 0;
    if (!a->val_share) {
        if (!a->val_out && !a->seed) return PLIM_OK;
        return plim_fail(c, PLIM_E_USAGE, "--%s does nothing without --val-share",
                         a->val_out ? "val-out" : "seed");
    }
    TRY(plim_parse_double(c, "--val-share", a->val_share, 0, 1, &a->bytes.val_share));
    if (a->bytes.val_share <= 0 || a->bytes.val_share >= 1)
        return plim_fail(c, PLIM_E_USAGE, "--val-share %.40s leaves one file empty; 0.1 would work",
                         a->val_share);
    if (a->seed) TRY(plim_parse_int(c, "--seed", a->seed, 0, INT64_MAX, &seed));
    a->bytes.seed = (uint64_t)seed;
    return name_validation(c, a);
}

static plim_status check_ask(plim_ctx *c, ask *a)
{
    if (!a->bytes.input_count)
        return plim_fail(c, PLIM_E_USAGE, "plimsoll data wants texts to read: plimsoll data docs/*.md ...");
    if (!a->tokenizer)
        return plim_fail(c, PLIM_E_USAGE, "plimsoll data wants --tokenizer bytes, one token a byte");
    if (strcmp(a->tokenizer, "bytes") != 0)
        return plim_fail(c, PLIM_E_USAGE, "--tokenizer %.80s is not understood; bytes would work",
                         a->tokenizer);
    if (!a->bytes.out) return plim_fail(c, PLIM_E_USAGE, "plimsoll data wants --out FILE, the file to write");
    if (a->over && !a->bytes.max_tokens)
        return plim_fail(c, PLIM_E_USAGE, "--over does nothing without --max-tokens");
    TRY(read_validation(c, a));
    const char *taken[] = {a->bytes.out, a->bytes.val_out};
    for (size_t i = 0; a->statistics && i < 2; i++)
        if (taken[i] && !strcmp(a->statistics, taken[i]))
            return plim_fail(c, PLIM_E_USAGE, "--statistics and the samples cannot share the file %s",
                             a->statistics);
    for (int64_t i = 0; a->statistics && i < a->bytes.input_count; i++)
        if (!strcmp(a->statistics, a->inputs[i]))
            return plim_fail(c, PLIM_E_USAGE, "--statistics would replace the input %s", a->statistics);
    return PLIM_OK;
}

static plim_status read_arguments(plim_cli *cli, int argc, char **argv, ask *a, int *code)
{
    plim_ctx *c = cli->ctx;
    plim_cli_walk walk = {.command = &plim_command_data, .cli = cli, .argc = argc, .argv = argv};
    const char *value = NULL;
    for (int option; (option = plim_cli_next(&walk, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP || option == PLIM_ARG_WRONG) {
            *code = option == PLIM_ARG_HELP ? PLIM_EXIT_DONE : PLIM_EXIT_USAGE;
            return PLIM_OK;
        }
        if (option >= 0) TRY(read_option(c, option, value, a));
        else a->inputs[a->bytes.input_count++] = value;
    }
    a->bytes.inputs = a->inputs;
    return check_ask(c, a);
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

static plim_status print_table(plim_cli *cli, const ask *a, const plim_bytes_result *r)
{
    static const char *const heads[] = {"", "documents", "tokens", "trained on", "longest", "file"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    plim_grid g;
    plim_log out;
    plim_log_open(&out, stdout, PLIM_LOG_INFO); /* for its verdict on colour */
    plim_grid_open(&g, cli->ctx, COLUMNS);
    g.left[0] = g.left[COLUMNS - 1] = true;
    for (int i = 0; i < COLUMNS; i++) plim_grid_cell(&g, PLIM_SHADE_DIM, "%s", heads[i]);
    add_row(&g, "training", &r->train, a->bytes.out);
    if (a->bytes.val_out) add_row(&g, "validation", &r->validation, a->bytes.val_out);
    plim_status st = g.status;
    if (!st) plim_grid_print(&g, stdout, out.colour);
    plim_grid_close(&g);
    return st;
}

static void tell(plim_cli *cli, int64_t count, const char *one, const char *many)
{
    char text[PLIM_NUMBER_BYTES];
    if (count)
        plim_log_write(&cli->log, PLIM_LOG_INFO, "%s %s", plim_format_thousands(text, count),
                       count == 1 ? one : many);
}

static void tell_all(plim_cli *cli, const ask *a, const plim_bytes_result *r)
{
    if (a->bytes.over == PLIM_OVER_SPLIT)
        tell(cli, r->cut, "document was longer and was split", "documents were longer and were split");
    else
        tell(cli, r->cut, "document was longer and lost its end",
             "documents were longer and lost their ends");
    tell(cli, r->dropped, "document was longer and was dropped", "documents were longer and were dropped");
    tell(cli, r->alone, "document of a single token was left out: there is nothing to predict in it",
         "documents of a single token were left out: there is nothing to predict in them");
}

/* Writes value as text to path, or to standard output; takes value. */
static plim_status put_json(plim_ctx *c, json_t *value, const char *path)
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

static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *path_text(const char *path)
{
    json_t *text = json_string(path);
    return text ? text : json_null(); /* not UTF-8 */
}

static plim_status print_json(plim_ctx *c, const ask *a, const plim_bytes_result *r)
{
    json_t *all = NULL, *validation = NULL;
    TRY(plim_samples_statistics_json(c, &r->train, &all));
    plim_status st =
        a->bytes.val_out ? plim_samples_statistics_json(c, &r->validation, &validation) : PLIM_OK;
    bool good = !st && set(all, "file", path_text(a->bytes.out)) &&
                set(all, "documents_read", json_integer((json_int_t)r->documents)) &&
                set(all, "documents_cut", json_integer((json_int_t)r->cut)) &&
                set(all, "documents_dropped", json_integer((json_int_t)r->dropped)) &&
                set(all, "documents_of_one_token", json_integer((json_int_t)r->alone)) &&
                set(all, "text_bytes", json_integer((json_int_t)r->text_bytes));
    if (good && validation) {
        good = set(validation, "file", path_text(a->bytes.val_out)) &&
               set(all, "validation", json_incref(validation));
    }
    json_decref(validation);
    if (good) return put_json(c, all, NULL);
    json_decref(all);
    return st ? st : plim_fail_alloc(c, 1, "statistics");
}

typedef struct shown {
    plim_log *log;
    plim_progress progress;
    const char *writing; /* what the progress is of */
} shown;

static void show(void *user, const char *writing, uint64_t done_bytes, uint64_t total_bytes)
{
    shown *s = user;
    if (writing != s->writing) {
        plim_progress_close(&s->progress);
        plim_progress_open(&s->progress, s->log, plim_clock_monotonic(), "writing samples", "MiB", 0, 0);
        s->writing = writing;
    }
    s->progress.total = (int64_t)(total_bytes >> 20);
    plim_progress_update(&s->progress, (int64_t)(done_bytes >> 20));
}

static plim_status report(plim_cli *cli, const ask *a, const plim_bytes_result *r)
{
    plim_ctx *c = cli->ctx;
    json_t *statistics = NULL;
    tell_all(cli, a, r);
    if (a->statistics) {
        TRY(plim_samples_statistics_json(c, &r->train, &statistics));
        TRY(put_json(c, statistics, a->statistics));
    }
    return a->json ? print_json(c, a, r) : print_table(cli, a, r);
}

static plim_status data(plim_cli *cli, int argc, char **argv, ask *a, int *code)
{
    plim_bytes_result r = {0};
    shown s = {.log = &cli->log};
    *code = -1;
    TRY(plim_run_ranged(cli, read_arguments(cli, argc, argv, a, code), code));
    if (*code >= 0) return PLIM_OK;
    *code = PLIM_EXIT_DONE;
    plim_progress_open(&s.progress, s.log, plim_clock_monotonic(), "reading texts", "MiB", 0, 0);
    a->bytes.progress = show;
    a->bytes.progress_user = &s;
    plim_status st = plim_bytes_write(cli->ctx, &a->bytes, &r);
    plim_progress_close(&s.progress);
    return st ? st : report(cli, a, &r);
}

static int run(plim_cli *cli, int argc, char **argv)
{
    ask a = {0};
    int code = PLIM_EXIT_DONE;
    plim_status st = plim_alloc(cli->ctx, (size_t)argc + 1, sizeof *a.inputs, "names of inputs", &a.inputs);
    if (!st) st = data(cli, argc, argv, &a, &code);
    plim_release(cli->ctx, a.inputs);
    return st ? plim_cli_failed(cli, st) : code;
}

const plim_cli_command plim_command_data = {
    "data",
    "TEXT... --tokenizer bytes --out FILE [options]",
    "texts to tokens that plimsoll train reads, with statistics for plimsoll plan\n\n"
    "TEXT is a UTF-8 file of any size; it is read in a window, never whole. A byte-order mark and the\n"
    "carriage return of CRLF are left out; other bytes stay as they are. What is not UTF-8, or holds NUL,\n"
    "is refused with line and byte. All tokens are trained on but a document's first.",
    options,
    "  plimsoll data docs/*.md --tokenizer bytes --out docs.safetensors --max-tokens 512 --val-share 0.1\n"
    "  plimsoll data book.txt --tokenizer bytes --out book.safetensors --documents paragraphs\n"
    "  plimsoll data log.txt --tokenizer bytes --out log.safetensors --documents lines --max-tokens 4k "
    "--over "
    "drop\n"
    "  plimsoll data book.txt --tokenizer bytes --out book.safetensors --statistics book.json\n"
    "  plimsoll plan config.json --tokens book.json       hours and USD of a pass over it\n",
    run,
};
