/* golden_check DIR...: does the CPU column compute what transformers and PEFT computed?  For every folder and every set
 * of options of the plan, prints the largest relative errors of hidden states, logits, loss, LoRA gradients and the
 * losses of five AdamW steps; exits 1 when one is above its bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "golden/golden.h"

/* Bounds: hidden, logits and gradients relative to the tensor's norm; losses relative.  The cases' own float32 rounding
 * is up to 2.2e-4 of a gradient against float64. */
typedef struct errors {
    double hidden, logits, loss, gradient, steps;
    char worst_gradient[256];
} errors;

static const errors bound = {2e-5, 2e-5, 1e-6, 5e-4, 1e-5, ""};

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
        k->worst->hidden = worse(
            difference(plim_tensor_rows(e->step->head_eval.normed, 0, rows), want + first * s->hidden), k->worst->hidden);
        k->worst->logits = worse(
            difference(plim_tensor_rows(e->step->head_eval.logits, 0, rows), logits + first * s->vocab), k->worst->logits);
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

static plim_status check_steps(check *k)
{
    plim_training *t = k->t;
    plim_sample sample = golden_sample(k->g);
    const float *want;
    TRY(golden_values(k->g, "losses_adamw_lr1e-3_wd0.01_clip1", 5, &want));
    t->hyper.learning_rate = 1e-3;
    t->hyper.weight_decay = 0.01;
    for (int i = 0; i < 5; i++) {
        plim_step_result r;
        TRY(plim_training_step(t, &sample, 1, &r));
        k->worst->steps = worse(fabs(r.loss / (double)want[i] - 1), k->worst->steps);
    }
    return PLIM_OK;
}

static plim_status check_options(golden *g, const plim_machine *m, const plim_options *o, errors *out)
{
    plim_training t;
    check k = {g, &t, out, PLIM_OK};
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
        plim_adapters_walk(e->sh->spec, e->sh->o.lora_rank, e->sh->o.lora_targets, e->sh->o.adam_bits, 0, g->spec.layers,
                           see_gradient, &k);
        st = k.status;
    }
    if (!st) st = check_steps(&k);
    golden_engine_close(&t);
    return st;
}

/* ---- option sets --------------------------------------------------------------------------------------------------------- */

typedef struct option_set {
    const char *name;
    int64_t host, kept, tile, loss_rows, kv_heads;
    bool keep_output;
} option_set;

static const option_set sets[] = {
    {"host", PLIM_ALL_LAYERS, 0, 4096, 2048, 0, false},
    {"device", 0, 0, 4096, 2048, 0, false},
    {"first 2 on host", 2, 0, 64, 16, 0, false},
    {"host, output kept", PLIM_ALL_LAYERS, 0, 64, 2048, 1, true},
    {"device, output kept", 0, 0, 64, 7, 0, true},
    {"last 1 kept", 0, 1, 128, 2048, 0, false},
    {"last 2 kept, host, output kept", PLIM_ALL_LAYERS, 2, 64, 32, 1, true},
    {"all kept", 0, PLIM_ALL_LAYERS, 64, 2048, 0, false},
    {"full logits", PLIM_ALL_LAYERS, 0, 64, PLIM_FULL_LOGITS, 1, false},
};

static bool above(const errors *e)
{
    return !(e->hidden <= bound.hidden && e->logits <= bound.logits && e->loss <= bound.loss &&
             e->gradient <= bound.gradient && e->steps <= bound.steps);
}

static plim_status check_folder(plim_ctx *c, const plim_machine *m, const char *folder, bool *failed)
{
    golden g;
    TRY(golden_open(c, folder, &g));
    printf("%s: %s, %lld layers, T %lld, r %lld\n", folder, g.spec.model_type, (long long)g.spec.layers, (long long)g.T,
           (long long)g.config.rank);
    printf("  %-32s %9s %9s %9s %9s %9s\n", "options", "hidden", "logits", "loss", "gradient", "5 steps");
    plim_status st = PLIM_OK;
    for (size_t i = 0; !st && i < sizeof sets / sizeof *sets; i++) {
        plim_options o = plim_options_defaults();
        errors e;
        o.act = PLIM_F32;
        o.attention = PLIM_ATTENTION_CPU;
        o.adam_bits = 32;
        o.context_bytes = o.gemm_workspace_bytes = o.staging_bytes = 0;
        o.host_checkpoints = sets[i].host;
        o.kept_layers = sets[i].kept;
        o.tile_tokens = sets[i].tile;
        o.loss_rows = sets[i].loss_rows;
        o.kv_heads_per_call = sets[i].kv_heads;
        o.keep_attention_output = sets[i].keep_output;
        st = check_options(&g, m, &o, &e);
        if (st) break;
        bool bad = above(&e);
        printf("  %-32s %9.1e %9.1e %9.1e %9.1e %9.1e%s\n", sets[i].name, e.hidden, e.logits, e.loss, e.gradient, e.steps,
               bad ? "  ABOVE" : "");
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
    bool failed = false;
    if (argc < 2) {
        fprintf(stderr, "usage: golden_check DIR...\n");
        return 2;
    }
    if (plim_ctx_open(NULL, &c)) return 1;
    plim_status st = plim_machine_cpu(c, 1, &m);
    for (int i = 1; !st && i < argc; i++) st = check_folder(c, &m, argv[i], &failed);
    if (st) fprintf(stderr, "golden_check: %s\n", plim_ctx_message(c));
    printf("bounds: hidden and logits %.0e, loss %.0e, gradient %.0e of the tensor's norm, five steps %.0e\n", bound.hidden,
           bound.loss, bound.gradient, bound.steps);
    plim_machine_close(&m);
    plim_ctx_close(c);
    return st || failed;
}
