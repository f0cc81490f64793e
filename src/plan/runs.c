/* runs.c - decides what a pass over the data costs on each card: at the asked lengths, or at the data's
 * own. */
#include "plan/table.h"

#include "base/context.h"

static void push(plim_table *t, const plim_card *card, int64_t seq_tokens, double hours, double slow_share)
{
    plim_run *run = &t->runs[t->run_count++];
    *run = (plim_run){card, seq_tokens, t->request.workload.tokens, hours, hours / slow_share, 0, 0};
    run->usd = run->hours * card->usd_per_h;
    run->usd_slow = run->hours_slow * card->usd_per_h;
}

static void note_runs(plim_table *t)
{
    const plim_table_request *r = &t->request;
    for (int64_t k = 0; k < r->card_count; k++) {
        plim_note_cost cost;
        if (plim_note_cost_of(r->cards[k], r->workload.tokens, &cost)) push(t, r->cards[k], 0, cost.hours, 1);
    }
}

/* Seconds a step of this many tokens takes with the choice's options. */
static double step_seconds(const plim_table *t, const plim_choice *choice, int64_t tokens)
{
    plim_step_time time;
    plim_options o = choice->options;
    o.seq_tokens = tokens;
    if (o.documents > tokens) o.documents = tokens;
    plim_step_time_of(t->request.spec, &o, choice->card, &time);
    return time.step_s;
}

/* Every bucket at its own length, with the options that carry the longest of them. */
static double bucket_hours(const plim_table *t, const plim_choice *choice)
{
    const plim_workload *w = &t->request.workload;
    double seconds = 0;
    for (int64_t i = 0; i < w->lengths; i++)
        if (w->bucket_rows[i] > 0)
            seconds += w->bucket_rows[i] * step_seconds(t, choice, w->bucket_tokens[i]);
    return seconds / 3600;
}

/* The shortest asked length that holds the longest sample; -1: none does. */
static int64_t length_for(const plim_table_request *r)
{
    for (int64_t s = 0; s < r->seq_count; s++)
        if (r->seq_tokens[s] >= r->workload.longest_tokens) return s;
    return -1;
}

plim_status plim_table_runs(plim_ctx *c, plim_table *t)
{
    const plim_table_request *r = &t->request;
    if (r->workload.tokens <= 0 || r->trainer == PLIM_TRAINER_HF) return PLIM_OK;
    TRY(plim_alloc(c, (size_t)(r->card_count * r->seq_count), sizeof *t->runs, "the runs", &t->runs));
    if (r->trainer == PLIM_TRAINER_NOTE) {
        note_runs(t);
        return PLIM_OK;
    }
    bool own_lengths = r->workload.lengths > 0;
    int64_t longest = length_for(r);
    if (own_lengths && longest < 0)
        return plim_fail(
            c, PLIM_E_RANGE,
            "the longest sample has %lld tokens, but the longest length asked for is %lld; add one with "
            "--seq",
            (long long)r->workload.longest_tokens, (long long)r->seq_tokens[r->seq_count - 1]);
    for (int64_t s = own_lengths ? longest : 0; s < (own_lengths ? longest + 1 : r->seq_count); s++) {
        for (int64_t k = 0; k < r->card_count; k++) {
            const plim_choice *choice = &t->best[s * r->card_count + k];
            if (choice->verdict == PLIM_NO) continue;
            if (own_lengths) push(t, choice->card, 0, bucket_hours(t, choice), PLIM_SLOW_SHARE);
            else
                push(t, choice->card, r->seq_tokens[s], r->workload.tokens / choice->time.tokens_per_s / 3600,
                     PLIM_SLOW_SHARE);
        }
    }
    return PLIM_OK;
}
