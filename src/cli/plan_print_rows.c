/* plan_print_rows.c - the table of rows that trainers share: every length with layer inputs on the host or
 * the device and the loss in chunks or over full logits. */
#include "cli/plan.h"
#include "cli/terminal.h"

#include "base/units.h"

static void heading(plim_grid *g, const plim_table *t)
{
    static const char *const heads[] = {"tokens", "layer inputs", "loss", "weights", "LoRA",
                                        "inputs", "recompute",    "head", "peak",    "host"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        plim_grid_cell(g, PLIM_SHADE_DIM, "%s", heads[i]);
    for (int64_t k = 0; k < t->request.card_count; k++)
        plim_grid_cell(g, PLIM_SHADE_DIM, "%s", t->request.cards[k]->id);
    g->left[0] = false;
    g->left[1] = g->left[2] = true;
}

void plim_plan_print_rows(const plim_table *t, FILE *to, bool colour)
{
    static const plim_shade shades[] = {PLIM_SHADE_GOOD, PLIM_SHADE_WARN, PLIM_SHADE_BAD};
    const plim_table_request *r = &t->request;
    char number[PLIM_NUMBER_BYTES];
    plim_ctx *c = NULL;
    plim_grid g;
    if (plim_ctx_open(NULL, &c)) return;
    int64_t shown = r->card_count < PLIM_TABLE_MAX_COLUMNS - 10 ? r->card_count : PLIM_TABLE_MAX_COLUMNS - 10;
    plim_grid_open(&g, c, 10 + (size_t)shown);
    heading(&g, t);
    for (int64_t i = 0; i < r->seq_count * PLIM_ROWS_A_LENGTH; i++) {
        const plim_formula_row *f = &t->rows[i].formula;
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", plim_format_count(number, f->seq_tokens));
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", f->host_checkpoints ? "host" : "device");
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%s", f->full_logits ? "full" : "chunked");
        const double parts[] = {f->weights_gib, f->lora_gib, f->checkpoints_gib, f->recompute_gib,
                                f->loss_gib};
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            plim_grid_cell(&g, PLIM_SHADE_NONE, "%.1f", parts[p]);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.0f", f->peak_gib);
        plim_grid_cell(&g, PLIM_SHADE_NONE, "%.1f", f->host_gib);
        for (int64_t k = 0; k < shown; k++) {
            plim_verdict v = t->verdicts[i * r->card_count + k];
            plim_grid_cell(&g, shades[v], "%s", plim_verdict_name(v));
        }
    }
    fprintf(to,
            "By %s: GiB on the device, of which weights, LoRA with its states, layer inputs, recomputation "
            "and head\n",
            r->trainer == PLIM_TRAINER_NOTE ? "the reference note's arithmetic"
                                            : "the closed form of a measured transformers + PEFT trainer");
    plim_grid_print(&g, to, colour);
    plim_grid_close(&g);
    plim_ctx_close(c);
}
