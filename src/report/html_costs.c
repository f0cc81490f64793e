/* html_costs.c - time and money: a step, a pass over the data, and the longest length of every card. */
#include "report/report.h"

static void name_cell(plim_report *r, const plim_card *card)
{
    plim_writer_printf(r->w, "<tr><th scope=\"row\">");
    plim_html_text(r->w, card->name);
    plim_writer_printf(r->w, "</th>");
}

/* The pass over the data reckoned at this choice's length; NULL: none is. */
static const plim_run *run_of(const plim_table *t, const plim_choice *c)
{
    for (int64_t i = 0; i < t->run_count; i++)
        if (t->runs[i].card == c->card && t->runs[i].seq_tokens == c->options.seq_tokens) return &t->runs[i];
    return NULL;
}

static bool runs_by_length(const plim_table *t)
{
    return t->run_count > 0 && t->runs[0].seq_tokens > 0;
}

static void run_cells(plim_report *r, const plim_run *run)
{
    plim_writer_printf(r->w, "<td title=\"%.4f to %.4f hours\">", run->hours, run->hours_slow);
    plim_report_duration(r, run->hours * 3600);
    if (run->hours_slow > run->hours) {
        plim_writer_printf(r->w, " to ");
        plim_report_duration(r, run->hours_slow * 3600);
    }
    plim_writer_printf(r->w, "</td><td title=\"%.4f to %.4f USD\">$%.2f", run->usd, run->usd_slow, run->usd);
    if (run->usd_slow > run->usd) plim_writer_printf(r->w, " to $%.2f", run->usd_slow);
    plim_writer_printf(r->w, "</td>");
}

static void step_row(plim_report *r, const plim_choice *c)
{
    const plim_run *run = run_of(r->t, c);
    name_cell(r, c->card);
    plim_report_verdict_cell(r, c->verdict);
    plim_writer_printf(r->w, "<td title=\"%.6f USD\"><b>$%.2f</b></td><td>$%.2f</td><td title=\"%.6f s\">",
                       c->usd_per_million_tokens, c->usd_per_million_tokens, c->card->usd_per_h,
                       c->time.step_s);
    plim_report_duration(r, c->time.step_s);
    plim_writer_printf(r->w, "</td><td>");
    plim_report_exact(r, (int64_t)(c->time.tokens_per_s + 0.5));
    plim_writer_printf(r->w, "</td><td>%.0f %%</td>",
                       c->time.step_s > 0 ? 100 * c->time.recompute_s / c->time.step_s : 0);
    if (run) run_cells(r, run);
    else if (runs_by_length(r->t)) plim_writer_printf(r->w, "<td></td><td></td>");
    plim_writer_printf(r->w, "</tr>\n");
}

static void step_head(plim_report *r)
{
    const plim_table *t = r->t;
    plim_writer_printf(
        r->w, "<p class=\"dim\">One step of one sequence by the roofline of the card's rates; cheapest first "
              "at every length.");
    if (runs_by_length(t)) {
        plim_writer_printf(r->w, " A pass over ");
        plim_report_exact(r, (int64_t)t->request.workload.tokens);
        plim_writer_printf(r->w, " tokens: from the roofline to %.0f %% of its rates.",
                           100 * PLIM_SLOW_SHARE);
    }
    plim_writer_printf(
        r->w,
        "</p>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"l\">card</th>"
        "<th scope=\"col\">verdict</th><th scope=\"col\">$ a million<br>tokens</th>"
        "<th scope=\"col\">$ an hour</th><th scope=\"col\">step</th>"
        "<th scope=\"col\">tokens<br>a second</th><th scope=\"col\">recomputing</th>"
        "%s</tr></thead>\n",
        runs_by_length(t) ? "<th scope=\"col\">a pass</th><th scope=\"col\">costs</th>" : "");
}

static void step_table(plim_report *r)
{
    const plim_table *t = r->t;
    bool any = false;
    for (int64_t s = 0; s < t->request.seq_count && t->best; s++) {
        if (plim_report_next_cheapest(t, s, PLIM_TIGHT, -1) < 0) continue;
        if (!any) step_head(r);
        any = true;
        plim_report_group(r, t->request.seq_tokens[s], runs_by_length(t) ? 9 : 7);
        for (int64_t k = -1; (k = plim_report_next_cheapest(t, s, PLIM_TIGHT, k)) >= 0;)
            step_row(r, &t->best[s * t->request.card_count + k]);
        plim_writer_printf(r->w, "</tbody>\n");
    }
    if (any) plim_writer_printf(r->w, "</table></div>\n");
}

static void run_row(plim_report *r, const plim_run *run)
{
    name_cell(r, run->card);
    run_cells(r, run);
    plim_writer_printf(r->w, "</tr>\n");
}

/* Runs that are not those of a length: at the data's own lengths, or at a note's speed. */
static void run_table(plim_report *r)
{
    const plim_table *t = r->t;
    if (!t->run_count || runs_by_length(t)) return;
    plim_writer_printf(r->w, "<h3>One pass over ");
    plim_report_exact(r, (int64_t)t->request.workload.tokens);
    if (t->request.trainer == PLIM_TRAINER_NOTE)
        plim_writer_printf(r->w, " tokens</h3>\n<p class=\"dim\">At the speeds that the note names.</p>\n");
    else
        plim_writer_printf(
            r->w,
            " tokens</h3>\n<p class=\"dim\">Every sample at its own length; from the roofline to %.0f %% "
            "of its rates.</p>\n",
            100 * PLIM_SLOW_SHARE);
    plim_writer_printf(r->w,
                       "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"l\">card</th>"
                       "<th scope=\"col\">time</th><th scope=\"col\">cost</th>"
                       "</tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < t->run_count; i++) run_row(r, &t->runs[i]);
    plim_writer_printf(r->w, "</tbody></table></div>\n");
}

static void line_table(plim_report *r)
{
    const plim_table *t = r->t;
    if (!t->lines) return;
    plim_writer_printf(
        r->w, "<section>\n<h2>Load line</h2>\n<p class=\"dim\">The longest sample that fits with margin, in "
              "tokens: with every option searched, and for fixed placements of layer inputs and loss.</p>\n"
              "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"l\">card</th>"
              "<th scope=\"col\">searched</th>");
    for (int row = 0; row < PLIM_ROWS_A_LENGTH; row++)
        plim_writer_printf(r->w, "<th scope=\"col\">%s,<br>%s loss</th>", plim_row_checkpoints(row),
                           plim_row_loss(row));
    plim_writer_printf(r->w, "</tr></thead>\n<tbody>\n");
    for (int64_t k = 0; k < t->request.card_count; k++) {
        name_cell(r, t->lines[k].card);
        for (int row = -1; row < PLIM_ROWS_A_LENGTH; row++) {
            int64_t tokens = row < 0 ? t->lines[k].best_tokens : t->lines[k].row_tokens[row];
            plim_writer_printf(r->w, row < 0 ? "<td><b>" : "<td>");
            if (tokens) plim_report_exact(r, tokens);
            else plim_writer_printf(r->w, "none");
            plim_writer_printf(r->w, row < 0 ? "</b></td>" : "</td>");
        }
        plim_writer_printf(r->w, "</tr>\n");
    }
    plim_writer_printf(r->w, "</tbody></table></div>\n</section>\n");
}

void plim_report_costs(plim_report *r)
{
    const plim_table *t = r->t;
    bool steps = false;
    for (int64_t s = 0; s < t->request.seq_count && t->best; s++)
        steps |= plim_report_next_cheapest(t, s, PLIM_TIGHT, -1) >= 0;
    if (steps || t->run_count) {
        plim_writer_printf(r->w, "<section>\n<h2>Time and cost</h2>\n");
        step_table(r);
        run_table(r);
        plim_writer_printf(r->w, "</section>\n");
    }
    line_table(r);
}
