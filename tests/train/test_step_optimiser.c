/* Whole optimiser steps: the loss falls, states stay finite, and a step that went wrong leaves everything as
 * it was and says where. */
#include "train/step_support.h"

#define TOKENS 96

static const int64_t lengths[] = {50, 46, 0};

static plim_options options_of(plim_dtype act, int adam_bits)
{
    plim_options o = step_options(act, TOKENS, 2);
    o.tile_tokens = 64;
    o.loss_rows = 32;
    o.adam_bits = adam_bits;
    o.lora_rank = 8;
    return o;
}

static void check_finite(plim_tensor t, const char *what)
{
    if (!t.cols || !plim_floats_are(t.dtype)) return;
    for (int64_t j = 0; j < t.cols; j++)
        if (!isfinite(step_at(t, 0, j))) fail_msg("%s [%lld] is not finite", what, (long long)j);
}

static void check_falls(const step_model *m, plim_dtype act, int adam_bits)
{
    plim_ctx *c = test_ctx_open();
    plim_spec spec = m->spec;
    spec.hidden = 520; /* 8 x 520 elements and more: wide enough for 8-bit states beside 32-bit ones */
    step s;
    step_text x = step_text_make(&spec, lengths, 6);
    plim_sample sample = step_packed(&x);
    plim_step_result r = {0}, first = {0};
    step_open(&s, c, &spec, options_of(act, adam_bits), 2);
    const plim_adapters *a = &s.t.engine->step->adapters;
    assert_true((adam_bits == 8) == (a->m.dtype == PLIM_U8));
    assert_true(adam_bits == 32 || s.t.engine->sh->adapters.small_elements > 0);
    s.t.hyper.learning_rate = 3e-3;
    double lowest = INFINITY;
    for (int n = 1; n <= 20; n++) {
        CHECK_OK(c, plim_training_step(&s.t, &sample, 1, &r));
        assert_int_equal(r.step, n);
        if (n == 1) first = r;
        lowest = fmin(lowest, r.loss);
    }
    if (!(r.loss < 0.5 * first.loss) || !(lowest >= 0))
        fail_msg("%s, %s, %d bits: the loss went from %g to %g", m->name, plim_dtype_name(act), adam_bits,
                 first.loss, r.loss);
    const plim_tensor all[] = {a->master, a->grad, a->m, a->v, a->m_max, a->v_max, a->small_m, a->small_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_finite(all[i], m->name);
    step_close(&s);
    step_text_free(&x);
    test_ctx_close(c);
}

TEST(the_loss_falls_with_either_state)
{
    UNUSED_STATE;
    for (size_t i = 0; i < STEP_MODELS; i += 2) {
        check_falls(&step_models[i], PLIM_F64, 32);
        check_falls(&step_models[i], PLIM_F32, 8);
    }
    check_falls(&step_models[0], PLIM_BF16, 8);
}

/* ---- steps that go wrong
 * ---------------------------------------------------------------------------------- */

typedef struct copy {
    void *bytes[7];
    size_t size[7];
} copy;

static void states_of(const step *s, plim_tensor out[7])
{
    const plim_adapters *a = &s->t.engine->step->adapters;
    const plim_tensor all[7] = {a->master, a->m, a->v, a->m_max, a->v_max, a->small_m, a->small_v};
    memcpy(out, all, sizeof all);
}

static copy keep(const step *s)
{
    copy k = {0};
    plim_tensor all[7];
    states_of(s, all);
    for (int i = 0; i < 7; i++) {
        k.size[i] = (size_t)all[i].cols * plim_dtype_bytes(all[i].dtype);
        k.bytes[i] = malloc(k.size[i] + 1);
        if (!k.bytes[i]) abort();
        if (k.size[i]) memcpy(k.bytes[i], all[i].data, k.size[i]);
    }
    return k;
}

static void check_kept(const step *s, copy *k)
{
    plim_tensor all[7];
    states_of(s, all);
    for (int i = 0; i < 7; i++) {
        if (k->size[i]) assert_memory_equal(all[i].data, k->bytes[i], k->size[i]);
        free(k->bytes[i]);
    }
}

/* The largest component of the normed hidden state that predicts the only labelled token, from the head. */
typedef struct peek {
    step *s;
    int64_t row, column;
    double value;
} peek;

static plim_status see_row(void *user, int64_t layer, plim_tensor hidden)
{
    peek *p = user;
    plim_engine *e = p->s->t.engine;
    const plim_head_work *w = &e->step->head_eval;
    if (layer < e->sh->spec->layers) return PLIM_OK;
    TRY(plim_head_logits(e, w, hidden, p->row, 1));
    for (int64_t j = 0; j < w->normed.cols; j++) {
        double v = step_at(w->normed, 0, j);
        if (fabs(v) <= fabs(p->value)) continue;
        p->value = v;
        p->column = j;
    }
    return PLIM_OK;
}

/* An infinite weight in the row of a token that is no label, of the sign that makes its logit minus infinity:
 * its probability and the gradient of its logit are 0, the loss is finite, and 0 x inf is not. */
static void check_infinite_gradient(plim_dtype act, int adam_bits)
{
    plim_ctx *c = test_ctx_open();
    const plim_spec *spec = &step_models[0].spec;
    step s;
    step_text x = step_text_make(spec, lengths, 6);
    plim_sample samples[2] = {step_packed(&x), step_packed(&x)};
    plim_step_result r;
    double sum, weights;
    samples[1].id = 777;
    step_open(&s, c, spec, options_of(act, adam_bits), 1);
    for (int n = 0; n < 2; n++) CHECK_OK(c, plim_training_step(&s.t, samples, 2, &r));
    for (int64_t t = 0; t < TOKENS; t++) x.weights[t] = t == 30;
    peek p = {.s = &s, .row = 29};
    CHECK_OK(c, plim_training_evaluate(&s.t, samples, 1, &sum, &weights));
    CHECK_OK(c, plim_pass_evaluate(s.t.engine, see_row, &p));
    plim_tensor head = s.t.engine->step->model.head;
    int64_t other = (x.ids[30] + 1) % spec->vocab;
    double before = step_at(head, other, p.column);
    step_put(head, other, p.column, p.value > 0 ? -INFINITY : INFINITY);
    CHECK_OK(c, plim_training_evaluate(&s.t, samples, 1, &sum, &weights));
    assert_true(isfinite(sum));
    copy k = keep(&s);
    CHECK_FAILS(c, PLIM_E_NUMERIC, plim_training_step(&s.t, samples, 2, &r), "step 3",
                "the gradient is not finite", "layer 0 in_proj_qkv.lora_A", "samples 500 to 777");
    check_kept(&s, &k);
    assert_int_equal(s.t.step, 2);
    step_put(head, other, p.column, before);
    CHECK_OK(c, plim_training_step(&s.t, samples, 2, &r)); /* and goes on */
    assert_int_equal(r.step, 3);
    step_close(&s);
    step_text_free(&x);
    test_ctx_close(c);
}

TEST(a_gradient_that_is_not_finite_changes_nothing)
{
    UNUSED_STATE;
    check_infinite_gradient(PLIM_F64, 32);
    check_infinite_gradient(PLIM_F32, 8);
    check_infinite_gradient(PLIM_F32, 32);
    check_infinite_gradient(PLIM_BF16, 8);
}

/* An infinite embedding that only the second sample reads. */
TEST(a_loss_that_is_not_finite_names_its_sample)
{
    UNUSED_STATE;
    static const int adam_bits[] = {8, 32};
    for (int i = 0; i < 2; i++) {
        plim_ctx *c = test_ctx_open();
        const plim_spec *spec = &step_models[0].spec;
        step s;
        step_text x = step_text_make(spec, lengths, 6);
        plim_step_result r;
        step_open(&s, c, spec, options_of(PLIM_F32, adam_bits[i]), 1);
        for (int64_t t = 0; t < TOKENS; t++) x.ids[t] = t == 60 ? 60 : x.ids[t] % 60;
        plim_sample samples[2] = {step_alone(&x, 0), step_alone(&x, 1)};
        CHECK_OK(c, plim_training_step(&s.t, samples, 2, &r));
        step_put(s.t.engine->step->model.embedding, 60, 5, INFINITY);
        copy k = keep(&s);
        CHECK_FAILS(c, PLIM_E_NUMERIC, plim_training_step(&s.t, samples, 2, &r), "step 2",
                    "the loss of sample 601 is not finite");
        check_kept(&s, &k);
        CHECK_OK(c, plim_training_step(&s.t, samples, 1, &r)); /* the first has nothing to do with it */
        assert_int_equal(r.step, 2);
        step_close(&s);
        step_text_free(&x);
        test_ctx_close(c);
    }
}

/* Tokens and documents that were not laid out for. */
TEST(a_sequence_that_does_not_fit_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const plim_spec *spec = &step_models[0].spec;
    step s;
    step_text x = step_text_make(spec, lengths, 6);
    plim_sample sample = step_packed(&x);
    plim_step_result r = {0};
    plim_options o = options_of(PLIM_F64, 32);
    o.seq_tokens = TOKENS - 1;
    step_open(&s, c, spec, o, 1);
    CHECK_FAILS(c, PLIM_E_RANGE, plim_training_step(&s.t, &sample, 1, &r), "96 tokens", "95 tokens");
    sample = step_alone(&x, 0);
    x.ids[17] = (int32_t)spec->vocab;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_training_step(&s.t, &sample, 1, &r), "token 17", "61");
    x.ids[17] = -1;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_training_step(&s.t, &sample, 1, &r), "token 17", "-1");
    x.ids[17] = 0;
    CHECK_OK(c, plim_training_step(&s.t, &sample, 1, &r));
    assert_int_equal(r.step, 1);
    step_close(&s);
    step_text_free(&x);
    test_ctx_close(c);
}

/* ---- memory
 * ---------------------------------------------------------------------------------------------- */

typedef struct whole {
    const plim_machine *machine;
    const plim_spec *spec;
    const step_text *text;
    plim_options options;
} whole;

/* A pass over weights as they come: what is allocated does not depend on them. */
static plim_status open_and_pass(plim_ctx *c, void *user)
{
    const whole *w = user;
    plim_engine *e = NULL;
    plim_sample sample = step_packed(w->text);
    plim_status st = plim_engine_open(c, w->machine, w->spec, &w->options, &e);
    if (st) {
        assert_null(e);
        return st;
    }
    st = plim_engine_zero(e);
    if (!st) st = plim_engine_sequence(e, &sample.sequence, 1);
    if (!st) st = plim_pass_train(e);
    if (!st) st = plim_pass_evaluate(e, NULL, NULL);
    plim_engine_close(e);
    return st;
}

static plim_status open_alone(plim_ctx *c, void *user)
{
    const whole *w = user;
    plim_engine *e = NULL;
    plim_status st = plim_engine_open(c, w->machine, w->spec, &w->options, &e);
    plim_engine_close(e);
    return st;
}

/* Passes make no allocation of their own: there is one to fail for each of opening's, and no more. */
TEST(every_allocation_of_a_step_is_opens_and_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_machine m;
    CHECK_OK(c, plim_machine_cpu(c, 1, &m));
    for (size_t i = 0; i < STEP_MODELS; i++) {
        const plim_spec *spec = &step_models[i].spec;
        step_text x = step_text_make(spec, lengths, 6);
        whole w = {&m, spec, &x, options_of(PLIM_F32, 8)};
        w.options.host_checkpoints = i % 2 ? PLIM_ALL_LAYERS : 0;
        w.options.lora_dropout = 0.1;
        int64_t count = test_every_allocation(c, open_and_pass, &w);
        assert_true(count > 10);
        assert_int_equal(test_every_allocation(c, open_alone, &w), count);
        step_text_free(&x);
    }
    plim_machine_close(&m);
    test_ctx_close(c);
}

static const struct CMUnitTest table[] = {
    cmocka_unit_test(the_loss_falls_with_either_state),
    cmocka_unit_test(a_gradient_that_is_not_finite_changes_nothing),
    cmocka_unit_test(a_loss_that_is_not_finite_names_its_sample),
    cmocka_unit_test(a_sequence_that_does_not_fit_is_refused),
    cmocka_unit_test(every_allocation_of_a_step_is_opens_and_may_fail),
};

int main(void)
{
    return RUN_TESTS(table);
}
