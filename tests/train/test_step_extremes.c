/* Models and sequences at the ends of what is allowed: numbers stay finite, and the same whatever the memory
 * options, the packing and the slabs of the loss. */
#include "train/step_support.h"

#define TOKENS 150

static const int64_t lengths[] = {90, 1, 59, 0};

static plim_options tiled(plim_dtype act, int64_t tokens, int64_t documents)
{
    plim_options o = step_options(act, tokens, documents);
    o.tile_tokens = 64;
    o.loss_rows = 9;
    o.host_checkpoints = 1;
    o.kept_layers = 1;
    return o;
}

/* Sets every element of the tensors of one role. */
typedef struct setter {
    plim_tensor_role role;
    double value;
    int32_t layer; /* -1: all */
} setter;

static plim_status set_tensor(void *user, const plim_tensor_place *p)
{
    const setter *v = user;
    if (p->role != v->role || (v->layer >= 0 && p->decl.layer != v->layer)) return PLIM_OK;
    for (int64_t i = 0; i < p->to.rows; i++)
        for (int64_t j = 0; j < p->to.cols; j++) step_put(p->to, i, j, v->value);
    return PLIM_OK;
}

static void set_all(step *s, plim_tensor_role role, double value)
{
    plim_engine *e = s->t.engine;
    setter v = {role, value, -1};
    CHECK_OK(s->ctx, plim_tensor_map_walk(e->sh, &e->step->model, e->step->weights, set_tensor, &v));
}

/* What happens to weights after they were drawn. */
typedef void (*spoil)(step *s);

/* Double against double with other memory options, and float against double.  floor: as step_compare has it.
 */
static void check_model(const char *what, const plim_spec *spec, const step_text *x, spoil change,
                        double floor)
{
    plim_ctx *c = test_ctx_open();
    int64_t T = x->start[x->documents];
    plim_options options[] = {step_options(PLIM_F64, T, x->documents), tiled(PLIM_F64, T, x->documents),
                              step_options(PLIM_F32, T, x->documents), tiled(PLIM_F32, T, x->documents)};
    step_result want = {0};
    for (int i = 0; i < 4; i++) {
        step s;
        step_open(&s, c, spec, options[i], 1);
        if (change) change(&s);
        step_result got = step_packed_gradients(&s, x);
        assert_true(isfinite(got.r.loss) && isfinite(got.r.gradient_norm) && got.r.loss > 0);
        if (i == 0) want = got;
        else if (i == 1) step_check(&s, what, &got, &want, 1e-9, 1e-9, floor);
        else step_check(&s, what, &got, &want, 1e-6, 5e-4, floor);
        if (i) step_result_free(&got);
        step_close(&s);
    }
    step_result_free(&want);
    test_ctx_close(c);
}

static void check_text(const char *what, const plim_spec *spec, const int64_t *documents, spoil change)
{
    step_text x = step_text_make(spec, documents, 31);
    check_model(what, spec, &x, change, 0);
    step_text_free(&x);
}

/* ---- decay
 * ----------------------------------------------------------------------------------------------- */

/* -exp(a_log) softplus(a + dt_bias) is about -3000 a token: nothing of the state is left. */
static void forget(step *s)
{
    set_all(s, PLIM_ROLE_A_LOG, 7);
    set_all(s, PLIM_ROLE_DT_BIAS, 2);
}

/* softplus of -1000 is 0 in any dtype: the gate is 1 exactly. */
static void hold(step *s)
{
    set_all(s, PLIM_ROLE_DT_BIAS, -1000);
}

/* The one in the first layer, the other in the last. */
static void hold_and_forget(step *s)
{
    plim_engine *e = s->t.engine;
    setter both[] = {{PLIM_ROLE_DT_BIAS, -1000, 0}, {PLIM_ROLE_A_LOG, 7, 2}, {PLIM_ROLE_DT_BIAS, 2, 2}};
    for (int i = 0; i < 3; i++)
        CHECK_OK(s->ctx,
                 plim_tensor_map_walk(e->sh, &e->step->model, e->step->weights, set_tensor, &both[i]));
}

TEST(decay_may_be_strong_or_absent)
{
    UNUSED_STATE;
    for (int i = 0; i < 2; i++) {
        plim_spec spec = step_models[i].spec;
        step_text x = step_text_make(&spec, lengths, 31);
        /* in_proj_a has no gradient where the gate stands still */
        check_model("a gate of 0", &spec, &x, forget, 1e-2);
        check_model("a gate of 1", &spec, &x, hold, 1e-2);
        check_model("both", &spec, &x, hold_and_forget, 1e-2);
        step_text_free(&x);
    }
}

/* ---- lengths and labels
 * ---------------------------------------------------------------------------------- */

/* A sequence of one token predicts nothing; it takes no part in a step, and alone it is none. */
TEST(a_sequence_of_one_token)
{
    UNUSED_STATE;
    static const int64_t short_ones[] = {1, 2, 0};
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < STEP_MODELS; i++) {
        const plim_spec *spec = &step_models[i].spec;
        step s;
        step_text x = step_text_make(spec, short_ones, 2);
        for (int t = 0; t < 3; t++) x.weights[t] = 1;
        plim_sample samples[2] = {step_alone(&x, 0), step_alone(&x, 1)};
        plim_step_result r;
        double sum = -1, weights = -1;
        step_open(&s, c, spec, step_options(PLIM_F64, 2, 1), 1);
        CHECK_FAILS(c, PLIM_E_RANGE, plim_training_step(&s.t, samples, 1, &r), "position to train on");
        CHECK_OK(c, plim_training_evaluate(&s.t, samples, 1, &sum, &weights));
        assert_true(sum == 0 && weights == 0);
        step_result both = step_gradients(&s, samples, 2), want = step_gradients(&s, samples + 1, 1);
        assert_int_equal(both.r.tokens, 3);
        assert_int_equal(both.r.labelled_rows, 1);
        step_check(&s, step_models[i].name, &both, &want, 1e-12, 1e-12, 1e-3);
        step_result_free(&both);
        step_result_free(&want);
        step_close(&s);
        step_text_free(&x);
    }
    test_ctx_close(c);
}

TEST(every_position_or_a_single_one_is_trained_on)
{
    UNUSED_STATE;
    static const int64_t single[] = {1, 2, 63, 64, 65, 89, 92, 149};
    for (size_t i = 0; i < STEP_MODELS; i++) {
        const plim_spec *spec = &step_models[i].spec;
        step_text x = step_text_make(spec, lengths, 31);
        for (int t = 0; t < TOKENS; t++) x.weights[t] = 1;
        check_model("all positions", spec, &x, NULL, 0);
        for (size_t k = i; k < sizeof single / sizeof *single; k += STEP_MODELS) {
            for (int t = 0; t < TOKENS; t++) x.weights[t] = t == single[k] ? 0.25f : 0;
            check_model("a single position", spec, &x, NULL, 1e-2);
        }
        step_text_free(&x);
    }
}

/* ---- sizes
 * ----------------------------------------------------------------------------------------------- */

TEST(vocabularies_and_heads_of_any_size)
{
    UNUSED_STATE;
    static const int64_t heads[] = {8, 40, 256}, vocabularies[] = {9, 257, 1003};
    for (int i = 0; i < 3; i++)
        for (size_t m = 0; m < STEP_MODELS; m++) {
            plim_spec spec = step_models[m].spec;
            char what[128];
            spec.head_dim = heads[i];
            spec.rope.rotary_dim = i == 1 ? 10 : heads[i]; /* part of a head, and all of it */
            spec.vocab = vocabularies[i];
            if (spec.key_dim) {
                spec.key_dim = heads[i];
                spec.value_dim = heads[2 - i];
            }
            snprintf(what, sizeof what, "%s, heads of %lld, vocabulary of %lld", step_models[m].name,
                     (long long)heads[i], (long long)vocabularies[i]);
            check_text(what, &spec, lengths, NULL);
        }
}

/* ---- slabs of the loss in bfloat16
 * ----------------------------------------------------------------------- */

/* Logits and sums do not depend on how many rows are at work at once: only a product's order of summing may,
 * by float's rounding before the one to bfloat16. */
TEST(slabs_of_the_loss_agree_in_bfloat16)
{
    UNUSED_STATE;
    static const int64_t rows[] = {PLIM_FULL_LOGITS, 1, 2, 3, 17, 64, 149};
    plim_ctx *c = test_ctx_open();
    for (size_t m = 0; m < 2; m++) {
        const plim_spec *spec = &step_models[m].spec;
        step_text x = step_text_make(spec, lengths, 31);
        step_result want = {0};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            step s;
            plim_options o = step_options(PLIM_BF16, TOKENS, x.documents);
            o.loss_rows = rows[i];
            step_open(&s, c, spec, o, 1);
            step_result got = step_packed_gradients(&s, &x);
            if (i == 0) want = got;
            else step_check(&s, "slabs", &got, &want, 1e-6, PLIM_BF16_STEP, 0);
            if (i) step_result_free(&got);
            step_close(&s);
        }
        step_result_free(&want);
        step_text_free(&x);
    }
    test_ctx_close(c);
}

/* ---- long sequences
 * --------------------------------------------------------------------------------------- */

/* Documents of 257 tokens and a rest, packed to tokens; against the same one by one. */
static void check_long(int64_t tokens)
{
    static plim_spec spec;
    plim_ctx *c = test_ctx_open();
    int64_t documents[STEP_DOCUMENTS] = {0};
    plim_sample alone[STEP_DOCUMENTS];
    step packed, separate;
    spec = step_models[1].spec;
    spec.layers = 2;
    spec.hidden = spec.mlp = 8;
    spec.key_dim = spec.value_dim = 4;
    for (int64_t n = 0, left = tokens; left > 0; left -= documents[n++])
        documents[n] = left < 257 ? left : 257;
    step_text x = step_text_make(&spec, documents, 13);
    plim_options o = tiled(PLIM_F32, tokens, x.documents);
    o.tile_tokens = 4096;
    o.loss_rows = 4096;
    step_open(&packed, c, &spec, o, 2);
    step_open(&separate, c, &spec, step_options(PLIM_F32, 257, 1), 2);
    for (int64_t n = 0; n < x.documents; n++) alone[n] = step_alone(&x, n);
    step_result got = step_packed_gradients(&packed, &x),
                want = step_gradients(&separate, alone, x.documents);
    assert_true(isfinite(got.r.loss) && got.r.loss > 1 && got.r.gradient_norm > 0);
    step_check(&packed, "long", &got, &want, 1e-6, 5e-4, 0);
    step_result_free(&got);
    step_result_free(&want);
    step_close(&packed);
    step_close(&separate);
    step_text_free(&x);
    test_ctx_close(c);
}

/* Either side of 16,384, above which heads attend one at a time, and of 65,536. */
TEST(long_packed_sequences_are_their_documents)
{
    UNUSED_STATE;
    static const int64_t tokens[] = {16384, 17000, 65536, 65537};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) check_long(tokens[i]);
}

static const struct CMUnitTest table[] = {
    cmocka_unit_test(decay_may_be_strong_or_absent),
    cmocka_unit_test(a_sequence_of_one_token),
    cmocka_unit_test(every_position_or_a_single_one_is_trained_on),
    cmocka_unit_test(vocabularies_and_heads_of_any_size),
    cmocka_unit_test(slabs_of_the_loss_agree_in_bfloat16),
    cmocka_unit_test(long_packed_sequences_are_their_documents),
};

int main(void)
{
    return RUN_TESTS(table);
}
