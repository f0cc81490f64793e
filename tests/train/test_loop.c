/* A run: it learns, it is the same every time, it says what it does, and it stops where it should. */
#include "train/run_support.h"

#include <jansson.h>
#include <math.h>

#include "base/context.h"

static text x;

/* ---- learning -------------------------------------------------------------------------------------- */

TEST(the_loss_falls_on_a_repeating_text)
{
    UNUSED_STATE;
    static const plim_dtype act[] = {PLIM_F32, PLIM_BF16};
    text_repeat(&x, 4, 12);
    for (int i = 0; i < 2; i++) {
        static bench b;
        plim_loop_end end;
        plim_session_config g = tiny_config(act[i], 24, 2);
        g.hyper.learning_rate = 2e-2;
        bench_open(&b, &x, &g, 1, 1);
        CHECK_OK(b.ctx, bench_run(&b, test_folder("loop-falls"), 12, 0, &end));
        assert_int_equal(b.steps, 12);
        assert_false(end.stopped);
        if (!(b.loss[12] < 0.5 * b.loss[1])) fail_msg("the loss went from %g to %g", b.loss[1], b.loss[12]);
        assert_true(end.first.result.loss == b.loss[1] && end.last.result.loss == b.loss[12]);
        bench_close(&b);
    }
}

/* Same losses, norms and masters, bit for bit. */
static void run_once(int threads, int64_t seed, bench *b, float *master, int64_t elements)
{
    plim_loop_end end;
    plim_session_config g = tiny_config(PLIM_F32, 96, 3);
    g.options.lora_dropout = 0.1;
    g.seed = (uint64_t)seed;
    bench_open(b, &x, &g, 2, threads);
    CHECK_OK(b->ctx, bench_run(b, test_folder("loop-same"), 6, 0, &end));
    assert_int_equal(b->session->training.engine->step->adapters.master.cols, elements);
    memcpy(master, b->session->training.engine->step->adapters.master.data,
           (size_t)elements * sizeof *master);
    bench_close(b);
}

TEST(the_same_seed_gives_the_same_bits_with_any_threads)
{
    UNUSED_STATE;
    static bench first, again;
    text_open(&x);
    for (int64_t i = 0; i < 9; i++) text_add(&x, 20 + i * 5, 7 + i, 6);
    plim_session_config g = tiny_config(PLIM_F32, 96, 3);
    bench_open(&first, &x, &g, 2, 1);
    int64_t elements = first.session->training.engine->step->adapters.master.cols;
    bench_close(&first);
    float *a = calloc((size_t)elements, sizeof *a), *z = calloc((size_t)elements, sizeof *z);
    assert_true(a && z);
    run_once(1, 3, &first, a, elements);
    static const int threads[] = {1, 2, 3};
    for (int i = 0; i < 3; i++) {
        run_once(threads[i], 3, &again, z, elements);
        assert_memory_equal(first.loss, again.loss, sizeof first.loss);
        assert_memory_equal(first.norm, again.norm, sizeof first.norm);
        assert_memory_equal(a, z, (size_t)elements * sizeof *a);
    }
    run_once(1, 4, &again, z, elements);
    assert_memory_not_equal(first.loss, again.loss, sizeof first.loss);
    free(a);
    free(z);
}

/* ---- accumulation ---------------------------------------------------------------------------------- */

/* Loss and gradients of the first step, in double. */
static double *gradients(int64_t seq, int64_t documents, int64_t accumulate, double *loss, int64_t *elements)
{
    static bench b;
    plim_step_result r;
    plim_order_step at;
    plim_session_config g = tiny_config(PLIM_F64, seq, documents);
    bench_open(&b, &x, &g, accumulate, 1);
    plim_order_step_at(b.order, 1, &at);
    assert_int_equal(at.count, accumulate);
    /* With lora_B at zero the gradients of lora_A would be zero too. */
    CHECK_OK(b.ctx, plim_training_step(&b.session->training, at.samples, at.count, &r));
    CHECK_OK(b.ctx, plim_training_gradients(&b.session->training, at.samples, at.count, &r));
    plim_tensor grad = b.session->training.engine->step->adapters.grad;
    double *copy = malloc((size_t)grad.cols * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, grad.data, (size_t)grad.cols * sizeof *copy);
    *elements = grad.cols;
    *loss = r.loss;
    bench_close(&b);
    return copy;
}

TEST(accumulating_is_packing)
{
    UNUSED_STATE;
    double packed_loss, apart_loss, square = 0, difference = 0;
    int64_t packed_count, apart_count;
    text_open(&x);
    text_add(&x, 70, 40, 5);
    text_add(&x, 41, 9,
             7); /* other labels and another length: weights are of the step, not of the sequence */
    double *packed = gradients(111, 2, 1, &packed_loss, &packed_count);
    double *apart = gradients(70, 1, 2, &apart_loss, &apart_count);
    assert_int_equal(packed_count, apart_count);
    for (int64_t i = 0; i < packed_count; i++) {
        square += packed[i] * packed[i];
        difference += (packed[i] - apart[i]) * (packed[i] - apart[i]);
    }
    assert_true(square > 0);
    if (!(sqrt(difference / square) < 1e-9)) fail_msg("gradients differ by %g", sqrt(difference / square));
    if (!(fabs(packed_loss / apart_loss - 1) < 1e-9))
        fail_msg("losses: %.17g, %.17g", packed_loss, apart_loss);
    free(packed);
    free(apart);
}

/* ---- what is said ---------------------------------------------------------------------------------- */

TEST(metrics_have_one_object_a_step)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    const char *out = test_folder("loop-metrics");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    g.hyper.warmup_steps = 2;
    text_repeat(&x, 5, 40);
    bench_open(&b, &x, &g, 2, 1);
    CHECK_OK(b.ctx, bench_run(&b, out, 4, 0, &end));
    char *lines = test_read(test_path(out, "metrics.jsonl"), NULL), *line = lines;
    for (int64_t step = 1; step <= 4; step++) {
        char *next = strchr(line, '\n');
        assert_non_null(next);
        json_t *j = json_loadb(line, (size_t)(next - line), 0, NULL);
        assert_non_null(j);
        assert_int_equal(json_integer_value(json_object_get(j, "step")), step);
        assert_true(json_number_value(json_object_get(j, "loss")) == b.loss[step]);
        assert_true(json_number_value(json_object_get(j, "gradient_norm")) == b.norm[step]);
        assert_true(json_number_value(json_object_get(j, "learning_rate")) == b.rate[step]);
        assert_true(b.rate[step] == (step == 1 ? 2.5e-3 : 5e-3));
        assert_int_equal(json_integer_value(json_object_get(j, "tokens")), step == 3 ? 40 : 80);
        assert_int_equal(json_integer_value(json_object_get(j, "labelled")), step == 3 ? 36 : 72);
        /* The clock moves a second a look: one before the step, one after it. */
        assert_true(json_number_value(json_object_get(j, "seconds")) == 1);
        assert_true(json_number_value(json_object_get(j, "tokens_per_s")) == (step == 3 ? 40 : 80));
        double epoch = step < 3 ? (double)step * 0.4 : step == 3 ? 1 : 1.4;
        assert_true(fabs(json_number_value(json_object_get(j, "epoch")) - epoch) < 1e-12);
        json_decref(j);
        line = next + 1;
    }
    assert_int_equal(*line, 0);
    assert_true(end.last.left_s == 0);
    free(lines);
    bench_close(&b);
}

TEST(stopping_saves_and_leaves_no_adapter)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    const char *out = test_folder("loop-stop");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    text_repeat(&x, 5, 40);
    bench_open(&b, &x, &g, 1, 1);
    b.stop_after = 3;
    CHECK_OK(b.ctx, bench_run(&b, out, 9, 0, &end));
    assert_true(end.stopped);
    assert_int_equal(end.last.result.step, 3);
    assert_true(there(out, "checkpoint-3/optimizer.safetensors"));
    assert_false(there(out, "adapter"));
    bench_close(&b);
}

TEST(validation_is_reported_when_asked_for)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    static double now_s;
    const char *out = test_folder("loop-validation");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    text_repeat(&x, 5, 40);
    bench_open(&b, &x, &g, 1, 1);
    plim_order *validation = NULL;
    plim_order_config v = b.data;
    v.file_order = true;
    CHECK_OK(b.ctx, plim_order_open(b.ctx, &v, &validation));
    plim_loop_config l = {.out = out,
                          .data = &b.data,
                          .order = b.order,
                          .validation = validation,
                          .validate_every = 2,
                          .last_step = 3,
                          .keep = 1,
                          .clock = {tick, &now_s}};
    CHECK_OK(b.ctx, plim_loop_run(b.session, &l, &end));
    assert_true(end.last.validated);
    assert_int_equal(end.last.validation.documents, 5);
    assert_int_equal(end.last.validation.tokens, 200);
    assert_int_equal(end.last.validation.labelled, 180);
    plim_evaluation again;
    CHECK_OK(b.ctx, plim_evaluate(&b.session->training, validation, NULL, NULL, &again));
    assert_true(again.loss == end.last.validation.loss);
    char *out_text;
    assert_int_equal(test_command(&out_text, "grep -c validation_loss %s/metrics.jsonl", out), 0);
    assert_string_equal(out_text, "2\n"); /* steps 2 and 3 */
    free(out_text);
    plim_order_close(validation);
    bench_close(&b);
}

/* ---- what ends a run ------------------------------------------------------------------------------- */

TEST(a_loss_that_is_not_finite_ends_it_and_keeps_what_was_saved)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end = {0};
    const char *out = test_folder("loop-nan");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    text_repeat(&x, 5, 40);
    bench_open(&b, &x, &g, 1, 1);
    CHECK_OK(b.ctx, bench_run(&b, out, 2, 1, &end));
    plim_model_weights *w = &b.session->training.engine->step->model;
    ((float *)w->final_norm.data)[3] = NAN;
    const char *other = test_folder("loop-nan-again");
    assert_int_equal(b.blamed, 0);
    CHECK_FAILS(b.ctx, PLIM_E_NUMERIC, bench_run(&b, other, 4, 1, &end), "step 3", "sample", "not finite");
    assert_int_equal(b.session->training.step, 2);
    assert_int_equal(b.blamed, 1);
    assert_false(there(other, "checkpoint-3"));
    assert_true(there(out, "checkpoint-2/state.json"));
    bench_close(&b);
}

/* An MLP that sees zeros alone trains nothing. */
TEST(a_lora_b_that_stays_zero_is_named)
{
    UNUSED_STATE;
    static bench b;
    plim_loop_end end;
    const char *out = test_folder("loop-zero");
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    text_repeat(&x, 5, 40);
    bench_open(&b, &x, &g, 1, 1);
    plim_tensor norm = b.session->training.engine->step->weights[2].post_norm;
    /* -1 with its unit offset: times 0. */
    for (int64_t i = 0; i < norm.cols; i++) ((float *)norm.data)[i] = -1;
    CHECK_FAILS(b.ctx, PLIM_E_NUMERIC, bench_run(&b, out, 4, 1, &end), "step 1", "3 of 25 lora_B",
                "layers.2.mlp.gate_proj.lora_B", "layers.2.mlp.down_proj.lora_B");
    assert_false(there(out, "checkpoint-1"));
    bench_close(&b);
}

TEST(a_folder_with_something_in_it_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *out = test_folder("loop-out");
    CHECK_OK(c, plim_loop_make_out(c, out));
    CHECK_OK(c, plim_loop_make_out(c, test_path(out, "new")));
    assert_true(there(out, "new"));
    CHECK_FAILS(c, PLIM_E_IO, plim_loop_make_out(c, out), "already holds new");
    CHECK_FAILS(c, PLIM_E_IO, plim_loop_make_out(c, test_path(out, "no/where")), "cannot be made");
    test_write(test_path(out, "file"), "x", 1);
    CHECK_FAILS(c, PLIM_E_IO, plim_loop_check_out(c, test_path(out, "file")), "cannot take a run");
    test_ctx_close(c);
}

/* ---- memory ---------------------------------------------------------------------------------------- */

static plim_status open_and_step(plim_ctx *c, void *user)
{
    plim_session_config *g = user;
    plim_machine m = {0};
    plim_session *s = NULL;
    plim_order *o = NULL;
    plim_order_step at;
    plim_step_result r;
    plim_order_config data = {&x.samples, 40, 1, 1, TINY_VOCAB, 1, false};
    plim_status st = plim_machine_cpu(c, 1, &m);
    if (!st) st = plim_order_open(c, &data, &o);
    if (!st) st = plim_session_open(c, &m, g, &s);
    if (!st) {
        plim_order_step_at(o, 1, &at);
        st = plim_training_step(&s->training, at.samples, at.count, &r);
    }
    plim_session_close(s);
    plim_order_close(o);
    plim_machine_close(&m);
    return st;
}

TEST(every_allocation_of_open_and_a_step_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_session_config g = tiny_config(PLIM_F32, 40, 1);
    text_repeat(&x, 2, 40);
    assert_true(test_every_allocation(c, open_and_step, &g) > 20);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(the_loss_falls_on_a_repeating_text),
        cmocka_unit_test(the_same_seed_gives_the_same_bits_with_any_threads),
        cmocka_unit_test(accumulating_is_packing),
        cmocka_unit_test(metrics_have_one_object_a_step),
        cmocka_unit_test(stopping_saves_and_leaves_no_adapter),
        cmocka_unit_test(validation_is_reported_when_asked_for),
        cmocka_unit_test(a_loss_that_is_not_finite_ends_it_and_keeps_what_was_saved),
        cmocka_unit_test(a_lora_b_that_stays_zero_is_named),
        cmocka_unit_test(a_folder_with_something_in_it_is_refused),
        cmocka_unit_test(every_allocation_of_open_and_a_step_may_fail),
    };
    return RUN_TESTS(table);
}
