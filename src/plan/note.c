/* note.c - the arithmetic of the reference memory note: what fits, how long it takes, what it costs.
 * The note rounds the model to 0.1 B parameters and LoRA to 1 M before it multiplies, and reads a card's
 * nominal GB as GiB; so does this. */
#include <math.h>
#include <stdio.h>

#include "plan/formula.h"

#define WEIGHTS_STEP    1e8 /* parameters: 0.1 B */
#define LORA_STEP       1e6 /* parameters */
#define LORA_BYTES      10.0
#define RECOMPUTE_GIB   3.0
#define CHUNKED_GIB     3.0
#define LOGITS_BYTES    6.0
#define RECOMPUTE_BYTES (2.0 * 4.0)

static double rounded(double x, double step)
{
    return round(x / step) * step;
}

/* The note counts q_proj without the gate that shares it. */
static double lora_parameters(const plim_spec *s, int64_t rank)
{
    int64_t all = plim_lora_parameters(s, rank, PLIM_TARGETS_DEFAULT);
    int64_t gate = rank * s->heads * s->head_dim * plim_spec_layers_of(s, PLIM_LAYER_ATTENTION);
    return (double)(s->attention_gate ? all - gate : all);
}

void plim_note_row(const plim_spec *s, int64_t rank, int64_t seq_tokens, bool host_checkpoints,
                   bool full_logits, plim_formula_row *out)
{
    plim_formula_row row = {0};
    plim_counts n = plim_spec_counts(s);
    double all = (double)n.parameters + (double)n.vision_parameters + (double)n.mtp_parameters;
    double lora = lora_parameters(s, rank), tokens = (double)seq_tokens;
    plim_formula_checkpoints(s, seq_tokens, host_checkpoints, full_logits, &row);
    row.weights_gib = rounded(all, WEIGHTS_STEP) * 2.0 / PLIM_GIB;
    row.lora_gib = rounded(lora, LORA_STEP) * LORA_BYTES / PLIM_GIB;
    row.recompute_gib = tokens * (double)s->mlp * RECOMPUTE_BYTES / PLIM_GIB + RECOMPUTE_GIB;
    row.loss_gib = full_logits ? tokens * (double)s->vocab * LOGITS_BYTES / PLIM_GIB : CHUNKED_GIB;
    plim_formula_sum(&row);
    *out = row;
}

plim_verdict plim_note_verdict(const plim_formula_row *row, const plim_card *card)
{
    return plim_formula_verdict(row->peak_gib, card->nominal_gb);
}

bool plim_note_cost_of(const plim_card *card, double tokens, plim_note_cost *out)
{
    if (!(card->note_tokens_per_s > 0)) return false;
    out->hours = tokens / card->note_tokens_per_s / 3600.0;
    out->usd = out->hours * card->usd_per_h;
    return true;
}

void plim_note_hours_text(double hours, char text[24])
{
    snprintf(text, 24, "%.*f", hours < 4.95 ? 1 : 0, hours); /* 4.95 would print as "5.0" */
}

void plim_note_usd_text(double usd, char text[24])
{
    snprintf(text, 24, "%.0f", usd);
}
