/* html_costs.c - time and money: a step, a pass over the data, and the longest length of every card. */
#include "report/report.h"

static void name_cell(plim_report *r, const plim_card *card)
{
    plim_writer_printf(r->w, "<tr><th scope=\"row\">");
    plim_html_text(r->w, card->name);
    plim_writer_printf(r->w, "</th>");
}

static void step_row(plim_report *r, const plim_choice *c)
{
    name_cell(r, c->card);
    plim_writer_printf(r->w, "<td>");
    plim_report_count(r, c->options.seq_tokens);
    plim_writer_printf(
        r->w, "</td><td>$%.2f</td><td>$%.2f</td><td>%.1f</td><td>%.0f</td><td>%.0f %%</td><td>%.1f</td>",
        c->usd_per_million_tokens, c->card->usd_per_h, c->time.step_s, c->time.tokens_per_s,
        c->time.step_s > 0 ? 100 * c->time.recompute_s / c->time.step_s : 0, c->time.link_wait_s);
    plim_report_verdict_cell(r, c->verdict);
    plim_writer_printf(r->w, "</tr>\n");
}

static void step_table(plim_report *r)
{
    const plim_table *t = r->t;
    bool any = false;
    for (int64_t s = 0; s < t->request.seq_count && t->best; s++) {
        for (int64_t k = -1; (k = plim_report_next_cheapest(t, s, PLIM_TIGHT, k)) >= 0; any = true) {
            if (!any)
                plim_writer_printf(
                    r->w, "<h3>One step</h3>\n<p class=\"dim\">By the roofline of the card's rates; cheapest "
                          "first at every length.</p>\n<div class=\"scroll\"><table>\n<thead><tr>"
                          "<th scope=\"col\" class=\"l\">card</th><th scope=\"col\">tokens</th>"
                          "<th scope=\"col\">$ a million<br>tokens</th><th scope=\"col\">$ an hour</th>"
                          "<th scope=\"col\">seconds<br>a step</th><th scope=\"col\">tokens<br>a second</th>"
                          "<th scope=\"col\">recomputing</th><th scope=\"col\">waits for<br>host link, s</th>"
                          "<th scope=\"col\">verdict</th></tr></thead>\n<tbody>\n");
            step_row(r, &t->best[s * t->request.card_count + k]);
        }
    }
    if (any) plim_writer_printf(r->w, "</tbody></table></div>\n");
}

static void run_row(plim_report *r, const plim_run *run)
{
    name_cell(r, run->card);
    plim_writer_printf(r->w, "<td>");
    if (run->seq_tokens) plim_report_count(r, run->seq_tokens);
    else plim_writer_printf(r->w, r->t->request.trainer == PLIM_TRAINER_NOTE ? "any" : "the data's");
    plim_writer_printf(r->w, "</td><td title=\"%.4f to %.4f hours\">", run->hours, run->hours_slow);
    plim_report_duration(r, run->hours * 3600);
    if (run->hours_slow > run->hours) {
        plim_writer_printf(r->w, " to ");
        plim_report_duration(r, run->hours_slow * 3600);
    }
    plim_writer_printf(r->w, "</td><td title=\"%.4f to %.4f USD\">$%.2f", run->usd, run->usd_slow, run->usd);
    if (run->usd_slow > run->usd) plim_writer_printf(r->w, " to $%.2f", run->usd_slow);
    plim_writer_printf(r->w, "</td></tr>\n");
}

static void run_table(plim_report *r)
{
    const plim_table *t = r->t;
    if (!t->run_count) return;
    plim_writer_printf(r->w, "<h3>One pass over ");
    plim_report_exact(r, (int64_t)t->request.workload.tokens);
    if (t->request.trainer == PLIM_TRAINER_NOTE)
        plim_writer_printf(r->w, " tokens</h3>\n<p class=\"dim\">At the speeds that the note names.</p>\n");
    else
        plim_writer_printf(r->w,
                           " tokens</h3>\n<p class=\"dim\">From the roofline to %.0f %% of its rates.</p>\n",
                           100 * PLIM_SLOW_SHARE);
    plim_writer_printf(
        r->w, "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"l\">card</th>"
              "<th scope=\"col\">sample length</th><th scope=\"col\">time</th><th scope=\"col\">cost</th>"
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
