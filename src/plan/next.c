/* next.c - decides the step to take after reading the table: the memory test on the cheapest card that should
 * carry the longest asked length; one card before several; or, when nothing carries it, the nearest change
 * that would. */
#include "plan/command.h"
#include "plan/table.h"

#include "base/context.h"
#include "base/units.h"

#define STEP_TOKENS 1000
#define MOST_TOKENS 1048000

typedef struct asker {
    plim_ctx *ctx;
    plim_planner *planner;
    plim_table *table;
    const plim_cards *fallback;
} asker;

#define SAY(...) plim_say(next->text, sizeof next->text, __VA_ARGS__)

/* Whether the first is the better card to prove a length on. */
static bool cheaper(const plim_choice *a, const plim_choice *b)
{
    return a->usd_per_million_tokens < b->usd_per_million_tokens;
}

/* The cheapest fitting choice at length s, one that can be run before one that cannot, among one-card
 * (several: any) entries; NULL if none. */
static const plim_choice *cheapest(const plim_table *t, int64_t s, bool several)
{
    const plim_choice *found = NULL;
    bool found_runs = false;
    for (int64_t k = 0; k < t->request.card_count; k++) {
        const plim_choice *c = &t->best[s * t->request.card_count + k];
        const char *missing;
        bool runs = plim_card_runnable(t->request.spec, c->card, &missing);
        if (c->verdict != PLIM_FITS || (c->card->cards > 1 && !several) || (found_runs && !runs)) continue;
        if (found && found_runs == runs && !cheaper(c, found)) continue;
        found = c;
        found_runs = runs;
    }
    return found;
}

static void memtest_command(const plim_table *t, const plim_card *card, int64_t most_tokens,
                            const plim_options *o, uint32_t pinned, plim_next *next)
{
    plim_memtest_ask ask = {card, most_tokens, o->loss_rows == PLIM_FULL_LOGITS, pinned};
    plim_memtest_command(t, &ask, next->command, sizeof next->command);
}

static void propose_memtest(plim_table *t, const plim_choice *c)
{
    plim_next *next = &t->next;
    char tokens[PLIM_NUMBER_BYTES], peak[PLIM_NUMBER_BYTES];
    const char *missing;
    next->kind = PLIM_NEXT_MEMTEST;
    next->choice = c;
    SAY("%s is the cheapest card that should carry %s tokens (%s GiB, %.2f USD a million tokens). Prove it "
        "there before "
        "paying for a run.",
        c->card->id, plim_format_count(tokens, c->options.seq_tokens),
        plim_format_bytes_gib(peak, c->footprint.device_peak.total_bytes), c->usd_per_million_tokens);
    if (!plim_card_runnable(t->request.spec, c->card, &missing)) SAY(" (%s)", missing);
    memtest_command(t, c->card, c->options.seq_tokens, &c->options, t->request.limits.pinned, next);
}

/* Several cards carry the length and no single one does: test a single card of the same kind first. */
static plim_status propose_one_card(asker *a, const plim_choice *several)
{
    plim_next *next = &a->table->next;
    const plim_table_request *r = &a->table->request;
    char tokens[PLIM_NUMBER_BYTES];
    const plim_card *single = NULL;
    for (int64_t i = 0; a->fallback && i < a->fallback->count; i++) {
        const plim_card *card = &a->fallback->card[i];
        if (card->cards == 1 && card->memory_bytes == several->card->memory_bytes &&
            card->capability_major == several->card->capability_major)
            single = card;
    }
    next->kind = PLIM_NEXT_ONE_CARD;
    next->choice = several;
    SAY("Only %s carries %s tokens, and a step over several cards is not runnable yet.", several->card->id,
        plim_format_count(tokens, several->options.seq_tokens));
    if (!single) return PLIM_OK;
    int64_t longest;
    TRY(plim_longest(a->planner, single, &r->base, &r->limits, STEP_TOKENS, MOST_TOKENS, &longest));
    if (longest == 0) {
        SAY(" One %s carries no length of this model at all.", single->id);
        return PLIM_OK;
    }
    SAY(" Test one card first: %s should carry up to %s.", single->id, plim_format_count(tokens, longest));
    memtest_command(a->table, single, longest, &r->base, r->limits.pinned, next);
    return PLIM_OK;
}

/* ---- nothing carries it -------------------------------------------------------------------------------- */

typedef struct change {
    const plim_card *card;
    plim_choice choice;
    bool found;
} change;

static plim_status try_cards(asker *a, const plim_options *wanted, const plim_limits *limits, bool beyond,
                             change *out)
{
    const plim_table_request *r = &a->table->request;
    plim_options o = *wanted;
    if (o.documents > o.seq_tokens) o.documents = o.seq_tokens;
    int64_t count = beyond ? (a->fallback ? a->fallback->count : 0) : r->card_count;
    out->found = false;
    for (int64_t i = 0; i < count; i++) {
        plim_choice c;
        const plim_card *card = beyond ? &a->fallback->card[i] : r->cards[i];
        TRY(plim_choose(a->planner, card, &o, limits, &c));
        if (c.verdict != PLIM_FITS || card->cards > 1)
            continue; /* a step over several cards is not runnable */
        if (out->found && !cheaper(&c, &out->choice)) continue;
        *out = (change){card, c, true};
    }
    return PLIM_OK;
}

/* Options the person fixed that may stand in the way, let go one after another. */
static plim_status try_unpinned(asker *a, int64_t tokens)
{
    static const struct {
        uint32_t pins;
        const char *text;
    } releases[] = {
        {PLIM_PIN_CHECKPOINTS, "with layer inputs on the host (--checkpoints host)"},
        {PLIM_PIN_KEPT_LAYERS, "without --keep-layers"},
        {PLIM_PIN_LOSS_ROWS, "with the loss in chunks (--loss chunked)"},
        {PLIM_PIN_CHECKPOINTS | PLIM_PIN_KEPT_LAYERS | PLIM_PIN_LOSS_ROWS | PLIM_PIN_ATTENTION_OUTPUT |
             PLIM_PIN_TILE | PLIM_PIN_EMBEDDING,
         "with --checkpoints, --keep-layers, --loss, --tile and --embedding left to the search"},
    };
    const plim_table_request *r = &a->table->request;
    plim_next *next = &a->table->next;
    char text[PLIM_NUMBER_BYTES];
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        plim_limits limits = r->limits;
        plim_options o = r->base;
        change c;
        if (!(limits.pinned & releases[i].pins)) continue;
        limits.pinned &= ~releases[i].pins;
        o.seq_tokens = tokens;
        if (o.loss_rows == PLIM_FULL_LOGITS && (releases[i].pins & PLIM_PIN_LOSS_ROWS))
            o.loss_rows = plim_options_defaults().loss_rows;
        TRY(try_cards(a, &o, &limits, false, &c));
        if (!c.found) continue;
        SAY(" %s carries it %s, in %s GiB.", c.card->id, releases[i].text,
            plim_format_bytes_gib(text, c.choice.footprint.device_peak.total_bytes));
        if (!next->command[0]) memtest_command(a->table, c.card, tokens, &o, limits.pinned, next);
        return PLIM_OK;
    }
    return PLIM_OK;
}

static plim_status propose_change(asker *a, int64_t tokens)
{
    const plim_table_request *r = &a->table->request;
    plim_next *next = &a->table->next;
    char number[PLIM_NUMBER_BYTES];
    plim_options o = r->base;
    change other;
    o.seq_tokens = tokens;
    next->kind = PLIM_NEXT_CHANGE;
    SAY("No card asked for carries %s tokens.", plim_format_count(number, tokens));
    TRY(try_unpinned(a, tokens));
    TRY(try_cards(a, &o, &r->limits, true, &other));
    if (other.found) {
        SAY(" Another card does: %s at %.2f USD/h.", other.card->id, other.card->usd_per_h);
        if (!next->command[0]) memtest_command(a->table, other.card, tokens, &o, r->limits.pinned, next);
    }
    int64_t longest = 0;
    const plim_card *carrier = NULL;
    for (int64_t k = 0; k < r->card_count; k++) {
        int64_t here;
        TRY(plim_longest(a->planner, r->cards[k], &r->base, &r->limits, STEP_TOKENS, MOST_TOKENS, &here));
        if (here <= longest) continue;
        longest = here;
        carrier = r->cards[k];
    }
    if (carrier) {
        SAY(" The longest that fits is %s tokens, on %s.", plim_format_count(number, longest), carrier->id);
        if (!next->command[0]) memtest_command(a->table, carrier, longest, &o, r->limits.pinned, next);
    } else if (!next->command[0]) {
        SAY(" No length of this model fits: its weights alone are too large for every card asked for.");
    }
    return PLIM_OK;
}

/* ---- note and hf --------------------------------------------------------------------------------------- */

static void formula_next(plim_table *t)
{
    const plim_table_request *r = &t->request;
    plim_next *next = &t->next;
    char tokens[PLIM_NUMBER_BYTES];
    t->all_carried = true;
    for (int64_t s = 0; s < r->seq_count; s++) {
        bool carried = false;
        for (int64_t i = 0; i < PLIM_ROWS_A_LENGTH * r->card_count; i++)
            carried |= t->verdicts[s * PLIM_ROWS_A_LENGTH * r->card_count + i] == PLIM_FITS;
        t->all_carried &= carried;
    }
    for (int64_t s = r->seq_count - 1; s >= 0; s--) {
        const plim_card *found = NULL;
        int row_found = 0;
        for (int64_t k = 0; k < r->card_count; k++)
            for (int row = 0; row < PLIM_ROWS_A_LENGTH; row++)
                if (t->verdicts[(s * PLIM_ROWS_A_LENGTH + row) * r->card_count + k] == PLIM_FITS &&
                    r->cards[k]->cards == 1 && (!found || r->cards[k]->usd_per_h < found->usd_per_h)) {
                    found = r->cards[k];
                    row_found = row;
                }
        if (!found) continue;
        next->kind = PLIM_NEXT_MEMTEST;
        SAY("By this formula %s is the cheapest card that carries %s tokens, layer inputs on the %s, loss "
            "%s. Compare "
            "--trainer plimsoll, then prove it on the card.",
            found->id, plim_format_count(tokens, r->seq_tokens[s]), plim_row_checkpoints(row_found),
            plim_row_loss(row_found));
        plim_options o = r->base;
        if (row_found & 1) o.loss_rows = PLIM_FULL_LOGITS;
        memtest_command(t, found, r->seq_tokens[s], &o, r->limits.pinned, next);
        return;
    }
    next->kind = PLIM_NEXT_CHANGE;
    SAY("By this formula no card asked for carries any of these lengths on its own; compare --trainer "
        "plimsoll, other "
        "cards (--card all) or a shorter --seq.");
}

plim_status plim_table_next(plim_ctx *c, plim_planner *p, const plim_cards *fallback, plim_table *t)
{
    asker a = {c, p, t, fallback};
    int64_t longest = t->request.seq_count - 1;
    if (t->request.trainer != PLIM_TRAINER_PLIMSOLL) {
        formula_next(t);
        return PLIM_OK;
    }
    const plim_choice *one = cheapest(t, longest, false), *several = cheapest(t, longest, true);
    t->focus = (plim_choice){0};
    if (one) {
        propose_memtest(t, one);
        t->focus = *one;
    } else if (several) {
        TRY(propose_one_card(&a, several));
        t->focus = *several;
    } else {
        TRY(propose_change(&a, t->request.seq_tokens[longest]));
        for (int64_t s = longest; s >= 0 && !t->focus.card; s--)
            if (cheapest(t, s, true)) t->focus = *cheapest(t, s, true);
    }
    return PLIM_OK;
}
