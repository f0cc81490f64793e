/* data.c - `plimsoll data`: texts or rows to a samples file, and what is in it. */
#include "cli/data.h"

#include <string.h>

#define OPTIONS(X)                                                                                           \
    X(MODEL, "model", "DIR",                                                                                 \
      "rows: the model whose tokenizer.json, chat_template.jinja\nand tokenizer_config.json count")          \
    X(TOKENIZER, "tokenizer", "NAME", "bytes: one token a byte, ids 0 to 255; or a tokenizer.json")          \
    X(TEMPLATE, "template", "FILE", "rows: another chat template")                                           \
    X(OUT, "out", "FILE", "samples file to write; an old one is replaced (needed)")                          \
    X(TURNS, "turns", "WHICH", "rows: train on all assistant messages (default), last, or whole")            \
    X(DOCUMENTS, "documents", "WHAT",                                                                        \
      "texts: files (default), lines or paragraphs: what a document\nis; blank lines and paragraphs are "    \
      "none")                                                                                                \
    X(NO_END, "no-end", NULL, "leave out the token that ends a text")                                        \
    X(MAX_TOKENS, "max-tokens", "N",                                                                         \
      "longest document or row in tokens (512, 48k); rows: or the\nfile a memory test left; without it, no " \
      "limit")                                                                                               \
    X(OVER, "over", "HOW",                                                                                   \
      "what becomes of a longer one. Texts: split (default), drop,\ntruncate or error; the last token of a " \
      "piece opens the\nnext one, so none is lost to training. Rows: drop\n(default), truncate or error")    \
    X(MAX_BAD, "max-bad", "N", "rows: write nothing when more than N cannot be used (0)")                    \
    X(LEFT_OUT, "left-out", "FILE", "rows: write which were left out, where and why, as JSONL")              \
    X(VAL_SHARE, "val-share", "SHARE",                                                                       \
      "share of documents, of pieces or of rows, kept for\nvalidation (0.1); what they say decides, so "     \
      "equal "                                                                                               \
      "ones go\ntogether")                                                                                   \
    X(VAL_FILE, "val-file", "FILE", "rows: a file for validation; may be given again")                       \
    X(VAL_OUT, "val-out", "FILE", "where they go (OUT.val.safetensors)")                                     \
    X(SEED, "seed", "N", "another choice of them (0)")                                                       \
    X(THREADS, "threads", "N", "rows: threads; default: all cores.  The result does not depend on it")       \
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

typedef struct words {
    plim_data_ask ask;
    const char **val_files; /* of argc places */
} words;

static void read_option(int option, const char *value, words *w)
{
    plim_data_ask *a = &w->ask;
    switch (option) {
    case OPTION_MODEL: a->model = value; return;
    case OPTION_TOKENIZER: a->tokenizer = value; return;
    case OPTION_TEMPLATE: a->chat_template = value; return;
    case OPTION_OUT: a->out = value; return;
    case OPTION_TURNS: a->turns = value; return;
    case OPTION_DOCUMENTS: a->documents = value; return;
    case OPTION_NO_END: a->no_end = true; return;
    case OPTION_MAX_TOKENS: a->max_tokens = value; return;
    case OPTION_OVER: a->over = value; return;
    case OPTION_MAX_BAD: a->max_bad = value; return;
    case OPTION_LEFT_OUT: a->left_out = value; return;
    case OPTION_VAL_SHARE: a->val_share = value; return;
    case OPTION_VAL_FILE: w->val_files[a->val_file_count++] = value; return;
    case OPTION_VAL_OUT: a->val_out = value; return;
    case OPTION_SEED: a->seed = value; return;
    case OPTION_THREADS: a->threads = value; return;
    case OPTION_STATISTICS: a->statistics = value; return;
    default: a->json = true;
    }
}

static bool is_bytes(const plim_data_ask *a)
{
    return a->tokenizer && !strcmp(a->tokenizer, "bytes");
}

static plim_status check_words(plim_ctx *c, const plim_data_ask *a)
{
    if (!a->input_count)
        return plim_fail(c, PLIM_E_USAGE, "plimsoll data wants texts to read: plimsoll data docs/*.md ...");
    if (!a->tokenizer && !a->model)
        return plim_fail(
            c, PLIM_E_USAGE,
            "plimsoll data wants --tokenizer bytes, one token a byte, for texts, or --model DIR for rows");
    if (a->tokenizer && !is_bytes(a) && !plim_path_is_file(a->tokenizer))
        return plim_fail(c, PLIM_E_USAGE,
                         "--tokenizer %.80s is no file; bytes would work, or a tokenizer.json", a->tokenizer);
    if (!a->out) return plim_fail(c, PLIM_E_USAGE, "plimsoll data wants --out FILE, the file to write");
    if (a->over && !a->max_tokens)
        return plim_fail(c, PLIM_E_USAGE, "--over does nothing without --max-tokens");
    return PLIM_OK;
}

static plim_status read_arguments(plim_cli *cli, int argc, char **argv, words *w, int *code)
{
    plim_data_ask *a = &w->ask;
    plim_cli_walk walk = {.command = &plim_command_data, .cli = cli, .argc = argc, .argv = argv};
    const char *value = NULL;
    for (int option; (option = plim_cli_next(&walk, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP || option == PLIM_ARG_WRONG) {
            *code = option == PLIM_ARG_HELP ? PLIM_EXIT_DONE : PLIM_EXIT_USAGE;
            return PLIM_OK;
        }
        if (option >= 0) read_option(option, value, w);
        else a->inputs[a->input_count++] = value;
    }
    for (int64_t i = 0; i < a->val_file_count; i++) a->inputs[a->input_count + i] = w->val_files[i];
    return check_words(cli->ctx, a);
}

static plim_status data(plim_cli *cli, int argc, char **argv, words *w, int *code)
{
    *code = -1;
    TRY(read_arguments(cli, argc, argv, w, code));
    if (*code >= 0) return PLIM_OK;
    *code = PLIM_EXIT_DONE;
    return is_bytes(&w->ask) ? plim_data_bytes(cli, &w->ask, code) : plim_data_rows(cli, &w->ask, code);
}

static int run(plim_cli *cli, int argc, char **argv)
{
    words w = {0};
    int code = PLIM_EXIT_DONE;
    size_t places = (size_t)argc + 1;
    plim_status st = plim_alloc(cli->ctx, places, sizeof *w.ask.inputs, "names of inputs", &w.ask.inputs);
    if (!st) st = plim_alloc(cli->ctx, places, sizeof *w.val_files, "names of inputs", &w.val_files);
    if (!st) st = data(cli, argc, argv, &w, &code);
    plim_release(cli->ctx, w.val_files);
    plim_release(cli->ctx, w.ask.inputs);
    return st ? plim_cli_failed(cli, st) : code;
}

const plim_cli_command plim_command_data = {
    "data",
    "TEXT... --tokenizer bytes --out FILE [options]\n       plimsoll data ROWS... --model DIR --out FILE "
    "[options]",
    "texts or rows to tokens that plimsoll train reads, with statistics for plimsoll plan\n\n"
    "TEXT is a UTF-8 file of any size; it is read in a window, never whole. A byte-order mark and the\n"
    "carriage return of CRLF are left out; other bytes stay as they are. What is not UTF-8, or holds NUL,\n"
    "is refused with line and byte. All tokens are trained on but a document's first.\n\n"
    "ROWS is JSONL, or a JSON array of rows, perhaps packed (gzip, Zstandard). A row has messages, prompt\n"
    "and completion, text, or ShareGPT's conversations; docs/data.md says what each means. Rows that cannot\n"
    "be used are listed with line and byte, and without --max-bad nothing is written.",
    options,
    "  plimsoll data chats.jsonl.zst --model DIR --out chats.safetensors --max-tokens 48k\n"
    "  plimsoll data chats.jsonl --model DIR --out chats.safetensors --max-bad 10 --left-out left-out.jsonl\n"
    "  plimsoll data docs/*.md --tokenizer bytes --out docs.safetensors --max-tokens 512 --val-share 0.1\n"
    "  plimsoll data book.txt --tokenizer bytes --out book.safetensors --documents paragraphs\n"
    "  plimsoll data log.txt --tokenizer bytes --out log.safetensors --documents lines --max-tokens 4k "
    "--over "
    "drop\n"
    "  plimsoll data book.txt --tokenizer bytes --out book.safetensors --statistics book.json\n"
    "  plimsoll plan config.json --tokens book.json       hours and USD of a pass over it\n",
    run,
};
