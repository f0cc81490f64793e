/* plan_arguments.c - decides what `plimsoll plan` was asked. */
#include "cli/plan.h"

#include <string.h>

#include "base/units.h"
#include "cli/step_options.h"

/* Name, value, help, in the order of --help; OPTION_... numbers follow from it. */
#define PLAN_OPTIONS(X)                                                                                      \
    X(SEQ, "seq", "LIST",                                                                                    \
      "lengths in tokens: 16k,48k (48k = 48,000; 48Ki = 49,152);\nwith it, the options for every card, "     \
      "cheapest first")                                                                                      \
    X(CARD, "card", "LIST",                                                                                  \
      "cards by id or alias, or all: a100-80,h200; alone, the\nlongest length each carries (its load line)") \
    X(TOKENS, "tokens", "N|FILE", "tokens to train on (3.3M), or a statistics file: hours and USD")          \
    X(TRAINER, "trainer", "NAME", "plimsoll (default), note or hf: whose memory to reckon")                  \
    PLIM_LAYOUT_OPTIONS(X)                                                                                   \
    PLIM_LABELLED_OPTION(X)                                                                                  \
    PLIM_DOCUMENTS_OPTION(X)                                                                                 \
    PLIM_LORA_OPTIONS(X)                                                                                     \
    PLIM_ATTENTION_OPTION(X)                                                                                 \
    X(CARD_FILE, "card-file", "FILE", "cards of your own, over those that come with plimsoll")               \
    X(USD, "usd-per-h", "USD", "price of the one card named with --card")                                    \
    X(HOST, "host-budget", "BYTES", "memory of the host (128GiB); default: the card's usual host")           \
    X(USABLE, "usable-share", "SHARE", "share of the card's memory that counts as fitting (0.92)")           \
    X(LAYOUT, "layout", NULL, "list every tensor of the step's memory and stop")                             \
    X(JSON, "json", NULL, "the answer as JSON (docs/plan-json.md)")                                          \
    X(HTML, "html", "FILE", "also write one self-contained page with pictures")

enum {
#define ENUM(id, name, value, help) OPTION_##id,
    PLAN_OPTIONS(ENUM)
#undef ENUM
};

const plim_cli_option plim_plan_options[] = {
#define ROW(id, name, value, help) {name, value, help},
    PLAN_OPTIONS(ROW)
#undef ROW
        {NULL, NULL, NULL},
};

/* Lists and files as they were given; resolved when all options are read. */
typedef struct given {
    const char *seq, *card, *tokens, *card_file, *usd;
    plim_step_ask step;
} given;

static plim_status read_trainer(plim_ctx *c, const char *value, plim_plan_ask *a)
{
    for (int t = 0; t <= PLIM_TRAINER_HF; t++) {
        if (strcmp(value, plim_trainer_name((plim_trainer)t))) continue;
        a->trainer = (plim_trainer)t;
        return PLIM_OK;
    }
    return plim_cli_misread(c, "trainer", value, "plimsoll, note or hf");
}

static plim_status read_option(plim_ctx *c, int option, const char *value, plim_plan_ask *a, given *g)
{
    size_t bytes;
    bool taken;
    switch (option) {
    case OPTION_SEQ: g->seq = value; return PLIM_OK;
    case OPTION_CARD: g->card = value; return PLIM_OK;
    case OPTION_TOKENS: g->tokens = value; return PLIM_OK;
    case OPTION_CARD_FILE: g->card_file = value; return PLIM_OK;
    case OPTION_USD: g->usd = value; return PLIM_OK;
    case OPTION_TRAINER: return read_trainer(c, value, a);
    case OPTION_HOST:
        TRY(plim_parse_bytes(c, "--host-budget", value, &bytes));
        if (bytes < 1) return plim_cli_misread(c, "host-budget", value, "128GiB");
        a->limits.host_bytes = (int64_t)bytes;
        return PLIM_OK;
    case OPTION_USABLE:
        return plim_parse_double(c, "--usable-share", value, 0.01, 1, &a->limits.usable_share);
    case OPTION_LAYOUT: a->layout = true; return PLIM_OK;
    case OPTION_JSON: a->json = true; return PLIM_OK;
    case OPTION_HTML: a->html = value; return PLIM_OK;
    default: return plim_step_option_read(c, plim_plan_options[option].name, value, &g->step, &taken);
    }
}

static plim_status read_lengths(plim_ctx *c, const char *list, plim_plan_ask *a)
{
    static const int64_t usual[] = {16000, 32000, 48000, 64000, 128000};
    a->seq_given = list != NULL;
    if (!list) {
        a->seq_count = sizeof usual / sizeof *usual;
        memcpy(a->seq_tokens, usual, sizeof usual);
        if (a->trainer != PLIM_TRAINER_PLIMSOLL) a->seq_count--; /* the note's own table ends at 64k */
        return PLIM_OK;
    }
    char item[64];
    for (const char *at = list; at;) {
        int64_t tokens, i;
        TRY(plim_next_item(c, "--seq", &at, item, sizeof item));
        TRY(plim_cli_read_count(c, "--seq", item, &tokens));
        for (i = a->seq_count; i > 0 && a->seq_tokens[i - 1] > tokens; i--)
            a->seq_tokens[i] = a->seq_tokens[i - 1];
        if (i > 0 && a->seq_tokens[i - 1] == tokens) {
            memmove(&a->seq_tokens[i], &a->seq_tokens[i + 1],
                    (size_t)(a->seq_count - i) * sizeof *a->seq_tokens);
            continue;
        }
        a->seq_tokens[i] = tokens;
        if (++a->seq_count == PLIM_MAX_LENGTHS)
            return plim_fail(c, PLIM_E_USAGE, "--seq names too many lengths; at most %d",
                             PLIM_MAX_LENGTHS - 1);
    }
    return PLIM_OK;
}

static plim_status read_cards(plim_ctx *c, const given *g, plim_plan_ask *a)
{
    char path[4096];
    if (!plim_cli_share(path, sizeof path, "cards.json"))
        return plim_fail(c, PLIM_E_IO,
                         "share/cards.json was not found; PLIMSOLL_SHARE can name the folder that holds it");
    TRY(plim_cards_load(c, path, &a->cards));
    a->card_file = g->card_file;
    if (g->card_file) {
        plim_cards own = {0}, both = {0};
        TRY(plim_cards_load(c, g->card_file, &own));
        plim_status st = plim_cards_merge(c, &a->cards, &own, &both);
        plim_cards_close(c, &own);
        if (st) return st;
        plim_cards_close(c, &a->cards);
        a->cards = both;
    }
    a->cards_given = g->card != NULL;
    if (!g->card || !strcmp(g->card, "all")) {
        /* The note's own four cards are its table. */
        static const char *const note[] = {"a100-80", "rtx-pro-6000-96", "h200-141", "h200-141-x2"};
        bool few = a->trainer != PLIM_TRAINER_PLIMSOLL && !g->card;
        int64_t count = few ? (int64_t)(sizeof note / sizeof *note) : a->cards.count;
        if (count > PLIM_CLI_MAX_CARDS) count = PLIM_CLI_MAX_CARDS;
        for (int64_t i = 0; i < count; i++) {
            a->chosen[i] = &a->cards.card[i];
            if (few) TRY(plim_cards_find(c, &a->cards, note[i], &a->chosen[i]));
        }
        a->chosen_count = count;
    } else {
        char item[PLIM_CARD_NAME_BYTES];
        for (const char *at = g->card; at;) {
            const plim_card *card;
            bool again = false;
            TRY(plim_next_item(c, "--card", &at, item, sizeof item));
            TRY(plim_cards_find(c, &a->cards, item, &card));
            for (int64_t i = 0; i < a->chosen_count; i++) again |= a->chosen[i] == card;
            if (again) continue;
            if (a->chosen_count == PLIM_CLI_MAX_CARDS)
                return plim_fail(c, PLIM_E_USAGE, "--card names too many cards; at most %d",
                                 PLIM_CLI_MAX_CARDS);
            a->chosen[a->chosen_count++] = card;
        }
    }
    return PLIM_OK;
}

static plim_status read_price(plim_ctx *c, const given *g, plim_plan_ask *a)
{
    if (!g->usd) return PLIM_OK;
    if (a->chosen_count != 1 || !g->card)
        return plim_fail(c, PLIM_E_USAGE, "--usd-per-h prices one card; name it with --card");
    a->priced = *a->chosen[0];
    a->chosen[0] = &a->priced;
    a->priced.source[PLIM_FIGURE_PRICE] = (plim_figure_source){.basis = PLIM_BASIS_GIVEN};
    return plim_parse_double(c, "--usd-per-h", g->usd, 0, 100000, &a->priced.usd_per_h);
}

static plim_status read_tokens(plim_ctx *c, const char *value, plim_plan_ask *a)
{
    int64_t tokens;
    a->workload.labelled_share = -1;
    if (!value) return PLIM_OK;
    if (value[0] < '0' || value[0] > '9') {
        TRY(plim_workload_load(c, value, &a->workload));
        if (a->workload.labelled_share >= 0) a->base.labelled_share = a->workload.labelled_share;
        return PLIM_OK;
    }
    plim_status st = plim_parse_count(c, "--tokens", value, &tokens);
    if (st) return st == PLIM_E_RANGE ? PLIM_E_USAGE : st; /* a mistake of the command line, not of a file */
    if (tokens < 1) return plim_cli_misread(c, "tokens", value, "3.3M, or a statistics file");
    a->workload.tokens = (double)tokens;
    return PLIM_OK;
}

/* A statistics file asks for its own longest sample when no length was named. */
static void add_longest(plim_plan_ask *a)
{
    if (a->seq_given || a->workload.longest_tokens <= 0 || a->seq_count == PLIM_MAX_LENGTHS) return;
    if (a->seq_tokens[a->seq_count - 1] < a->workload.longest_tokens)
        a->seq_tokens[a->seq_count++] = a->workload.longest_tokens;
}

/* A number out of an option's range is a mistake of the command line, not of a file. */
static plim_status ranged(plim_cli *cli, plim_status st, int *code)
{
    if (st != PLIM_E_RANGE) return st;
    plim_cli_failed(cli, st);
    *code = PLIM_EXIT_USAGE;
    return PLIM_OK;
}

plim_status plim_plan_arguments(plim_cli *cli, int argc, char **argv, plim_plan_ask *a, int *code)
{
    plim_ctx *c = cli->ctx;
    plim_cli_walk walk = {.command = &plim_command_plan, .cli = cli, .argc = argc, .argv = argv};
    given g = {.step = plim_step_ask_defaults()};
    const char *value = NULL;
    *a = (plim_plan_ask){.limits = plim_limits_defaults()};
    *code = -1;
    for (int option; (option = plim_cli_next(&walk, &value)) != PLIM_ARG_END;) {
        if (option == PLIM_ARG_HELP || option == PLIM_ARG_WRONG) {
            *code = option == PLIM_ARG_HELP ? PLIM_EXIT_DONE : PLIM_EXIT_USAGE;
            return PLIM_OK;
        }
        if (option == PLIM_ARG_OPERAND) {
            if (a->model)
                return plim_fail(c, PLIM_E_USAGE, "one MODEL at a time: '%s' is one too many after '%s'",
                                 value, a->model);
            a->model = value;
            continue;
        }
        TRY(ranged(cli, read_option(c, option, value, a, &g), code));
        if (*code >= 0) return PLIM_OK;
    }
    if (!a->model)
        return plim_fail(c, PLIM_E_USAGE,
                         "plimsoll plan wants a MODEL: a config.json, or a folder that holds one");
    TRY(plim_step_ask_settle(c, &g.step));
    a->base = g.step.options;
    a->limits.pinned |= g.step.pinned;
    a->full_logits = g.step.full_logits;
    TRY(ranged(cli, read_lengths(c, g.seq, a), code));
    if (*code >= 0) return PLIM_OK;
    TRY(read_cards(c, &g, a));
    TRY(ranged(cli, read_price(c, &g, a), code));
    if (*code >= 0) return PLIM_OK;
    TRY(read_tokens(c, g.tokens, a));
    add_longest(a);
    a->load_line = a->cards_given && !a->seq_given;
    return PLIM_OK;
}
