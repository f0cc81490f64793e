/* report.c - what the sections of the page share: cells, orders, words. */
#include "report/report.h"

#include "base/units.h"

int64_t plim_report_least_row(const plim_table *t, int64_t s)
{
    int64_t least = s * PLIM_ROWS_A_LENGTH;
    for (int64_t i = least + 1; i < (s + 1) * PLIM_ROWS_A_LENGTH; i++)
        if (t->rows[i].peak_gib < t->rows[least].peak_gib) least = i;
    return least;
}

static plim_report_cell formula_cell(const plim_table *t, int64_t s, int64_t k)
{
    const plim_card *card = t->request.cards[k];
    int64_t row = plim_report_least_row(t, s);
    bool note = t->request.trainer == PLIM_TRAINER_NOTE;
    double whole = note ? card->nominal_gb : (double)card->memory_bytes * card->cards / PLIM_REPORT_GIB;
    return (plim_report_cell){.verdict = t->verdicts[row * t->request.card_count + k],
                              .peak_gib = t->rows[row].peak_gib,
                              .usable_gib = whole * plim_limits_defaults().usable_share,
                              .whole_gib = whole,
                              .host_gib = t->rows[row].host_gib,
                              .usd = card->usd_per_h};
}

plim_report_cell plim_report_cell_of(const plim_table *t, int64_t s, int64_t k)
{
    if (!t->best) return formula_cell(t, s, k);
    const plim_choice *c = &t->best[s * t->request.card_count + k];
    return (plim_report_cell){.verdict = c->verdict,
                              .shortage = c->shortage,
                              .peak_gib = (double)c->footprint.device_peak.total_bytes / PLIM_REPORT_GIB,
                              .usable_gib = (double)c->budget_bytes / PLIM_REPORT_GIB,
                              .whole_gib = (double)c->card->memory_bytes / PLIM_REPORT_GIB,
                              .host_gib = (double)c->footprint.host_peak.total_bytes / PLIM_REPORT_GIB,
                              .usd = c->usd_per_million_tokens};
}

int64_t plim_report_next_cheapest(const plim_table *t, int64_t s, plim_verdict worst, int64_t after)
{
    int64_t found = -1;
    double last = after < 0 ? 0 : plim_report_cell_of(t, s, after).usd, best = 0;
    for (int64_t k = 0; k < t->request.card_count; k++) {
        plim_report_cell cell = plim_report_cell_of(t, s, k);
        if (cell.verdict > worst) continue;
        if (after >= 0 && (cell.usd < last || (cell.usd == last && k <= after))) continue;
        if (found >= 0 && cell.usd >= best) continue;
        found = k;
        best = cell.usd;
    }
    return found;
}

int64_t plim_report_longest(const plim_table *t, int64_t k, plim_verdict worst)
{
    for (int64_t s = t->request.seq_count - 1; s >= 0; s--)
        if (plim_report_cell_of(t, s, k).verdict <= worst) return s;
    return -1;
}

const char *plim_report_mark(plim_verdict v)
{
    switch (v) {
    case PLIM_FITS: return "\xe2\x9c\x93"; /* check mark */
    case PLIM_TIGHT: return "!";
    case PLIM_NO: return "\xe2\x9c\x95"; /* cross */
    }
    return "?";
}

const char *plim_report_kernel(plim_attention_kernel k)
{
    switch (k) {
    case PLIM_ATTENTION_CPU: return "CPU";
    case PLIM_ATTENTION_CUDNN: return "cuDNN";
    case PLIM_ATTENTION_OWN: return "own";
    }
    return "?";
}

void plim_report_count(plim_report *r, int64_t n)
{
    char text[PLIM_NUMBER_BYTES];
    plim_writer_printf(r->w, "%s", plim_format_count(text, n));
}

void plim_report_exact(plim_report *r, int64_t n)
{
    char text[PLIM_NUMBER_BYTES];
    plim_writer_printf(r->w, "%s", plim_format_thousands(text, n));
}

void plim_report_duration(plim_report *r, double s)
{
    char text[PLIM_NUMBER_BYTES];
    plim_writer_printf(r->w, "%s", plim_format_duration(text, s));
}

void plim_report_verdict_cell(plim_report *r, plim_verdict v)
{
    plim_writer_printf(r->w, "<td class=\"v %s\">%s %s</td>", plim_verdict_name(v), plim_report_mark(v),
                       plim_verdict_name(v));
}

void plim_report_group(plim_report *r, int64_t seq_tokens, int columns)
{
    plim_writer_printf(r->w, "<tbody>\n<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"%d\"><span>",
                       columns);
    plim_report_count(r, seq_tokens);
    plim_writer_printf(r->w, " tokens</span></th></tr>\n");
}

const char *plim_report_part_label(const plim_table *t, int m)
{
    if (t->request.trainer == PLIM_TRAINER_PLIMSOLL) return plim_component_label((plim_component)m);
    return m == PLIM_MEM_MLP    ? "recomputation"
           : m == PLIM_MEM_LORA ? "LoRA and its optimiser"
           : m == PLIM_MEM_LOSS ? "loss"
                                : plim_component_label((plim_component)m);
}

void plim_report_legend(plim_report *r, const bool shown[PLIM_COMPONENT_COUNT])
{
    plim_writer_printf(r->w, "<ul class=\"legend\">");
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
        if (shown[m])
            plim_writer_printf(r->w, "<li><i class=\"m%d\"></i>%s</li>", m, plim_report_part_label(r->t, m));
    plim_writer_printf(r->w, "</ul>\n");
}
