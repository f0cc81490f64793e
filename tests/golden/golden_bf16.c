/* golden_bf16 [--gradients] [--device cpu|cuda] [--attention own] DIR...: how far is a run in BF16 from what
 * transformers and PEFT computed in float32?  Every hidden state, the logits, the loss and every LoRA
 * gradient may be off by a fixed share, or by twice what transformers itself is off in bfloat16 on that case
 * (transformers_bf16.json in its folder), whichever is larger.  With --gradients, for cases of make_case.py:
 * loss and gradients alone, each within 2e-2 or twice transformers', their median within 1.2 times
 * transformers' (or 2e-2); every tensor is listed.  Exits 1 when something is above. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/context.h"
#include "golden/golden.h"
#include "ops/cuda_plugin.h"
#include "train/session.h"

#define HIDDEN   3e-2
#define LOSS     1e-2
#define GRADIENT 5e-2
#define TIMES    2
/* With --gradients. */
#define EACH         2e-2
#define MEDIAN_TIMES 1.2
#define MOST_TENSORS 4096

typedef struct check {
    golden *g;
    plim_session *s;
    json_t *yardstick; /* errors of transformers by tensor */
    double hidden, logits, loss, gradient, theirs_gradient;
    double nearest; /* to its bound, as a share of it */
    char name[300]; /* of that tensor */
    bool whole_model;
    double *ours, *theirs; /* errors of gradients, [MOST_TENSORS] */
    int64_t count;
    plim_status status;
} check;

/* rows x cols of a tensor of the machine as doubles; the caller frees them. */
static plim_status read_back(check *k, plim_tensor x, double **out)
{
    const plim_engine *e = k->s->training.engine;
    const size_t width = plim_dtype_bytes(x.dtype), bytes = (size_t)x.pitch * width;
    double *values;
    char *row;
    TRY(plim_alloc(k->g->ctx, (size_t)(x.rows * x.cols) + 1, sizeof *values, "a tensor", &values));
    plim_status st = plim_alloc(k->g->ctx, bytes, 1, "a row", &row);
    for (int64_t i = 0; !st && i < x.rows; i++) {
        st = e->ops->read(e->device, plim_tensor_rows(x, i, 1).data, row, (size_t)x.cols * width);
        for (int64_t j = 0; !st && j < x.cols; j++)
            values[i * x.cols + j] = x.dtype == PLIM_BF16
                                         ? (double)plim_bf16_load(((const uint16_t *)(void *)row)[j])
                                         : (double)((const float *)(void *)row)[j];
    }
    plim_release(k->g->ctx, row);
    if (st) plim_release(k->g->ctx, values);
    else *out = values;
    return st;
}

/* What of a tensor is off, summed over its parts. */
typedef struct distance {
    double square, norm;
} distance;

static plim_status add(check *k, plim_tensor got, const float *want, distance *d)
{
    double *values;
    TRY(read_back(k, got, &values));
    for (int64_t i = 0; i < got.rows * got.cols; i++) {
        const double x = values[i] - (double)want[i];
        d->square += x * x;
        d->norm += (double)want[i] * (double)want[i];
    }
    plim_release(k->g->ctx, values);
    return PLIM_OK;
}

static plim_status judge(check *k, const char *name, double error, double fixed, double *largest)
{
    const json_t *theirs = json_object_get(k->yardstick, name);
    if (!json_is_number(theirs))
        return plim_fail(k->g->ctx, PLIM_E_FORMAT, "%s: transformers_bf16.json has no error of %s",
                         k->g->folder, name);
    const double share = error / fmax(fixed, TIMES * json_number_value(theirs));
    if (!(error <= *largest)) *largest = error;
    if (!(share <= k->nearest)) {
        k->nearest = share;
        snprintf(k->name, sizeof k->name, "%s", name);
    }
    return PLIM_OK;
}

static plim_status see_head(check *k, plim_tensor x, const float *want)
{
    const plim_spec *s = &k->g->spec;
    plim_engine *e = k->s->training.engine;
    distance hidden = {0}, all = {0};
    const float *logits;
    char name[32];
    TRY(golden_values(k->g, "logits", k->g->T * s->vocab, &logits));
    for (int64_t first = 0; first < k->g->T; first += e->sh->loss_rows) {
        const int64_t left = k->g->T - first, rows = left < e->sh->loss_rows ? left : e->sh->loss_rows;
        TRY(plim_head_logits(e, &e->step->head_eval, x, first, rows));
        TRY(add(k, plim_tensor_rows(e->step->head_eval.normed, 0, rows), want + first * s->hidden, &hidden));
        TRY(add(k, plim_tensor_rows(e->step->head_eval.logits, 0, rows), logits + first * s->vocab, &all));
    }
    snprintf(name, sizeof name, "hidden.%lld", (long long)s->layers);
    TRY(judge(k, name, sqrt(hidden.square / hidden.norm), HIDDEN, &k->hidden));
    return judge(k, "logits", sqrt(all.square / all.norm), HIDDEN, &k->logits);
}

static plim_status see(void *user, int64_t layer, plim_tensor x)
{
    check *k = user;
    const plim_spec *s = &k->g->spec;
    const float *want;
    char name[32];
    distance d = {0};
    snprintf(name, sizeof name, "hidden.%lld", (long long)layer);
    TRY(golden_values(k->g, name, k->g->T * s->hidden, &want));
    if (layer == s->layers) return see_head(k, x, want);
    TRY(add(k, x, want, &d));
    return judge(k, name, sqrt(d.square / d.norm), HIDDEN, &k->hidden);
}

static plim_status gradient_of(check *k, const plim_adapter_tensor *a)
{
    const int64_t rank = k->g->config.rank, rows = a->is_b ? a->rows : rank, cols = a->is_b ? rank : a->cols;
    const float *want;
    char name[300] = "grad.";
    distance d = {0};
    golden_name(a, name + 5, sizeof name - 5);
    TRY(golden_values(k->g, name, rows * cols, &want));
    plim_tensor got = plim_tensor_cols(k->s->training.engine->step->adapters.grad, a->offset, a->cols);
    got.pitch = a->cols;
    got.rows = rows;
    got.cols = cols;
    TRY(add(k, got, want, &d));
    const double error = sqrt(d.square / d.norm);
    TRY(judge(k, name, error, k->whole_model ? EACH : GRADIENT, &k->gradient));
    const double theirs = json_number_value(json_object_get(k->yardstick, name));
    k->theirs_gradient = fmax(k->theirs_gradient, theirs);
    if (!k->whole_model) return PLIM_OK;
    if (k->count == MOST_TENSORS)
        return plim_fail(k->g->ctx, PLIM_E_RANGE, "%s: more than %d gradients", k->g->folder, MOST_TENSORS);
    k->ours[k->count] = error;
    k->theirs[k->count++] = theirs;
    printf("    %9.2e %9.2e  %s\n", error, theirs, name);
    return PLIM_OK;
}

static void see_gradient(void *user, const plim_adapter_tensor *a)
{
    check *k = user;
    if (!k->status) k->status = gradient_of(k, a);
}

static plim_status run(check *k)
{
    plim_training *t = &k->s->training;
    plim_engine *e = t->engine;
    const plim_sample sample = golden_sample(k->g);
    plim_step_result r;
    const float *loss;
    TRY(plim_engine_sequence(e, &sample.sequence, 1));
    if (!k->whole_model) TRY(plim_pass_evaluate(e, see, k));
    TRY(golden_values(k->g, "loss", 1, &loss));
    TRY(plim_training_gradients(t, &sample, 1, &r));
    TRY(judge(k, "loss", fabs(r.loss / (double)loss[0] - 1), LOSS, &k->loss));
    plim_adapters_walk(e->sh->spec, e->sh->o.lora_rank, e->sh->o.lora_targets, e->sh->o.adam_bits, 0,
                       k->g->spec.layers, see_gradient, k);
    return k->status;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the gradients' errors; sorts them. */
static double median(double *x, int64_t count)
{
    qsort(x, (size_t)count, sizeof *x, ascending);
    return count % 2 ? x[count / 2] : (x[count / 2 - 1] + x[count / 2]) / 2;
}

static bool median_above(check *k)
{
    if (!k->whole_model || k->count == 0) return k->whole_model;
    const double ours = median(k->ours, k->count), theirs = median(k->theirs, k->count);
    printf("    medians of %lld tensors: %.3e, transformers %.3e, %.2f times\n", (long long)k->count, ours,
           theirs, ours / theirs);
    return !(ours <= fmax(MEDIAN_TIMES * theirs, EACH));
}

typedef struct option_set {
    const char *name;
    int64_t host, kept, tile, loss_rows;
    bool keep_output;
} option_set;

static const option_set sets[] = {
    {"host", PLIM_ALL_LAYERS, 0, 4096, 2048, false},
    {"device, tiles of 64", 0, 0, 64, 16, false},
    {"host, output kept", PLIM_ALL_LAYERS, 0, 64, 2048, true},
    {"all kept", 0, PLIM_ALL_LAYERS, 64, 2048, false},
    {"full logits", PLIM_ALL_LAYERS, 0, 64, PLIM_FULL_LOGITS, false},
};

static plim_session_config config_of(const golden *g, const char *adapter, const plim_machine *m,
                                     const option_set *set)
{
    plim_session_config c = plim_session_defaults();
    c.model = g->folder;
    c.adapter = adapter;
    c.options.act = PLIM_BF16;
    c.options.seq_tokens = g->T;
    c.options.documents = g->documents;
    c.options.attention = m->attention_kernel;
    c.options.labelled_share = 1;
    c.options.staging_bytes = (size_t)1 << 20;
    c.options.host_checkpoints = set->host;
    c.options.kept_layers = set->kept;
    c.options.tile_tokens = set->tile;
    c.options.loss_rows = set->loss_rows;
    c.options.keep_attention_output = set->keep_output;
    return c;
}

static plim_status check_set(golden *g, const plim_machine *m, json_t *yardstick, const option_set *set,
                             bool whole_model, bool *failed)
{
    char adapter[2200];
    check k = {.g = g, .yardstick = yardstick, .whole_model = whole_model};
    double ours[MOST_TENSORS], theirs[MOST_TENSORS];
    k.ours = ours;
    k.theirs = theirs;
    snprintf(adapter, sizeof adapter, "%s/adapter", g->folder);
    const plim_session_config c = config_of(g, adapter, m, set);
    TRY(plim_session_open(g->ctx, m, &c, &k.s));
    plim_status st = run(&k);
    plim_session_close(k.s);
    if (st) return st;
    const bool bad = median_above(&k) || !(k.nearest <= 1);
    printf("  %-22s %9.1e %9.1e %9.1e %9.1e %9.1e %9.2f  %s%s\n", set->name, k.hidden, k.logits, k.loss,
           k.gradient, k.theirs_gradient, k.nearest, k.name, bad ? "  ABOVE" : "");
    *failed |= bad;
    return PLIM_OK;
}

static plim_status check_folder(plim_ctx *c, const plim_machine *m, const char *folder, bool whole_model,
                                bool *failed)
{
    golden g;
    json_error_t error;
    char path[2300];
    TRY(golden_open(c, folder, &g));
    snprintf(path, sizeof path, "%s/transformers_bf16.json", folder);
    json_t *file = json_load_file(path, 0, &error), *yardstick = json_object_get(file, "errors");
    plim_status st = yardstick
                         ? PLIM_OK
                         : plim_fail(c, PLIM_E_FORMAT, "%s: %s", path, file ? "no \"errors\"" : error.text);
    if (!st) {
        printf("%s: %s, %lld layers, T %lld\n", folder, g.spec.model_type, (long long)g.spec.layers,
               (long long)g.T);
        printf("  %-22s %9s %9s %9s %9s %9s %9s\n", "options", "hidden", "logits", "loss", "gradient",
               "theirs", "of bound");
    }
    const size_t count = whole_model ? 1 : sizeof sets / sizeof *sets;
    for (size_t i = 0; !st && i < count; i++) st = check_set(&g, m, yardstick, &sets[i], whole_model, failed);
    json_decref(file);
    golden_close(&g);
    return st;
}

static plim_status open_machine(plim_ctx *c, const char *device, plim_attention_kernel attention,
                                plim_cuda_plugin *plugin, plim_machine *m)
{
    const plim_cuda_options o = {.attention = attention};
    if (!strcmp(device, "cpu")) return plim_machine_cpu(c, 0, m);
    if (strcmp(device, "cuda")) return plim_fail(c, PLIM_E_RANGE, "--device %s; cpu and cuda work", device);
    TRY(plim_cuda_plugin_open(c, plugin));
    return plugin->machine(c, &o, m);
}

int main(int argc, char **argv)
{
    plim_ctx *c = NULL;
    plim_machine m = {0};
    plim_cuda_plugin plugin = {0};
    plim_attention_kernel attention = PLIM_ATTENTION_CUDNN;
    const char *device = "cpu";
    bool failed = false, whole_model = false;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (!strcmp(argv[at], "--gradients")) whole_model = true;
        else if (at + 1 < argc && !strcmp(argv[at], "--device")) device = argv[++at];
        else if (at + 1 < argc && !strcmp(argv[at], "--attention") && !strcmp(argv[at + 1], "own"))
            attention = PLIM_ATTENTION_OWN, at++;
        else break;
    }
    if (at >= argc || argv[at][0] == '-') {
        fprintf(stderr, "usage: golden_bf16 [--gradients] [--device cpu|cuda] [--attention own] DIR...\n");
        return 2;
    }
    if (plim_ctx_open(NULL, &c)) return 1;
    plim_status st = open_machine(c, device, attention, &plugin, &m);
    if (!st)
        printf("%s; bounds: hidden and logits %.0e, loss %.0e, gradients %.0e, or %d times transformers' in "
               "bfloat16\n",
               m.name ? m.name : device, HIDDEN, LOSS, GRADIENT, TIMES);
    for (int i = at; !st && i < argc; i++) st = check_folder(c, &m, argv[i], whole_model, &failed);
    if (st) fprintf(stderr, "golden_bf16: %s\n", plim_ctx_message(c));
    plim_machine_close(&m);
    plim_cuda_plugin_close(&plugin);
    plim_ctx_close(c);
    return st || failed;
}
