/* html_options.c - the tables of what was chosen: best options, and the fixed rows that all trainers
 * share. */
#include "report/report.h"

/* ---- best options -------------------------------------------------------------------------------------- */

static void layers_cell(plim_report *r, int64_t some)
{
    int64_t layers = r->t->request.spec->layers;
    plim_writer_printf(r->w, "<td>%lld of %lld</td>", (long long)(some < layers ? some : layers),
                       (long long)layers);
}

/* With what a no is short of. */
static void verdict_cell(plim_report *r, const plim_choice *c)
{
    const char *short_of = c->shortage == PLIM_SHORT_OF_DEVICE ? ": device"
                           : c->shortage == PLIM_SHORT_OF_HOST ? ": host RAM"
                                                               : "";
    plim_writer_printf(r->w, "<td class=\"v %s l\">%s %s%s</td>", plim_verdict_name(c->verdict),
                       plim_report_mark(c->verdict), plim_verdict_name(c->verdict), short_of);
}

static const char *attention_output(const plim_table *t, const plim_options *o)
{
    if (o->kept_layers >= t->request.spec->layers) return "\xe2\x80\x93"; /* never asked for */
    return o->keep_attention_output ? "kept" : "redone";
}

static void option_row(plim_report *r, const plim_choice *c)
{
    const plim_options *o = &c->options;
    plim_writer_printf(r->w, "<tr><th scope=\"row\">");
    plim_html_text(r->w, c->card->name);
    plim_writer_printf(r->w, "</th>");
    verdict_cell(r, c);
    plim_writer_printf(r->w, "<td title=\"%zu bytes\">%.1f</td><td title=\"%zu bytes\">%.1f</td>",
                       c->footprint.device_peak.total_bytes,
                       (double)c->footprint.device_peak.total_bytes / PLIM_REPORT_GIB, c->budget_bytes,
                       (double)c->budget_bytes / PLIM_REPORT_GIB);
    plim_writer_printf(r->w, "<td title=\"%zu bytes\">%.1f</td><td title=\"%zu bytes\">%.1f</td>",
                       c->footprint.host_peak.total_bytes,
                       (double)c->footprint.host_peak.total_bytes / PLIM_REPORT_GIB, c->host_budget_bytes,
                       (double)c->host_budget_bytes / PLIM_REPORT_GIB);
    layers_cell(r, o->host_checkpoints);
    layers_cell(r, o->kept_layers);
    plim_writer_printf(r->w, "<td>%s</td><td>", attention_output(r->t, o));
    plim_report_exact(r, o->tile_tokens);
    plim_writer_printf(r->w, "</td><td>");
    if (o->loss_rows == PLIM_FULL_LOGITS) plim_writer_printf(r->w, "all");
    else plim_report_exact(r, o->loss_rows);
    plim_writer_printf(r->w, "</td><td>%s</td><td>%s</td></tr>\n", o->embedding_on_host ? "host" : "device",
                       plim_report_kernel(o->attention));
}

void plim_report_options(plim_report *r)
{
    const plim_table *t = r->t;
    if (!t->best) return;
    plim_writer_printf(
        r->w,
        "<section>\n<h2>Best options</h2>\n<p class=\"dim\">The fastest that fit each card. A no shows the "
        "options that need least, and what they are short of.</p>\n<div class=\"scroll\"><table>\n<thead>"
        "<tr><th scope=\"col\" class=\"l\">card</th>"
        "<th scope=\"col\" class=\"l\">verdict</th>"
        "<th scope=\"col\">peak<br>GiB</th><th scope=\"col\">usable<br>GiB</th>"
        "<th scope=\"col\">host<br>GiB</th><th scope=\"col\">usable on<br>host, GiB</th>"
        "<th scope=\"col\">layer inputs<br>on the host</th><th scope=\"col\">layers<br>kept</th>"
        "<th scope=\"col\">attention<br>output</th><th scope=\"col\">tile<br>tokens</th>"
        "<th scope=\"col\">loss<br>rows</th><th scope=\"col\">embedding<br>on</th>"
        "<th scope=\"col\">attention<br>kernel</th></tr></thead>\n");
    for (int64_t s = 0; s < t->request.seq_count; s++) {
        plim_report_group(r, t->request.seq_tokens[s], 13);
        for (int64_t k = 0; k < t->request.card_count; k++)
            option_row(r, &t->best[s * t->request.card_count + k]);
        plim_writer_printf(r->w, "</tbody>\n");
    }
    plim_writer_printf(r->w, "</table></div>\n</section>\n");
}

/* ---- fixed rows ---------------------------------------------------------------------------------------- */

/* The five parts of a formula, or the components that some row of ours has. */
static void row_parts(const plim_table *t, int64_t i, double gib[PLIM_COMPONENT_COUNT])
{
    const plim_table_row *row = &t->rows[i];
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) gib[m] = row->component_gib[m];
    if (t->request.trainer == PLIM_TRAINER_PLIMSOLL) return;
    gib[PLIM_MEM_WEIGHTS] = row->formula.weights_gib;
    gib[PLIM_MEM_LORA] = row->formula.lora_gib;
    gib[PLIM_MEM_CHECKPOINTS] = row->formula.checkpoints_gib;
    gib[PLIM_MEM_MLP] = row->formula.recompute_gib;
    gib[PLIM_MEM_LOSS] = row->formula.loss_gib;
}

static void row_head(plim_report *r, const bool shown[PLIM_COMPONENT_COUNT])
{
    plim_writer_printf(
        r->w, "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">tokens</th>"
              "<th scope=\"col\" class=\"l\">layer inputs</th><th scope=\"col\" class=\"l\">loss</th>"
              "<th scope=\"col\">peak<br>GiB</th>");
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
        if (shown[m]) plim_writer_printf(r->w, "<th scope=\"col\">%s</th>", plim_report_part_label(r->t, m));
    plim_writer_printf(r->w, "<th scope=\"col\">host<br>GiB</th>");
    for (int64_t k = 0; k < r->t->request.card_count; k++) {
        plim_writer_printf(r->w, "<th scope=\"col\">");
        plim_html_text(r->w, r->t->request.cards[k]->id);
        plim_writer_printf(r->w, "</th>");
    }
    plim_writer_printf(r->w, "</tr></thead>\n<tbody>\n");
}

static void row_table(plim_report *r)
{
    const plim_table *t = r->t;
    int64_t rows = t->request.seq_count * PLIM_ROWS_A_LENGTH, cards = t->request.card_count;
    bool shown[PLIM_COMPONENT_COUNT] = {false};
    double gib[PLIM_COMPONENT_COUNT];
    for (int64_t i = 0; i < rows; i++) {
        row_parts(t, i, gib);
        for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) shown[m] |= gib[m] > 0;
    }
    row_head(r, shown);
    for (int64_t i = 0; i < rows; i++) {
        const plim_table_row *row = &t->rows[i];
        row_parts(t, i, gib);
        plim_writer_printf(r->w, "<tr><td>");
        plim_report_count(r, row->seq_tokens);
        plim_writer_printf(
            r->w,
            "</td><td class=\"l\">%s</td><td class=\"l\">%s</td><td title=\"%.9f GiB\"><b>%.1f</b></td>",
            row->host_checkpoints ? "host" : "device", row->full_logits ? "full" : "chunked", row->peak_gib,
            row->peak_gib);
        for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
            if (shown[m]) plim_writer_printf(r->w, "<td title=\"%.9f GiB\">%.1f</td>", gib[m], gib[m]);
        plim_writer_printf(r->w, "<td title=\"%.9f GiB\">%.1f</td>", row->host_gib, row->host_gib);
        for (int64_t k = 0; k < cards; k++) plim_report_verdict_cell(r, t->verdicts[i * cards + k]);
        plim_writer_printf(r->w, "</tr>\n");
    }
    plim_writer_printf(r->w, "</tbody></table></div>\n");
}

void plim_report_rows(plim_report *r)
{
    bool own = r->t->request.trainer == PLIM_TRAINER_PLIMSOLL;
    plim_writer_printf(
        r->w,
        "<section>\n<h2>Fixed placements</h2>\n<p class=\"dim\">Layer inputs on the host or the device, "
        "loss in chunks or over all logits at once, and nothing else searched%s</p>\n",
        own ? ": rows that other trainers' can be laid beside. The peak is the largest over the cards."
            : ".");
    if (own) plim_writer_printf(r->w, "<details><summary>Show the rows</summary>\n");
    row_table(r);
    plim_writer_printf(r->w, "%s</section>\n", own ? "</details>\n" : "");
}
