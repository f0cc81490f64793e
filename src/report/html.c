/* html.c - decides the order of the page: the answer first, then why, then what it rests on. */
#include "report/report.h"

static const char *trainer_text(plim_trainer t)
{
    switch (t) {
    case PLIM_TRAINER_PLIMSOLL: return "plimsoll's own layout of a training step";
    case PLIM_TRAINER_NOTE: return "the reference note's arithmetic";
    case PLIM_TRAINER_HF: return "the closed form of a transformers and PEFT trainer";
    }
    return "?";
}

static void head(plim_report *r)
{
    plim_writer_printf(
        r->w, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Plan: ");
    plim_html_clipped(r->w, r->t->request.model, 80);
    plim_writer_printf(r->w, "</title>\n<style>\n");
    for (const char *const *piece = plim_report_style; *piece; piece++)
        plim_writer_printf(r->w, "%s", *piece);
    plim_writer_printf(r->w, "</style>\n</head>\n<body>\n<main>\n");
}

static void heading(plim_report *r)
{
    const plim_table *t = r->t;
    plim_writer_printf(r->w, "<header>\n<h1>");
    plim_html_text(r->w, t->request.model);
    plim_writer_printf(r->w, "</h1>\n<p class=\"dim\">");
    plim_report_exact(r, t->counts.parameters);
    plim_writer_printf(r->w, " parameters; LoRA of rank %lld with ", (long long)t->request.base.lora_rank);
    plim_report_exact(r, t->lora_parameters);
    plim_writer_printf(
        r->w, " trainable ones. Memory by %s. Predictions, to be proven on the card.</p>\n</header>\n",
        trainer_text(t->request.trainer));
}

static void body(plim_report *r)
{
    heading(r);
    plim_report_answer(r);
    plim_report_heat(r);
    plim_report_bars(r);
    plim_report_timeline(r);
    plim_report_costs(r);
    plim_report_options(r);
    plim_report_rows(r);
    plim_report_missing(r);
    plim_report_sources(r);
    plim_writer_printf(
        r->w, "<footer>plimsoll %s. 1 GiB is 2<sup>30</sup> bytes; 64k tokens are 64,000.</footer>\n",
        PLIM_VERSION);
}

plim_status plim_table_html(plim_ctx *c, const plim_table *t, const char *path)
{
    plim_report r = {NULL, t};
    TRY(plim_writer_open(c, path, &r.w));
    head(&r);
    body(&r);
    plim_writer_printf(r.w, "</main>\n</body>\n</html>\n");
    return plim_writer_commit(r.w); /* reports the first failure of all the above */
}
