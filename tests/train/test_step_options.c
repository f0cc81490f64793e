/* Every option of the plan moves work and memory about; none changes what is computed.  Double precision,
 * small models of every kind. */
#include "train/step_support.h"

#define TOKENS 201 /* odd; three tiles of 64 and a rest of 9 */

/* Boundaries inside tiles, at both tile borders, and documents of one, two and three tokens. */
static const int64_t one[] = {TOKENS, 0}, several[] = {1, 2, 61, 3, 61, 62, 11, 0};

#define MEMORY_CASES (3 * 3 * 3 * 2)

/* Case i of the grid: all ways to place layer inputs, keep layers and keep attention output at all tile
 * lengths; the options that do not meet those in memory take turns. */
static plim_options grid(const plim_spec *s, int64_t i, int64_t documents)
{
    static const int64_t tiles[] = {64, 128, TOKENS};
    static const int64_t rows[] = {1, 7, TOKENS, PLIM_FULL_LOGITS};
    const int64_t hosts[] = {0, s->layers / 2, PLIM_ALL_LAYERS}, kept[] = {0, 1, PLIM_ALL_LAYERS};
    plim_options o = step_options(PLIM_F64, TOKENS, documents);
    o.host_checkpoints = hosts[i % 3];
    o.kept_layers = kept[i / 3 % 3];
    o.tile_tokens = tiles[i / 9 % 3];
    o.keep_attention_output = i / 27 % 2;
    o.loss_rows = rows[i % 4];
    o.kv_heads_per_call = i % 2 ? 1 : s->kv_heads;
    o.embedding_on_host = !s->tied && i % 5 < 2;
    o.adam_bits = i % 7 < 3 ? 8 : 32;
    return o;
}

static void check_grid(plim_ctx *c, const step_model *m, const int64_t *lengths)
{
    step base;
    step_text x = step_text_make(&m->spec, lengths, 3);
    step_open(&base, c, &m->spec, step_options(PLIM_F64, TOKENS, x.documents), 1);
    step_result want = step_packed_gradients(&base, &x);
    assert_true(want.r.loss > 1 && want.r.gradient_norm > 0);
    for (int64_t i = 0; i < MEMORY_CASES; i++) {
        step s;
        char what[128];
        plim_options o = grid(&m->spec, i, x.documents);
        snprintf(what, sizeof what, "%s, %lld documents, case %lld", m->name, (long long)x.documents,
                 (long long)i);
        step_open(&s, c, &m->spec, o, 1);
        step_result got = step_packed_gradients(&s, &x);
        step_check(&s, what, &got, &want, 1e-9, 1e-9, 0);
        step_result_free(&got);
        step_close(&s);
    }
    step_result_free(&want);
    step_close(&base);
    step_text_free(&x);
}

TEST(no_option_changes_loss_or_gradients_of_one_document)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < STEP_MODELS; i++) check_grid(c, &step_models[i], one);
    test_ctx_close(c);
}

TEST(no_option_changes_loss_or_gradients_of_several)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < STEP_MODELS; i++) check_grid(c, &step_models[i], several);
    test_ctx_close(c);
}

/* A step laid out for more than a sequence has does the same. */
TEST(room_to_spare_changes_nothing)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < STEP_MODELS; i++) {
        step tight, wide;
        const plim_spec *spec = &step_models[i].spec;
        step_text x = step_text_make(spec, several, 3);
        plim_options o = step_options(PLIM_F64, TOKENS + 170, x.documents + 9);
        o.tile_tokens = 64;
        o.loss_rows = 16;
        o.host_checkpoints = 1;
        step_open(&tight, c, spec, step_options(PLIM_F64, TOKENS, x.documents), 1);
        step_open(&wide, c, spec, o, 1);
        step_result want = step_packed_gradients(&tight, &x), got = step_packed_gradients(&wide, &x);
        step_check(&wide, step_models[i].name, &got, &want, 1e-9, 1e-9, 0);
        step_result again = step_packed_gradients(&wide, &x); /* nothing of the first run is left */
        assert_memory_equal(again.gradient, got.gradient, (size_t)got.elements * sizeof *got.gradient);
        step_result_free(&again);
        step_result_free(&got);
        step_result_free(&want);
        step_close(&wide);
        step_close(&tight);
        step_text_free(&x);
    }
    test_ctx_close(c);
}

/* Single precision against double, at the bounds the golden cases have. */
TEST(float_is_double_rounded)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < 2 * STEP_MODELS; i++) {
        step narrow, wide;
        const step_model *m = &step_models[i / 2];
        step_text x = step_text_make(&m->spec, i % 2 ? several : one, 3);
        plim_options o = step_options(PLIM_F64, TOKENS, x.documents);
        o.tile_tokens = 64;
        o.loss_rows = 7;
        o.lora_dropout = i % 2 ? 0.25 : 0;
        step_open(&wide, c, &m->spec, o, 1);
        o.act = PLIM_F32;
        step_open(&narrow, c, &m->spec, o, 1);
        step_scale(&wide, 7, false);
        step_scale(&narrow, 7, false);
        step_result want = step_packed_gradients(&wide, &x), got = step_packed_gradients(&narrow, &x);
        step_check(&narrow, m->name, &got, &want, 1e-6, 5e-4, 0);
        step_result_free(&got);
        step_result_free(&want);
        step_close(&narrow);
        step_close(&wide);
        step_text_free(&x);
    }
    test_ctx_close(c);
}

/* Two steps in every dtype: losses, gradients and masters, bit for bit. */
TEST(threads_change_no_bit)
{
    UNUSED_STATE;
    static const plim_dtype acts[] = {PLIM_F64, PLIM_F32, PLIM_BF16};
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < 3 * STEP_MODELS; i++) {
        const step_model *m = &step_models[i / 3];
        step_text x = step_text_make(&m->spec, several, 3);
        step runs[3];
        for (int k = 0; k < 3; k++) {
            plim_options o = step_options(acts[i % 3], TOKENS, x.documents);
            plim_step_result r;
            plim_sample sample = step_packed(&x);
            o.tile_tokens = 128;
            o.lora_dropout = 0.1;
            o.adam_bits = 8;
            step_open(&runs[k], c, &m->spec, o, k + 1);
            for (int n = 0; n < 2; n++) CHECK_OK(c, plim_training_step(&runs[k].t, &sample, 1, &r));
            const plim_step *got = runs[k].t.engine->step, *want = runs[0].t.engine->step;
            const plim_adapters *a = &got->adapters, *b = &want->adapters;
            size_t bytes = (size_t)a->master.cols * plim_dtype_bytes(a->master.dtype);
            assert_memory_equal(a->master.data, b->master.data, bytes);
            assert_memory_equal(a->grad.data, b->grad.data, bytes);
            assert_memory_equal(got->batch.scalars.data, want->batch.scalars.data, sizeof(double));
        }
        for (int k = 0; k < 3; k++) step_close(&runs[k]);
        step_text_free(&x);
    }
    test_ctx_close(c);
}

static const struct CMUnitTest table[] = {
    cmocka_unit_test(no_option_changes_loss_or_gradients_of_one_document),
    cmocka_unit_test(no_option_changes_loss_or_gradients_of_several),
    cmocka_unit_test(room_to_spare_changes_nothing),
    cmocka_unit_test(float_is_double_rounded),
    cmocka_unit_test(threads_change_no_bit),
};

int main(void)
{
    return RUN_TESTS(table);
}
