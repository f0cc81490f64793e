/* One training step of the CPU column in F32 beside plain sgemm at the shapes of its products, in GFLOP/s.
 * Usage: step_cpu [threads [runs [cpu]]]   (0, the default: all cores; 5 runs, the best counts)
 * With cpu, seconds are the processor's spent on this process instead of the clock's: for one thread on a
 * machine that has other work.
 *
 * A hybrid and a dense model of about 100 M parameters, 1,024 tokens, all positions trained on, r 16 on every
 * usual projection, every layer recomputed.  FLOP of a step, a multiply-add 2, as docs/maths.md 4.9 and
 * src/plan/roofline.c count them:
 *   base products     forward; again without down; backward (input gradient only)
 *   head              logits and their gradient, of each labelled row
 *   softmax attention 4 n H Dh a token with n = T / 2 visible keys; again; 2.5 times backward
 *   delta rule        its forward cost a head and token; again; its backward cost beside a recomputed F1 and
 * F2 Thin products of adapters, norms and whatever lies between are work for nothing: time without FLOP.
 * Plain sgemm: the same base and head products with BLAS's own threads, the slowest operand order the step
 * uses beside it; its rate is their FLOP over their best times.  That weights every shape by its share. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cblas.h>

#include "ops/cpu/device.h"
#include "train/load.h"
#include "train/training.h"

enum { TOKENS = 1024, CHUNK = 64 };

static clockid_t ticking = CLOCK_MONOTONIC;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(ticking, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(plim_ctx *c, plim_status st)
{
    if (!st) return;
    fprintf(stderr, "%s\n", plim_ctx_message(c));
    exit(1);
}

typedef struct model {
    const char *name;
    plim_spec spec;
} model;

#define D PLIM_LAYER_DELTA
#define A PLIM_LAYER_ATTENTION

static const model models[] = {
    {"hybrid",
     {.layers = 12,
      .hidden = 768,
      .mlp = 2048,
      .vocab = 32000,
      .heads = 12,
      .kv_heads = 4,
      .head_dim = 64,
      .key_heads = 4,
      .value_heads = 8,
      .key_dim = 64,
      .value_dim = 64,
      .conv_taps = 4,
      .rms_eps = 1e-6,
      .initializer_range = 0.02,
      .rope = {.theta = 1e6, .rotary_dim = 16},
      .tied = true,
      .unit_offset_norm = true,
      .attention_gate = true,
      .qk_norm = true,
      .layer_type = {D, D, D, A, D, D, D, A, D, D, D, A}}},
    {"dense",
     {.layers = 12,
      .hidden = 768,
      .mlp = 2048,
      .vocab = 32000,
      .heads = 12,
      .kv_heads = 4,
      .head_dim = 64,
      .rms_eps = 1e-6,
      .initializer_range = 0.02,
      .rope = {.theta = 1e6, .rotary_dim = 64},
      .tied = true,
      .qk_norm = true}},
};

/* ---- what there is to do
 * ---------------------------------------------------------------------------------- */

/* c [m, n] = a [m, k] times b, stored [n, k] forward and [k, n] backward; count of them in a step. */
typedef struct shape {
    int64_t m, n, k;
    bool backward;
    int64_t count;
} shape;

typedef struct work {
    shape shapes[64];
    size_t shapes_count;
    double gemm_flop, attention_flop, delta_flop;
} work;

static void add(work *w, int64_t m, int64_t n, int64_t k, bool backward, int64_t count)
{
    shape *s = w->shapes;
    w->gemm_flop += 2.0 * (double)(m * n) * (double)(k * count);
    for (size_t i = 0; i < w->shapes_count; i++, s++) {
        if (s->m != m || s->n != n || s->k != k || s->backward != backward) continue;
        s->count += count;
        return;
    }
    if (w->shapes_count == sizeof w->shapes / sizeof *w->shapes) exit(1);
    w->shapes[w->shapes_count++] = (shape){m, n, k, backward, count};
}

static work work_of(const plim_spec *s)
{
    work w = {0};
    for (int64_t i = 0; i < s->layers; i++) {
        plim_layer_linears l = plim_layer_linears_of(s, (plim_layer_type)s->layer_type[i], 0, 0);
        const plim_linear *const all[] = {&l.in, &l.ba, &l.out, &l.gate_up, &l.down};
        for (int k = 0; k < 5; k++) {
            if (!all[k]->in) continue;
            add(&w, TOKENS, all[k]->out, all[k]->in, false, k == 4 ? 1 : 2);
            add(&w, TOKENS, all[k]->in, all[k]->out, true, 1);
        }
        if (s->layer_type[i] == A) {
            w.attention_flop += 4.5 * 4.0 * TOKENS * (TOKENS / 2.0) * (double)(s->heads * s->head_dim);
            continue;
        }
        double dk = (double)s->key_dim, dv = (double)s->value_dim, C = CHUNK;
        double forward = 6 * dk * dv + 4 * C * (dk + dv) + C * C / 3;
        double again = 4 * dk * dv + 2 * C * (dk + dv) + C * C / 3;
        double backward = 12 * dk * dv + 10 * C * dk + 8 * C * dv;
        w.delta_flop += TOKENS * (double)s->value_heads * (2 * forward + again + backward);
    }
    add(&w, TOKENS - 1, s->vocab, s->hidden, false, 1);
    add(&w, TOKENS - 1, s->hidden, s->vocab, true, 1);
    return w;
}

/* ---- plain sgemm
 * ------------------------------------------------------------------------------------------ */

static float *numbers(int64_t n)
{
    float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 63) / 64 * 64);
    if (!x) exit(1);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 17) - 8.0f;
    return x;
}

static double best_product_s(const shape *s, int runs)
{
    float *a = numbers(s->m * s->k), *b = numbers(s->k * s->n), *c = numbers(s->m * s->n);
    double best = 1e300;
    for (int r = 0; r < runs; r++) {
        double start = now_s();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, s->backward ? CblasNoTrans : CblasTrans, (int)s->m,
                    (int)s->n, (int)s->k, 1, a, (int)s->k, b, (int)(s->backward ? s->n : s->k), 0, c,
                    (int)s->n);
        double took = now_s() - start;
        best = took < best ? took : best;
    }
    free(a), free(b), free(c);
    return best;
}

static double plain_s(const work *w, int threads, int runs)
{
    double sum = 0;
    openblas_set_num_threads(threads);
    for (size_t i = 0; i < w->shapes_count; i++) {
        const shape *s = &w->shapes[i];
        double took = best_product_s(s, runs);
        printf("  sgemm %5" PRId64 " x %5" PRId64 " x %5" PRId64 " %s  %3" PRId64
               " times  %6.1f GFLOP/s  %5.1f %%\n",
               s->m, s->n, s->k, s->backward ? "NN" : "NT", s->count,
               2e-9 * (double)(s->m * s->n) * (double)s->k / took,
               200 * (double)(s->m * s->n) * (double)(s->k * s->count) / w->gemm_flop);
        sum += took * (double)s->count;
    }
    openblas_set_num_threads(1);
    return sum;
}

/* ---- the operations, timed
 * -------------------------------------------------------------------------------- */

#define OTHER_MAP(X)                                                                                         \
    X(copy, (plim_device * d, plim_tensor x, plim_tensor y), d, x, y)                                        \
    X(scaled_copy, (plim_device * d, double alpha, plim_tensor x, plim_tensor y), d, alpha, x, y)            \
    X(add, (plim_device * d, plim_tensor x, plim_tensor y), d, x, y)                                         \
    X(add_bias, (plim_device * d, plim_tensor bias, plim_tensor y), d, bias, y)                              \
    X(read, (plim_device * d, const void *device, void *host, size_t bytes), d, device, host, bytes)         \
    X(write, (plim_device * d, const void *host, void *device, size_t bytes), d, host, device, bytes)

enum {
#define ID(name, args) ID_##name,
    PLIM_OPS_MAP(ID)
#undef ID
#define ID(name, ...) ID_##name,
        OTHER_MAP(ID)
#undef ID
            ID_thin,
    IDS
};

static const char *const names[IDS] = {
#define NAME(name, ...) [ID_##name] = #name,
    PLIM_OPS_MAP(NAME) OTHER_MAP(NAME)
#undef NAME
        [ID_thin] = "gemm, of adapters"};

static double spent_s[IDS];

/* A product with a side no longer than the adapters of one product together. */
static int id_of(int id, const void *a)
{
    const plim_gemm_args *g = a;
    if (id != ID_gemm) return id;
    int64_t k = g->transpose_a ? g->a.rows : g->a.cols;
    return g->c.rows <= 48 || g->c.cols <= 48 || k <= 48 ? ID_thin : ID_gemm;
}

#define TIMED(name, args)                                                                                    \
    static plim_status timed_##name(plim_device *d, const args *a)                                           \
    {                                                                                                        \
        double start = now_s();                                                                              \
        plim_status st = plim_ops_cpu.name(d, a);                                                            \
        spent_s[id_of(ID_##name, a)] += now_s() - start;                                                     \
        return st;                                                                                           \
    }
PLIM_OPS_MAP(TIMED)
#undef TIMED

#define TIMED(name, parameters, ...)                                                                         \
    static plim_status timed_##name parameters                                                               \
    {                                                                                                        \
        double start = now_s();                                                                              \
        plim_status st = plim_ops_cpu.name(__VA_ARGS__);                                                     \
        spent_s[ID_##name] += now_s() - start;                                                               \
        return st;                                                                                           \
    }
OTHER_MAP(TIMED)
#undef TIMED

static plim_ops timed_ops(void)
{
    plim_ops o = plim_ops_cpu;
#define SET(name, ...) o.name = timed_##name;
    PLIM_OPS_MAP(SET)
    OTHER_MAP(SET)
#undef SET
    return o;
}

/* Shares of one step that took step_s, the largest first. */
static void print_spent(const double *spent, double step_s)
{
    bool shown[IDS] = {false};
    double rest = step_s;
    for (int n = 0; n < 12; n++) {
        int most = -1;
        for (int i = 0; i < IDS; i++)
            if (!shown[i] && (most < 0 || spent[i] > spent[most])) most = i;
        shown[most] = true;
        rest -= spent[most];
        printf("  %-20s %6.1f ms  %4.1f %%\n", names[most], 1e3 * spent[most], 100 * spent[most] / step_s);
    }
    printf("  %-20s %6.1f ms  %4.1f %%\n", "the rest", 1e3 * rest, 100 * rest / step_s);
}

/* ---- the step
 * --------------------------------------------------------------------------------------------- */

typedef struct trainer {
    plim_training t;
    int32_t ids[TOKENS];
    float weights[TOKENS];
    int64_t start[2];
} trainer;

static void open_trainer(plim_ctx *c, const plim_machine *m, const plim_spec *s, trainer *k)
{
    plim_options o = plim_options_defaults();
    o.seq_tokens = o.tile_tokens = o.loss_rows = TOKENS;
    o.act = PLIM_F32;
    o.host_checkpoints = 0;
    o.attention = PLIM_ATTENTION_CPU;
    o.gemm_workspace_bytes = o.staging_bytes = o.context_bytes = 0;
    memset(k, 0, sizeof *k);
    k->t.hyper = plim_hyper_defaults();
    check(c, plim_engine_open(c, m, s, &o, &k->t.engine));
    plim_engine *e = k->t.engine;
    e->lora_scale = 2;
    plim_load load = {e->sh, &e->step->model, e->step->weights, plim_weight_sink_host(), NULL, NULL};
    check(c, plim_weights_random(c, 1, PLIM_F32, &load));
    plim_fill_args masters = {e->step->adapters.master, PLIM_FILL_NORMAL, 2, 0, 0, 0.01};
    check(c, e->ops->fill(e->device, &masters));
    check(c, plim_training_refresh(&k->t));
    check(c, plim_training_reset_states(&k->t));
    for (int t = 0; t < TOKENS; t++) {
        k->ids[t] = (int32_t)((int64_t)t * 7919 % s->vocab);
        k->weights[t] = 1;
    }
    k->start[1] = TOKENS;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 0, runs = argc > 2 ? atoi(argv[2]) : 5;
    plim_ctx *c;
    plim_machine m;
    if (argc > 3 && threads == 1) ticking = CLOCK_PROCESS_CPUTIME_ID;
    if (plim_ctx_open(NULL, &c)) return 1;
    check(c, plim_machine_cpu(c, threads, &m));
    const plim_ops timed = timed_ops();
    m.ops = &timed;
    threads = m.device->threads;
    printf("%d threads, OpenBLAS kernels for %s, best of %d\n", threads, openblas_get_corename(), runs);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        static trainer k;
        const plim_spec *s = &models[i].spec;
        work w = work_of(s);
        double best = 1e300, flop = w.gemm_flop + w.attention_flop + w.delta_flop;
        double best_spent_s[IDS] = {0};
        open_trainer(c, &m, s, &k);
        plim_sample sample = {{k.ids, k.weights, k.start, 1}, 0};
        for (int r = 0; r < runs; r++) {
            plim_step_result result;
            memset(spent_s, 0, sizeof spent_s);
            double start = now_s();
            check(c, plim_training_step(&k.t, &sample, 1, &result));
            double took = now_s() - start;
            if (took >= best) continue;
            best = took;
            memcpy(best_spent_s, spent_s, sizeof spent_s);
        }
        plim_engine_close(k.t.engine);
        double plain = plain_s(&w, threads, runs), ours = flop / best, theirs = w.gemm_flop / plain;
        printf("%s, %.1f M parameters: %.1f GFLOP a step (products %.1f, attention %.1f, delta rule %.1f)\n",
               models[i].name, (double)plim_spec_counts(s).parameters / 1e6, flop / 1e9, w.gemm_flop / 1e9,
               w.attention_flop / 1e9, w.delta_flop / 1e9);
        printf("  step %.3f s, %.1f GFLOP/s; plain sgemm %.1f GFLOP/s (its products alone %.3f s): %.0f %%\n",
               best, ours / 1e9, theirs / 1e9, plain, 100 * ours / theirs);
        print_spent(best_spent_s, best);
    }
    plim_machine_close(&m);
    plim_ctx_close(c);
    return 0;
}
