/* train.c - `plimsoll train`: samples and a model in, a PEFT adapter out. */
#include "cli/train.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "base/progress.h"
#include "base/units.h"
#include "train/loop.h"

#define LINE_EVERY_S 5.0
#define BLAMED       16 /* samples named of a step that failed */

/* The one thing a signal handler may touch. */
static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* A second Ctrl-C ends the process as usual. */
static void catch_interrupts(void)
{
    struct sigaction a = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

static bool asked_to_stop(void *user)
{
    (void)user;
    return interrupted != 0;
}

/* ---- what is said on the way ----------------------------------------------------------------------- */

typedef struct viewer {
    plim_cli *cli;
    plim_progress progress;
    plim_clock clock;
    const plim_samples *samples;
    double said_s;
} viewer;

static void say(plim_cli *cli, const plim_loop_report *p)
{
    const plim_step_result *x = &p->result;
    char rate[PLIM_NUMBER_BYTES], left[PLIM_NUMBER_BYTES], validation[64] = "";
    if (p->validated) snprintf(validation, sizeof validation, ", validation loss %.6g", p->validation.loss);
    plim_log_write(&cli->log, PLIM_LOG_INFO,
                   "step %lld/%lld: loss %.6g, gradient norm %.4g, %s tokens/s, %s left%s",
                   (long long)x->step, (long long)p->last_step, x->loss, x->gradient_norm,
                   plim_format_thousands(rate, (int64_t)(p->tokens_per_s + 0.5)),
                   plim_format_duration(left, p->left_s), validation);
}

/* A line now and then; metrics.jsonl has every step. */
static void see(void *user, const plim_loop_report *p)
{
    viewer *v = user;
    double now_s = plim_clock_now_s(v->clock);
    bool first = p->result.step == 1, last = p->result.step == p->last_step;
    if (first || last || p->validated || now_s - v->said_s >= LINE_EVERY_S) {
        say(v->cli, p);
        v->said_s = now_s;
    }
    plim_progress_update(&v->progress, p->result.step);
}

/* Where the documents of a step that was not finite came from. */
static void blame(void *user, const plim_order_step *at)
{
    viewer *v = user;
    for (int64_t i = 0; i < at->count && i < BLAMED; i++) {
        char source[256];
        plim_order_source(v->cli->ctx, v->samples, at->samples[i].id, source, sizeof source);
        plim_log_write(&v->cli->log, PLIM_LOG_WARN, "sample %lld starts with %s, and holds %lld documents",
                       (long long)at->samples[i].id, source, (long long)at->samples[i].sequence.documents);
    }
}

/* ---- the run --------------------------------------------------------------------------------------- */

typedef struct trainer {
    plim_train_ask ask;
    plim_setup run;
    plim_samples validation_samples;
    plim_order_config data;
    plim_order *order, *validation;
    plim_loop_end end;
    int64_t steps;
    size_t device_bytes;
    char adapter[4096 + 16];
} trainer;

static plim_status open_orders(plim_cli *cli, trainer *t)
{
    plim_ctx *c = cli->ctx;
    const plim_options *o = &t->run.options;
    t->data = (plim_order_config){.samples = &t->run.samples,
                                  .seq_tokens = o->seq_tokens,
                                  .documents = o->documents,
                                  .accumulate = t->ask.accumulate,
                                  .vocab = t->run.spec.vocab,
                                  .seed = (uint64_t)t->ask.run.seed};
    TRY(plim_order_open(c, &t->data, &t->order));
    if (plim_order_unlabelled(t->order))
        plim_log_write(&cli->log, PLIM_LOG_WARN,
                       "%lld of %lld documents have no token to train on and are left out",
                       (long long)plim_order_unlabelled(t->order), (long long)t->run.samples.documents);
    if (!t->ask.validation) return PLIM_OK;
    plim_order_config g = t->data;
    TRY(plim_samples_open(c, t->ask.validation, &t->validation_samples));
    g.samples = &t->validation_samples;
    g.accumulate = 1;
    g.file_order = true;
    return plim_order_open(c, &g, &t->validation);
}

static plim_status settle_steps(plim_cli *cli, trainer *t)
{
    char documents[PLIM_NUMBER_BYTES], tokens[PLIM_NUMBER_BYTES], steps[PLIM_NUMBER_BYTES];
    t->steps = t->ask.steps ? t->ask.steps : plim_order_steps(t->order, t->ask.epochs ? t->ask.epochs : 1);
    if (t->ask.hyper.warmup_steps > t->steps)
        return plim_fail(cli->ctx, PLIM_E_USAGE, "--warmup %lld is longer than the run of %lld steps",
                         (long long)t->ask.hyper.warmup_steps, (long long)t->steps);
    t->ask.hyper.total_steps = t->steps;
    plim_log_write(&cli->log, PLIM_LOG_INFO, "%s: %s documents, %s tokens; %s steps", t->ask.run.data,
                   plim_format_thousands(documents, plim_order_documents(t->order)),
                   plim_format_thousands(tokens, t->run.samples.tokens_count),
                   plim_format_thousands(steps, t->steps));
    return PLIM_OK;
}

static plim_status run_loop(plim_cli *cli, trainer *t)
{
    viewer v = {.cli = cli, .clock = plim_clock_monotonic(), .samples = &t->run.samples};
    plim_loop_config g = {.out = t->ask.out,
                          .data = &t->data,
                          .order = t->order,
                          .validation = t->validation,
                          .last_step = t->steps,
                          .save_every = t->ask.save_every,
                          .keep = t->ask.keep,
                          .validate_every = t->ask.validate_every,
                          .clock = v.clock,
                          .stop = asked_to_stop,
                          .see = see,
                          .blame = blame,
                          .user = &v};
    catch_interrupts();
    plim_progress_open(&v.progress, &cli->log, v.clock, "training", "steps", 0, t->steps);
    plim_status st = plim_loop_run(t->run.session, &g, &t->end);
    plim_progress_close(&v.progress);
    return st;
}

static plim_status print_json(plim_cli *cli, const trainer *t)
{
    const plim_loop_report *last = &t->end.last;
    json_t *root =
        json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "adapter", t->adapter, "steps",
                  (json_int_t)last->result.step, "epochs", last->epoch, "first_loss",
                  t->end.first.result.loss, "last_loss", last->result.loss, "learning_rate",
                  last->result.learning_rate, "planned_bytes", (json_int_t)t->run.planned_bytes, "peak_bytes",
                  (json_int_t)t->run.peak_bytes, "seed", (json_int_t)t->ask.run.seed);
    bool failed = !root;
    if (root && t->device_bytes)
        failed = json_object_set_new(root, "device_bytes", json_integer((json_int_t)t->device_bytes)) != 0;
    if (root && last->validated)
        failed |= json_object_set_new(root, "validation_loss", json_real(last->validation.loss)) != 0;
    failed = failed || json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0;
    json_decref(root);
    if (failed)
        return plim_fail(cli->ctx, PLIM_E_FORMAT, "the result cannot be written as JSON (is --out UTF-8?)");
    fputc('\n', stdout);
    return PLIM_OK;
}

static plim_status train(plim_cli *cli, int argc, char **argv, trainer *t, int *code)
{
    TRY(plim_train_arguments(cli, argc, argv, &t->ask, code));
    if (*code >= 0) return PLIM_OK;
    *code = PLIM_EXIT_DONE;
    TRY(plim_loop_check_out(cli->ctx, t->ask.out));
    TRY(plim_setup_prepare(cli, &t->ask.run, &t->run));
    TRY(open_orders(cli, t));
    TRY(settle_steps(cli, t));
    TRY(plim_setup_plan(cli, &t->ask.run, &t->run));
    TRY(plim_setup_open(
        cli, &t->ask.run,
        (plim_session_config){.alpha = t->ask.alpha, .rslora = t->ask.rslora, .hyper = t->ask.hyper},
        &t->run));
    TRY(plim_loop_make_out(cli->ctx, t->ask.out));
    TRY(run_loop(cli, t));
    t->device_bytes = plim_setup_device_bytes(&t->run);
    if (t->end.stopped) {
        plim_log_write(&cli->log, PLIM_LOG_ERROR,
                       "stopped after step %lld of %lld, saved as %s/checkpoint-%lld",
                       (long long)t->end.last.result.step, (long long)t->steps, t->ask.out,
                       (long long)t->end.last.result.step);
        *code = PLIM_EXIT_FAILED;
        return PLIM_OK;
    }
    snprintf(t->adapter, sizeof t->adapter, "%s/" PLIM_LOOP_ADAPTER_NAME, t->ask.out);
    if (t->ask.run.json) return print_json(cli, t);
    printf("adapter: %s\n", t->adapter);
    return PLIM_OK;
}

static int run(plim_cli *cli, int argc, char **argv)
{
    static trainer t; /* large; one a process */
    int code = PLIM_EXIT_DONE;
    plim_status st = train(cli, argc, argv, &t, &code);
    if (st) code = plim_cli_failed(cli, st);
    plim_order_close(t.order);
    plim_order_close(t.validation);
    plim_samples_close(&t.validation_samples);
    plim_setup_close(cli, &t.run);
    return code;
}

const plim_cli_command plim_command_train = {
    "train",
    "MODEL --data FILE --out DIR [options]",
    "trains a LoRA adapter and writes it as PEFT reads it\n\n"
    "MODEL is a folder with config.json and weights.  The memory of a step is worked out and printed before\n"
    "anything is taken, and a run that starts does not run out of it later.\n"
    "DIR gets metrics.jsonl (one JSON object a step), checkpoints and, at the end, adapter/.\n"
    "Ctrl-C finishes the step, saves a checkpoint and ends.",
    plim_train_options,
    "  plimsoll train model --data samples.safetensors --out run --epochs 2 --accumulate 8\n"
    "  plimsoll train model --data samples.safetensors --out run --steps 500 --schedule cosine --warmup 20\n"
    "  plimsoll train config.json --random-weights --data samples.safetensors --out run --steps 3\n",
    run,
};
