/* formula.c - the parts that every closed formula shares. */
#include "plan/formula.h"

#define USABLE 0.92 /* of a card: the rest is context, fragmentation and surprise */

const char *plim_verdict_name(plim_verdict v)
{
    switch (v) {
    case PLIM_FITS: return "fits";
    case PLIM_TIGHT: return "tight";
    case PLIM_NO: return "no";
    }
    return "?";
}

void plim_formula_checkpoints(const plim_spec *s, int64_t seq_tokens, bool host_checkpoints, bool full_logits,
                              plim_formula_row *row)
{
    double gib = (double)seq_tokens * (double)s->hidden * 2.0 * (double)s->layers / PLIM_GIB;
    row->seq_tokens = seq_tokens;
    row->host_checkpoints = host_checkpoints;
    row->full_logits = full_logits;
    row->checkpoints_gib = host_checkpoints ? 0.0 : gib;
    row->host_gib = host_checkpoints ? gib : 0.0;
}

void plim_formula_sum(plim_formula_row *row)
{
    row->peak_gib =
        row->weights_gib + row->lora_gib + row->checkpoints_gib + row->recompute_gib + row->loss_gib;
}

plim_verdict plim_formula_verdict(double peak, double capacity)
{
    if (peak <= USABLE * capacity) return PLIM_FITS;
    return peak <= capacity ? PLIM_TIGHT : PLIM_NO;
}
