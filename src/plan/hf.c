/* hf.c - memory of a trainer on transformers and PEFT: a closed form fitted to six measured runs.
 * 629,000 B a token is about 18 bf16 tensors of MLP width 17,408: what autograd holds while one layer is
 * recomputed. */
#include "plan/formula.h"

#define LORA_BYTES   16.0 /* fp32 weight and gradient, two Adam moments */
#define LAYER_BYTES  629000.0
#define LAYER_WIDTH  17408.0
#define LOGITS_BYTES 8.9 /* bf16 logits, their fp32 copy and part of its gradient */

void plim_hf_row(const plim_spec *s, int64_t rank, int64_t seq_tokens, bool host_checkpoints,
                 bool full_logits, plim_formula_row *out)
{
    plim_formula_row row = {0};
    double tokens = (double)seq_tokens;
    plim_formula_checkpoints(s, seq_tokens, host_checkpoints, full_logits, &row);
    row.weights_gib = (double)plim_spec_counts(s).parameters * 2.0 / PLIM_GIB;
    row.lora_gib = (double)plim_lora_parameters(s, rank, PLIM_TARGETS_DEFAULT) * LORA_BYTES / PLIM_GIB;
    row.recompute_gib = tokens * LAYER_BYTES * (double)s->mlp / LAYER_WIDTH / PLIM_GIB;
    row.loss_gib = full_logits ? tokens * (double)s->vocab * LOGITS_BYTES / PLIM_GIB : 0.0;
    plim_formula_sum(&row);
    *out = row;
}

plim_verdict plim_hf_verdict(const plim_formula_row *row, const plim_card *card)
{
    double capacity = (double)card->memory_bytes * (double)card->cards;
    return plim_formula_verdict(row->peak_gib * PLIM_GIB, capacity);
}
