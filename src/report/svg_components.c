/* svg_components.c - what a peak is made of, as stacked bars on one scale.  Ours: every card at the longest
 * length that it carries.  Formulas: the four rows of the longest length.
 *
 * Lengths are percentages and text keeps its size, so the picture fits any width without shrinking its
 * words. */
#include "report/report.h"

#include <stdio.h>
#include <string.h>

#define BAR_PX       64 /* one bar with its two lines of text */
#define AXIS_PX      26
#define NAME_LETTERS 44  /* what a narrow window holds */
#define LETTER_SHARE 2.1 /* per cent of a narrow window that a letter of a label takes */

typedef struct bar {
    const plim_card *card; /* NULL: a row of a formula */
    int64_t seq_tokens, row;
    double gib[PLIM_COMPONENT_COUNT];
    double peak_gib, usable_gib, whole_gib;
    plim_verdict verdict;
} bar;

typedef struct scale {
    double most_gib, tick_gib;
} scale;

/* ---- which bars ---------------------------------------------------------------------------------------- */

static int64_t bar_count(const plim_table *t)
{
    return t->best ? t->request.card_count : PLIM_ROWS_A_LENGTH;
}

/* false: card i carries nothing. */
static bool bar_of(const plim_table *t, int64_t i, bar *out)
{
    bar b = {0};
    if (!t->best) {
        const plim_table_row *row = &t->rows[(t->request.seq_count - 1) * PLIM_ROWS_A_LENGTH + i];
        b.seq_tokens = row->seq_tokens;
        b.row = i;
        b.gib[PLIM_MEM_WEIGHTS] = row->formula.weights_gib;
        b.gib[PLIM_MEM_LORA] = row->formula.lora_gib;
        b.gib[PLIM_MEM_CHECKPOINTS] = row->formula.checkpoints_gib;
        b.gib[PLIM_MEM_MLP] = row->formula.recompute_gib;
        b.gib[PLIM_MEM_LOSS] = row->formula.loss_gib;
        b.peak_gib = row->peak_gib;
        *out = b;
        return true;
    }
    int64_t s = plim_report_longest(t, i, PLIM_FITS);
    if (s < 0) s = plim_report_longest(t, i, PLIM_TIGHT);
    if (s < 0) return false;
    const plim_choice *c = &t->best[s * t->request.card_count + i];
    b.card = c->card;
    b.verdict = c->verdict;
    b.seq_tokens = c->options.seq_tokens;
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
        b.gib[m] = (double)c->footprint.device_peak.component_bytes[m] / PLIM_REPORT_GIB;
    b.peak_gib = (double)c->footprint.device_peak.total_bytes / PLIM_REPORT_GIB;
    b.usable_gib = (double)c->budget_bytes / PLIM_REPORT_GIB;
    b.whole_gib = (double)c->card->memory_bytes / PLIM_REPORT_GIB;
    *out = b;
    return true;
}

static scale scale_of(const plim_table *t)
{
    static const double ticks[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000, 1e6};
    scale s = {1, 1};
    for (int64_t i = 0; i < bar_count(t); i++) {
        bar b;
        if (!bar_of(t, i, &b)) continue;
        double end = b.whole_gib > b.peak_gib ? b.whole_gib : b.peak_gib;
        if (end > s.most_gib) s.most_gib = end;
    }
    s.most_gib *= 1.02; /* the last card's end is seen to be one */
    for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++) {
        s.tick_gib = ticks[i];
        if (s.most_gib / ticks[i] <= 5) break;
    }
    return s;
}

/* ---- drawing ------------------------------------------------------------------------------------------- */

static void axis(plim_report *r, const scale *s, int64_t height_px)
{
    for (int i = 0; s->tick_gib * i < s->most_gib; i++) {
        double x = 100 * s->tick_gib * i / s->most_gib;
        const char *anchor = i == 0 ? "start" : x > 94 ? "end" : "middle";
        plim_writer_printf(r->w,
                           "<line class=\"grid\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"0\" y2=\"%lld\"/>"
                           "<text class=\"dim\" x=\"%.3f%%\" y=\"%lld\" text-anchor=\"%s\">%g%s</text>\n",
                           x, x, (long long)height_px, x, (long long)height_px + 16, anchor, s->tick_gib * i,
                           i == 0 ? " GiB" : "");
    }
}

static void bar_text(plim_report *r, const bar *b, int y)
{
    plim_writer_printf(r->w, "<text class=\"name halo\" x=\"0\" y=\"%d\">", y + 13);
    if (b->card) plim_html_clipped(r->w, b->card->name, NAME_LETTERS);
    else
        plim_writer_printf(r->w, "layer inputs: %s, loss: %s", plim_row_checkpoints((int)b->row),
                           plim_row_loss((int)b->row));
    plim_writer_printf(r->w, "</text><text class=\"dim halo\" x=\"0\" y=\"%d\">", y + 29);
    plim_report_count(r, b->seq_tokens);
    plim_writer_printf(r->w, ": %.1f", b->peak_gib);
    if (b->card)
        plim_writer_printf(r->w, " of %.1f GiB usable, card %.1f%s", b->usable_gib, b->whole_gib,
                           b->verdict == PLIM_TIGHT ? ", tight" : "");
    else plim_writer_printf(r->w, " GiB");
    plim_writer_printf(r->w, "</text>\n");
}

/* The key's words: they fit where the whole label does not. */
static void short_label(const plim_table *t, int m, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s",
             t->best ? plim_component_key((plim_component)m) : plim_report_part_label(t, m));
    for (; *out; out++)
        if (*out == '_') *out = ' ';
}

static void segment(plim_report *r, const bar *b, const scale *s, int m, double from_gib, int y)
{
    char label[64];
    short_label(r->t, m, label, sizeof label);
    double x = 100 * from_gib / s->most_gib, width = 100 * b->gib[m] / s->most_gib;
    plim_writer_printf(
        r->w,
        "<rect class=\"m%d\" x=\"%.3f%%\" width=\"%.3f%%\" y=\"%d\" height=\"20\"><title>%s: %.3f GiB"
        "</title></rect>",
        m, x, width, y, plim_report_part_label(r->t, m), b->gib[m]);
    if (width > LETTER_SHARE * (double)(strlen(label) + 2))
        plim_writer_printf(
            r->w, "<text class=\"in\" pointer-events=\"none\" x=\"%.3f%%\" dx=\"6\" y=\"%d\">%s</text>", x,
            y + 14, label);
    plim_writer_printf(r->w, "\n");
}

static void mark(plim_report *r, const char *name, const char *title, double gib, const scale *s, int y)
{
    double x = 100 * gib / s->most_gib;
    plim_writer_printf(
        r->w,
        "<line class=\"%s\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"%d\" y2=\"%d\"><title>%s: %.3f GiB</title>"
        "</line>\n",
        name, x, x, y - 3, y + 23, title, gib);
}

static void draw(plim_report *r, const bar *b, const scale *s, int y)
{
    double at = 0;
    bar_text(r, b, y);
    if (b->card)
        plim_writer_printf(r->w, "<rect class=\"track\" x=\"0\" width=\"%.3f%%\" y=\"%d\" height=\"20\"/>",
                           100 * b->whole_gib / s->most_gib, y + 36);
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) {
        if (b->gib[m] > 0) segment(r, b, s, m, at, y + 36);
        at += b->gib[m];
    }
    if (!b->card) return;
    mark(r, "usable", "usable", b->usable_gib, s, y + 36);
    mark(r, "end", "the whole card", b->whole_gib, s, y + 36);
}

/* ---- the exact numbers beside -------------------------------------------------------------------------- */

static void exact_table(plim_report *r, const bool shown[PLIM_COMPONENT_COUNT])
{
    const plim_table *t = r->t;
    plim_writer_printf(
        r->w,
        "<details><summary>Exact bytes</summary>\n<div class=\"scroll\"><table>\n<thead><tr>"
        "<th scope=\"col\" class=\"l\">card</th><th scope=\"col\">tokens</th><th scope=\"col\">peak</th>");
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
        if (shown[m])
            plim_writer_printf(r->w, "<th scope=\"col\">%s</th>", plim_component_label((plim_component)m));
    plim_writer_printf(r->w, "</tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < t->request.card_count; i++) {
        bar b;
        if (!bar_of(t, i, &b)) continue;
        plim_writer_printf(r->w, "<tr><th scope=\"row\">");
        plim_html_text(r->w, b.card->name);
        plim_writer_printf(r->w, "</th><td>");
        plim_report_count(r, b.seq_tokens);
        plim_writer_printf(r->w, "</td><td>");
        plim_report_exact(r, (int64_t)(b.peak_gib * PLIM_REPORT_GIB)); /* exact: divided by a power of two */
        plim_writer_printf(r->w, "</td>");
        for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) {
            if (!shown[m]) continue;
            plim_writer_printf(r->w, "<td>");
            plim_report_exact(r, (int64_t)(b.gib[m] * PLIM_REPORT_GIB));
            plim_writer_printf(r->w, "</td>");
        }
        plim_writer_printf(r->w, "</tr>\n");
    }
    plim_writer_printf(r->w, "</tbody></table></div>\n</details>\n");
}

static void picture(plim_report *r, int64_t bars)
{
    scale s = scale_of(r->t);
    int64_t height = bars * BAR_PX;
    int y = 0;
    plim_writer_printf(
        r->w,
        "<figure><svg role=\"img\" aria-labelledby=\"bars-title bars-desc\" height=\"%lld\">"
        "<title id=\"bars-title\">Peak device memory by component</title><desc id=\"bars-desc\">"
        "%lld stacked bars on one scale from 0 to %.0f GiB; the numbers are in the tables of this "
        "page.</desc>\n",
        (long long)(height + AXIS_PX), (long long)bars, s.most_gib);
    axis(r, &s, height);
    for (int64_t i = 0; i < bar_count(r->t); i++) {
        bar b;
        if (!bar_of(r->t, i, &b)) continue;
        draw(r, &b, &s, y);
        y += BAR_PX;
    }
    plim_writer_printf(r->w, "</svg></figure>\n");
}

void plim_report_bars(plim_report *r)
{
    const plim_table *t = r->t;
    bool shown[PLIM_COMPONENT_COUNT] = {false};
    int64_t bars = 0;
    for (int64_t i = 0; i < bar_count(t); i++) {
        bar b;
        if (!bar_of(t, i, &b)) continue;
        for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) shown[m] |= b.gib[m] > 0;
        bars++;
    }
    if (!bars) return;
    plim_writer_printf(r->w, "<section>\n<h2>What the peak is made of</h2>\n<p class=\"dim\">");
    if (t->best)
        plim_writer_printf(
            r->w,
            "Best options at the longest length that each card carries. Dashed: %.0f %% of the card, which "
            "is what may be used. Solid: its end.</p>\n",
            100 * t->request.limits.usable_share);
    else plim_writer_printf(r->w, "The four placements at the longest length.</p>\n");
    plim_report_legend(r, shown);
    picture(r, bars);
    if (t->best) exact_table(r, shown);
    plim_writer_printf(r->w, "</section>\n");
}
