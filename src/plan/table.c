/* table.c - decides nothing by itself: it asks for rows, best options, runs, load lines and the next step in
 * turn. */
#include "plan/table.h"

#include "base/context.h"
#include "plan/footprint.h"

#define LINE_STEP_TOKENS 1000
#define LINE_MOST_TOKENS 1048000

static const char *const trainer_names[] = {"plimsoll", "note", "hf"};

const char *plim_trainer_name(plim_trainer t)
{
    return (unsigned)t < sizeof trainer_names / sizeof *trainer_names ? trainer_names[t] : "?";
}

const char *plim_row_checkpoints(int row)
{
    return row < 2 ? "host" : "device";
}

const char *plim_row_loss(int row)
{
    return row & 1 ? "full" : "chunked";
}

static plim_status find_best(plim_ctx *c, plim_planner *p, plim_table *t)
{
    const plim_table_request *r = &t->request;
    TRY(plim_alloc(c, (size_t)(r->seq_count * r->card_count), sizeof *t->best, "the best options", &t->best));
    t->all_carried = true;
    for (int64_t s = 0; s < r->seq_count; s++) {
        plim_options o = r->base;
        bool carried = false;
        o.seq_tokens = r->seq_tokens[s];
        if (o.documents > o.seq_tokens) o.documents = o.seq_tokens;
        for (int64_t k = 0; k < r->card_count; k++) {
            plim_choice *choice = &t->best[s * r->card_count + k];
            TRY(plim_choose(p, r->cards[k], &o, &r->limits, choice));
            carried |= choice->verdict == PLIM_FITS;
        }
        t->all_carried &= carried;
    }
    return PLIM_OK;
}

static plim_status find_lines(plim_ctx *c, plim_planner *p, plim_table *t)
{
    const plim_table_request *r = &t->request;
    TRY(plim_alloc(c, (size_t)r->card_count, sizeof *t->lines, "the load lines", &t->lines));
    for (int64_t k = 0; k < r->card_count; k++) {
        plim_load_line *l = &t->lines[k];
        l->card = r->cards[k];
        TRY(plim_longest(p, l->card, &r->base, &r->limits, LINE_STEP_TOKENS, LINE_MOST_TOKENS,
                         &l->best_tokens));
        for (int row = 0; row < PLIM_ROWS_A_LENGTH; row++) {
            plim_options o = plim_row_options(&r->base, LINE_STEP_TOKENS, row);
            plim_limits limits = r->limits;
            limits.pinned = (1u << PLIM_PIN_COUNT) - 1;
            if (!(r->limits.pinned & PLIM_PIN_ATTENTION_KERNEL))
                limits.pinned &= ~(unsigned)PLIM_PIN_ATTENTION_KERNEL;
            TRY(plim_longest(p, l->card, &o, &limits, LINE_STEP_TOKENS, LINE_MOST_TOKENS,
                             &l->row_tokens[row]));
        }
    }
    return PLIM_OK;
}

static plim_status find_timeline(plim_ctx *c, plim_table *t)
{
    const plim_spec *s = t->request.spec;
    plim_footprint f;
    if (!t->focus.card) return PLIM_OK;
    TRY(plim_alloc(c, (size_t)(2 * s->layers + 5), sizeof *t->timeline, "the timeline of a step",
                   &t->timeline));
    return plim_footprint_of(c, s, &t->focus.options, t->focus.card->cards, &f, t->timeline,
                             &t->timeline_count);
}

static plim_status make(plim_ctx *c, plim_planner *p, const plim_cards *fallback, plim_table *t)
{
    TRY(plim_table_rows(p, t));
    if (t->request.trainer == PLIM_TRAINER_PLIMSOLL) {
        TRY(find_best(c, p, t));
        if (t->request.load_line) TRY(find_lines(c, p, t));
    }
    TRY(plim_table_runs(c, t));
    TRY(plim_table_next(c, p, fallback, t));
    return find_timeline(c, t);
}

plim_status plim_table_make(plim_ctx *c, const plim_table_request *r, const plim_cards *fallback,
                            plim_table *out)
{
    plim_table t = {.request = *r};
    plim_planner *p = NULL;
    if (r->card_count < 1 || r->seq_count < 1)
        return plim_fail(c, PLIM_E_USAGE, "a plan needs at least one card and one length");
    t.counts = plim_spec_counts(r->spec);
    t.lora_parameters = plim_lora_parameters(r->spec, r->base.lora_rank, r->base.lora_targets);
    size_t rows = (size_t)(r->seq_count * PLIM_ROWS_A_LENGTH);
    plim_status st = plim_alloc(c, rows, sizeof *t.rows, "the fit table", &t.rows);
    if (!st)
        st = plim_alloc(c, rows * (size_t)r->card_count, sizeof *t.verdicts, "the verdicts", &t.verdicts);
    if (!st) st = plim_alloc(c, rows * (size_t)r->card_count, sizeof *t.peaks_gib, "the peaks", &t.peaks_gib);
    if (!st) st = plim_planner_open(c, r->spec, &p);
    if (!st) st = make(c, p, fallback, &t);
    plim_planner_close(p);
    if (st) {
        plim_table_free(c, &t);
        return st;
    }
    *out = t;
    return PLIM_OK;
}

void plim_table_free(plim_ctx *c, plim_table *t)
{
    plim_release(c, t->rows);
    plim_release(c, t->verdicts);
    plim_release(c, t->peaks_gib);
    plim_release(c, t->best);
    plim_release(c, t->runs);
    plim_release(c, t->lines);
    plim_release(c, t->timeline);
    *t = (plim_table){0};
}
