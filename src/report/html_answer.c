/* html_answer.c - decides what is said first: which cards carry what, cheapest first, and what to do next. */
#include "report/report.h"

#include <string.h>

static void card_name(plim_report *r, int64_t k)
{
    plim_html_text(r->w, r->t->request.cards[k]->name);
}

static void price(plim_report *r, double usd)
{
    plim_writer_printf(r->w, r->t->best ? " ($%.2f a million tokens)" : " ($%.2f an hour)", usd);
}

/* The longest length that some card carries; -1: none. */
static int64_t longest_carried(const plim_table *t, plim_verdict worst)
{
    int64_t longest = -1;
    for (int64_t k = 0; k < t->request.card_count; k++) {
        int64_t s = plim_report_longest(t, k, worst);
        if (s > longest) longest = s;
    }
    return longest;
}

static void carriers(plim_report *r, int64_t s)
{
    const plim_table *t = r->t;
    int64_t listed = 0;
    plim_writer_printf(r->w, "<b>");
    plim_report_count(r, t->request.seq_tokens[s]);
    plim_writer_printf(r->w, " tokens</b> fit on ");
    for (int64_t k = -1; (k = plim_report_next_cheapest(t, s, PLIM_FITS, k)) >= 0; listed++) {
        plim_writer_printf(r->w, "%s", listed ? ", " : "");
        plim_writer_printf(r->w, "<b>");
        card_name(r, k);
        plim_writer_printf(r->w, "</b>");
        price(r, plim_report_cell_of(t, s, k).usd);
    }
    plim_writer_printf(r->w, listed > 1 ? ", cheapest first." : ".");
}

/* Whether two cards carry the same, with and without margin. */
static bool alike(const plim_table *t, int64_t a, int64_t b)
{
    return plim_report_longest(t, a, PLIM_FITS) == plim_report_longest(t, b, PLIM_FITS) &&
           plim_report_longest(t, a, PLIM_TIGHT) == plim_report_longest(t, b, PLIM_TIGHT);
}

/* The cards that carry what card `first` does, named together; how many. */
static int64_t name_alike(plim_report *r, int64_t first)
{
    const plim_table *t = r->t;
    int64_t all = 0, named = 0;
    for (int64_t k = first; k < t->request.card_count; k++) all += alike(t, first, k);
    for (int64_t k = first; k < t->request.card_count; k++) {
        if (!alike(t, first, k)) continue;
        plim_writer_printf(r->w, "%s", named == 0 ? "" : named == all - 1 ? " and " : ", ");
        card_name(r, k);
        named++;
    }
    return all;
}

static bool named_before(const plim_table *t, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        if (alike(t, i, k)) return true;
    return false;
}

/* What the cards that do not carry length top carry instead, longest first. */
static void others(plim_report *r, int64_t top)
{
    const plim_table *t = r->t;
    bool any = false;
    for (int64_t s = top - 1; s >= -1; s--) {
        for (int64_t k = 0; k < t->request.card_count; k++) {
            int64_t tight = plim_report_longest(t, k, PLIM_TIGHT);
            if (plim_report_longest(t, k, PLIM_FITS) != s || named_before(t, k)) continue;
            plim_writer_printf(r->w, any ? "; " : " ");
            int64_t cards = name_alike(r, k);
            plim_writer_printf(r->w, cards > 1 ? " carry " : " carries ");
            plim_writer_printf(r->w, s < 0 ? "none of the lengths" : "up to ");
            if (s >= 0) plim_report_count(r, t->request.seq_tokens[s]);
            if (tight > s) {
                plim_writer_printf(r->w, ", and ");
                plim_report_count(r, t->request.seq_tokens[tight]);
                plim_writer_printf(r->w, " without margin");
            }
            any = true;
        }
    }
    if (any) plim_writer_printf(r->w, ".");
}

static void no_carrier(plim_report *r)
{
    const plim_table *t = r->t;
    int64_t tight = longest_carried(t, PLIM_TIGHT);
    plim_writer_printf(r->w, "<b>No card carries any of these lengths with margin.</b>");
    if (tight < 0) return;
    plim_writer_printf(r->w, " Without margin, ");
    plim_report_count(r, t->request.seq_tokens[tight]);
    plim_writer_printf(r->w, " tokens fit on ");
    bool any = false;
    for (int64_t k = -1; (k = plim_report_next_cheapest(t, tight, PLIM_TIGHT, k)) >= 0; any = true) {
        plim_writer_printf(r->w, "%s", any ? ", " : "");
        card_name(r, k);
    }
    plim_writer_printf(r->w, ".");
}

void plim_report_answer(plim_report *r)
{
    const plim_table *t = r->t;
    int64_t last = t->request.seq_count - 1, top = longest_carried(t, PLIM_FITS);
    plim_writer_printf(r->w, "<p class=\"answer\">");
    if (top >= 0 && top < last) {
        plim_writer_printf(r->w, "No card carries ");
        plim_report_count(r, t->request.seq_tokens[last]);
        plim_writer_printf(r->w, " tokens with margin. ");
    }
    if (top >= 0) {
        carriers(r, top);
        others(r, top);
    } else {
        no_carrier(r);
    }
    plim_writer_printf(r->w, "</p>\n");
    if (!t->next.text[0]) return;
    plim_writer_printf(r->w, "<div class=\"next\"><b>Next.</b> ");
    plim_html_text(r->w, t->next.text);
    if (t->next.command[0]) {
        plim_writer_printf(r->w, "<pre><code>");
        plim_html_text(r->w, t->next.command);
        plim_writer_printf(r->w, "</code></pre>");
    }
    plim_writer_printf(r->w, "</div>\n");
}

void plim_report_missing(plim_report *r)
{
    const plim_table_request *q = &r->t->request;
    bool any = false;
    for (int64_t k = 0; k < q->card_count; k++) {
        const char *missing;
        if (plim_card_runnable(q->spec, q->cards[k], &missing)) continue;
        if (!any)
            plim_writer_printf(
                r->w, "<section>\n<h2>What this version cannot run yet</h2>\n<p>Memory and time above are "
                      "worked out from the layout; on these cards the step itself still lacks something."
                      "</p>\n<div class=\"scroll\"><table>\n<tbody>\n");
        any = true;
        plim_writer_printf(r->w, "<tr><th scope=\"row\">");
        card_name(r, k);
        plim_writer_printf(r->w, "</th><td class=\"w\">");
        plim_html_text(r->w, missing);
        plim_writer_printf(r->w, "</td></tr>\n");
    }
    if (any) plim_writer_printf(r->w, "</tbody></table></div>\n</section>\n");
}
