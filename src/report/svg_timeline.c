/* svg_timeline.c - memory over the phases of one step, device and pinned host, stacked by component.
 *
 * Widths are percentages: a plot that stretches, under text that does not.  Every layer takes one share of
 * the width; a phase without layers takes enough to be seen and named. */
#include "report/report.h"

#include <string.h>

#define SINGLE_SHARE 6.0 /* per cent of the width of a phase that is one entry */
#define DEVICE_PX    260
#define HOST_PX      110
#define LABELS_PX    70
#define VIEW_WIDTH   1000.0 /* of the stretched plot inside */

typedef struct plot {
    const plim_table *t;
    bool host;
    double most_bytes, budget_bytes; /* budget 0: not drawn */
    int height_px;
} plot;

static const plim_usage *usage_of(const plot *p, size_t i)
{
    const plim_phase_usage *u = &p->t->timeline[i];
    return p->host ? &u->host : &u->device;
}

/* ---- across -------------------------------------------------------------------------------------------- */

static double single_share(const plim_table *t)
{
    size_t singles = 0;
    for (size_t i = 0; i < t->timeline_count; i++) singles += t->timeline[i].layer < 0;
    return singles == t->timeline_count ? 100.0 / (double)singles : SINGLE_SHARE;
}

/* Where entry i starts, in per cent; timeline_count gives the end. */
static double start_of(const plim_table *t, size_t i)
{
    double single = single_share(t), layers = 0, singles = 0, before = 0;
    for (size_t e = 0; e < t->timeline_count; e++) {
        if (t->timeline[e].layer < 0) singles++;
        else layers++;
    }
    double share = layers > 0 ? (100 - singles * single) / layers : 0;
    for (size_t e = 0; e < i; e++) before += t->timeline[e].layer < 0 ? single : share;
    return before;
}

/* First entry past those of entry i's phase. */
static size_t phase_end(const plim_table *t, size_t i)
{
    size_t end = i;
    while (end < t->timeline_count && t->timeline[end].phase == t->timeline[i].phase) end++;
    return end;
}

/* ---- drawing ------------------------------------------------------------------------------------------- */

static double height_of(const plot *p, double bytes)
{
    return p->height_px * (1 - bytes / p->most_bytes);
}

/* Bytes of components 0 .. m-1. */
static double below(const plim_usage *u, int m)
{
    double sum = 0;
    for (int i = 0; i < m; i++) sum += (double)u->component_bytes[i];
    return sum;
}

/* One component as an area: its upper edge left to right, its lower edge back. */
static void area(plim_report *r, const plot *p, int m)
{
    size_t n = p->t->timeline_count;
    double wide = VIEW_WIDTH / 100;
    plim_writer_printf(r->w, "<path class=\"m%d\" d=\"M0 %.1f", m,
                       height_of(p, below(usage_of(p, 0), m + 1)));
    for (size_t i = 0; i < n; i++)
        plim_writer_printf(r->w, "V%.1fH%.1f", height_of(p, below(usage_of(p, i), m + 1)),
                           wide * start_of(p->t, i + 1));
    for (size_t i = n; i-- > 0;)
        plim_writer_printf(r->w, "V%.1fH%.1f", height_of(p, below(usage_of(p, i), m)),
                           wide * start_of(p->t, i));
    plim_writer_printf(r->w, "Z\"/>\n");
}

static void bands(plim_report *r, const plot *p)
{
    bool shaded = true;
    for (size_t i = 0; i < p->t->timeline_count; i = phase_end(p->t, i), shaded = !shaded) {
        double x = start_of(p->t, i), end = start_of(p->t, phase_end(p->t, i));
        if (!shaded) continue;
        plim_writer_printf(r->w,
                           "<rect class=\"band\" x=\"%.3f%%\" width=\"%.3f%%\" y=\"0\" height=\"%d\"/>\n", x,
                           end - x, p->height_px + (p->host ? 0 : LABELS_PX));
    }
}

/* A phase of many layers is named across, one of a single entry upright. */
static void phase_labels(plim_report *r, const plot *p)
{
    for (size_t i = 0, end; i < p->t->timeline_count; i = end) {
        end = phase_end(p->t, i);
        double middle = (start_of(p->t, i) + start_of(p->t, end)) / 2;
        const char *name = plim_phase_name(p->t->timeline[i].phase);
        bool upright = start_of(p->t, end) - start_of(p->t, i) < 20;
        if (upright)
            plim_writer_printf(
                r->w,
                "<svg x=\"%.3f%%\" y=\"%d\" style=\"overflow:visible\"><text transform=\"rotate(-90)\" "
                "text-anchor=\"end\" dy=\"4\">%s</text></svg>\n",
                middle, p->height_px + 7, name);
        else
            plim_writer_printf(r->w, "<text x=\"%.3f%%\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", middle,
                               p->height_px + 18, name);
    }
}

static void budget_line(plim_report *r, const plot *p)
{
    double y = height_of(p, p->budget_bytes);
    if (p->budget_bytes <= 0) return;
    plim_writer_printf(
        r->w,
        "<line class=\"usable\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"halo\" "
        "x=\"100%%\" dx=\"-4\" y=\"%.1f\" text-anchor=\"end\">usable %.1f GiB</text>\n",
        y, y, y - 5, p->budget_bytes / PLIM_REPORT_GIB);
}

static void entry_title(plim_report *r, const plot *p, size_t i)
{
    const plim_phase_usage *u = &p->t->timeline[i];
    const plim_usage *use = usage_of(p, i);
    plim_writer_printf(r->w, "%s", plim_phase_name(u->phase));
    if (u->layer >= 0) plim_writer_printf(r->w, ", layer %lld", (long long)u->layer);
    plim_writer_printf(r->w, ": %.3f GiB", (double)use->total_bytes / PLIM_REPORT_GIB);
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
        if (use->component_bytes[m])
            plim_writer_printf(r->w, "\n%s %.3f", plim_component_label((plim_component)m),
                               (double)use->component_bytes[m] / PLIM_REPORT_GIB);
}

static void hits(plim_report *r, const plot *p)
{
    for (size_t i = 0; i < p->t->timeline_count; i++) {
        double x = start_of(p->t, i);
        plim_writer_printf(r->w,
                           "<rect class=\"hit\" x=\"%.3f%%\" width=\"%.3f%%\" y=\"0\" height=\"%d\"><title>",
                           x, start_of(p->t, i + 1) - x, p->height_px);
        entry_title(r, p, i);
        plim_writer_printf(r->w, "</title></rect>\n");
    }
}

/* Numbers beside the plot; the grid lines are the plot's. */
static double tick_of(const plot *p)
{
    static const double ticks[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,    2,   5,
                                   10,   20,   50,   100, 200, 500, 1000, 1e4, 1e6};
    double most = p->most_bytes / PLIM_REPORT_GIB, wanted = p->height_px / 40.0;
    for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++)
        if (most / ticks[i] <= wanted) return ticks[i];
    return 1e9;
}

static void axis(plim_report *r, const plot *p)
{
    double tick = tick_of(p);
    plim_writer_printf(r->w, "<div class=\"axis\" aria-hidden=\"true\">");
    for (int i = 0; tick * i * PLIM_REPORT_GIB <= p->most_bytes; i++)
        plim_writer_printf(r->w, "<span style=\"top:%.1fpx\">%g</span>",
                           height_of(p, tick * i * PLIM_REPORT_GIB), tick * i);
    plim_writer_printf(r->w, "</div>");
}

static void grid(plim_report *r, const plot *p)
{
    double tick = tick_of(p);
    for (int i = 0; tick * i * PLIM_REPORT_GIB <= p->most_bytes; i++) {
        double y = height_of(p, tick * i * PLIM_REPORT_GIB);
        plim_writer_printf(r->w, "<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>\n", y,
                           y);
    }
}

static void draw(plim_report *r, const plot *p)
{
    const char *id = p->host ? "host" : "device";
    plim_writer_printf(r->w, "<div class=\"plot\">");
    axis(r, p);
    plim_writer_printf(
        r->w,
        "<svg role=\"img\" aria-labelledby=\"%s-title %s-desc\" height=\"%d\"><title id=\"%s-title\">%s "
        "memory "
        "over one step, GiB</title><desc id=\"%s-desc\">Stacked areas by component over the phases "
        "of a step; the numbers are in the table below.</desc>\n",
        id, id, p->height_px + (p->host ? 4 : LABELS_PX), id, p->host ? "Pinned host" : "Device", id);
    bands(r, p);
    grid(r, p);
    plim_writer_printf(r->w,
                       "<svg x=\"0\" y=\"0\" width=\"100%%\" height=\"%d\" viewBox=\"0 0 %.0f %d\" "
                       "preserveAspectRatio=\"none\">\n",
                       p->height_px, VIEW_WIDTH, p->height_px);
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) {
        bool any = false;
        for (size_t i = 0; i < p->t->timeline_count; i++) any |= usage_of(p, i)->component_bytes[m] > 0;
        if (any) area(r, p, m);
    }
    plim_writer_printf(r->w, "</svg>\n");
    budget_line(r, p);
    if (!p->host) phase_labels(r, p);
    hits(r, p);
    plim_writer_printf(r->w, "</svg></div>\n");
}

/* ---- words and numbers --------------------------------------------------------------------------------- */

static size_t peak_entry(const plot *p)
{
    size_t peak = 0;
    for (size_t i = 1; i < p->t->timeline_count; i++)
        if (usage_of(p, i)->total_bytes > usage_of(p, peak)->total_bytes) peak = i;
    return peak;
}

static plot plot_of(const plim_table *t, bool host)
{
    plot p = {t, host, 0, 0, host ? HOST_PX : DEVICE_PX};
    double peak = (double)usage_of(&p, peak_entry(&p))->total_bytes;
    double budget = (double)(host ? t->focus.host_budget_bytes : t->focus.budget_bytes);
    p.most_bytes = 1.08 * peak;
    if (budget <= 3 * peak) { /* a line far above would flatten what is to be seen */
        p.budget_bytes = budget;
        if (1.12 * budget > p.most_bytes) p.most_bytes = 1.12 * budget;
    }
    if (p.most_bytes < 1) p.most_bytes = 1;
    return p;
}

static void caption(plim_report *r, const plot *p)
{
    size_t at = peak_entry(p);
    const plim_phase_usage *u = &p->t->timeline[at];
    size_t budget = p->host ? p->t->focus.host_budget_bytes : p->t->focus.budget_bytes;
    plim_writer_printf(r->w, "<h3>%s</h3>\n<p class=\"dim\">Highest: %.1f of %.1f GiB usable, in %s",
                       p->host ? "Pinned host memory, GiB" : "Device memory, GiB",
                       (double)usage_of(p, at)->total_bytes / PLIM_REPORT_GIB,
                       (double)budget / PLIM_REPORT_GIB, plim_phase_name(u->phase));
    if (u->layer >= 0) plim_writer_printf(r->w, ", layer %lld", (long long)u->layer);
    plim_writer_printf(r->w, ".</p>\n");
}

static void exact_table(plim_report *r)
{
    const plim_table *t = r->t;
    plim_writer_printf(
        r->w,
        "<details><summary>Exact bytes</summary>\n<div class=\"scroll\"><table>\n<thead><tr>"
        "<th scope=\"col\" class=\"l\">phase</th><th scope=\"col\">layer</th><th scope=\"col\">device</th>"
        "<th scope=\"col\">pinned host</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < t->timeline_count; i++) {
        const plim_phase_usage *u = &t->timeline[i];
        plim_writer_printf(r->w, "<tr><td class=\"l\">%s</td><td>", plim_phase_name(u->phase));
        if (u->layer >= 0) plim_writer_printf(r->w, "%lld", (long long)u->layer);
        plim_writer_printf(r->w, "</td><td>");
        plim_report_exact(r, (int64_t)u->device.total_bytes);
        plim_writer_printf(r->w, "</td><td>");
        plim_report_exact(r, (int64_t)u->host.total_bytes);
        plim_writer_printf(r->w, "</td></tr>\n");
    }
    plim_writer_printf(r->w, "</tbody></table></div>\n</details>\n");
}

static void legend(plim_report *r)
{
    bool shown[PLIM_COMPONENT_COUNT] = {false};
    for (size_t i = 0; i < r->t->timeline_count; i++)
        for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
            shown[m] |=
                r->t->timeline[i].device.component_bytes[m] || r->t->timeline[i].host.component_bytes[m];
    plim_report_legend(r, shown);
}

void plim_report_timeline(plim_report *r)
{
    const plim_table *t = r->t;
    if (!t->timeline_count || !t->focus.card) return;
    plot device = plot_of(t, false), host = plot_of(t, true);
    plim_writer_printf(r->w, "<section>\n<h2>Memory over one step</h2>\n<p class=\"dim\">");
    plim_report_count(r, t->focus.options.seq_tokens);
    plim_writer_printf(r->w, " tokens on ");
    plim_html_text(r->w, t->focus.card->name);
    plim_writer_printf(r->w, "%s.</p>\n", t->focus.card->cards > 1 ? ", the fullest of its cards" : "");
    legend(r);
    caption(r, &device);
    draw(r, &device);
    caption(r, &host);
    draw(r, &host);
    exact_table(r);
    plim_writer_printf(r->w, "</section>\n");
}
