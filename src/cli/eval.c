/* eval.c - `plimsoll eval`: the loss of a model, with or without an adapter, over a samples file. */
#include "cli/eval.h"

#include <jansson.h>
#include <math.h>

#include "base/progress.h"
#include "base/units.h"
#include "train/evaluate.h"

typedef struct evaluator {
    plim_eval_ask ask;
    plim_setup run;
    plim_order *order;
    plim_evaluation result;
} evaluator;

static void show(void *user, int64_t done, int64_t total)
{
    plim_progress *p = user;
    p->total = total;
    plim_progress_update(p, done);
}

static plim_status open_order(plim_cli *cli, evaluator *v)
{
    const plim_options *o = &v->run.options;
    plim_order_config g = {.samples = &v->run.samples,
                           .seq_tokens = o->seq_tokens,
                           .documents = o->documents,
                           .accumulate = 1,
                           .vocab = v->run.spec.vocab,
                           .file_order = true};
    return plim_order_open(cli->ctx, &g, &v->order);
}

static plim_status measure(plim_cli *cli, evaluator *v)
{
    plim_progress progress;
    plim_progress_open(&progress, &cli->log, plim_clock_monotonic(), "evaluating", "sequences", 0, 0);
    plim_status st = plim_evaluate(&v->run.session->training, v->order, show, &progress, &v->result);
    plim_progress_close(&progress);
    return st;
}

static plim_status write_logits(plim_cli *cli, evaluator *v)
{
    plim_order_step first;
    if (!v->ask.logits) return PLIM_OK;
    plim_order_step_at(v->order, 1, &first);
    const plim_sequence *q = &first.samples[0].sequence;
    int64_t rows = v->ask.logits_rows ? v->ask.logits_rows : q->start[q->documents];
    TRY(plim_evaluate_logits(&v->run.session->training, &first.samples[0], rows, v->ask.logits));
    plim_log_write(&cli->log, PLIM_LOG_INFO, "wrote %s", v->ask.logits);
    return PLIM_OK;
}

static plim_status print_json(plim_cli *cli, const evaluator *v)
{
    const plim_evaluation *e = &v->result;
    double perplexity = exp(e->loss);
    json_t *root = json_pack("{s:f, s:o, s:I, s:I, s:I, s:f, s:I, s:I}", "loss", e->loss, "perplexity",
                             isfinite(perplexity) ? json_real(perplexity) : json_null(), "documents",
                             (json_int_t)e->documents, "tokens", (json_int_t)e->tokens, "labelled",
                             (json_int_t)e->labelled, "weight", e->weight_sum, "planned_bytes",
                             (json_int_t)v->run.planned_bytes, "peak_bytes", (json_int_t)v->run.peak_bytes);
    bool failed = !root || json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0;
    json_decref(root);
    if (failed) return plim_fail(cli->ctx, PLIM_E_IO, "the result could not be written as JSON");
    fputc('\n', stdout);
    return PLIM_OK;
}

static void print_text(const evaluator *v)
{
    const plim_evaluation *e = &v->result;
    char number[PLIM_NUMBER_BYTES];
    printf("loss        %.6f\n", e->loss);
    printf("perplexity  %.6g\n", exp(e->loss));
    printf("documents   %s\n", plim_format_thousands(number, e->documents));
    printf("tokens      %s\n", plim_format_thousands(number, e->tokens));
    printf("labelled    %s\n", plim_format_thousands(number, e->labelled));
}

static plim_status evaluate(plim_cli *cli, int argc, char **argv, evaluator *v, int *code)
{
    TRY(plim_eval_arguments(cli, argc, argv, &v->ask, code));
    if (*code >= 0) return PLIM_OK;
    *code = PLIM_EXIT_DONE;
    TRY(plim_setup_prepare(cli, &v->ask.run, &v->run));
    TRY(open_order(cli, v));
    TRY(plim_setup_plan(cli, &v->ask.run, &v->run));
    TRY(plim_setup_open(cli, &v->ask.run, plim_session_defaults(), &v->run));
    TRY(measure(cli, v));
    TRY(write_logits(cli, v));
    if (v->ask.run.json) return print_json(cli, v);
    print_text(v);
    return PLIM_OK;
}

static int run(plim_cli *cli, int argc, char **argv)
{
    static evaluator v; /* large; one a process */
    int code = PLIM_EXIT_DONE;
    plim_status st = evaluate(cli, argc, argv, &v, &code);
    if (st) code = plim_cli_failed(cli, st);
    plim_order_close(v.order);
    plim_setup_close(cli, &v.run);
    return code;
}

const plim_cli_command plim_command_eval = {
    "eval",
    "MODEL --data FILE [options]",
    "the mean loss and the perplexity of a model, with or without an adapter, over samples\n\n"
    "MODEL is a folder with config.json and weights; without --adapter it is measured alone.\n"
    "The loss is the mean over the weight of the labelled tokens, as in training.",
    plim_eval_options,
    "  plimsoll eval model --data held-out.safetensors\n"
    "  plimsoll eval model --data held-out.safetensors --adapter run/adapter --json\n"
    "  plimsoll eval model --data one.safetensors --logits logits.safetensors --logits-rows 16\n",
    run,
};
