/* plan_print.c - decides what a person reads first: does it fit, what does it cost, what to do next. */
#include "cli/plan.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define GIB 1073741824.0

static plim_ctx *scratch_context(void)
{
    plim_ctx *c = NULL;
    return plim_ctx_open(NULL, &c) ? NULL : c;
}

static plim_shade shade_of(plim_verdict v)
{
    return v == PLIM_FITS ? PLIM_SHADE_GOOD : v == PLIM_TIGHT ? PLIM_SHADE_WARN : PLIM_SHADE_BAD;
}

static const char *count(char *buf, int64_t n)
{
    return plim_format_count(buf, n);
}

static const char *thousands(char *buf, int64_t n)
{
    return plim_format_thousands(buf, n);
}

/* ---- heading ------------------------------------------------------------------------------------------- */

static void print_model(const plim_plan_ask *ask, const plim_table *t, FILE *to)
{
    const plim_spec *s = &ask->spec;
    char a[PLIM_NUMBER_BYTES], b[PLIM_NUMBER_BYTES], d[PLIM_NUMBER_BYTES];
    long long delta = plim_spec_layers_of(s, PLIM_LAYER_DELTA),
              attention = plim_spec_layers_of(s, PLIM_LAYER_ATTENTION);
    fprintf(to, "model    %s (%s): ", ask->model, s->model_type);
    if (delta)
        fprintf(to, "%lld layers, %lld delta-net + %lld attention", (long long)s->layers, delta, attention);
    else fprintf(to, "%lld attention layers", attention);
    fprintf(to, ", hidden %s, MLP %s, vocabulary %s\n", thousands(a, s->hidden), thousands(b, s->mlp),
            thousands(d, s->vocab));
    fprintf(to, "         %s parameters in %s tensors", thousands(a, t->counts.parameters),
            thousands(b, t->counts.tensors));
    if (t->counts.vision_parameters)
        fprintf(to, "; vision tower %s", thousands(a, t->counts.vision_parameters));
    if (t->counts.mtp_parameters)
        fprintf(to, "%s MTP head %s", t->counts.vision_parameters ? " and" : ";",
                thousands(a, t->counts.mtp_parameters));
    if (t->counts.vision_parameters || t->counts.mtp_parameters)
        fprintf(to, " are in the files and not loaded");
    fprintf(to, "\nadapter  LoRA r%lld, %s parameters", (long long)ask->base.lora_rank,
            thousands(a, t->lora_parameters));
    if (ask->trainer == PLIM_TRAINER_PLIMSOLL)
        fprintf(to, "; %d-bit Adam; %.0f %% of positions labelled", ask->base.adam_bits,
                100 * ask->base.labelled_share);
    fprintf(to, "\n\n");
}

/* ---- fit and cost -------------------------------------------------------------------------------------- */

static void head_lengths(plim_grid *g, const plim_table *t)
{
    char number[PLIM_NUMBER_BYTES];
    for (int64_t s = 0; s < t->request.seq_count; s++)
        plim_grid_cell(g, PLIM_SHADE_DIM, "%s", count(number, t->request.seq_tokens[s]));
}

static const plim_choice *best_of(const plim_table *t, int64_t s, int64_t k)
{
    return &t->best[s * t->request.card_count + k];
}

/* Least GiB a length needs on a card with the row nearest to a person's wish: inputs on the host, the asked
 * loss. */
static double least_gib(const plim_plan_ask *ask, const plim_table *t, int64_t s, int64_t k)
{
    int64_t row = s * PLIM_ROWS_A_LENGTH + (ask->full_logits ? 1 : 0);
    return t->peaks_gib[row * t->request.card_count + k];
}

static void print_fit(const plim_plan_ask *ask, const plim_table *t, plim_ctx *c, FILE *to, bool colour)
{
    const plim_table_request *r = &t->request;
    plim_grid g;
    plim_grid_open(&g, c, (size_t)r->seq_count + 3);
    plim_grid_cell(&g, PLIM_SHADE_DIM, "card");
    plim_grid_cell(&g, PLIM_SHADE_DIM, "USD/h");
    plim_grid_cell(&g, PLIM_SHADE_DIM, "usable");
    head_lengths(&g, t);
    for (int64_t k = 0; k < r->card_count; k++) {
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", r->cards[k]->id);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.2f", r->cards[k]->usd_per_h);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.1f", (double)best_of(t, 0, k)->budget_bytes / GIB);
        for (int64_t s = 0; s < r->seq_count; s++) {
            const plim_choice *b = best_of(t, s, k);
            const char *why = b->shortage == PLIM_SHORT_OF_HOST ? "no (host)" : plim_verdict_name(b->verdict);
            plim_grid_cell(&g, shade_of(b->verdict), "%.1f %s", least_gib(ask, t, s, k), why);
        }
    }
    fprintf(to,
            "Memory: GiB on one card with layer inputs on the host, %s, nothing kept; and whether any "
            "options fit\n",
            ask->full_logits ? "full logits" : "loss in chunks");
    plim_grid_print(&g, to, colour);
    plim_grid_close(&g);
    fprintf(
        to,
        "\nSpeed and price of the fastest options that fit: tokens/s, USD a million tokens (predicted)\n");
    plim_grid_open(&g, c, (size_t)r->seq_count + 1);
    plim_grid_cell(&g, PLIM_SHADE_DIM, "card");
    head_lengths(&g, t);
    for (int64_t k = 0; k < r->card_count; k++) {
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", r->cards[k]->id);
        for (int64_t s = 0; s < r->seq_count; s++) {
            const plim_choice *b = best_of(t, s, k);
            if (b->verdict == PLIM_NO) plim_grid_cell(&g, PLIM_SHADE_DIM, "-");
            else
                plim_grid_cell(&g, PLIM_SHADE_NONE, "%.0f %.2f", b->time.tokens_per_s,
                               b->usd_per_million_tokens);
        }
    }
    plim_grid_print(&g, to, colour);
    plim_grid_close(&g);
}

/* ---- options of one length, cheapest first ------------------------------------------------------------- */

static int by_price(const void *a, const void *b)
{
    const plim_choice *x = *(const plim_choice *const *)a, *y = *(const plim_choice *const *)b;
    if ((x->verdict == PLIM_NO) != (y->verdict == PLIM_NO)) return x->verdict == PLIM_NO ? 1 : -1;
    if (x->verdict == PLIM_NO) return x->card < y->card ? -1 : 1;
    return (x->usd_per_million_tokens > y->usd_per_million_tokens) -
           (x->usd_per_million_tokens < y->usd_per_million_tokens);
}

static void placement(const plim_spec *s, const plim_options *o, char *out, size_t bytes)
{
    if (o->host_checkpoints >= s->layers) snprintf(out, bytes, "host");
    else if (o->host_checkpoints == 0) snprintf(out, bytes, "device");
    else snprintf(out, bytes, "first %lld on host", (long long)o->host_checkpoints);
}

static void option_cells(plim_grid *g, const plim_spec *s, const plim_choice *b)
{
    char where[48], number[PLIM_NUMBER_BYTES];
    const plim_options *o = &b->options;
    placement(s, o, where, sizeof where);
    plim_grid_cell(g, PLIM_SHADE_NONE, "%s", where);
    plim_grid_cell(g, PLIM_SHADE_NONE, "%lld/%lld", (long long)o->kept_layers, (long long)s->layers);
    plim_grid_cell(g, PLIM_SHADE_NONE, "%s", o->keep_attention_output ? "kept" : "-");
    plim_grid_cell(g, PLIM_SHADE_NONE, "%s", plim_format_thousands(number, o->tile_tokens));
    if (o->loss_rows == PLIM_FULL_LOGITS) plim_grid_cell(g, PLIM_SHADE_NONE, "full");
    else plim_grid_cell(g, PLIM_SHADE_NONE, "%s", plim_format_thousands(number, o->loss_rows));
    plim_grid_cell(g, PLIM_SHADE_NONE, "%s", o->embedding_on_host ? "host" : "device");
}

static void print_options(const plim_plan_ask *ask, const plim_table *t, int64_t s, plim_ctx *c, FILE *to,
                          bool colour)
{
    static const char *const heads[] = {"card",        "",
                                        "GiB",         "of",
                                        "host GiB",    "layer inputs",
                                        "kept layers", "attention output",
                                        "tile",        "loss rows",
                                        "embedding",   "s/step",
                                        "tokens/s",    "USD/M"};
    const plim_choice *order[PLIM_CLI_MAX_CARDS];
    char number[PLIM_NUMBER_BYTES];
    plim_grid g;
    for (int64_t k = 0; k < t->request.card_count; k++) order[k] = best_of(t, s, k);
    qsort(order, (size_t)t->request.card_count, sizeof *order, by_price);
    plim_grid_open(&g, c, sizeof heads / sizeof *heads);
    g.left[1] = g.left[5] = true;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        plim_grid_cell(&g, PLIM_SHADE_DIM, "%s", heads[i]);
    for (int64_t k = 0; k < t->request.card_count; k++) {
        const plim_choice *b = order[k];
        const plim_usage *host = &b->footprint.host_peak;
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", b->card->id);
        plim_grid_cell(&g, shade_of(b->verdict), "%s", plim_verdict_name(b->verdict));
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.1f", (double)b->footprint.device_peak.total_bytes / GIB);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.1f", (double)b->budget_bytes / GIB);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.1f", (double)host->total_bytes / GIB);
        option_cells(&g, &ask->spec, b);
        if (b->verdict == PLIM_NO) {
            plim_grid_cell(&g, PLIM_SHADE_BAD, "%s",
                           b->shortage == PLIM_SHORT_OF_HOST ? "host too small" : "too large");
            plim_grid_cell(&g, PLIM_SHADE_NONE, "-");
            plim_grid_cell(&g, PLIM_SHADE_NONE, "-");
            continue;
        }
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.2f", b->time.step_s);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.0f", b->time.tokens_per_s);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.2f", b->usd_per_million_tokens);
    }
    fprintf(to, "%s tokens: the fastest options of every card, cheapest first\n",
            count(number, t->request.seq_tokens[s]));
    plim_grid_print(&g, to, colour);
    plim_grid_close(&g);
}

/* ---- load line, runs, next ----------------------------------------------------------------------------- */

static void line_cell(plim_grid *g, int64_t tokens)
{
    char number[PLIM_NUMBER_BYTES];
    plim_grid_cell(g, tokens ? PLIM_SHADE_NONE : PLIM_SHADE_BAD, "%s",
                   tokens ? count(number, tokens) : "none");
}

static void print_lines(const plim_table *t, plim_ctx *c, FILE *to, bool colour)
{
    static const char *const heads[] = {"card",       "best options",    "host, chunked",
                                        "host, full", "device, chunked", "device, full"};
    plim_grid g;
    plim_grid_open(&g, c, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        plim_grid_cell(&g, PLIM_SHADE_DIM, "%s", heads[i]);
    for (int64_t k = 0; k < t->request.card_count; k++) {
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", t->lines[k].card->id);
        line_cell(&g, t->lines[k].best_tokens);
        for (int row = 0; row < PLIM_ROWS_A_LENGTH; row++) line_cell(&g, t->lines[k].row_tokens[row]);
    }
    fprintf(
        to,
        "Load line: the longest length that fits, by where layer inputs live and how the loss is computed\n");
    plim_grid_print(&g, to, colour);
    plim_grid_close(&g);
    fputc('\n', to);
}

static void print_runs(const plim_table *t, plim_ctx *c, FILE *to, bool colour)
{
    char tokens[PLIM_NUMBER_BYTES], fast[PLIM_NUMBER_BYTES], slow[PLIM_NUMBER_BYTES];
    plim_grid g;
    bool note = t->request.trainer == PLIM_TRAINER_NOTE;
    fprintf(to, "\nA run of %s tokens%s\n", plim_format_count(tokens, (int64_t)t->request.workload.tokens),
            note ? "" : ": from the predicted speed to three quarters of it");
    if (!t->run_count) fprintf(to, "no card asked for carries it\n");
    plim_grid_open(&g, c, 4);
    plim_grid_cell(&g, PLIM_SHADE_DIM, "card");
    plim_grid_cell(&g, PLIM_SHADE_DIM, "%s", note ? "" : "length");
    plim_grid_cell(&g, PLIM_SHADE_DIM, "time");
    plim_grid_cell(&g, PLIM_SHADE_DIM, "USD");
    for (int64_t i = 0; i < t->run_count; i++) {
        const plim_run *run = &t->runs[i];
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", run->card->id);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s",
                       run->seq_tokens ? count(fast, run->seq_tokens)
                       : note          ? ""
                                       : "as given");
        if (note) {
            char hours[24], usd[24];
            plim_note_hours_text(run->hours, hours);
            plim_note_usd_text(run->usd, usd);
            plim_grid_cell(&g, PLIM_SHADE_NONE, "%s h", hours);
            plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", usd);
            continue;
        }
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s to %s", plim_format_duration(fast, run->hours * 3600),
                       plim_format_duration(slow, run->hours_slow * 3600));
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.2f to %.2f", run->usd, run->usd_slow);
    }
    if (t->run_count) plim_grid_print(&g, to, colour);
    plim_grid_close(&g);
}

/* Cards whose verdict rests on what this version lacks, by what it lacks. */
static void print_missing(const plim_table *t, FILE *to)
{
    const plim_table_request *r = &t->request;
    const char *missing, *other;
    bool said[PLIM_CLI_MAX_CARDS] = {false};
    for (int64_t k = 0; k < r->card_count; k++) {
        if (said[k] || plim_card_runnable(r->spec, r->cards[k], &missing)) continue;
        fputc('\n', to);
        for (int64_t j = k; j < r->card_count; j++) {
            if (plim_card_runnable(r->spec, r->cards[j], &other) || strcmp(missing, other)) continue;
            fprintf(to, "%s%s", j == k ? "" : ", ", r->cards[j]->id);
            said[j] = true;
        }
        fprintf(to, ": %s", missing);
    }
    if (said[0])
        fprintf(to, "\nMemory is what the layout takes; speed is a prediction until it is measured.\n");
}

void plim_plan_print(const plim_plan_ask *ask, const plim_table *t, FILE *to, bool colour)
{
    plim_ctx *c = scratch_context();
    if (!c) return;
    print_model(ask, t, to);
    if (t->request.trainer != PLIM_TRAINER_PLIMSOLL) {
        plim_plan_print_rows(t, to, colour);
    } else {
        if (t->lines) print_lines(t, c, to, colour);
        if (!ask->seq_given) print_fit(ask, t, c, to, colour);
        for (int64_t s = 0; ask->seq_given && s < t->request.seq_count; s++) {
            if (s) fputc('\n', to);
            print_options(ask, t, s, c, to, colour);
        }
    }
    if (t->request.workload.tokens > 0 && t->request.trainer != PLIM_TRAINER_HF) print_runs(t, c, to, colour);
    if (t->request.trainer == PLIM_TRAINER_PLIMSOLL) print_missing(t, to);
    fprintf(to, "\nNext: %s\n", t->next.text);
    if (t->next.command[0]) fprintf(to, "  %s\n", t->next.command);
    plim_ctx_close(c);
}
