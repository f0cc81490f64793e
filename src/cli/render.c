/* render.c - `plimsoll render`: what a chat template makes of one row, and what of it is trained on. */
#include "cli/cli.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/terminal.h"
#include "text/chat_template.h"

#define OPTIONS(X)                                                                                           \
    X(TEMPLATE, "template", "FILE", "a chat template, or a tokenizer_config.json that holds one (needed)")   \
    X(ROW, "row", "FILE", "one JSON object: messages, and any variable of the template (needed)")            \
    X(AS_DATA, "as-data", NULL,                                                                              \
      "read the row as training data: null is absent, string arguments are objects")                         \
    X(LABELS, "labels", NULL,                                                                                \
      "show what is trained on: in colour on a terminal, else in \xe2\x9f\xa6 \xe2\x9f\xa7")                 \
    X(TURNS, "turns", "WHICH", "with --labels: all assistant messages (default), last, or whole")            \
    X(JSON, "json", NULL, "the text as JSON; with --labels the spans of bytes")

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

typedef struct ask {
    const char *template_path, *row_path;
    bool as_data, labels, json;
    plim_label_options options;
    bool turns_given;
} ask;

static plim_status read_turns(plim_ctx *c, const char *value, ask *a)
{
    static const char *const words[] = {"all", "last", "whole"};
    static const plim_label_scope scopes[] = {PLIM_LABEL_ASSISTANT, PLIM_LABEL_LAST, PLIM_LABEL_WHOLE};
    a->turns_given = true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) != 0) continue;
        a->options.scope = scopes[i];
        return PLIM_OK;
    }
    return plim_fail(c, PLIM_E_USAGE, "--turns %s is not understood; all, last or whole would work", value);
}

static plim_status read_option(plim_ctx *c, int option, const char *value, ask *a)
{
    switch (option) {
    case OPTION_TEMPLATE: a->template_path = value; return PLIM_OK;
    case OPTION_ROW: a->row_path = value; return PLIM_OK;
    case OPTION_AS_DATA: a->as_data = true; return PLIM_OK;
    case OPTION_LABELS: a->labels = true; return PLIM_OK;
    case OPTION_JSON: a->json = true; return PLIM_OK;
    default: return read_turns(c, value, a);
    }
}

static plim_status read_arguments(plim_cli *cli, int argc, char **argv, ask *a, int *code)
{
    plim_ctx *c = cli->ctx;
    plim_cli_walk walk = {.command = &plim_command_render, .cli = cli, .argc = argc, .argv = argv};
    const char *value = NULL;
    for (int option; (option = plim_cli_next(&walk, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP || option == PLIM_ARG_WRONG) {
            *code = option == PLIM_ARG_HELP ? PLIM_EXIT_DONE : PLIM_EXIT_USAGE;
            return PLIM_OK;
        }
        if (option == PLIM_ARG_OPERAND)
            return plim_fail(c, PLIM_E_USAGE, "'%s' is one too many; files are named by --template and --row",
                             value);
        TRY(read_option(c, option, value, a));
    }
    if (!a->template_path || !a->row_path)
        return plim_fail(c, PLIM_E_USAGE, "plimsoll render wants --%s FILE",
                         a->template_path ? "row" : "template");
    if (a->turns_given && !a->labels)
        return plim_fail(c, PLIM_E_USAGE, "--turns chooses labels; add --labels to see them");
    return PLIM_OK;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static void print_marked(const plim_rendered *r, const plim_labels *l, bool colour)
{
    const char *open = colour ? "\033[32m" : "\xe2\x9f\xa6", *close = colour ? "\033[0m" : "\xe2\x9f\xa7";
    size_t at = 0;
    for (size_t i = 0; i < l->count; i++) {
        fwrite(r->text + at, 1, l->items[i].begin - at, stdout);
        fputs(open, stdout);
        fwrite(r->text + l->items[i].begin, 1, l->items[i].end - l->items[i].begin, stdout);
        fputs(close, stdout);
        at = l->items[i].end;
    }
    fwrite(r->text + at, 1, r->bytes - at, stdout);
}

static plim_status print_object(plim_ctx *c, json_t *object)
{
    if (!object) return plim_fail_alloc(c, sizeof object, "JSON to print");
    bool failed = json_dumpf(object, stdout, JSON_INDENT(1)) != 0;
    json_decref(object);
    putchar('\n');
    return failed ? plim_fail(c, PLIM_E_IO, "standard output could not be written") : PLIM_OK;
}

static plim_status print_spans(plim_ctx *c, const plim_rendered *r, const plim_labels *l)
{
    json_t *spans = json_array();
    for (size_t i = 0; i < l->count; i++) {
        const plim_label *s = &l->items[i];
        json_t *span = json_pack("{s:I, s:I, s:f, s:o}", "begin", (json_int_t)s->begin, "end",
                                 (json_int_t)s->end, "weight", s->weight, "message",
                                 s->message < 0 ? json_null() : json_integer(s->message));
        if (json_array_append_new(spans, span)) {
            json_decref(spans);
            return plim_fail_alloc(c, sizeof span, "spans to print");
        }
    }
    return print_object(c,
                        json_pack("{s:I, s:I, s:I, s:o}", "bytes", (json_int_t)r->bytes, "turns",
                                  (json_int_t)l->turns, "unended", (json_int_t)l->unended, "spans", spans));
}

static plim_status print_labels(plim_cli *cli, const ask *a, const plim_chat_template *t, const json_t *row,
                                const plim_rendered *r)
{
    plim_labels l = {0};
    plim_label_options how = a->options;
    plim_log to;
    how.special = t->special;
    TRY(plim_labels_find(cli->ctx, r, json_object_get(row, "messages"), &t->header, &how, &l));
    plim_status st = PLIM_OK;
    if (a->json) st = print_spans(cli->ctx, r, &l);
    else {
        plim_log_open(&to, stdout, PLIM_LOG_INFO);
        print_marked(r, &l, to.colour);
    }
    if (!l.count) plim_log_write(&cli->log, PLIM_LOG_WARN, "nothing in this row is trained on");
    if (l.unended)
        plim_log_write(&cli->log, PLIM_LOG_WARN,
                       "%zu of %zu turns end without a special token; a model may not learn to stop",
                       l.unended, l.turns);
    plim_labels_close(&l);
    return st;
}

/* ---- the command --------------------------------------------------------------------------------------- */

static plim_status render_row(plim_cli *cli, const ask *a, const plim_chat_template *t, json_t *row)
{
    plim_rendered r = {0};
    if (!json_is_object(row))
        return plim_fail(cli->ctx, PLIM_E_FORMAT, "%s: the row is no JSON object", a->row_path);
    if (a->as_data) TRY(plim_chat_row_normalise(cli->ctx, row));
    TRY(plim_chat_render(cli->ctx, t, row, &r));
    plim_status st = PLIM_OK;
    if (a->labels) st = print_labels(cli, a, t, row, &r);
    else if (a->json) st = print_object(cli->ctx, json_pack("{s:s%}", "text", r.text, r.bytes));
    else fwrite(r.text, 1, r.bytes, stdout);
    plim_rendered_close(&r);
    return st;
}

static plim_status render(plim_cli *cli, int argc, char **argv, int *code)
{
    ask a = {0};
    plim_chat_template t = {0};
    plim_file f = {0};
    plim_json j = {0};
    *code = -1;
    TRY(read_arguments(cli, argc, argv, &a, code));
    if (*code >= 0) return PLIM_OK;
    *code = PLIM_EXIT_DONE;
    plim_status st = plim_chat_template_load(cli->ctx, a.template_path, &t);
    if (!st) st = plim_file_map(cli->ctx, a.row_path, &f);
    if (!st) st = plim_json_parse(cli->ctx, a.row_path, f.data, f.bytes, PLIM_JSON_CAP_BYTES, &j);
    if (!st) st = render_row(cli, &a, &t, j.root);
    plim_json_close(&j);
    plim_file_unmap(&f);
    plim_chat_template_close(&t);
    return st;
}

static int run(plim_cli *cli, int argc, char **argv)
{
    int code = PLIM_EXIT_DONE;
    plim_status st = render(cli, argc, argv, &code);
    return st ? plim_cli_failed(cli, st) : code;
}

const plim_cli_command plim_command_render = {
    "render",
    "--template FILE --row FILE [options]",
    "what a chat template makes of one row, and what of it is trained on\n\n"
    "The row is rendered as transformers would, untouched, and nothing is added to the text.",
    options,
    "  plimsoll render --template chat_template.jinja --row row.json\n"
    "  plimsoll render --template tokenizer_config.json --row row.json --as-data --labels\n",
    run,
};
