/* html_sources.c - where every figure of every card comes from, folded away. */
#include "report/report.h"

static void value_cell(plim_report *r, const plim_card *card, plim_figure f)
{
    double value = 0;
    switch (f) {
#define FIGURE(name, field, type, min, max, optional)                                                        \
    case PLIM_FIGURE_##name: value = (double)card->field; break;
        PLIM_FIGURE_MAP(FIGURE)
#undef FIGURE
    case PLIM_FIGURE_COUNT: break;
    }
    plim_writer_printf(r->w, "<td>");
    if (value >= 1e6) plim_report_exact(r, (int64_t)value); /* bytes: whole and below 2^53 */
    else plim_writer_printf(r->w, "%.10g", value);
    plim_writer_printf(r->w, "</td>");
}

static bool has_figure(const plim_card *card, int f)
{
    return f != PLIM_FIGURE_NOTE_RATE || card->note_tokens_per_s > 0;
}

static void card_table(plim_report *r, const plim_card *card)
{
    plim_writer_printf(r->w, "<h3>");
    plim_html_text(r->w, card->name);
    plim_writer_printf(r->w, " <code>");
    plim_html_text(r->w, card->id);
    plim_writer_printf(
        r->w,
        "</code></h3>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"l\">figure</th>"
        "<th scope=\"col\">value</th><th scope=\"col\" class=\"l\">basis</th><th scope=\"col\" "
        "class=\"l\">date"
        "</th><th scope=\"col\" class=\"l\">source</th></tr></thead>\n<tbody>\n");
    for (int f = 0; f < PLIM_FIGURE_COUNT; f++) {
        const plim_figure_source *s = &card->source[f];
        if (!has_figure(card, f)) continue;
        plim_writer_printf(r->w, "<tr><td class=\"l\">%s</td>", plim_figure_key((plim_figure)f));
        value_cell(r, card, (plim_figure)f);
        plim_writer_printf(r->w, "<td class=\"l\">%s</td><td class=\"l\">", plim_basis_name(s->basis));
        plim_html_text(r->w, s->date);
        plim_writer_printf(r->w, "</td><td class=\"w\">");
        plim_html_text(r->w, s->source);
        plim_writer_printf(r->w, "</td></tr>\n");
    }
    plim_writer_printf(r->w, "</tbody></table></div>\n");
}

void plim_report_sources(plim_report *r)
{
    const plim_table_request *q = &r->t->request;
    plim_writer_printf(
        r->w,
        "<section>\n<h2>Where the cards' figures come from</h2>\n<details><summary>Show figures, sources and "
        "dates</summary>\n");
    for (int64_t k = 0; k < q->card_count; k++) card_table(r, q->cards[k]);
    plim_writer_printf(r->w, "</details>\n</section>\n");
}
