/* The gradients of a step are those of its loss: central differences by elements of every adapter tensor. */
#include "train/step_support.h"

#define TOKENS 73

static const int64_t lengths[] = {40, 2, 31, 0};

/* A case of options that change what is computed. */
typedef struct difference_case {
    const char *name;
    int64_t rank;
    uint32_t targets;
    double dropout, alpha;
    bool rslora;
} difference_case;

#define BIT(t) PLIM_TARGET_BIT(PLIM_TARGET_##t)

static const difference_case cases[] = {
    {"every projection", 8, STEP_ALL_TARGETS, 0, 16, false},
    {"rank 3, rsLoRA", 3, STEP_ALL_TARGETS, 0, 5, true},
    {"rank 11, dropout", 11, STEP_ALL_TARGETS, 0.3, 11, false},
    {"the usual ten", 4, PLIM_TARGETS_DEFAULT, 0, 8, false},
    {"q, v", 2, BIT(Q) | BIT(V), 0, 2, false},
    {"k, o, down, in_proj_a", 5, BIT(K) | BIT(O) | BIT(DOWN) | BIT(IN_A), 0, 5, false},
    {"up, in_proj_b, out_proj, dropout, rsLoRA", 5, BIT(UP) | BIT(IN_B) | BIT(OUT), 0.5, 4, true},
    {"gate, in_proj_z, in_proj_b, in_proj_a", 9, BIT(GATE) | BIT(IN_Z) | BIT(IN_B) | BIT(IN_A), 0, 18, false},
    {"q, in_proj_qkv, dropout", 1, BIT(Q) | BIT(IN_QKV), 0.1, 1, false},
};
#define CASES (sizeof cases / sizeof *cases)

typedef struct differ {
    step *s;
    const double *gradient;
    const char *what;
    uint64_t elements; /* of each tensor */
    int64_t tensors;
} differ;

/* Forward only, with the dropout of the training pass. */
static double loss_of(differ *d)
{
    plim_engine *e = d->s->t.engine;
    CHECK_OK(d->s->ctx, plim_training_refresh(&d->s->t));
    CHECK_OK(d->s->ctx, plim_engine_zero(e));
    CHECK_OK(d->s->ctx, plim_pass_evaluate(e, NULL, NULL));
    return ((const double *)e->step->batch.scalars.data)[PLIM_SCALAR_LOSS] * e->loss_scale;
}

/* Central: steps of 1e-5 leave about 1e-16 / 1e-5 of rounding and 1e-10 of the third derivative. */
static double derivative(differ *d, double *x)
{
    const double at = *x, h = 1e-5;
    *x = at + h;
    double up = loss_of(d);
    *x = at - h;
    double down = loss_of(d);
    *x = at;
    return (up - down) / (2 * h);
}

/* Elements of a tensor at random, inside the rank. */
static void check_tensor(void *user, const plim_adapter_tensor *a)
{
    differ *d = user;
    const plim_engine *e = d->s->t.engine;
    const plim_random r = {99, (uint64_t)a->offset};
    int64_t rank = e->sh->o.lora_rank;
    plim_tensor x = step_slice(e->step->adapters.master, a);
    const double *g = d->gradient + a->offset;
    double norm = step_norm(g, a->rows * a->cols);
    if (!(norm > 0))
        fail_msg("%s: layer %lld %s has no gradient", d->what, (long long)a->layer,
                 plim_target_name(a->target));
    for (uint64_t k = 0; k < d->elements; k++) {
        int64_t i = plim_random_u32(r, 2 * k) % (uint32_t)(a->is_b ? a->rows : rank);
        int64_t j = plim_random_u32(r, 2 * k + 1) % (uint32_t)(a->is_b ? rank : a->cols);
        double got = g[i * a->cols + j], want = derivative(d, (double *)x.data + i * x.pitch + j);
        if (!(fabs(got - want) <= 1e-6 * norm))
            fail_msg("%s: layer %lld %s.lora_%c [%lld, %lld] is %.12g, differences say %.12g", d->what,
                     (long long)a->layer, plim_target_name(a->target), a->is_b ? 'B' : 'A', (long long)i,
                     (long long)j, got, want);
    }
    d->tensors++;
}

/* The columns and rows that pad the rank have no gradient. */
static void check_padding(void *user, const plim_adapter_tensor *a)
{
    differ *d = user;
    int64_t rank = d->s->t.engine->sh->o.lora_rank;
    const double *g = d->gradient + a->offset;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++)
            if ((a->is_b ? j : i) >= rank && g[i * a->cols + j] != 0)
                fail_msg("%s: layer %lld %s has a gradient outside its rank", d->what, (long long)a->layer,
                         plim_target_name(a->target));
}

static void check_model(const step_model *m)
{
    plim_ctx *c = test_ctx_open();
    step_text x = step_text_make(&m->spec, lengths, 8);
    for (size_t i = 0; i < CASES; i++) {
        step s;
        char what[128];
        if (!plim_model_targets(&m->spec, cases[i].targets)) continue;
        plim_options o = step_options(PLIM_F64, TOKENS, x.documents);
        o.lora_rank = cases[i].rank;
        o.lora_targets = cases[i].targets;
        o.lora_dropout = cases[i].dropout;
        o.tile_tokens = i % 2 ? 64 : TOKENS;
        o.kept_layers = i % 3;
        o.loss_rows = 20;
        snprintf(what, sizeof what, "%s, %s", m->name, cases[i].name);
        step_open(&s, c, &m->spec, o, 1);
        step_scale(&s, cases[i].alpha, cases[i].rslora);
        step_result g = step_packed_gradients(&s, &x);
        differ d = {&s, g.gradient, what, i < 2 ? 2 : 1, 0};
        step_walk(&s, check_padding, &d);
        step_walk(&s, check_tensor, &d);
        assert_int_equal(d.tensors, s.t.engine->sh->adapters.tensors);
        step_result_free(&g);
        step_close(&s);
    }
    step_text_free(&x);
    test_ctx_close(c);
}

TEST(gradients_of_a_hybrid_model)
{
    UNUSED_STATE;
    check_model(&step_models[0]);
}

TEST(gradients_of_a_tied_hybrid_model)
{
    UNUSED_STATE;
    check_model(&step_models[1]);
}

TEST(gradients_of_a_dense_model_with_biases)
{
    UNUSED_STATE;
    check_model(&step_models[2]);
}

TEST(gradients_of_a_gated_dense_model)
{
    UNUSED_STATE;
    check_model(&step_models[3]);
}

/* A dropped element is another one with another seed, step or sample; the same with the same. */
TEST(dropout_depends_on_seed_step_and_sample)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const plim_spec *spec = &step_models[0].spec;
    step s;
    step_text x = step_text_make(spec, lengths, 8);
    plim_sample twice[2] = {step_packed(&x), step_packed(&x)};
    plim_options o = step_options(PLIM_F64, TOKENS, x.documents);
    o.lora_dropout = 0.3;
    step_open(&s, c, spec, o, 1);
    step_result first = step_gradients(&s, twice, 1), again = step_gradients(&s, twice, 1);
    assert_true(first.r.loss == again.r.loss);
    step_result both = step_gradients(&s, twice, 2); /* the mean of two different masks */
    assert_true(fabs(both.r.loss - first.r.loss) > 1e-6);
    s.t.seed++;
    step_result seeded = step_gradients(&s, twice, 1);
    s.t.seed--;
    s.t.step++;
    step_result later = step_gradients(&s, twice, 1);
    assert_true(seeded.r.loss != first.r.loss && later.r.loss != first.r.loss);
    double sum, weights;
    CHECK_OK(c, plim_training_evaluate(&s.t, twice, 1, &sum, &weights)); /* nothing is dropped */
    o.lora_dropout = 0;
    step plain;
    step_open(&plain, c, spec, o, 1);
    step_result dry = step_gradients(&plain, twice, 1);
    assert_true(fabs(sum / weights / dry.r.loss - 1) < 1e-12);
    step_result *const all[] = {&first, &again, &both, &seeded, &later, &dry};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) step_result_free(all[i]);
    step_close(&plain);
    step_close(&s);
    step_text_free(&x);
    test_ctx_close(c);
}

static const struct CMUnitTest table[] = {
    cmocka_unit_test(gradients_of_a_hybrid_model),
    cmocka_unit_test(gradients_of_a_tied_hybrid_model),
    cmocka_unit_test(gradients_of_a_dense_model_with_biases),
    cmocka_unit_test(gradients_of_a_gated_dense_model),
    cmocka_unit_test(dropout_depends_on_seed_step_and_sample),
};

int main(void)
{
    return RUN_TESTS(table);
}
