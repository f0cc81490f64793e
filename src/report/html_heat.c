/* html_heat.c - the fit table as a map: a card a row, a length a column, verdict by colour, mark and word. */
#include "report/report.h"

static const char *shortage_text(const plim_report_cell *c)
{
    if (c->shortage == PLIM_SHORT_OF_HOST) return "no: host RAM";
    return plim_verdict_name(c->verdict);
}

static void cell(plim_report *r, int64_t s, int64_t k)
{
    plim_report_cell c = plim_report_cell_of(r->t, s, k);
    plim_writer_printf(r->w, "<td class=\"v %s\" title=\"", plim_verdict_name(c.verdict));
    plim_html_text(r->w, r->t->request.cards[k]->name);
    plim_writer_printf(r->w, ", ");
    plim_report_exact(r, r->t->request.seq_tokens[s]);
    plim_writer_printf(r->w,
                       " tokens: %.3f of %.3f GiB usable, %.3f GiB pinned on the host\"><b>%.1f</b><small>%s "
                       "%s</small></td>",
                       c.peak_gib, c.usable_gib, c.host_gib, c.peak_gib, plim_report_mark(c.verdict),
                       shortage_text(&c));
}

static void explain(plim_report *r)
{
    const plim_table *t = r->t;
    if (t->best)
        plim_writer_printf(
            r->w, "Peak GiB on one card with the fastest options that fit; where nothing fits, with those "
                  "that need least.");
    else
        plim_writer_printf(r->w,
                           "Peak GiB of the placement that needs least; all four are in the table below.");
    plim_writer_printf(r->w,
                       " %s&nbsp;fits: within the usable share. %s&nbsp;tight: within the card, no margin. "
                       "%s&nbsp;no: neither, or "
                       "more host memory than there is.",
                       plim_report_mark(PLIM_FITS), plim_report_mark(PLIM_TIGHT), plim_report_mark(PLIM_NO));
}

void plim_report_heat(plim_report *r)
{
    const plim_table_request *q = &r->t->request;
    plim_writer_printf(r->w, "<section>\n<h2>What fits</h2>\n<p class=\"dim\">");
    explain(r);
    plim_writer_printf(
        r->w,
        "</p>\n<div class=\"scroll\"><table class=\"heat\">\n<thead><tr><th scope=\"col\" class=\"l\">card"
        "</th><th scope=\"col\">usable<br>GiB</th>");
    for (int64_t s = 0; s < q->seq_count; s++) {
        plim_writer_printf(r->w, "<th scope=\"col\">");
        plim_report_count(r, q->seq_tokens[s]);
        plim_writer_printf(r->w, "<br>tokens</th>");
    }
    plim_writer_printf(r->w, "</tr></thead>\n<tbody>\n");
    for (int64_t k = 0; k < q->card_count; k++) {
        plim_report_cell c = plim_report_cell_of(r->t, 0, k);
        plim_writer_printf(r->w, "<tr><th scope=\"row\">");
        plim_html_text(r->w, q->cards[k]->name);
        plim_writer_printf(r->w, "</th><td title=\"of %.3f GiB\"><b>%.1f</b>", c.whole_gib, c.usable_gib);
        if (q->cards[k]->cards > 1)
            plim_writer_printf(r->w, "<small>%s</small>", r->t->best ? "on each" : "together");
        plim_writer_printf(r->w, "</td>");
        for (int64_t s = 0; s < q->seq_count; s++) cell(r, s, k);
        plim_writer_printf(r->w, "</tr>\n");
    }
    plim_writer_printf(r->w, "</tbody></table></div>\n</section>\n");
}
