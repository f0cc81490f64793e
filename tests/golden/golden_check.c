/* golden_check DIR...: does the CPU column compute what transformers and PEFT computed?  For every folder and
 * every set of options of the plan, prints the largest relative errors of hidden states, logits, loss, LoRA
 * gradients and the losses of five AdamW steps; exits 1 when one is above its bound.
 *
 * The bound of the five losses is the case's own: Adam's first step is lr sign(g), so an element whose
 * gradient lies below the rounding of a float32 run moves by lr either way, and later losses tell.  How much
 * they tell is measured here: the steps run in double with every adapter element moved by one float32 step up
 * or down (docs/accuracy.md). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/random_core.h"
#include "golden/golden.h"

/* Bounds: hidden, logits and gradients relative to the tensor's norm; losses relative.  The cases' own
 * float32 rounding is up to 2.2e-4 of a gradient against float64. */
typedef struct errors {
    double hidden, logits, loss, gradient, steps;
    double share; /* of the five losses' bounds, at the worst step */
    char worst_gradient[300];
} errors;

static const errors bound = {2e-5, 2e-5, 1e-6, 5e-4, 0, 1, ""};

/* A step's loss may differ by TIMES what the moved runs differ by at most up to that step, within FLOOR and
 * MOST. TIMES: a moved run rounds once, at the start, a float32 run at every operation. FLOOR: what any
 * float32 reference may be off by.  With --tight, for the cases that ship with the project: sixteen roundings
 * of a float32 loss; qwen3_5-tiny's own losses are twelve away from PyTorch's in double.  MOST: a case that
 * rounds worse would say nothing of the optimiser. */
#define STEPS      5
#define MOVED_RUNS 4
#define FLOOR      1e-5
#define TIGHT      (16 * 0x1p-24)
#define MOST       5e-3
#define TIMES      8
#define RATE       1e-3
#define DECAY      0.01

static double worse(double a, double b)
{
    return !(a >= b) ? b : a; /* NaN wins */
}

/* |got - want| / |want| over rows x cols; got F32 or F64. */
static double difference(plim_tensor got, const float *want)
{
    double square = 0, norm = 0;
    for (int64_t i = 0; i < got.rows; i++)
        for (int64_t j = 0; j < got.cols; j++) {
            double x = got.dtype == PLIM_F64 ? ((const double *)got.data)[i * got.pitch + j]
                                             : (double)((const float *)got.data)[i * got.pitch + j];
            double y = (double)want[i * got.cols + j];
            square += (x - y) * (x - y);
            norm += y * y;
        }
    if (norm == 0) return square == 0 ? 0 : INFINITY;
    return sqrt(square / norm);
}

typedef struct check {
    golden *g;
    plim_training *t;
    errors *worst;
    const double *spread; /* [STEPS] */
    plim_status status;
} check;

/* Hidden states before the final norm; the last one through it, and the logits. */
static plim_status see(void *user, int64_t layer, plim_tensor x)
{
    check *k = user;
    plim_engine *e = k->t->engine;
    const plim_spec *s = &k->g->spec;
    const float *want, *logits;
    char name[32];
    snprintf(name, sizeof name, "hidden.%lld", (long long)layer);
    TRY(golden_values(k->g, name, k->g->T * s->hidden, &want));
    if (layer < s->layers) {
        k->worst->hidden = worse(difference(x, want), k->worst->hidden);
        return PLIM_OK;
    }
    TRY(golden_values(k->g, "logits", k->g->T * s->vocab, &logits));
    for (int64_t first = 0; first < k->g->T; first += e->sh->loss_rows) {
        int64_t left = k->g->T - first, rows = left < e->sh->loss_rows ? left : e->sh->loss_rows;
        TRY(plim_head_logits(e, &e->step->head_eval, x, first, rows));
        k->worst->hidden =
            worse(difference(plim_tensor_rows(e->step->head_eval.normed, 0, rows), want + first * s->hidden),
                  k->worst->hidden);
        k->worst->logits =
            worse(difference(plim_tensor_rows(e->step->head_eval.logits, 0, rows), logits + first * s->vocab),
                  k->worst->logits);
    }
    return PLIM_OK;
}

static void see_gradient(void *user, const plim_adapter_tensor *a)
{
    check *k = user;
    char name[300];
    const float *want;
    int64_t rank = k->g->config.rank, rows = a->is_b ? a->rows : rank, cols = a->is_b ? rank : a->cols;
    if (k->status) return;
    strcpy(name, "grad.");
    golden_name(a, name + 5, sizeof name - 5);
    k->status = golden_values(k->g, name, rows * cols, &want);
    if (k->status) return;
    plim_tensor got = plim_tensor_cols(k->t->engine->step->adapters.grad, a->offset, a->cols);
    got.pitch = a->cols;
    got.rows = rows;
    got.cols = cols;
    double d = difference(got, want);
    if (worse(d, k->worst->gradient) == k->worst->gradient) return;
    k->worst->gradient = d;
    snprintf(k->worst->worst_gradient, sizeof k->worst->worst_gradient, "%s", name);
}

/* The losses before each of five steps.  PyTorch decays before the step, plimsoll after it:
 * (p - s) keep = p keep - lr m / ... holds for a rate of lr / keep, and keep stays for a decay of wd keep. */
static plim_status run_steps(const golden *g, plim_training *t, double *losses)
{
    plim_sample sample = golden_sample(g);
    const double keep = 1 - RATE * DECAY;
    t->hyper.learning_rate = RATE / keep;
    t->hyper.weight_decay = DECAY * keep;
    for (int i = 0; i < STEPS; i++) {
        plim_step_result r;
        TRY(plim_training_step(t, &sample, 1, &r));
        losses[i] = r.loss;
    }
    return PLIM_OK;
}

static plim_status check_steps(check *k)
{
    const float *want;
    double got[STEPS];
    TRY(golden_values(k->g, "losses_adamw_lr1e-3_wd0.01_clip1", STEPS, &want));
    TRY(run_steps(k->g, k->t, got));
    for (int i = 0; i < STEPS; i++) {
        double e = fabs(got[i] / (double)want[i] - 1);
        k->worst->steps = worse(e, k->worst->steps);
        k->worst->share =
            worse(e / fmin(MOST, fmax(k->g->step_floor, TIMES * k->spread[i])), k->worst->share);
    }
    return PLIM_OK;
}

/* The losses in double; run 0 as the case is, others with each adapter element moved by one float32 step. */
static plim_status moved_steps(golden *g, const plim_machine *m, const plim_options *o, int run,
                               double *losses)
{
    plim_training t;
    TRY(golden_engine(g, m, *o, &t));
    double *p = t.engine->step->adapters.master.data;
    for (int64_t i = 0; run && i < t.engine->step->adapters.master.cols; i++) {
        const uint32_t counter[4] = {(uint32_t)i, 0, 0, 0}, key[2] = {(uint32_t)run, 0};
        uint32_t word[4];
        plim_philox(counter, key, word);
        p[i] *= word[0] & 1 ? 1 + 0x1p-23 : 1 - 0x1p-23;
    }
    plim_status st = plim_training_refresh(&t);
    if (!st) st = run_steps(g, &t, losses);
    golden_engine_close(&t);
    return st;
}

static plim_status measure_spread(golden *g, const plim_machine *m, plim_options o, double *spread)
{
    double exact[STEPS], moved[STEPS];
    o.act = PLIM_F64;
    memset(spread, 0, STEPS * sizeof *spread);
    TRY(moved_steps(g, m, &o, 0, exact));
    for (int run = 1; run <= MOVED_RUNS; run++) {
        double largest = 0;
        TRY(moved_steps(g, m, &o, run, moved));
        for (int i = 0; i < STEPS; i++) {
            largest = worse(fabs(moved[i] / exact[i] - 1), largest);
            spread[i] = worse(largest, spread[i]);
        }
    }
    return PLIM_OK;
}

static plim_status check_options(golden *g, const plim_machine *m, const plim_options *o,
                                 const double *spread, errors *out)
{
    plim_training t;
    check k = {g, &t, out, spread, PLIM_OK};
    plim_sample sample = golden_sample(g);
    plim_step_result r;
    const float *loss;
    *out = (errors){0};
    TRY(golden_engine(g, m, *o, &t));
    plim_engine *e = t.engine;
    plim_status st = plim_engine_sequence(e, &sample.sequence, 1);
    if (!st) st = plim_pass_evaluate(e, see, &k);
    if (!st) st = golden_values(g, "loss", 1, &loss);
    if (!st) st = plim_training_gradients(&t, &sample, 1, &r);
    if (!st) {
        out->loss = fabs(r.loss / (double)loss[0] - 1);
        plim_adapters_walk(e->sh->spec, e->sh->o.lora_rank, e->sh->o.lora_targets, e->sh->o.adam_bits, 0,
                           g->spec.layers, see_gradient, &k);
        st = k.status;
    }
    if (!st) st = check_steps(&k);
    golden_engine_close(&t);
    return st;
}

/* ---- option sets
 * ---------------------------------------------------------------------------------------------------------
 */

typedef struct option_set {
    const char *name;
    int64_t host, kept, tile, loss_rows, kv_heads;
    bool keep_output;
    plim_dtype act;
} option_set;

static const option_set sets[] = {
    {"host", PLIM_ALL_LAYERS, 0, 4096, 2048, 0, false, PLIM_F32},
    {"device", 0, 0, 4096, 2048, 0, false, PLIM_F32},
    {"first 2 on host", 2, 0, 64, 16, 0, false, PLIM_F32},
    {"host, output kept", PLIM_ALL_LAYERS, 0, 64, 2048, 1, true, PLIM_F32},
    {"device, output kept", 0, 0, 64, 7, 0, true, PLIM_F32},
    {"last 1 kept", 0, 1, 128, 2048, 0, false, PLIM_F32},
    {"last 2 kept, host, output kept", PLIM_ALL_LAYERS, 2, 64, 32, 1, true, PLIM_F32},
    {"all kept", 0, PLIM_ALL_LAYERS, 64, 2048, 0, false, PLIM_F32},
    {"full logits", PLIM_ALL_LAYERS, 0, 64, PLIM_FULL_LOGITS, 1, false, PLIM_F32},
    {"host, double", PLIM_ALL_LAYERS, 0, 64, 2048, 0, false, PLIM_F64},
};

static bool above(const errors *e)
{
    return !(e->hidden <= bound.hidden && e->logits <= bound.logits && e->loss <= bound.loss &&
             e->gradient <= bound.gradient && e->share <= bound.share);
}

static plim_options case_options(const option_set *set)
{
    plim_options o = plim_options_defaults();
    o.act = set->act;
    o.attention = PLIM_ATTENTION_CPU;
    o.adam_bits = 32;
    o.context_bytes = o.gemm_workspace_bytes = o.staging_bytes = 0;
    o.host_checkpoints = set->host;
    o.kept_layers = set->kept;
    o.tile_tokens = set->tile;
    o.loss_rows = set->loss_rows;
    o.kv_heads_per_call = set->kv_heads;
    o.keep_attention_output = set->keep_output;
    return o;
}

static plim_status check_folder(plim_ctx *c, const plim_machine *m, const char *folder, double floor,
                                bool *failed)
{
    golden g;
    double spread[STEPS];
    TRY(golden_open(c, folder, &g));
    g.step_floor = floor;
    plim_status st = measure_spread(&g, m, case_options(&sets[0]), spread);
    if (!st) {
        printf("%s: %s, %lld layers, T %lld, r %lld; moved by one float32 step, the losses differ by %.1e\n",
               folder, g.spec.model_type, (long long)g.spec.layers, (long long)g.T, (long long)g.config.rank,
               spread[STEPS - 1]);
        printf("  %-32s %9s %9s %9s %9s %9s %9s\n", "options", "hidden", "logits", "loss", "gradient",
               "5 steps", "of bound");
    }
    for (size_t i = 0; !st && i < sizeof sets / sizeof *sets; i++) {
        plim_options o = case_options(&sets[i]);
        errors e;
        st = check_options(&g, m, &o, spread, &e);
        if (st) break;
        bool bad = above(&e);
        printf("  %-32s %9.1e %9.1e %9.1e %9.1e %9.1e %9.2f%s\n", sets[i].name, e.hidden, e.logits, e.loss,
               e.gradient, e.steps, e.share, bad ? "  ABOVE" : "");
        if (bad) printf("    worst gradient: %s\n", e.worst_gradient);
        *failed |= bad;
    }
    golden_close(&g);
    return st;
}

int main(int argc, char **argv)
{
    plim_ctx *c = NULL;
    plim_machine m = {0};
    bool failed = false, tight = argc > 1 && !strcmp(argv[1], "--tight");
    double floor = tight ? TIGHT : FLOOR;
    if (argc < 2 + tight) {
        fprintf(stderr, "usage: golden_check [--tight] DIR...\n");
        return 2;
    }
    if (plim_ctx_open(NULL, &c)) return 1;
    plim_status st = plim_machine_cpu(c, 1, &m);
    for (int i = 1 + tight; !st && i < argc; i++) st = check_folder(c, &m, argv[i], floor, &failed);
    if (st) fprintf(stderr, "golden_check: %s\n", plim_ctx_message(c));
    printf("bounds: hidden and logits %.0e, loss %.0e, gradient %.0e of the tensor's norm; a step's loss %d "
           "times what moving differs by, from %.1e to %.1e\n",
           bound.hidden, bound.loss, bound.gradient, TIMES, floor, MOST);
    plim_machine_close(&m);
    plim_ctx_close(c);
    return st || failed;
}
