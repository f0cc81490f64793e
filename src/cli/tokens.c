/* tokens.c - `plimsoll tokens`: a text as token ids, or ids as the text, by a tokenizer.json. */
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "text/tokenizer.h"

typedef struct tokens_ask {
    const char *tokenizer;
    bool decode, offsets, special, skip_special;
} tokens_ask;

static const plim_cli_option options[] = {
    {"tokenizer", "FILE", "the model's tokenizer.json (needed)"},
    {"offsets", NULL, "[id, begin, end] for each token: the bytes of the text it came from"},
    {"special", NULL, "with what the tokenizer puts before and after a text"},
    {"decode", NULL, "the other way: a JSON array of ids to text"},
    {"skip-special", NULL, "with --decode: leave special tokens out"},
    {NULL, NULL, NULL},
};

/* All of standard input, a zero behind it. */
static plim_status read_input(plim_ctx *c, char **text, size_t *bytes)
{
    size_t cap = 0, n = 0;
    do {
        *bytes += n;
        TRY(plim_grow(c, text, &cap, *bytes + 65537, 1, "standard input"));
        n = fread(*text + *bytes, 1, cap - 1 - *bytes, stdin);
    } while (n);
    if (ferror(stdin)) return plim_fail(c, PLIM_E_IO, "standard input could not be read");
    (*text)[*bytes] = 0;
    return PLIM_OK;
}

static plim_status encode(plim_ctx *c, plim_tokenizer_scratch *s, const tokens_ask *ask, const char *text,
                          size_t bytes)
{
    plim_tokens k = {.ctx = c};
    plim_encode_options how = {.offsets = ask->offsets, .special = ask->special};
    plim_status st = plim_tokenizer_encode(s, text, bytes, how, &k);
    if (!st) fputc('[', stdout);
    for (size_t i = 0; !st && i < k.count; i++) {
        const char *comma = i ? "," : "";
        if (ask->offsets) printf("%s[%d,%zu,%zu]", comma, (int)k.ids[i], k.ranges[i].begin, k.ranges[i].end);
        else printf("%s%d", comma, (int)k.ids[i]);
    }
    if (!st) fputs("]\n", stdout);
    plim_tokens_close(&k);
    return st;
}

static plim_status read_ids(plim_ctx *c, const plim_json *j, int32_t **ids)
{
    int64_t id;
    if (!json_is_array(j->root))
        return plim_json_fail(j, "", PLIM_E_FORMAT, "ids are a JSON array of numbers");
    TRY(plim_alloc(c, json_array_size(j->root) + 1, sizeof **ids, "token ids", ids));
    for (size_t i = 0; i < json_array_size(j->root); i++) {
        TRY(plim_json_at_i64(j, j->root, "", i, 0, INT32_MAX, &id));
        (*ids)[i] = (int32_t)id;
    }
    return PLIM_OK;
}

static plim_status decode(plim_ctx *c, plim_tokenizer_scratch *s, const tokens_ask *ask, const char *text,
                          size_t bytes)
{
    plim_json j = {0};
    int32_t *ids = NULL;
    char *decoded = NULL;
    size_t decoded_bytes = 0;
    TRY(plim_json_parse(c, "standard input", text, bytes, PLIM_JSON_CAP_BYTES, &j));
    plim_status st = read_ids(c, &j, &ids);
    if (!st)
        st = plim_tokenizer_decode(s, ids, json_array_size(j.root), ask->skip_special, &decoded,
                                   &decoded_bytes);
    if (!st) fwrite(decoded, 1, decoded_bytes, stdout);
    plim_release(c, decoded);
    plim_release(c, ids);
    plim_json_close(&j);
    return st;
}

static plim_status work(plim_ctx *c, const tokens_ask *ask)
{
    plim_tokenizer *t = NULL;
    plim_tokenizer_scratch *s = NULL;
    char *text = NULL;
    size_t bytes = 0;
    plim_status st = plim_tokenizer_load(c, ask->tokenizer, &t);
    if (!st) st = plim_tokenizer_scratch_open(c, t, &s);
    if (!st) st = read_input(c, &text, &bytes);
    if (!st) st = ask->decode ? decode(c, s, ask, text, bytes) : encode(c, s, ask, text, bytes);
    plim_release(c, text);
    plim_tokenizer_scratch_close(s);
    plim_tokenizer_close(t);
    return st;
}

static plim_status check(plim_ctx *c, const tokens_ask *ask)
{
    if (!ask->tokenizer)
        return plim_fail(c, PLIM_E_USAGE, "--tokenizer FILE is missing; give the model's tokenizer.json");
    if (ask->decode && (ask->offsets || ask->special))
        return plim_fail(c, PLIM_E_USAGE, "--decode goes with --skip-special alone");
    if (!ask->decode && ask->skip_special)
        return plim_fail(c, PLIM_E_USAGE, "--skip-special goes with --decode");
    return PLIM_OK;
}

static int run(plim_cli *cli, int argc, char **argv)
{
    tokens_ask ask = {0};
    bool *const switches[] = {NULL, &ask.offsets, &ask.special, &ask.decode, &ask.skip_special};
    plim_cli_walk w = {.command = &plim_command_tokens, .cli = cli, .argc = argc, .argv = argv};
    const char *value = NULL;
    for (int option; (option = plim_cli_next(&w, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP) return PLIM_EXIT_DONE;
        if (option == PLIM_ARG_WRONG) return PLIM_EXIT_USAGE;
        if (option == PLIM_ARG_OPERAND)
            return plim_cli_failed(
                cli, plim_fail(cli->ctx, PLIM_E_USAGE, "'%s': the text comes from standard input", value));
        if (option == 0) ask.tokenizer = value;
        else *switches[option] = true;
    }
    plim_status st = check(cli->ctx, &ask);
    if (!st) st = work(cli->ctx, &ask);
    return st ? plim_cli_failed(cli, st) : PLIM_EXIT_DONE;
}

const plim_cli_command plim_command_tokens = {
    "tokens",
    "--tokenizer FILE [options]",
    "text on standard input to token ids, or back\n\n"
    "The ids are a JSON array on standard output; no special token is added unless --special asks for it.",
    options,
    "  plimsoll tokens --tokenizer model/tokenizer.json < text.txt\n"
    "  echo '[9707, 1879]' | plimsoll tokens --tokenizer model/tokenizer.json --decode\n",
    run,
};
