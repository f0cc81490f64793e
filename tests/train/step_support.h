/* step_support.h - small models in which every tensor is random and counts, sequences of documents, and a
 * step's gradients as doubles.  All numbers drawn here are bfloat16 numbers, so that a model is the same in
 * every dtype. */
#ifndef PLIM_TESTS_TRAIN_STEP_SUPPORT_H
#define PLIM_TESTS_TRAIN_STEP_SUPPORT_H

#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/bf16.h"
#include "base/context.h"
#include "base/floats.h"
#include "base/fnv.h"
#include "base/random.h"
#include "formats/adapter_config.h"
#include "model/tensor_map.h"
#include "train/training.h"

#define STEP_ALL_TARGETS ((1u << PLIM_TARGET_COUNT) - 1)

/* ---- models
 * ---------------------------------------------------------------------------------------------- */

#define STEP_D PLIM_LAYER_DELTA
#define STEP_A PLIM_LAYER_ATTENTION

typedef struct step_model {
    const char *name;
    plim_spec spec;
} step_model;

static const step_model step_models[] = {
    {"hybrid, untied",
     {.layers = 4,
      .hidden = 24,
      .mlp = 40,
      .vocab = 61,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 8,
      .key_heads = 2,
      .value_heads = 4,
      .key_dim = 6,
      .value_dim = 10,
      .conv_taps = 4,
      .rms_eps = 1e-6,
      .rope = {.theta = 1e4, .rotary_dim = 4},
      .unit_offset_norm = true,
      .attention_gate = true,
      .qk_norm = true,
      .layer_type = {STEP_D, STEP_A, STEP_D, STEP_A}}},
    {"hybrid, tied, delta-net last",
     {.layers = 3,
      .hidden = 20,
      .mlp = 36,
      .vocab = 40,
      .heads = 2,
      .kv_heads = 1,
      .head_dim = 10,
      .key_heads = 1,
      .value_heads = 3,
      .key_dim = 12,
      .value_dim = 7,
      .conv_taps = 3,
      .rms_eps = 1e-6,
      .rope = {.theta = 1e6, .rotary_dim = 10},
      .tied = true,
      .unit_offset_norm = true,
      .attention_gate = true,
      .qk_norm = true,
      .layer_type = {STEP_D, STEP_A, STEP_D}}},
    {"dense, tied, biases on q, k, v",
     {.layers = 3,
      .hidden = 20,
      .mlp = 44,
      .vocab = 53,
      .heads = 6,
      .kv_heads = 3,
      .head_dim = 8,
      .rms_eps = 1e-5,
      .rope = {.theta = 1e4, .rotary_dim = 8},
      .tied = true,
      .qkv_bias = true}},
    {"dense, untied, all biases, gate and head norms",
     {.layers = 2,
      .hidden = 28,
      .mlp = 33,
      .vocab = 47,
      .heads = 4,
      .kv_heads = 4,
      .head_dim = 6,
      .rms_eps = 1e-6,
      .rope = {.theta = 5e5, .rotary_dim = 6},
      .attention_gate = true,
      .qk_norm = true,
      .qkv_bias = true,
      .o_bias = true,
      .mlp_bias = true}},
};
#define STEP_MODELS (sizeof step_models / sizeof *step_models)

/* Rank 5 with every projection adapted, nothing offloaded or kept, one tile, all logits at once. */
static inline plim_options step_options(plim_dtype act, int64_t tokens, int64_t documents)
{
    return (plim_options){.seq_tokens = tokens,
                          .documents = documents,
                          .act = act,
                          .tile_tokens = tokens,
                          .loss_rows = PLIM_FULL_LOGITS,
                          .lora_rank = 5,
                          .lora_targets = STEP_ALL_TARGETS,
                          .adam_bits = 32,
                          .attention = PLIM_ATTENTION_CPU};
}

/* ---- numbers
 * --------------------------------------------------------------------------------------------- */

static inline void step_put(plim_tensor to, int64_t row, int64_t col, double value)
{
    double x = (double)plim_bf16_load(plim_bf16_round((float)value));
    plim_floats_convert(PLIM_F64, &x, 1, to.dtype,
                        plim_tensor_cols(plim_tensor_rows(to, row, 1), col, 1).data);
}

static inline double step_at(plim_tensor t, int64_t row, int64_t col)
{
    double x;
    plim_floats_convert(t.dtype, plim_tensor_cols(plim_tensor_rows(t, row, 1), col, 1).data, 1, PLIM_F64, &x);
    return x;
}

static inline double step_normal(plim_random r, uint64_t i)
{
    float x;
    plim_random_fill_normal(r, i, 1, 1.0f, &x);
    return (double)x;
}

/* An element from a normal number. */
static inline double step_value(const plim_spec *s, const plim_tensor_place *p, double n)
{
    switch (p->role) {
    case PLIM_ROLE_EMBEDDING: return n;
    case PLIM_ROLE_NORM: return (s->unit_offset_norm ? 0 : 1) + 0.2 * n;
    case PLIM_ROLE_GATED_NORM: return 1 + 0.2 * n;
    case PLIM_ROLE_BIAS: return 0.3 * n;
    case PLIM_ROLE_CONV: return 0.5 * n;
    case PLIM_ROLE_A_LOG: return n - 1;
    case PLIM_ROLE_DT_BIAS: return n;
    default: return n / sqrt((double)p->to.cols);
    }
}

typedef struct step {
    plim_ctx *ctx;
    plim_machine machine;
    plim_training t;
    uint64_t seed;
} step;

static inline plim_status step_fill_place(void *user, const plim_tensor_place *p)
{
    step *s = user;
    const plim_random r = {s->seed, plim_fnv1a64(p->decl.name)};
    int64_t cols = p->to.cols;
    float *row = malloc((size_t)cols * sizeof *row);
    if (!row) abort();
    for (int64_t i = 0; i < p->to.rows; i++) {
        plim_random_fill_normal(r, (uint64_t)(i * cols), (size_t)cols, 1.0f, row);
        for (int64_t j = 0; j < cols; j++) {
            double x = step_value(s->t.engine->sh->spec, p, (double)row[j]);
            row[j] = plim_bf16_load(plim_bf16_round((float)x));
        }
        plim_floats_convert(PLIM_F32, row, cols, p->to.dtype, plim_tensor_rows(p->to, i, 1).data);
    }
    free(row);
    return PLIM_OK;
}

static inline plim_status step_zero_view(void *user, plim_tensor view)
{
    (void)user;
    for (int64_t i = 0; i < view.rows; i++)
        memset(plim_tensor_rows(view, i, 1).data, 0, (size_t)view.cols * plim_dtype_bytes(view.dtype));
    return PLIM_OK;
}

/* The elements of one adapter tensor in a flat block. */
static inline plim_tensor step_slice(plim_tensor block, const plim_adapter_tensor *a)
{
    plim_tensor v = plim_tensor_cols(block, a->offset, a->cols);
    v.rows = a->rows;
    v.pitch = a->cols;
    return v;
}

static inline void step_walk(const step *s, plim_adapter_visit visit, void *user)
{
    const plim_shape *sh = s->t.engine->sh;
    plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, 0, sh->spec->layers,
                       visit, user);
}

static inline void step_fill_adapter(void *user, const plim_adapter_tensor *a)
{
    step *s = user;
    plim_engine *e = s->t.engine;
    const plim_random r = {s->seed + 1, (uint64_t)a->layer * 64 + (uint64_t)a->target * 2 + a->is_b};
    plim_tensor to = step_slice(e->step->adapters.master, a);
    int64_t rank = e->sh->o.lora_rank;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) {
            bool there = (a->is_b ? j : i) < rank;
            double sigma = a->is_b ? 0.3 : 1 / sqrt((double)a->cols);
            step_put(to, i, j, there ? sigma * step_normal(r, (uint64_t)(i * a->cols + j)) : 0);
        }
}

/* The adapters' scale is 1 until step_scale. */
static inline void step_open(step *s, plim_ctx *c, const plim_spec *spec, plim_options o, int threads)
{
    *s = (step){.ctx = c, .seed = 7};
    s->t.hyper = plim_hyper_defaults();
    CHECK_OK(c, plim_machine_cpu(c, threads, &s->machine));
    CHECK_OK(c, plim_engine_open(c, &s->machine, spec, &o, &s->t.engine));
    plim_engine *e = s->t.engine;
    e->lora_scale = 1;
    CHECK_OK(c, plim_tensor_map_walk(e->sh, &e->step->model, e->step->weights, step_fill_place, s));
    CHECK_OK(c, plim_padding_walk(e->sh, &e->step->model, e->step->weights, step_zero_view, NULL));
    step_walk(s, step_fill_adapter, s);
    CHECK_OK(c, plim_training_refresh(&s->t));
    CHECK_OK(c, plim_training_reset_states(&s->t));
}

static inline void step_scale(step *s, double alpha, bool rslora)
{
    plim_adapter_config g = {.rank = s->t.engine->sh->o.lora_rank, .alpha = alpha, .rslora = rslora};
    s->t.engine->lora_scale = plim_adapter_scale(&g);
    CHECK_OK(s->ctx, plim_training_refresh(&s->t));
}

static inline void step_close(step *s)
{
    plim_engine_close(s->t.engine);
    plim_machine_close(&s->machine);
    *s = (step){0};
}

/* ---- sequences
 * ------------------------------------------------------------------------------------------- */

#define STEP_DOCUMENTS 300

/* Documents packed one after another, and each alone. */
typedef struct step_text {
    int64_t documents, start[STEP_DOCUMENTS + 1], alone[STEP_DOCUMENTS][2];
    int32_t *ids;
    float *weights;
} step_text;

/* Tokens at random; of three, one has weight 1, one 0.5 and one is not trained on.  lengths ends with 0. */
static inline step_text step_text_make(const plim_spec *s, const int64_t *lengths, uint64_t seed)
{
    step_text x = {0};
    const plim_random r = {seed, 1};
    for (; lengths[x.documents]; x.documents++) {
        int64_t n = x.documents;
        x.start[n + 1] = x.start[n] + lengths[n];
        x.alone[n][1] = lengths[n];
    }
    int64_t T = x.start[x.documents];
    x.ids = calloc((size_t)T, sizeof *x.ids);
    x.weights = calloc((size_t)T, sizeof *x.weights);
    if (!x.ids || !x.weights) abort();
    for (int64_t t = 0; t < T; t++) {
        static const float weights[] = {1.0f, 0.5f, 0.0f};
        x.ids[t] = (int32_t)(plim_random_u32(r, (uint64_t)(2 * t)) % (uint32_t)s->vocab);
        x.weights[t] = weights[plim_random_u32(r, (uint64_t)(2 * t + 1)) % 3];
    }
    return x;
}

static inline void step_text_free(step_text *x)
{
    free(x->ids);
    free(x->weights);
    *x = (step_text){0};
}

static inline plim_sample step_packed(const step_text *x)
{
    return (plim_sample){{x->ids, x->weights, x->start, x->documents}, 500};
}

static inline plim_sample step_alone(const step_text *x, int64_t n)
{
    return (plim_sample){{x->ids + x->start[n], x->weights + x->start[n], x->alone[n], 1}, 600 + n};
}

/* ---- results
 * --------------------------------------------------------------------------------------------- */

typedef struct step_result {
    plim_step_result r;
    double *gradient; /* the flat block */
    int64_t elements;
} step_result;

static inline step_result step_gradients(step *s, const plim_sample *samples, int64_t count)
{
    step_result x = {0};
    plim_tensor g = s->t.engine->step->adapters.grad;
    CHECK_OK(s->ctx, plim_training_gradients(&s->t, samples, count, &x.r));
    x.elements = g.cols;
    x.gradient = calloc((size_t)g.cols + 1, sizeof *x.gradient);
    if (!x.gradient) abort();
    plim_floats_convert(g.dtype, g.data, g.cols, PLIM_F64, x.gradient);
    return x;
}

static inline step_result step_packed_gradients(step *s, const step_text *x)
{
    plim_sample sample = step_packed(x);
    return step_gradients(s, &sample, 1);
}

static inline void step_result_free(step_result *x)
{
    free(x->gradient);
    *x = (step_result){0};
}

typedef struct step_difference {
    const double *got, *want;
    double floor, worst; /* |got - want| / (|want| + floor) of one tensor */
    char where[64];
} step_difference;

static inline double step_norm(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static inline void step_differ(void *user, const plim_adapter_tensor *a)
{
    step_difference *d = user;
    double square = 0, norm = step_norm(d->want + a->offset, a->rows * a->cols) + d->floor;
    for (int64_t i = a->offset; i < a->offset + a->rows * a->cols; i++)
        square += (d->got[i] - d->want[i]) * (d->got[i] - d->want[i]);
    double e = square == 0 ? 0 : sqrt(square) / norm;
    if (e <= d->worst || isnan(d->worst)) return; /* NaN is the worst, and stays */
    d->worst = e;
    snprintf(d->where, sizeof d->where, "layer %lld %s.lora_%c", (long long)a->layer,
             plim_target_name(a->target), a->is_b ? 'B' : 'A');
}

/* The largest relative difference of any adapter tensor's gradient; floor: share of the whole gradient's norm
 * below which a tensor is not told from nothing. */
static inline step_difference step_compare(const step *s, const step_result *got, const step_result *want,
                                           double floor)
{
    step_difference d = {.got = got->gradient, .want = want->gradient};
    assert_int_equal(got->elements, want->elements);
    d.floor = floor * step_norm(want->gradient, want->elements);
    step_walk(s, step_differ, &d);
    return d;
}

static inline void step_check(const step *s, const char *what, const step_result *got,
                              const step_result *want, double loss_tolerance, double tolerance, double floor)
{
    step_difference d = step_compare(s, got, want, floor);
    if (!(fabs(got->r.loss - want->r.loss) <= loss_tolerance * fabs(want->r.loss)))
        fail_msg("%s: loss %.17g, wanted %.17g", what, got->r.loss, want->r.loss);
    if (!(d.worst <= tolerance))
        fail_msg("%s: the gradient of %s is off by %.3g; allowed %.3g", what, d.where, d.worst, tolerance);
}

#endif
