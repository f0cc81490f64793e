/* Documents packed in one sequence never see each other: loss and gradients are those of separate runs added
 * up, and those of accumulation; the loss is the weighted mean a plain reference gives. */
#include "train/step_support.h"

/* Tiles of 64 rows end at 64, 128, 192, 256, 320. */
static const int64_t texts[][12] = {
    {64, 64, 64, 9, 0},                   /* at tile borders */
    {30, 70, 90, 11, 0},                  /* inside tiles */
    {1, 2, 61, 1, 1, 62, 2, 65, 1, 0},    /* of length 1 and 2, around borders */
    {2, 1, 1, 1, 2, 1, 2, 1, 1, 2, 1, 0}, /* nothing but short ones; fewer than the convolution has taps */
    {200, 1, 0},
    {1, 200, 0},
    {63, 1, 129, 0},
};
#define TEXTS       (sizeof texts / sizeof *texts)
#define MOST_TOKENS 256

static plim_options options_of(int64_t i, plim_dtype act)
{
    plim_options o = step_options(act, MOST_TOKENS, 12);
    o.tile_tokens = 64;
    o.loss_rows = i % 2 ? 16 : PLIM_FULL_LOGITS;
    o.host_checkpoints = i % 3;
    o.kept_layers = i % 2;
    o.keep_attention_output = i % 2;
    o.kv_heads_per_call = 1;
    return o;
}

static void check_separate(plim_dtype act, double loss_tolerance, double tolerance)
{
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < STEP_MODELS * TEXTS; i++) {
        const step_model *m = &step_models[i % STEP_MODELS];
        step_text x = step_text_make(&m->spec, texts[i / STEP_MODELS], 11 + i);
        plim_sample alone[STEP_DOCUMENTS];
        char what[128];
        step s;
        snprintf(what, sizeof what, "%s, text %zu", m->name, i / STEP_MODELS);
        step_open(&s, c, &m->spec, options_of((int64_t)i, act), 1);
        for (int64_t n = 0; n < x.documents; n++) alone[n] = step_alone(&x, n);
        step_result want = step_gradients(&s, alone, x.documents), got = step_packed_gradients(&s, &x);
        assert_int_equal(got.r.labelled_rows, want.r.labelled_rows);
        assert_true(got.r.labelled_rows > 0 && got.r.loss > 0);
        step_check(&s, what, &got, &want, loss_tolerance, tolerance, act == PLIM_F64 ? 1e-6 : 1e-3);
        step_result_free(&got);
        step_result_free(&want);
        step_close(&s);
        step_text_free(&x);
    }
    test_ctx_close(c);
}

TEST(packed_documents_are_separate_runs_added_up)
{
    UNUSED_STATE;
    check_separate(PLIM_F64, 1e-9, 1e-9);
}

TEST(so_they_are_in_float)
{
    UNUSED_STATE;
    check_separate(PLIM_F32, 1e-6, 5e-4);
}

/* Three samples of several documents each, accumulated, are one step of all their documents: every part is
 * divided by the weights of the whole step. */
TEST(accumulated_samples_are_one_packed_step)
{
    UNUSED_STATE;
    static const int64_t lengths[] = {40, 7, 90, 1, 25, 61, 0};
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < STEP_MODELS; i++) {
        step s;
        const plim_spec *spec = &step_models[i].spec;
        step_text x = step_text_make(spec, lengths, 5);
        int64_t first[3][3] = {{0}};
        plim_sample three[3];
        for (int k = 0; k < 3; k++) {
            for (int n = 0; n < 3; n++) first[k][n] = x.start[2 * k + n] - x.start[2 * k];
            three[k] =
                (plim_sample){{x.ids + x.start[2 * k], x.weights + x.start[2 * k], first[k], 2}, 70 + k};
        }
        step_open(&s, c, spec, options_of((int64_t)i, PLIM_F64), 1);
        step_result want = step_packed_gradients(&s, &x), got = step_gradients(&s, three, 3);
        step_check(&s, step_models[i].name, &got, &want, 1e-9, 1e-9, 0);
        assert_int_equal(got.r.tokens, want.r.tokens);
        assert_true(got.r.weight_sum == want.r.weight_sum);
        assert_true(fabs(got.r.gradient_norm / want.r.gradient_norm - 1) < 1e-9);
        step_result_free(&got);
        step_result_free(&want);
        step_close(&s);
        step_text_free(&x);
    }
    test_ctx_close(c);
}

/* ---- the loss
 * -------------------------------------------------------------------------------------------- */

typedef struct reference {
    step *s;
    const step_text *x;
    double loss;
} reference;

/* From the logits of the last layer: sum of weight x (log sum exp - logit of the next token), over weights.
 */
static plim_status see_last(void *user, int64_t layer, plim_tensor hidden)
{
    reference *r = user;
    plim_engine *e = r->s->t.engine;
    const plim_head_work *w = &e->step->head_eval;
    double sum = 0, weights = 0;
    if (layer < e->sh->spec->layers) return PLIM_OK;
    for (int64_t n = 0; n < r->x->documents; n++)
        for (int64_t t = r->x->start[n]; t + 1 < r->x->start[n + 1]; t++) {
            double most = -INFINITY, total = 0, weight = (double)r->x->weights[t + 1];
            TRY(plim_head_logits(e, w, hidden, t, 1));
            for (int64_t v = 0; v < w->logits.cols; v++) most = fmax(most, step_at(w->logits, 0, v));
            for (int64_t v = 0; v < w->logits.cols; v++) total += exp(step_at(w->logits, 0, v) - most);
            sum += weight * (most + log(total) - step_at(w->logits, 0, r->x->ids[t + 1]));
            weights += weight;
        }
    r->loss = sum / weights;
    return PLIM_OK;
}

TEST(the_loss_is_the_weighted_mean_over_tokens)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < STEP_MODELS; i++) {
        step s;
        const plim_spec *spec = &step_models[i].spec;
        step_text x = step_text_make(spec, texts[2], 21);
        plim_sample sample = step_packed(&x);
        reference r = {&s, &x, 0};
        double sum, weights;
        step_open(&s, c, spec, options_of((int64_t)i, PLIM_F64), 1);
        CHECK_OK(c, plim_training_evaluate(&s.t, &sample, 1, &sum, &weights));
        CHECK_OK(c, plim_pass_evaluate(s.t.engine, see_last, &r));
        step_result got = step_packed_gradients(&s, &x);
        assert_true(fabs(got.r.loss / r.loss - 1) < 1e-12);
        assert_true(fabs(sum / weights / r.loss - 1) < 1e-12);
        step_result_free(&got);
        step_close(&s);
        step_text_free(&x);
    }
    test_ctx_close(c);
}

/* Twice the weights everywhere is the same mean; a step of weights that are all zero is refused. */
TEST(weights_count_by_their_share)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const plim_spec *spec = &step_models[0].spec;
    step s;
    step_text x = step_text_make(spec, texts[1], 4);
    int64_t T = x.start[x.documents];
    plim_sample sample = step_packed(&x);
    plim_step_result none;
    step_open(&s, c, spec, options_of(0, PLIM_F64), 1);
    step_result want = step_packed_gradients(&s, &x);
    for (int64_t t = 0; t < T; t++) x.weights[t] *= 2;
    step_result got = step_packed_gradients(&s, &x);
    assert_true(got.r.weight_sum == 2 * want.r.weight_sum);
    step_check(&s, "doubled weights", &got, &want, 1e-12, 1e-12, 0);
    for (int64_t t = 0; t < T; t++) x.weights[t] = 0;
    for (int64_t n = 0; n < x.documents; n++) x.weights[x.start[n]] = 1; /* first tokens predict nothing */
    CHECK_FAILS(c, PLIM_E_RANGE, plim_training_step(&s.t, &sample, 1, &none), "step 1", "no",
                "position to train on");
    assert_int_equal(s.t.step, 0);
    step_result_free(&got);
    step_result_free(&want);
    step_close(&s);
    step_text_free(&x);
    test_ctx_close(c);
}

static const struct CMUnitTest table[] = {
    cmocka_unit_test(packed_documents_are_separate_runs_added_up),
    cmocka_unit_test(so_they_are_in_float),
    cmocka_unit_test(accumulated_samples_are_one_packed_step),
    cmocka_unit_test(the_loss_is_the_weighted_mean_over_tokens),
    cmocka_unit_test(weights_count_by_their_share),
};

int main(void)
{
    return RUN_TESTS(table);
}
