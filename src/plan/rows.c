/* rows.c - the rows every trainer shares: each length with layer inputs on the host or the device, loss
 * chunked or over full logits, and nothing else searched. */
#include "plan/table.h"

#include "base/context.h"
#include "plan/formula.h"

plim_options plim_row_options(const plim_options *base, int64_t seq_tokens, int row)
{
    plim_options o = *base;
    o.seq_tokens = seq_tokens;
    if (o.documents > seq_tokens) o.documents = seq_tokens;
    o.host_checkpoints = row < 2 ? PLIM_ALL_LAYERS : 0;
    o.kept_layers = 0;
    o.keep_attention_output = false;
    o.embedding_on_host = false;
    if (row & 1) o.loss_rows = PLIM_FULL_LOGITS;
    else if (o.loss_rows == PLIM_FULL_LOGITS) o.loss_rows = plim_options_defaults().loss_rows;
    return o;
}

static plim_status own_row(plim_planner *p, plim_table *t, plim_table_row *row, int kind,
                           plim_verdict *verdicts, double *peaks_gib)
{
    const plim_table_request *r = &t->request;
    plim_options o = plim_row_options(&r->base, row->seq_tokens, kind);
    for (int64_t k = 0; k < r->card_count; k++) {
        plim_choice c;
        TRY(plim_judge(p, r->cards[k], &o, &r->limits, &c));
        verdicts[k] = c.verdict;
        double peak = peaks_gib[k] = (double)c.footprint.device_peak.total_bytes / PLIM_GIB;
        double host = (double)c.footprint.host_peak.total_bytes / PLIM_GIB;
        if (host > row->host_gib) row->host_gib = host;
        if (peak <= row->peak_gib) continue;
        row->peak_gib = peak;
        for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
            row->component_gib[m] = (double)c.footprint.device_peak.component_bytes[m] / PLIM_GIB;
    }
    return PLIM_OK;
}

static void formula_row(plim_table *t, plim_table_row *row, plim_verdict *verdicts, double *peaks_gib)
{
    const plim_table_request *r = &t->request;
    bool note = r->trainer == PLIM_TRAINER_NOTE;
    (note ? plim_note_row : plim_hf_row)(r->spec, r->base.lora_rank, row->seq_tokens, row->host_checkpoints,
                                         row->full_logits, &row->formula);
    row->peak_gib = row->formula.peak_gib;
    row->host_gib = row->formula.host_gib;
    for (int64_t k = 0; k < r->card_count; k++) {
        verdicts[k] = (note ? plim_note_verdict : plim_hf_verdict)(&row->formula, r->cards[k]);
        peaks_gib[k] = row->peak_gib;
    }
}

plim_status plim_table_rows(plim_planner *p, plim_table *t)
{
    const plim_table_request *r = &t->request;
    for (int64_t i = 0; i < r->seq_count * PLIM_ROWS_A_LENGTH; i++) {
        int kind = (int)(i % PLIM_ROWS_A_LENGTH);
        plim_table_row *row = &t->rows[i];
        row->seq_tokens = r->seq_tokens[i / PLIM_ROWS_A_LENGTH];
        row->host_checkpoints = kind < 2;
        row->full_logits = kind & 1;
        if (r->trainer == PLIM_TRAINER_PLIMSOLL)
            TRY(own_row(p, t, row, kind, &t->verdicts[i * r->card_count], &t->peaks_gib[i * r->card_count]));
        else formula_row(t, row, &t->verdicts[i * r->card_count], &t->peaks_gib[i * r->card_count]);
    }
    return PLIM_OK;
}
